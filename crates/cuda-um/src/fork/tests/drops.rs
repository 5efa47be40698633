//! Each type whose `Drop` calls CUDA or takes a lock, dropped by a child.

use crate::context::event::RawEvent;
use crate::context::tracker::Access;
use crate::fork::tests::{gone_without_a_trace, simulated};
use crate::resource::allocation::Allocation;
use crate::{
    Device, DeviceBuffer, Event, MemoryKind, Module, PinnedBuffer, Placement, Pool, PoolOptions,
    RegisteredBuffer, UnifiedBuffer, UnifiedOptions,
    buffer::TransferOptions,
    resource::{DeviceArena, DriverPool},
};
use cuda_um_sim::{Fail, Gpu, Leak};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn options() -> PoolOptions {
    PoolOptions::default().slab_bytes(4 << 20)
}

#[test]
fn buffers_of_every_kind() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mapped = UnifiedOptions::default().placement(Placement::Mapped);
    let pinned = Pool::new(&device, MemoryKind::Pinned, options()).unwrap();
    let unified = Pool::new(&device, MemoryKind::Managed, options()).unwrap();
    let on_device = Pool::new(&device, MemoryKind::Device, options()).unwrap();
    // Register both first: memory that the child frees stays registered, and the allocator may return its address again.
    let vectors = [(); 2].map(|()| RegisteredBuffer::from_vec(&device, vec![0u32; 1000]).unwrap());
    for (in_flight, registered) in [false, true].into_iter().zip(vectors) {
        let mut managed = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let mut of_host = UnifiedBuffer::<u32>::zeroed_with(&device, 1000, mapped).unwrap();
        let mut memory = DeviceBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let mut page_locked = PinnedBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let mut pooled = UnifiedBuffer::<u32>::zeroed_in(&unified, 1000).unwrap();
        let mut whole = UnifiedBuffer::<u32>::zeroed_in(&unified, 1 << 20).unwrap();
        let mut of_pinned = PinnedBuffer::<u32>::zeroed_in(&pinned, 1000).unwrap();
        let mut of_device = DeviceBuffer::<u32>::zeroed_in(&on_device, 1000).unwrap();
        device.synchronize().unwrap();
        let _paused = in_flight.then(|| sim.pause());
        if in_flight {
            managed.fill_on(1, &stream).unwrap();
            of_host.fill_on(1, &stream).unwrap();
            memory.fill_on(1, &stream).unwrap();
            page_locked.fill_on(1, &stream).unwrap();
            pooled.fill_on(1, &stream).unwrap();
            whole.fill_on(1, &stream).unwrap();
            of_pinned.fill_on(1, &stream).unwrap();
            of_device.fill_on(1, &stream).unwrap();
        }
        gone_without_a_trace(&sim, managed);
        gone_without_a_trace(&sim, of_host);
        gone_without_a_trace(&sim, memory);
        gone_without_a_trace(&sim, page_locked);
        // Never in flight: `the_slice_of_a_scope` tests registered memory that a device uses.
        gone_without_a_trace(&sim, registered);
        gone_without_a_trace(&sim, pooled);
        gone_without_a_trace(&sim, whole);
        gone_without_a_trace(&sim, of_pinned);
        gone_without_a_trace(&sim, of_device);
    }
    assert_eq!(unified.stats().live_buffers, 4, "nothing went back");
    assert_eq!(pinned.stats().live_buffers, 2);
    assert_eq!(on_device.stats().live_buffers, 2);
}

#[test]
fn the_slice_of_a_scope() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut memory = vec![0u32; 1000];
    RegisteredBuffer::scope(&device, &mut memory, |registered| {
        registered.fill_on(1, &stream).unwrap();
        let _paused = sim.pause();
        // Replace the buffer, so that the test drops it in place of the child's copy.
        let nothing = Allocation::empty::<u32>(&device);
        gone_without_a_trace(&sim, std::mem::replace(&mut registered.raw, nothing));
    })
    .unwrap();
    device.synchronize().unwrap();
}

#[test]
fn streams() {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        gone_without_a_trace(&sim, stream);
        let stream = device.create_stream().unwrap();
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
        let _paused = sim.pause();
        buffer.fill_on(1, &stream).unwrap();
        gone_without_a_trace(&sim, (buffer, stream));
    }
}

#[test]
fn events() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let _paused = sim.pause();
    gone_without_a_trace(&sim, stream.record().unwrap());
    gone_without_a_trace(&sim, Event::timed(&stream).unwrap());
    let raw = RawEvent::create(device.state(), false).unwrap();
    gone_without_a_trace(&sim, raw.record(stream.inner()).unwrap());
}

#[test]
fn modules() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let ptx = include_str!("../../../tests/support/add.ptx");
    let module = Module::load(&device, ptx).unwrap();
    let kernel = module.kernel("add").unwrap();
    gone_without_a_trace(&sim, (module, kernel));
}

#[test]
fn pools_of_slabs() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let unified = Pool::new(&device, MemoryKind::Managed, options()).unwrap();
    let pinned = Pool::new(&device, MemoryKind::Pinned, options()).unwrap();
    drop(UnifiedBuffer::<u32>::zeroed_in(&unified, 1000).unwrap());
    drop(UnifiedBuffer::<u32>::zeroed_in(&unified, 1 << 20).unwrap());
    drop(PinnedBuffer::<u32>::zeroed_in(&pinned, 1000).unwrap());
    device.synchronize().unwrap();
    gone_without_a_trace(&sim, (unified, pinned));
}

#[test]
fn arenas() {
    let (sim, device, stream) = simulated(Gpu::H200);
    for in_flight in [false, true] {
        let arena = DeviceArena::new(&device, 8 << 20).unwrap();
        let mut used = arena.place::<u32>(1, 1000).unwrap();
        device.synchronize().unwrap();
        let _paused = in_flight.then(|| sim.pause());
        used.fill_on(1, &stream).unwrap();
        drop(used);
        gone_without_a_trace(&sim, arena);
    }
}

#[test]
fn a_pool_of_the_driver() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    for in_flight in [false, true] {
        let pool = DriverPool::new(&device, MemoryKind::Device, options()).unwrap();
        let kept = DeviceBuffer::<u32>::zeroed_in(&pool, 1000).unwrap();
        device.synchronize().unwrap();
        let _paused = in_flight.then(|| sim.pause());
        if in_flight {
            drop(DeviceBuffer::<u32>::zeroed_in(&pool, 1000).unwrap());
        }
        gone_without_a_trace(&sim, kept);
        gone_without_a_trace(&sim, pool);
    }
}

#[test]
#[allow(unsafe_code, reason = "plays the other library")]
fn owners_of_other_libraries() {
    static IS_DROPPED: AtomicBool = AtomicBool::new(false);
    struct Owner;
    impl Drop for Owner {
        fn drop(&mut self) {
            IS_DROPPED.store(true, Ordering::Relaxed);
        }
    }
    let (sim, device, stream) = simulated(Gpu::H200);
    let buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let address = NonNull::new(buffer.as_ptr().cast_mut()).unwrap();
    // SAFETY: the stream and the memory live longer.
    let adopted = unsafe { device.adopt_stream(stream.as_raw(), Owner) }.unwrap();
    // SAFETY: as above, and nothing else uses the memory.
    let imported = unsafe { UnifiedBuffer::from_foreign(&device, address, 1000, Owner) };
    gone_without_a_trace(&sim, (adopted, imported.unwrap()));
    assert!(!IS_DROPPED.load(Ordering::Relaxed), "the parent's");
}

#[test]
fn exports() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let buffer = Arc::new(UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap());
    let exported = buffer.export(&stream).unwrap();
    gone_without_a_trace(&sim, exported);
    assert!(!buffer.raw.in_flight.before(Access::Write).is_empty());
}

#[test]
fn streams_that_left_no_event() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    device.synchronize().unwrap();
    let paused = sim.pause();
    let gone = device.create_stream().unwrap();
    buffer.fill_on(1, &gone).unwrap();
    // From here on the buffer tracks this use.
    buffer.fill_on(2, &stream).unwrap();
    sim.fail(Fail::call("cudaEventCreateWithFlags"));
    drop(gone);
    drop(paused);
    stream.synchronize().unwrap();
    buffer.close().unwrap();
    let left = |leak: &Leak| matches!(leak, Leak::Stream);
    let streams = || sim.leaks().iter().filter(|leak| left(leak)).count();
    let before = streams();
    gone_without_a_trace(&sim, (device, stream));
    assert_eq!(streams(), before, "the parent's");
}

#[test]
fn host_guards_that_hold_the_gate() {
    let (sim, device, stream) = simulated(Gpu::NoConcurrentAccess);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    gone_without_a_trace(&sim, buffer.host().unwrap());
    gone_without_a_trace(&sim, buffer.host_mut().unwrap());
    let other = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    let error = stream.copy(&other, &mut buffer).unwrap_err().to_string();
    assert!(error.contains("2 host guard(s)"), "the parent's: {error}");
}

/// Makes the device copy through its ring.
fn stage(device: &Device, threads: usize) -> DeviceBuffer<u8> {
    device.set_transfer_options(TransferOptions::default().threads(threads));
    DeviceBuffer::from_slice(device, &vec![1u8; 16 << 20]).unwrap()
}

#[test]
fn the_ring_and_its_threads() {
    let (sim, device, stream) = simulated(Gpu::H200);
    stage(&device, 3).close().unwrap();
    let waits_for_nothing = || {
        device.synchronize().unwrap();
        let leaks = sim.leaks();
        assert!(leaks.len() > 2, "pinned memory of the ring: {leaks:?}");
        leaks.len()
    };
    let ring = waits_for_nothing();
    gone_without_a_trace(&sim, (device, stream));
    assert_eq!(sim.leaks().len(), ring, "the parent's");
}

#[test]
fn chunks_that_copies_may_use() {
    let (sim, device, stream) = simulated(Gpu::H200);
    // The library has not yet waited for the last pieces.
    let staged = stage(&device, 1);
    gone_without_a_trace(&sim, (staged, device, stream));
}

#[test]
fn the_runtime_itself() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 1000).unwrap();
    buffer.fill_on(1, &stream).unwrap();
    drop(buffer);
    // Leaves a retired pool of the driver.
    drop(Pool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap());
    device.runtime().reclaim().unwrap();
    gone_without_a_trace(&sim, (device, stream));
}
