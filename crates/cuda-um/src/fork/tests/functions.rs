//! Each public function that takes a lock of its process, called by a child.

use crate::fork::tests::{simulated, without_cuda};
use crate::{
    AccessPattern, Advice, Device, DeviceBuffer, Devices, ErrorKind, Event, Location, MemoryKind,
    Module, PinnedBuffer, Pool, PoolOptions, PrefetchBatch, RegisteredBuffer, Result, Stream,
    UnifiedBuffer, UnifiedOptions,
    buffer::TransferOptions,
    resource::{DeviceArena, DriverPool, PoolStats},
};
use cuda_um_sim::{Gpu, Sim};
use std::ptr::NonNull;
use std::sync::Arc;

/// The child's call is refused, without a lock and without a CUDA call.
#[track_caller]
fn refused<R>(sim: &Sim, what: &str, call: impl FnOnce() -> Result<R>) {
    match without_cuda(sim, || call().map(drop)) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Forked, "{what}: {error}"),
        Ok(()) => panic!("{what} is not refused"),
    }
}

macro_rules! refused {
    ($sim:expr; $($call:expr;)*) => {
        $(refused($sim, stringify!($call), || $call);)*
    };
}

fn each_device(test: impl Fn(&Sim, &Device, &Stream)) {
    for gpu in [Gpu::H200, Gpu::NoConcurrentAccess] {
        let (sim, device, stream) = simulated(gpu);
        test(&sim, &device, &stream);
    }
}

#[test]
fn of_runtimes_and_devices() {
    each_device(|sim, device, stream| {
        let runtime = device.runtime();
        assert!(!runtime.is_inherited());
        assert!(without_cuda(sim, || runtime.is_inherited()));
        let model = device.cost_model();
        let event = stream.record().unwrap();
        let timed = Event::timed(stream).unwrap();
        refused!(sim;
            runtime.device_count();
            runtime.device(0);
            runtime.devices();
            runtime.driver_version();
            runtime.reclaim();
            device.memory_info();
            device.synchronize();
            device.create_stream();
            device.default_stream();
            device.set_cost_model((*model).clone());
            stream.synchronize();
            stream.is_idle();
            stream.record();
            stream.wait(&event);
            event.synchronize();
            event.is_complete();
            Event::timed(stream);
            timed.elapsed_since(&timed);
        );
        without_cuda(sim, || {
            device.set_transfer_options(TransferOptions::default());
            assert_eq!(device.cost_model().source, model.source);
            let _ = format!("{runtime:?} {device:?} {stream:?} {event:?}");
        });
    });
}

#[test]
fn of_buffers() {
    each_device(|sim, device, stream| {
        let mut managed = UnifiedBuffer::from_slice(device, &[7u32; 1000]).unwrap();
        let mut memory = DeviceBuffer::from_slice(device, &[7u32; 1000]).unwrap();
        let mut pinned = PinnedBuffer::from_slice(device, &[7u32; 1000]).unwrap();
        let mut back = [0u32; 1000];
        let once = UnifiedOptions::default().pattern(AccessPattern::StreamOnce);
        device.synchronize().unwrap();
        refused!(sim;
            UnifiedBuffer::<u32>::zeroed(device, 10);
            UnifiedBuffer::<u32>::zeroed(device, 0);
            UnifiedBuffer::from_slice(device, &[1u32; 10]);
            UnifiedBuffer::<u32>::uninit(device, 10, once);
            DeviceBuffer::<u32>::zeroed(device, 10);
            DeviceBuffer::<u32>::uninit(device, 10);
            PinnedBuffer::<u32>::zeroed(device, 10);
            RegisteredBuffer::from_vec(device, vec![1u32; 10]);
            RegisteredBuffer::scope(device, &mut [1u32; 10], |_| ());
            managed.host();
            managed.host_mut();
            managed.try_host();
            managed.try_host_mut();
            pollster::block_on(managed.host_async());
            pollster::block_on(managed.host_mut_async());
            pinned.host();
            pinned.try_host_mut();
            managed.to_vec();
            memory.to_vec();
            pinned.to_vec();
            managed.copy_to_host(&mut back);
            managed.copy_from_host(&back);
            memory.copy_from_host(&back);
            pinned.copy_from_host(&back);
            pollster::block_on(managed.copy_to_host_async(&mut back));
            pollster::block_on(managed.copy_from_host_async(&back));
            memory.host_overwrite(.., |_, slots| slots.fill_with(|_| 1));
            pinned.host_overwrite(.., |_, slots| slots.fill_with(|_| 1));
            managed.fill_on(1, stream);
            pinned.fill_on(1, stream);
            memory.fill_on(0, stream);
            stream.copy(&pinned, &mut memory);
            managed.prefetch_on(Location::Host, stream);
            managed.prefetch_on(device, stream);
            managed.advise(Advice::SetReadMostly);
            managed.residency();
            managed.range_attributes();
        );
        of_other_libraries(sim, device, stream);
        let mut batch = PrefetchBatch::new();
        batch.add(&managed);
        refused(sim, "a batch", || batch.prefetch_on(Location::Host, stream));
        without_cuda(sim, || {
            managed.set_name("a child's");
            let _ = (managed.placement(), managed.view(1..).unwrap());
            let _ = format!("{managed:?} {memory:?} {pinned:?}");
        });
        refused(sim, "close", || managed.close());
        refused(sim, "close", || memory.close());
        refused(sim, "close", || pinned.close());
    });
}

#[allow(unsafe_code, reason = "plays the other library")]
fn of_other_libraries(sim: &Sim, device: &Device, stream: &Stream) {
    let buffer = Arc::new(UnifiedBuffer::<u32>::zeroed(device, 10).unwrap());
    let address = NonNull::new(buffer.as_ptr().cast_mut()).unwrap();
    let exports = [(); 2].map(|()| buffer.export(stream).unwrap());
    let event = stream.record().unwrap();
    device.synchronize().unwrap();
    let [first, second] = exports;
    // SAFETY: all of them are refused.
    unsafe {
        refused!(sim;
            device.adopt_stream(stream.as_raw(), ());
            UnifiedBuffer::from_foreign(device, address, 10, ());
            UnifiedBuffer::from_foreign_read_only(device, address, 10, ());
            stream.enqueue_foreign((&*buffer,), |_| ());
            buffer.export(stream);
            buffer.export_mut(stream);
            DriverPool::new(device, MemoryKind::Managed, PoolOptions::default());
        );
    }
    refused(sim, "returned_on", || first.returned_on(stream));
    refused(sim, "returned_after", || second.returned_after(&event));
}

#[test]
fn of_pools() {
    each_device(|sim, device, _stream| {
        let options = PoolOptions::default().slab_bytes(2 << 20);
        let unified = Pool::new(device, MemoryKind::Managed, options).unwrap();
        let pinned = Pool::new(device, MemoryKind::Pinned, options).unwrap();
        let on_device = Pool::new(device, MemoryKind::Device, options).unwrap();
        let arena = DeviceArena::new(device, 2 << 20).unwrap();
        let _kept = (
            UnifiedBuffer::<u32>::zeroed_in(&unified, 10).unwrap(),
            PinnedBuffer::<u32>::zeroed_in(&pinned, 10).unwrap(),
            DeviceBuffer::<u32>::zeroed_in(&on_device, 10).unwrap(),
        );
        refused!(sim;
            UnifiedBuffer::<u32>::zeroed_in(&unified, 10);
            UnifiedBuffer::<u32>::uninit_in(&unified, 10);
            UnifiedBuffer::from_slice_in(&unified, &[1u32; 10]);
            PinnedBuffer::<u32>::zeroed_in(&pinned, 10);
            DeviceBuffer::<u32>::uninit_in(&on_device, 10);
            DeviceArena::new(device, 2 << 20);
            arena.place::<u32>(0, 10);
            DeviceBuffer::<u32>::zeroed_in(&arena, 10);
        );
        without_cuda(sim, || {
            let nothing = PoolStats::default();
            let stats = [unified.stats(), pinned.stats(), on_device.stats()];
            assert_eq!(stats, [nothing; 3]);
            let trimmed = [unified.trim(), pinned.trim(), on_device.trim()];
            assert_eq!(trimmed, [0; 3]);
            let _ = format!("{unified:?} {pinned:?} {on_device:?} {arena:?}");
        });
        assert_eq!(unified.stats().live_buffers, 1);
    });
}

#[test]
fn of_several_devices() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let devices = Devices::all(device.runtime()).unwrap();
    let from = PinnedBuffer::<u8>::zeroed(&device, 4 << 20).unwrap();
    let mut to = DeviceBuffer::<u8>::zeroed(&device, 4 << 20).unwrap();
    refused!(&sim;
        devices.enable_peer_access();
        stream.copy(&from, &mut to);
    );
}

#[test]
fn of_modules() {
    let (sim, device, _stream) = simulated(Gpu::H200);
    let ptx = include_str!("../../../tests/support/add.ptx");
    let module = Module::load(&device, ptx).unwrap();
    let kernel = module.kernel("add").unwrap();
    refused!(&sim;
        Module::load(&device, ptx);
        module.kernel("add");
        kernel.attributes();
        kernel.allow_shared_bytes(100);
        kernel.resident_blocks(32, 0);
    );
    without_cuda(&sim, || format!("{module:?} {kernel:?}"));
}
