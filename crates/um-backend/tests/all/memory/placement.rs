//! The pools of a backend, its default ones, and prefetches of many buffers.

use crate::support::opaque::OpaqueBuffer;
use crate::support::{Machine, on_each, on_each_preset};
use um_backend::{
    Buffer, BufferKind, CudaBackend, DType, Location, PrefetchBatch, cuda_um::MemoryKind,
    cuda_um::Oversubscription, cuda_um::PoolOptions, sim::Gpu,
};

/// Live buffers of a kind of memory, and its reserved bytes.
fn stats(backend: &CudaBackend, kind: MemoryKind) -> Option<(usize, usize)> {
    let stats = backend.pool_stats_of(kind)?;
    Some((stats.live_buffers, stats.reserved_bytes))
}

/// Each kind of memory can have one, which siblings and clones of buffers use, too. It has no mapped memory, and none of another pattern.
#[test]
fn a_backend_may_have_pools_of_its_own() {
    on_each(|machine| {
        let options = PoolOptions::default();
        let config = machine.config().unified_pool(options);
        let config = config.device_pool(options).pinned_pool(options);
        let first = machine.open(config);
        for backend in [first.sibling(0).unwrap(), first] {
            for (kind, memory) in [
                (BufferKind::Unified, MemoryKind::Managed),
                (BufferKind::Cuda, MemoryKind::Device),
                (BufferKind::Pinned, MemoryKind::Pinned),
            ] {
                let buffer = backend.create::<f32>(kind, 1000).unwrap();
                if kind == BufferKind::Unified && !machine.has_good_managed_memory() {
                    assert_eq!(stats(&backend, memory), None);
                    drop(buffer);
                    backend.synchronize().unwrap();
                    backend.trim();
                    continue;
                }
                let clone = buffer.clone_empty(10).unwrap();
                let (live, reserved) = stats(&backend, memory).unwrap();
                assert_eq!((live, backend.trim()), (2, 0), "{kind}: in use");
                drop((buffer, clone));
                backend.synchronize().unwrap();
                backend.device().runtime().reclaim().unwrap();
                assert_eq!(stats(&backend, memory), Some((0, reserved)), "{kind}");
                assert_eq!(backend.trim(), reserved, "{kind}");
            }
        }
        let backend = machine.pooled();
        let pooled = backend.allocate_unified::<f32>(1000).unwrap().placement();
        let is_pooled = pooled.reason.contains("pool");
        assert_eq!(is_pooled, machine.has_good_managed_memory());
    });
    on_each(|machine| {
        let backend = machine.backend();
        let buffer = backend.allocate_unified::<f32>(10).unwrap();
        // Poor managed memory: the buffer is in the default pool of pinned memory.
        let is_managed = backend.device().managed_memory_obstacle().is_none();
        let live = stats(&backend, MemoryKind::Managed).map(|(live, _)| live);
        assert_eq!(live, is_managed.then_some(1));
        drop(buffer);
        backend.synchronize().unwrap();
        assert!(backend.trim() > 0);
    });
}

/// The pool may oversubscribe if the backend allows it.
#[test]
fn oversubscription_concerns_the_pool() {
    on_each_preset(
        |builder| builder.total_memory_bytes(256 << 20),
        |machine| {
            if !machine.has_good_managed_memory() || !machine.is_concurrent() {
                return;
            }
            let make = |backend: &CudaBackend| backend.allocate_unified::<u8>(300 << 20);
            let error = make(&machine.pooled()).unwrap_err();
            assert!(error.is_out_of_memory(), "{error:?}");
            let config = machine.config().unified_pool(PoolOptions::default());
            let config = config.oversubscription(Oversubscription::Allowed);
            let backend = machine.open(config);
            assert_eq!(make(&backend).unwrap().len(), 300 << 20);
        },
    );
}

/// Buffers of every kind, behind `dyn` and erased. Those that cannot migrate are skipped and reported.
#[test]
fn a_mixed_list_says_what_was_left_out() {
    let machine = Machine::simulated(Gpu::H200, |builder| builder);
    let backend = machine.backend();
    let weights = backend.create::<f32>(BufferKind::Unified, 1000).unwrap();
    let host = backend.create::<f64>(BufferKind::Host, 10).unwrap();
    let on_device = backend.create::<i32>(BufferKind::Cuda, 10).unwrap();
    let opaque = OpaqueBuffer::<f32>::new(10);
    let other = backend
        .create_erased(BufferKind::Host, DType::U32, 9)
        .unwrap();
    let mut batch = PrefetchBatch::new();
    batch.add(&*weights).add(&*host).add(&*on_device);
    batch.add(&opaque as &dyn Buffer<f32>).add::<f32>(&other);
    let stream = backend.device().stream();
    let prefetched = batch.prefetch_on(Location::Host, stream);
    assert_eq!(prefetched.unwrap().calls, 1);
    let expected = [
        (1, "host memory"),
        (2, "device memory"),
        (3, "opaque memory"),
        (4, "dtype f32 was requested, but the element type is u32"),
    ];
    assert_eq!(batch.skipped().len(), expected.len());
    for ((index, error), (at, have)) in batch.skipped().iter().zip(expected) {
        assert_eq!(*index, at);
        assert!(error.to_string().contains(have), "{index}: {error}");
    }
}
