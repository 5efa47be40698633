//! The memory of a buffer, by pattern, placement and pool, and its reason.

use cuda_um_testkit::without_pools;

use um_backend::sim::Gpu;
use um_backend::{
    Advice, CudaBackend, HintOutcome, Location, UnifiedBuffer,
    cuda_um::{
        AccessPattern, MemoryKind, Oversubscription, Placement, PoolOptions, UnifiedOptions,
    },
};

use crate::support::{on_each, on_each_preset, on_preset};

#[test]
fn a_small_result_is_mapped() {
    on_preset(
        Gpu::H200,
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            let scores = backend.allocate_unified_for::<f32>(1000, AccessPattern::ReadBack);
            let scores = scores.unwrap();
            let placed = scores.placement();
            let found = (placed.placement, placed.pattern);
            assert_eq!(found, (Placement::Mapped, AccessPattern::ReadBack));
            // Mapped memory does not migrate, and the outcome has that reason.
            let stream = backend.device().stream();
            match scores.prefetch_on(Location::Host, stream).unwrap() {
                HintOutcome::NotApplied { have, .. } => assert_eq!(have, placed.to_string()),
                other => panic!("{other} to mapped memory"),
            }
            let weights = backend.allocate_unified_for::<f32>(1000, AccessPattern::ReadMostly);
            let weights = weights.unwrap();
            let placed = weights.placement();
            let found = (placed.placement, placed.advice);
            assert_eq!(found, (Placement::Managed, Some(Advice::SetReadMostly)));
            assert!(weights.range_attributes().unwrap().read_mostly);
        },
    );
}

/// A requested placement is granted, even if managed memory is poor. Otherwise poor managed memory is not used.
#[test]
fn what_is_asked_for_is_given() {
    on_each(|machine| {
        let device = machine.backend().device().clone();
        let make = |placement| {
            let options = UnifiedOptions::default().placement(placement);
            let made = UnifiedBuffer::<u8>::zeroed_with(&device, 100, options);
            made.unwrap().placement()
        };
        for placement in [Placement::Managed, Placement::Mapped] {
            let placed = make(placement);
            let found = (placed.placement, &*placed.reason);
            assert_eq!(found, (placement, "as asked for"));
        }
        let auto = make(Placement::Auto);
        match device.managed_memory_obstacle() {
            Some(obstacle) => assert_eq!(auto.reason, format!("since {obstacle}")),
            None => assert_eq!(auto.placement, Placement::Managed),
        }
    });
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
            assert_eq!(
                (backend.pool_stats_of(MemoryKind::Managed), backend.trim()),
                (None, 0)
            );
            return;
        }
        let live = || {
            backend
                .pool_stats_of(MemoryKind::Managed)
                .unwrap()
                .live_buffers
        };
        assert!(buffer.placement().reason.contains("pool"));
        let own = backend.allocate_unified_for::<f32>(1000, AccessPattern::DeviceResident);
        let own = own.unwrap();
        assert_eq!(own.placement().placement, Placement::Managed);
        assert_eq!((live(), backend.trim()), (1, 0), "it is in use");
        drop(buffer);
        backend.synchronize().unwrap();
        let reserved = backend
            .pool_stats_of(MemoryKind::Managed)
            .unwrap()
            .reserved_bytes;
        assert_eq!((live(), backend.trim()), (0, reserved));
    });
    on_each(|machine| {
        let backend = machine.backend();
        let buffer = backend.allocate_unified::<f32>(10).unwrap();
        // Poor managed memory: the buffer is in the default pool of pinned memory.
        let is_managed = backend.device().managed_memory_obstacle().is_none();
        let stats = backend
            .pool_stats_of(MemoryKind::Managed)
            .map(|stats| stats.live_buffers);
        assert_eq!(stats, is_managed.then_some(1));
        drop(buffer);
        backend.synchronize().unwrap();
        assert!(backend.trim() > 0);
    });
    on_each(|machine| {
        let backend = machine.backend();
        without_pools(backend.device());
        let _buffer = backend.allocate_unified::<f32>(10).unwrap();
        assert_eq!(
            (backend.pool_stats_of(MemoryKind::Managed), backend.trim()),
            (None, 0)
        );
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
