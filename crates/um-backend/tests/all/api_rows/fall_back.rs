//! Unified memory on a device whose managed memory is poor.

use um_backend::sim::Gpu;
use um_backend::{Buffer, HintOutcome, UnifiedBuffer, cuda_um::Placement};

use super::{contents, numbers};
use crate::support::kernel::Double;
use crate::support::{on_each, on_preset};

#[test]
fn fall_back() {
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        let mut buffer = backend.allocate_unified::<f32>(5000).unwrap();
        let placed = buffer.placement();
        if machine.has_good_managed_memory() {
            assert_eq!(placed.placement, Placement::Managed);
        } else {
            assert_eq!(placed.placement, Placement::Mapped);
            let obstacle = backend.device().managed_memory_obstacle().unwrap();
            assert!(obstacle.contains(backend.device().name()), "{obstacle}");
            assert_eq!(placed.reason, format!("since {obstacle}"));
        }
        // The same calls for either memory.
        assert_eq!(contents(&buffer), vec![0.0; 5000]);
        buffer.copy_from_host(&numbers(5000)).unwrap();
        buffer.as_slice_mut().unwrap()[0] = 21.0;
        buffer.prefetch_to_device(None).unwrap();
        double.launch(backend.device(), &mut buffer).unwrap();
        buffer.prefetch_to_host().unwrap();
        let mut expected: Vec<f32> = numbers(5000).iter().map(|value| value * 2.0).collect();
        expected[0] = 42.0;
        assert_eq!(buffer.as_slice().unwrap()[..], expected);
        let clone = buffer.clone_empty(3).unwrap();
        let clone = clone.as_any().downcast_ref::<UnifiedBuffer<f32>>().unwrap();
        assert_eq!(clone.placement(), buffer.placement());
        buffer.close().unwrap();
    });
}

/// The outcome of each call for managed memory has the reason why it was not applied.
#[test]
fn fall_back_says_so() {
    on_preset(
        Gpu::Maxwell,
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            assert!(!backend.supports_unified_memory().unwrap());
            let buffer = backend.allocate_unified::<f32>(100).unwrap();
            let reason = buffer.placement().reason;
            assert!(reason.contains("5.2") && reason.contains("6.0"), "{reason}");
            let answers = [
                buffer.prefetch_to_host(),
                buffer.prefetch_to_device(None),
                buffer.set_accessed_by(0),
                buffer.unset_accessed_by(0),
                buffer.set_preferred_location(0),
                buffer.unset_preferred_location(),
                buffer.set_read_mostly(),
                buffer.unset_read_mostly(),
            ];
            for answer in answers {
                match answer.unwrap() {
                    HintOutcome::NotApplied { have, .. } => {
                        assert!(have.contains(&reason), "{have}")
                    }
                    other => panic!("{other} to pinned memory"),
                }
            }
        },
    );
}
