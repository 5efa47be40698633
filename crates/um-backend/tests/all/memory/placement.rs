//! The pools of a backend, and its default ones.

use um_backend::{
    BufferKind, CudaBackend,
    cuda_um::{MemoryKind, Oversubscription, PoolOptions},
};

use crate::support::{on_each, on_each_preset};

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
        let first = machine.keep(CudaBackend::initialize_blocking(config).unwrap());
        for backend in [machine.keep(first.sibling(0).unwrap()), first] {
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
            let backend = machine.keep(CudaBackend::initialize_blocking(config).unwrap());
            assert_eq!(make(&backend).unwrap().len(), 300 << 20);
        },
    );
}
