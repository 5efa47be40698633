//! Unified memory where managed memory is poor.

use um_backend::sim::Gpu;
use um_backend::{Buffer, Placement, UnifiedBacking, UnifiedBuffer};

use crate::support::kernel::Double;
use crate::support::{on_each, on_preset};
use crate::{contents, numbers};

#[test]
fn fall_back() {
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        let mut buffer = backend.allocate_unified::<f32>(5000).unwrap();
        match buffer.backing() {
            UnifiedBacking::Managed => {
                assert!(machine.has_good_managed_memory());
                assert!(buffer.as_managed().is_some() && !buffer.is_fallback());
            }
            UnifiedBacking::PinnedFallback { reason } => {
                assert!(!machine.has_good_managed_memory());
                assert!(reason.contains(backend.device().name()), "{reason}");
                assert_eq!(backend.device().unified_memory_obstacle(), Some(reason));
                assert!(buffer.as_managed().is_none() && buffer.is_fallback());
            }
            mapped @ UnifiedBacking::Mapped { .. } => panic!("nobody asked for {mapped:?}"),
        }
        // The same calls, whichever it is.
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
        assert_eq!(clone.backing(), buffer.backing());
        buffer.close().unwrap();
    });
}

/// Each call that only managed memory knows says why it was not applied.
#[test]
fn fall_back_says_so() {
    on_preset(
        Gpu::Maxwell,
        |builder| builder,
        |machine| {
            let backend = machine.backend();
            assert!(!backend.supports_unified_memory().unwrap());
            let buffer = backend.allocate_unified::<f32>(100).unwrap();
            let UnifiedBacking::PinnedFallback { reason } = buffer.backing() else {
                panic!("{:?}", buffer.backing());
            };
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
                    Placement::NotApplied { have, .. } => assert!(have.contains(&reason), "{have}"),
                    Placement::Applied => panic!("applied to pinned memory"),
                }
            }
        },
    );
}
