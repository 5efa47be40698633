//! The memory of a buffer for each pattern and placement, and its reason.

use um_backend::sim::Gpu;
use um_backend::{
    Advice, Buffer, DType, HintOutcome, Location, UnifiedBuffer,
    cuda_um::{AccessPattern, Placement, UnifiedOptions},
    memory::BufferMemory,
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
            let placed = scores.placement();
            assert_eq!(placed.placement, Placement::Mapped);
            assert_eq!(placed.pattern, AccessPattern::ReadBack);
            assert!(placed.reason.contains("over the link"), "{placed}");
            // Mapped memory does not migrate, and the outcome has that reason.
            let stream = backend.device().stream();
            match scores.prefetch_on(Location::Host, stream).unwrap() {
                HintOutcome::NotApplied { have, .. } => assert_eq!(have, placed.to_string()),
                other => panic!("{other} to mapped memory"),
            }
            let pattern = AccessPattern::ReadBack;
            let erased = backend
                .create_erased_for(pattern, DType::F32, 1000)
                .unwrap();
            let view = erased.view::<f32>().unwrap();
            assert_eq!(view.placement().as_ref(), Some(&placed));
            let clone = scores.clone_empty(1000).unwrap();
            let clone = clone.as_any().downcast_ref::<UnifiedBuffer<f32>>().unwrap();
            assert_eq!(clone.placement(), placed);

            let weights = backend
                .allocate_unified_for::<f32>(1000, AccessPattern::ReadMostly)
                .unwrap();
            assert_eq!(weights.placement().placement, Placement::Managed);
            assert_eq!(weights.placement().advice, Some(Advice::SetReadMostly));
            let held = weights.range_attributes().unwrap();
            assert!(held.read_mostly);
        },
    );
}

/// Kernels and the host use the memory of each pattern in the same way.
#[test]
fn every_pattern_works_in_place() {
    use AccessPattern::*;
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        for pattern in [General, ReadMostly, DeviceResident, ReadBack, StreamOnce] {
            let mut buffer = backend.allocate_unified_for(5000, pattern).unwrap();
            assert_eq!(buffer.placement().pattern, pattern);
            buffer.copy_from_host(&[1.5; 5000]).unwrap();
            double.launch(backend.device(), &mut buffer).unwrap();
            assert_eq!(buffer.to_vec().unwrap(), [3.0; 5000], "{pattern:?}");
            if let Some(obstacle) = backend.device().managed_memory_obstacle() {
                assert_eq!(buffer.placement().placement, Placement::Mapped);
                assert_eq!(buffer.placement().reason, format!("since {obstacle}"));
            }
        }
    });
}

/// A requested placement is granted, even if managed memory is poor. Otherwise poor managed memory is not used.
#[test]
fn what_is_asked_for_is_given() {
    on_each(|machine| {
        let device = machine.backend().device().clone();
        let make = |placement| {
            let options = UnifiedOptions::default().placement(placement);
            UnifiedBuffer::<u8>::zeroed_with(&device, 100, options).unwrap()
        };
        for placement in [Placement::Managed, Placement::Mapped] {
            let buffer = make(placement);
            assert_eq!(buffer.placement().placement, placement);
            assert_eq!(buffer.placement().reason, "as asked for");
            let BufferMemory::Cuda(memory) = buffer.memory() else {
                panic!("{:?}", buffer.memory());
            };
            assert_eq!(memory.len(), 100);
        }
        let auto = make(Placement::Auto);
        match device.managed_memory_obstacle() {
            Some(obstacle) => assert_eq!(auto.placement().reason, format!("since {obstacle}")),
            None => assert_eq!(auto.placement().placement, Placement::Managed),
        }
    });
}
