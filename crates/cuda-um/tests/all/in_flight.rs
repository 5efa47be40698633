//! Buffers in use: dropped, closed, used on several streams and threads.

mod streams;

use cuda_um::{
    DeviceBuffer, Error, Event, Location, PinnedBuffer, RegisteredBuffer, UnifiedBuffer,
};
use cuda_um_sim::{Fail, Gpu, Leak};
use cuda_um_sys::cudaError;
use cuda_um_testkit::watchdog::watch;
use cuda_um_testkit::{Add, Told, calls, fail_waits, fails, simulated, simulated_with, unpooled};
use std::time::{Duration, Instant};

/// claim 21: No drop would free it, because the device is never idle.
#[test]
fn an_allocation_waits_for_too_much_that_is_to_be_freed() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let held = sim.hold(0);
    for count in 1..=5 {
        let large = DeviceBuffer::<u8>::uninit(&device, 1 << 30).unwrap();
        #[allow(unsafe_code, reason = "only a part is initialised")]
        // SAFETY: nothing reads the elements.
        let mut large = unsafe { large.assume_init() };
        let mut part = large.view_mut(0..10).unwrap();
        part.fill_on(1, &stream).unwrap();
        drop(large);
        assert!(!held.is_over(), "{count} GiB");
    }
    drop(DeviceBuffer::<u8>::uninit(&device, 10).unwrap());
    assert!(held.is_over());
    assert_eq!(calls(&sim, "cudaFree"), 6);
}

/// claim 21
#[test]
fn a_drop_in_use_neither_waits_nor_frees_too_early() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let add = Add::load(&device);
    let mut managed = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    let mut memory = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    add.run(&stream, &mut managed, 100, 1);
    add.run(&stream, &mut memory, 100, 1);
    drop((managed, memory, add));
    // Each of these drops queries the three. If it freed one, it would wait, and this would end the hold.
    let asked = calls(&sim, "cudaEventQuery");
    for _ in 0..6 {
        let mut other = DeviceBuffer::<u8>::zeroed(&device, 100).unwrap();
        other.fill_on(1, &stream).unwrap();
    }
    assert!(calls(&sim, "cudaEventQuery") >= asked + 6);
    assert_eq!(held.ended_by(), None, "a call waited");
    let freed = || ["cudaFree", "cuModuleUnload"].map(|name| calls(&sim, name));
    assert_eq!(freed(), [0, 0], "in use");
    drop(held);
    device.runtime().reclaim().unwrap();
    assert_eq!(freed(), [8, 1]);
}

/// claims 24 and 27: The kernel is to run: its uses are noted, and its module stays loaded.
#[test]
fn a_launch_whose_call_says_that_it_failed_is_noted() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let add = Add::load(&device);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    let late = Fail::call("cuLaunchKernel").with(cudaError::cudaErrorUnknown);
    sim.fail(late.after_the_call());
    let launched = add.launch(&stream, 100, (&mut buffer, 100u32, 1u32));
    assert!(launched.is_err());
    drop(add);
    assert_eq!(calls(&sim, "cuModuleUnload"), 0);
    fails!(buffer.try_host(), Error::Busy { .. });
    drop(held);
    assert_eq!(buffer.host().unwrap()[..], [1; 100]);
    device.runtime().reclaim().unwrap();
    assert_eq!(calls(&sim, "cuModuleUnload"), 1);
}

/// claim 22
#[test]
fn memory_whose_work_nobody_can_wait_for_is_leaked() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    buffer.fill_on(3, &stream).unwrap();
    fail_waits(&sim);
    drop(buffer);
    fails!(device.runtime().reclaim(), Error::Call { .. });
    assert!(!held.is_over(), "the device still uses it");
    assert_eq!(calls(&sim, "cudaFree"), 0);
    sim.clear_failures();
    drop(held);
    device.synchronize().unwrap();
    device.runtime().reclaim().unwrap();
    sim.leaves(1, "no wait for its work succeeds", |leak| {
        matches!(leak, Leak::Memory { bytes: 400, .. })
    });
}

/// claim 21
#[test]
fn idle_buffers_are_freed_at_once() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    buffer.fill_on(3, &stream).unwrap();
    device.synchronize().unwrap();
    drop(buffer);
    assert_eq!(calls(&sim, "cudaFree"), 1);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    buffer.fill_on(3, &stream).unwrap();
    buffer.close().unwrap();
    assert_eq!(calls(&sim, "cudaFree"), 2, "close waits for its work");
}

/// claim 21: Found by the model test: `cudaFree` waits for the streams of all devices.
#[test]
fn a_drop_does_not_wait_for_another_device() {
    let (sim, device, _) = simulated_with(|builder| builder.devices(2));
    let other = device.runtime().device(1).unwrap();
    let add = Add::load(&other);
    let mut busy = UnifiedBuffer::<u32>::zeroed(&other, 100).unwrap();
    let idle = UnifiedBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    other.synchronize().unwrap();
    let stream = other.create_stream().unwrap();
    let paused = sim.pause();
    add.run(&stream, &mut busy, 100, 1);
    drop(idle);
    assert_eq!(calls(&sim, "cudaFree"), 0, "deferred");
    drop(paused);
    assert_eq!(*busy.host().unwrap(), [1; 100]);
}

/// claim 1
#[test]
fn handles_may_be_used_on_any_thread() {
    fn shared<T: Send + Sync>() {}
    shared::<(cuda_um::Runtime, cuda_um::Device, cuda_um::Stream)>();
    shared::<(Event, cuda_um::Module, cuda_um::Kernel)>();
    shared::<(UnifiedBuffer<u32>, DeviceBuffer<u32>)>();
    shared::<(PinnedBuffer<u32>, RegisteredBuffer<'_, u32>)>();
    shared::<(cuda_um::View<'_, u32>, cuda_um::ViewMut<'_, u32>)>();
    shared::<(cuda_um::Pool, cuda_um::resource::DriverPool)>();
}

/// claim 36
#[test]
fn work_that_is_done_is_seen_though_later_work_of_the_stream_is_asked_for_all_the_time() {
    // Each query about later work recorded the stream's only event again, so earlier work was never seen as done.
    let (sim, device, stream) = simulated(Gpu::H200);
    let _watchdog = watch();
    let told = Told::load(&device);
    let [mut early, mut late, mut later] =
        [(); 3].map(|()| UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap());
    let paused = sim.pause();
    early.fill_on(1, &stream).unwrap();
    assert!(early.try_host().is_err());
    told.launch(&stream, &mut late);
    drop(paused);
    let end = Instant::now() + Duration::from_secs(30);
    let mut seen = None;
    while seen.is_none() && Instant::now() < end {
        later.fill_on(1, &stream).unwrap();
        assert!(later.try_host().is_err() && late.try_host().is_err());
        seen = early.try_host().ok().map(|guard| guard[9]);
    }
    told.tell();
    assert_eq!(seen, Some(1), "before the later work is done");
    assert_eq!((late.host().unwrap()[9], later.host().unwrap()[9]), (0, 1));
}

/// A free waits for all work of the device, and a kernel may wait for what the host does next.
#[test]
fn the_host_ends_a_kernel_while_unrelated_memory_is_freed() {
    let (_sim, device, stream) = unpooled(Gpu::H200);
    let _watchdog = watch();
    let (told, other) = (Told::load(&device), device.create_stream().unwrap());
    let [mut used, mut done, mut beside] =
        [(); 3].map(|()| DeviceBuffer::<u32>::zeroed(&device, 10).unwrap());
    let mut flag = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
    device.synchronize().unwrap();
    told.launch(&stream, &mut used);
    done.fill_on(1, &other).unwrap();
    other.synchronize().unwrap();
    drop(done);
    beside.fill_on(2, &other).unwrap();
    assert_eq!(beside.to_vec().unwrap(), [2; 10]);
    flag.prefetch_on(&device, &other).unwrap();
    flag.host_mut().unwrap()[0] = 1;
    told.tell();
    assert_eq!(used.to_vec().unwrap(), [0; 10]);
}

/// Memory that is streamed: the prefetch of the next part does not wait for the kernel that reads this one.
#[test]
fn a_prefetch_of_one_part_runs_beside_a_kernel_that_reads_another() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let _watchdog = watch();
    let (told, other) = (Told::load(&device), device.create_stream().unwrap());
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 2 << 20).unwrap();
    buffer.prefetch_on(Location::Host, &stream).unwrap();
    stream.synchronize().unwrap();
    let [first, second] = [0..1 << 20, 1 << 20..2 << 20].map(|part| buffer.view(part).unwrap());
    told.launch(&stream, first);
    second.prefetch_on(&device, &other).unwrap();
    other.synchronize().unwrap();
    assert!(!stream.is_idle().unwrap());
    told.tell();
    stream.synchronize().unwrap();
}

#[test]
fn work_waits_for_the_event_after_its_use_and_not_for_later_work() {
    let (_sim, device, stream) = simulated(Gpu::H200);
    let [mut source, mut target] =
        [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&device, 10).unwrap());
    let mut large = DeviceBuffer::<u32>::zeroed(&device, 4 << 20).unwrap();
    source.fill_on(1, &stream).unwrap();
    let begin = Event::timed(&stream).unwrap();
    let _event = stream.record().unwrap();
    large.fill_on(2, &stream).unwrap();
    let end = Event::timed(&stream).unwrap();
    let other = device.create_stream().unwrap();
    other.copy(&source, &mut target).unwrap();
    let copied = Event::timed(&other).unwrap();
    let time = |event: &Event| event.elapsed_since(&begin).unwrap();
    assert!(time(&copied) < time(&end), "the copy waits for the fill");
    assert_eq!(target.to_vec().unwrap()[9], 1);
}
