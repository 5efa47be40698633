//! Views: parts of buffers do what whole buffers do.

use crate::views::{each_kind, on_each_gpu};
use cuda_um::{DeviceBuffer, Location, MemoryKind, PinnedBuffer, UnifiedBuffer};
use pollster::block_on;

#[test]
fn views_name_their_memory() {
    on_each_gpu(|_, device, _| {
        let mut buffer = DeviceBuffer::<u32>::zeroed(device, 10).unwrap();
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
        let pinned = PinnedBuffer::<u32>::zeroed(device, 1).unwrap();
        assert_eq!(pinned.as_view().kind_in_words(), "pinned memory");
        let unified = UnifiedBuffer::<u32>::zeroed(device, 1).unwrap();
        let words = unified.placement().to_string();
        assert_eq!(unified.as_view().kind_in_words(), words);
    });
}

#[test]
fn empty_views_do_nothing() {
    on_each_gpu(|_, device, stream| {
        each_kind!(device, &[1u8; 3], |mut buffer| {
            let mut view = buffer.view_mut(1..1).unwrap();
            view.fill_on(9, stream).unwrap();
            view.copy_from_host(&[]).unwrap();
            view.copy_within_on(.., 0, stream).unwrap();
            view.prefetch_on(Location::Host, stream).ok();
            assert!(view.to_vec().unwrap().is_empty());
            // Byte 1 is not aligned for u64.
            let wide = view.cast::<u64>().unwrap();
            assert!(wide.is_empty());
            if wide.kind() != MemoryKind::Device {
                assert!(wide.into_host_mut().unwrap().is_empty());
            }
            assert_eq!(buffer.to_vec().unwrap(), [1; 3]);
        });
    });
}

#[test]
fn parts_are_copied_by_async_tasks() {
    on_each_gpu(|_, device, _| {
        // Longer than the pieces between which other tasks run.
        let contents: Vec<u8> = (0..5 << 20).map(|index| index as u8).collect();
        each_kind!(device, &[0; (5 << 20) + 2], |mut buffer| {
            let mut part = buffer.view_mut(1..=5 << 20).unwrap();
            block_on(part.copy_from_host_async(&contents)).unwrap();
            let mut back = vec![0; 5 << 20];
            block_on(part.copy_to_host_async(&mut back)).unwrap();
            assert!(back == contents);
            assert_eq!(buffer.read_one(0).unwrap(), 0);
            assert_eq!(buffer.read_one((5 << 20) + 1).unwrap(), 0);
        });
    });
}
