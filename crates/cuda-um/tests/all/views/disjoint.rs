//! Disjoint parts of one buffer, used at the same time.

use crate::views::double::Double;
use crate::views::{each_kind, everywhere};
use cuda_um::{DeviceBuffer, Error, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{Add, calls, fails, is_concurrent, simulated, unpooled};

#[test]
fn two_parts_are_input_and_output_of_one_launch_and_of_copies() {
    for (_sim, device, stream) in everywhere() {
        let double = Double::load(&device);
        let contents: Vec<u32> = (0..100).collect();
        each_kind!(&device, &contents, |mut buffer| {
            let mut whole = buffer.as_view_mut();
            let (input, mut output) = whole.as_view_mut().split_at(50).unwrap();
            if input.device_ptr().is_some() {
                let both = (input.as_view(), output.as_view_mut(), 50u32);
                double.launch(&stream, 50, both).unwrap();
                // A reference to a view is an argument, too.
                let both = (&input, &mut output, 2u32);
                double.launch(&stream, 2, both).unwrap();
                assert_eq!(output.read_one(49).unwrap(), 98);
            }
            let mut part = output.slice_mut(..50).unwrap();
            stream.copy(&input, &mut part).unwrap();
            stream.copy_range(&input, 2..4, &mut output, 0).unwrap();
            assert_eq!(output.read_one(1).unwrap(), 3);
            assert_eq!(
                output.slice(2..).unwrap().to_vec().unwrap(),
                contents[2..50]
            );
            assert_eq!(buffer.view(..50).unwrap().to_vec().unwrap(), contents[..50]);
        });
    }
}

#[test]
fn the_host_has_one_part_and_a_kernel_the_other() {
    for (sim, device, stream) in everywhere() {
        if !is_concurrent(&device) {
            continue;
        }
        let add = Add::load(&device);
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 2000).unwrap();
        let (mut host, part) = buffer.as_view_mut().split_at(1000).unwrap();
        let mut guard = host.host_mut().unwrap();
        let paused = sim.as_ref().map(|sim| sim.pause());
        add.run(&stream, part, 1000, 3);
        guard.fill(5);
        drop(paused);
        drop(guard);
        let host = buffer.host().unwrap();
        assert_eq!(host[..1000], [5; 1000]);
        assert_eq!(host[1000..], [3; 1000]);
    }
}

/// claim 3
#[test]
fn a_drop_waits_for_the_work_on_every_part() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let other = device.create_stream().unwrap();
    let add = Add::load(&device);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    let (first, mut second) = buffer.as_view_mut().split_at(50).unwrap();
    add.run(&stream, first, 50, 1);
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
    add.run(&stream, first, 50, 1);
    fails!(second.try_host_mut(), Error::Busy { .. });
    drop(paused);
    assert_eq!(second.host_mut().unwrap()[0], 0);
}

/// claim 5
#[test]
fn a_guard_of_a_part_reaches_only_that_part() {
    for (_sim, device, _stream) in everywhere() {
        let mut buffer = UnifiedBuffer::<u8>::zeroed(&device, 10).unwrap();
        let (mut first, mut second) = buffer.as_view_mut().split_at(4).unwrap();
        let (mut a, mut b) = (first.host_mut().unwrap(), second.host_mut().unwrap());
        a.fill(1);
        b.fill(2);
        std::mem::swap(&mut a[0], &mut b[0]);
        drop((a, b));
        pollster::block_on(second.host_mut_async()).unwrap()[5] = 9;
        let guard = pollster::block_on(first.host_async()).unwrap();
        assert_eq!(*guard, [2, 1, 1, 1]);
        drop(guard);
        first.into_host_mut().unwrap()[3] = 8;
        assert_eq!(buffer.to_vec().unwrap(), [2, 1, 1, 8, 1, 2, 2, 2, 2, 9]);
    }
}
