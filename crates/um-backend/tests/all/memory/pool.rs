//! A backend whose unified buffers come from a pool.

use cuda_um_testkit::without_pools;
use um_backend::{
    Buffer, CudaBackend, CudaError, UnifiedBuffer,
    cuda_um::{AccessPattern, Oversubscription, Placement, PoolOptions},
};

use crate::support::{on_each, on_each_preset};

/// Memory is reused for the next buffer, with zeros, and is freed by `trim`.
#[test]
fn memory_is_reused() {
    on_each(|machine| {
        let backend = machine.pooled();
        if !machine.has_good_managed_memory() {
            // Unified buffers have mapped memory, which the pool does not have.
            let buffer = backend.allocate_unified::<f32>(1000).unwrap();
            assert_eq!(buffer.placement().placement, Placement::Mapped);
            assert_eq!((backend.pool_stats(), backend.trim()), (None, 0));
            return;
        }
        let live = || backend.pool_stats().unwrap().live_buffers;
        let mut first = backend.allocate_unified::<f32>(1000).unwrap();
        assert!(
            first.placement().reason.contains("pool"),
            "{}",
            first.placement().reason
        );
        first.fill(1.5).unwrap();
        let clone = first.clone_empty(10).unwrap();
        assert_eq!(live(), 2, "clones use the pool too");
        let address = first.as_ptr();
        drop(first);
        let second = backend.allocate_unified::<f32>(1000).unwrap();
        assert_eq!(second.as_ptr(), address);
        assert_eq!(second.to_vec().unwrap(), [0.0; 1000]);

        // Only the general pattern uses the pool.
        let own = backend
            .allocate_unified_for::<f32>(1000, AccessPattern::DeviceResident)
            .unwrap();
        assert_eq!(own.placement().placement, Placement::Managed);
        assert_eq!(live(), 2);

        let reserved = backend.pool_stats().unwrap().reserved_bytes;
        assert!(reserved > 0);
        assert_eq!(backend.trim(), 0, "it is in use");
        drop(clone);
        second.close().unwrap();
        backend.synchronize().unwrap();
        assert_eq!(live(), 0);
        assert_eq!(backend.trim(), reserved);
        assert_eq!(backend.pool_stats().unwrap().reserved_bytes, 0);
    });
}

#[test]
fn without_a_pool_of_its_own_a_backend_has_the_default_pool() {
    on_each(|machine| {
        let backend = machine.backend();
        let buffer = backend.allocate_unified::<f32>(10).unwrap();
        let stats = backend.pool_stats();
        // Poor managed memory: the buffer is in the pool of pinned memory.
        let is_managed = backend.device().managed_memory_obstacle().is_none();
        assert_eq!(
            stats.map(|stats| stats.live_buffers),
            is_managed.then_some(1)
        );
        assert_eq!(backend.trim(), 0, "it is in use");
        drop(buffer);
        backend.synchronize().unwrap();
        assert!(backend.trim() > 0);
        assert_eq!(
            stats.is_some(),
            backend.pool_stats().is_some_and(|stats| stats.slabs == 0)
        );
    });
}

#[test]
fn without_the_default_pools_there_is_nothing_to_say() {
    on_each(|machine| {
        let backend = machine.backend();
        without_pools(backend.device());
        let _buffer = backend.allocate_unified::<f32>(10).unwrap();
        assert_eq!((backend.pool_stats(), backend.trim()), (None, 0));
    });
}

/// A buffer of a pool can outlive the backend.
#[test]
fn a_buffer_keeps_its_pool() {
    on_each(|machine| {
        machine.backend();
        let config = machine.config().unified_pool(PoolOptions::default());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        let runtime = backend.device().runtime().clone();
        let buffer = backend.allocate_unified::<u16>(77).unwrap();
        drop(backend);
        let clone = buffer.clone_empty(5).unwrap();
        assert_eq!(clone.to_vec().unwrap(), [0; 5]);
        buffer.close().unwrap();
        drop(clone);
        runtime.reclaim().unwrap();
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
            let make = |backend: &CudaBackend| -> Result<UnifiedBuffer<u8>, CudaError> {
                backend.allocate_unified(300 << 20)
            };
            let error = make(&machine.pooled()).unwrap_err();
            assert!(error.is_out_of_memory(), "{error:?}");
            let config = machine.config().unified_pool(PoolOptions::default());
            let config = config.oversubscription(Oversubscription::Allowed);
            let backend = machine.keep(CudaBackend::initialize_blocking(config).unwrap());
            assert_eq!(make(&backend).unwrap().len(), 300 << 20);
        },
    );
}
