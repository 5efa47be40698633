//! Views: parts of buffers do what whole buffers do.

use crate::views::{each_kind, everywhere};
use cuda_um::{DeviceBuffer, Location, MemoryKind, PinnedBuffer, UnifiedBuffer};

#[test]
fn views_name_their_memory() {
    for (_sim, device, _stream) in everywhere() {
        let mut buffer = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
        let id = buffer.id();
        let start = buffer.as_ptr();
        let view = buffer.view(3..5).unwrap();
        assert_eq!((view.kind(), view.buffer_id()), (MemoryKind::Device, id));
        assert_eq!(view.kind_in_words(), "device memory");
        assert_eq!(view.device().ordinal(), 0);
        assert_eq!(view.as_ptr(), start.wrapping_add(3));
        assert_eq!(view.device_ptr(), Some(view.as_ptr()));
        let text = format!("View {{ buffer: {id}, bytes: 12..20, len: 2, .. }}");
        assert_eq!(format!("{view:?}"), text);
        let both = buffer.view_mut(3..5).unwrap().in_place();
        assert!(format!("{both:?}").contains(&text));
        let pinned = PinnedBuffer::<u32>::zeroed(&device, 1).unwrap();
        assert_eq!(pinned.as_view().kind_in_words(), "pinned memory");
        let unified = UnifiedBuffer::<u32>::zeroed(&device, 1).unwrap();
        let words = unified.placement().to_string();
        assert_eq!(unified.as_view().kind_in_words(), words);
    }
}

#[test]
fn empty_views_do_nothing() {
    for (_sim, device, stream) in everywhere() {
        each_kind!(&device, &[1u8; 3], |mut buffer| {
            let mut view = buffer.view_mut(1..1).unwrap();
            view.fill_on(9, &stream).unwrap();
            view.copy_from_host(&[]).unwrap();
            view.copy_within_on(.., 0, &stream).unwrap();
            view.prefetch_on(Location::Host, &stream).ok();
            assert!(view.to_vec().unwrap().is_empty());
            // Byte 1 is not aligned for u64.
            let wide = view.cast::<u64>().unwrap();
            assert!(wide.is_empty());
            if wide.kind() != MemoryKind::Device {
                assert!(wide.into_host_mut().unwrap().is_empty());
            }
            assert_eq!(buffer.to_vec().unwrap(), [1; 3]);
        });
    }
}
