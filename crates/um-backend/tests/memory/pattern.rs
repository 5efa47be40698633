//! A pattern or a placement decides what memory a buffer has, and the buffer says why.

use std::sync::Arc;

use cuda_um::Advice;
use um_backend::sim::Gpu;
use um_backend::{
    AccessPattern, Buffer, BufferMemory, CudaError, DType, MemoryPlacement, Placement,
    UnifiedBacking, UnifiedBuffer, UnifiedOptions,
};

use crate::support::kernel::Double;
use crate::support::{on_each, on_preset};

#[test]
fn a_small_result_is_mapped() {
    on_preset(
        Gpu::H200,
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            let scores = backend
                .allocate_unified_for::<f32>(1000, AccessPattern::ReadBack)
                .unwrap();
            let placed = scores.placed();
            assert_eq!(placed.placement, MemoryPlacement::Mapped);
            assert_eq!(placed.pattern, AccessPattern::ReadBack);
            assert!(placed.reason.contains("cost model"), "{placed}");
            assert!(!scores.is_fallback() && scores.as_managed().is_none());
            let reason = placed.reason.clone();
            assert_eq!(scores.backing(), UnifiedBacking::Mapped { reason });
            // Mapped memory does not migrate, and the answer says that it is mapped.
            match scores.prefetch_to_host().unwrap() {
                Placement::NotApplied { have, .. } => assert_eq!(have, placed.to_string()),
                Placement::Applied => panic!("applied to mapped memory"),
            }
            let clone = scores.clone_empty(1000).unwrap();
            let clone = clone.as_any().downcast_ref::<UnifiedBuffer<f32>>().unwrap();
            assert_eq!(clone.placed(), placed);

            let weights = backend
                .allocate_unified_for::<f32>(1000, AccessPattern::ReadMostly)
                .unwrap();
            assert_eq!(weights.placed().placement, MemoryPlacement::Managed);
            assert_eq!(weights.placed().advice, Some(Advice::SetReadMostly));
            let held = weights.as_managed().unwrap().range_attributes().unwrap();
            assert!(held.read_mostly);
        },
    );
}

/// Kernels and the host use each pattern's memory alike.
#[test]
fn every_pattern_works_in_place() {
    use AccessPattern::*;
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        for pattern in [General, ReadMostly, DeviceResident, ReadBack, StreamOnce] {
            let mut buffer = backend.allocate_unified_for(5000, pattern).unwrap();
            assert_eq!(buffer.placed().pattern, pattern);
            buffer.copy_from_host(&[1.5; 5000]).unwrap();
            double.launch(backend.device(), &mut buffer).unwrap();
            assert_eq!(buffer.read_back().unwrap(), [3.0; 5000], "{pattern:?}");
            let poor = !machine.has_good_managed_memory();
            assert_eq!(buffer.is_fallback(), poor, "{pattern:?}");
        }
    });
}

/// Who asks for a placement gets it, also where managed memory is poor; nobody else does there.
#[test]
fn what_is_asked_for_is_given() {
    on_each(|machine| {
        let device = machine.backend().device().clone();
        let make = |placement| {
            let options = UnifiedOptions::default().placement(placement);
            let device = Arc::clone(&device);
            UnifiedBuffer::<u8>::with_options(device, 100, DType::U8, options).unwrap()
        };
        for placement in [MemoryPlacement::Managed, MemoryPlacement::Mapped] {
            let buffer = make(placement);
            assert_eq!(buffer.placed().placement, placement);
            assert_eq!(buffer.placed().reason, "as asked for");
            assert!(!buffer.is_fallback());
            let managed = placement == MemoryPlacement::Managed;
            assert_eq!(buffer.backing() == UnifiedBacking::Managed, managed);
            assert_eq!(buffer.as_managed().is_some(), managed);
            let BufferMemory::Unified(memory) = buffer.memory() else {
                panic!("{:?}", buffer.memory());
            };
            assert_eq!(memory.len(), 100);
        }
        let auto = make(MemoryPlacement::Auto);
        match device.unified_memory_obstacle() {
            Some(obstacle) => assert_eq!(auto.placed().reason, format!("since {obstacle}")),
            None => assert_eq!(auto.backing(), UnifiedBacking::Managed),
        }
    });
}

#[test]
fn options_do_not_change_the_checks() {
    on_each(|machine| {
        let device = machine.backend().device().clone();
        for placement in [MemoryPlacement::Auto, MemoryPlacement::Mapped] {
            let options = UnifiedOptions::default().placement(placement);
            let device = || Arc::clone(&device);
            let make = |len, dtype| {
                UnifiedBuffer::<f64>::with_options(device(), len, dtype, options).unwrap_err()
            };
            let error = make(1, DType::F32);
            assert!(
                matches!(error, CudaError::DTypeMismatch { .. }),
                "{error:?}"
            );
            let error = make(usize::MAX, DType::F64);
            assert!(matches!(error, CudaError::TooLarge { .. }), "{error:?}");
        }
    });
}
