//! Disjoint parts of one buffer, used at the same time.

use crate::views::double::Double;
use crate::views::{each_kind, on_each_gpu};
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, calls, is_concurrent, simulated, unpooled};

#[test]
fn two_parts_are_input_and_output_of_one_launch() {
    on_each_gpu(|_, device, stream| {
        let double = Double::load(device);
        let contents: Vec<u32> = (0..100).collect();
        each_kind!(device, &contents, |mut buffer| {
            let mut whole = buffer.as_view_mut();
            let (input, mut output) = whole.as_view_mut().split_at(50).unwrap();
            if input.device_ptr().is_some() {
                double
                    .launch(stream, 50, (input.as_view(), output.as_view_mut(), 50u32))
                    .unwrap();
                // A reference to a view is an argument, too.
                double
                    .launch(stream, 2, (&input, &mut output, 2u32))
                    .unwrap();
                assert_eq!(output.read_one(49).unwrap(), 98);
                assert_eq!(input.to_vec().unwrap(), contents[..50]);
            }
        });
    });
}

#[test]
fn copies_between_two_parts() {
    on_each_gpu(|_, device, stream| {
        let contents: Vec<u32> = (0..100).collect();
        each_kind!(device, &contents, |mut buffer| {
            let (source, mut target) = buffer.as_view_mut().split_at(30).unwrap();
            stream
                .copy(&source, &mut target.slice_mut(40..).unwrap())
                .unwrap();
            stream
                .copy_range(&source.as_view(), 2..4, &mut target, 0)
                .unwrap();
            assert_eq!(target.read_one(1).unwrap(), 3);
            assert_eq!(
                target.as_view().slice(40..).unwrap().to_vec().unwrap(),
                contents[..30]
            );
        });
    });
}

#[test]
fn the_host_has_one_part_and_a_kernel_the_other() {
    on_each_gpu(|sim, device, stream| {
        if !is_concurrent(device) {
            return;
        }
        let add = Add::load(device);
        let mut buffer = UnifiedBuffer::<u32>::zeroed(device, 2000).unwrap();
        let (mut host, part) = buffer.as_view_mut().split_at(1000).unwrap();
        let mut guard = host.host_mut().unwrap();
        let paused = sim.map(|sim| sim.pause());
        add.launch(stream, 1000, (part, 1000u32, 3u32)).unwrap();
        guard.fill(5);
        drop(paused);
        drop(guard);
        let host = buffer.host().unwrap();
        assert_eq!(host[..1000], [5; 1000]);
        assert_eq!(host[1000..], [3; 1000]);
    });
}

#[test]
fn a_drop_waits_for_the_work_on_every_part() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let other = device.create_stream().unwrap();
    let add = Add::load(&device);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    let (first, mut second) = buffer.as_view_mut().split_at(50).unwrap();
    add.launch(&stream, 50, (first, 50u32, 1u32)).unwrap();
    second.fill_on(7, &other).unwrap();
    drop(buffer);
    assert_eq!(held.ended_by(), None, "a call waited");
    assert_eq!(calls(&sim, "cudaFree"), 0, "in use, so not freed");
    drop(held);
    device.runtime().reclaim().unwrap();
    assert_eq!(calls(&sim, "cudaFree"), 1);
}

#[test]
fn a_guard_of_a_part_waits_for_the_whole_buffer() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let (first, mut second) = buffer.as_view_mut().split_at(50).unwrap();
    let paused = sim.pause();
    add.launch(&stream, 50, (first, 50u32, 1u32)).unwrap();
    let error = second.try_host_mut().map(drop).unwrap_err();
    assert_eq!(error.kind(), cuda_um::ErrorKind::Busy, "{error}");
    drop(paused);
    assert_eq!(second.host_mut().unwrap()[0], 0);
}

#[test]
fn a_guard_of_a_part_reaches_only_that_part() {
    on_each_gpu(|_, device, _| {
        let mut buffer = UnifiedBuffer::<u8>::zeroed(device, 10).unwrap();
        let (mut first, mut second) = buffer.as_view_mut().split_at(4).unwrap();
        let (mut a, mut b) = (first.host_mut().unwrap(), second.host_mut().unwrap());
        a.fill(1);
        b.fill(2);
        std::mem::swap(&mut a[0], &mut b[0]);
        drop((a, b));
        pollster::block_on(second.host_mut_async()).unwrap()[5] = 9;
        assert_eq!(
            pollster::block_on(first.host_async()).unwrap()[..],
            [2, 1, 1, 1]
        );
        first.into_host_mut().unwrap()[3] = 8;
        assert_eq!(buffer.to_vec().unwrap(), [2, 1, 1, 8, 1, 2, 2, 2, 2, 9]);
    });
}
