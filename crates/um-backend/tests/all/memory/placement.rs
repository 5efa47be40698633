//! The pools of a backend, and its default ones.

use cuda_um_testkit::without_pools;

use um_backend::{
    CudaBackend,
    cuda_um::{MemoryKind, Oversubscription, Placement, PoolOptions},
};

use crate::support::{on_each, on_each_preset};

/// Live buffers and reserved bytes of managed memory.
fn stats(backend: &CudaBackend) -> Option<(usize, usize)> {
    let stats = backend.pool_stats_of(MemoryKind::Managed)?;
    Some((stats.live_buffers, stats.reserved_bytes))
}

/// Buffers of the backend's own pool: not mapped ones, nor those of another pattern.
#[test]
fn a_backend_may_have_a_pool_of_its_own() {
    on_each(|machine| {
        let backend = machine.pooled();
        let buffer = backend.allocate_unified::<f32>(1000).unwrap();
        if !machine.has_good_managed_memory() {
            // The pool does not have mapped memory.
            assert_eq!(buffer.placement().placement, Placement::Mapped);
            assert_eq!((stats(&backend), backend.trim()), (None, 0));
            return;
        }
        assert!(buffer.placement().reason.contains("pool"));
        let (live, reserved) = stats(&backend).unwrap();
        assert_eq!((live, backend.trim()), (1, 0), "it is in use");
        drop(buffer);
        backend.synchronize().unwrap();
        assert_eq!(stats(&backend), Some((0, reserved)));
        assert_eq!(backend.trim(), reserved);
    });
    on_each(|machine| {
        let backend = machine.backend();
        let buffer = backend.allocate_unified::<f32>(10).unwrap();
        // Poor managed memory: the buffer is in the default pool of pinned memory.
        let is_managed = backend.device().managed_memory_obstacle().is_none();
        let live = stats(&backend).map(|(live, _)| live);
        assert_eq!(live, is_managed.then_some(1));
        drop(buffer);
        backend.synchronize().unwrap();
        assert!(backend.trim() > 0);
    });
    on_each(|machine| {
        let backend = machine.backend();
        without_pools(backend.device());
        let _buffer = backend.allocate_unified::<f32>(10).unwrap();
        assert_eq!((stats(&backend), backend.trim()), (None, 0));
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
