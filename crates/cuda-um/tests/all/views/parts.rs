//! Views: parts of buffers do what whole buffers do.

use crate::views::{each_kind, on_each_gpu};
use cuda_um::{
    Advice, DeviceBuffer, ErrorKind, Location, MemoryKind, PinnedBuffer, Placement, PrefetchBatch,
    UnifiedBuffer, UnifiedOptions, ViewMut,
};
use cuda_um_testkit::is_concurrent;
use pollster::block_on;

/// Copies, fills, splits and casts of one buffer, whose contents are 0, 1, …, 99.
fn parts(mut all: ViewMut<'_, u32>) {
    let stream = all.device().create_stream().unwrap();
    let mut expected: Vec<u32> = (0..100).collect();
    all.copy_from_host(&expected).unwrap();
    let (mut first, mut second) = all.reborrow().split_at(40).unwrap();
    assert_eq!((first.len(), second.len()), (40, 60));
    first
        .slice_mut(10..20)
        .unwrap()
        .fill_on(7, &stream)
        .unwrap();
    expected[10..20].fill(7);
    second.copy_from_host_at(5, &[8; 3]).unwrap();
    expected[45..48].fill(8);
    stream
        .copy(
            &first.as_view().slice(..5).unwrap(),
            &mut second.slice_mut(55..).unwrap(),
        )
        .unwrap();
    expected.copy_within(..5, 95);
    second.write_one(0, 9).unwrap();
    expected[40] = 9;
    second.slice_mut(1..3).unwrap().fill_on(0, &stream).unwrap();
    expected[41..43].fill(0);
    second
        .slice_mut(20..30)
        .unwrap()
        .host_overwrite(2.., |at, slots| slots.fill_with(|i| (at + i) as u32))
        .unwrap();
    for (at, element) in expected[62..70].iter_mut().enumerate() {
        *element = at as u32 + 2;
    }
    assert_eq!(second.read_one(5).unwrap(), 8);
    assert_eq!(first.to_vec().unwrap(), expected[..40]);
    assert_eq!(second.to_vec().unwrap(), expected[40..]);
    let view = all.into_view();
    let (a, b) = view.split_at(99).unwrap();
    assert_eq!((a.size_bytes(), b.size_bytes()), (396, 4));
    let halves = view.slice(1..).unwrap().cast::<u16>().unwrap();
    assert_eq!(halves.slice(..4).unwrap().to_vec().unwrap(), [1, 0, 2, 0]);
    if view.kind() == MemoryKind::Device {
        let error = view.host().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported, "{error}");
    } else {
        let bytes = b.cast::<u8>().unwrap();
        assert_eq!(bytes.host().unwrap().len(), 4);
        assert_eq!(view.try_host().unwrap()[..], expected);
    }
}

#[test]
fn a_part_of_each_kind_does_what_the_whole_does() {
    on_each_gpu(|_, device, _| {
        each_kind!(device, &[0; 100], |mut buffer| parts(buffer.as_view_mut()));
        let mapped = UnifiedOptions::default().placement(Placement::Mapped);
        if let Ok(mut mapped) = UnifiedBuffer::zeroed_with(device, 100, mapped) {
            parts(mapped.as_view_mut());
        }
    });
}

#[test]
fn views_name_their_memory() {
    on_each_gpu(|_, device, _| {
        let mut buffer = DeviceBuffer::<u32>::zeroed(device, 10).unwrap();
        let id = buffer.id();
        let start = buffer.as_device_ptr();
        let view = buffer.view(3..5).unwrap();
        assert_eq!((view.kind(), view.buffer_id()), (MemoryKind::Device, id));
        assert_eq!(view.kind_in_words(), "device memory");
        assert_eq!(view.device().ordinal(), 0);
        assert_eq!(view.as_ptr(), start.wrapping_add(3));
        assert_eq!(view.device_ptr(), Some(view.as_ptr()));
        let text = format!("View {{ buffer: {id}, bytes: 12..20, len: 2, .. }}");
        assert_eq!(format!("{view:?}"), text);
        let both = buffer.view_mut(3..5).unwrap().in_place();
        assert_eq!(format!("{both:?}"), format!("InPlace({text})"));
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
fn prefetch_and_advice_reach_the_part() {
    let (_sim, device, stream) = cuda_um_testkit::device();
    if !is_concurrent(&device) {
        return;
    }
    // Blocks of 2 MiB, so that the residency of each is known.
    let elements = 2 << 20;
    let mut data = UnifiedBuffer::<u8>::zeroed(&device, 4 * elements).unwrap();
    let part = data.view_mut(elements..3 * elements).unwrap();
    part.prefetch_on(Location::Host, &stream).unwrap();
    part.advise(Advice::SetReadMostly).unwrap();
    let all = data.range_attributes().unwrap();
    assert!(!all.read_mostly && all.last_prefetch != Some(Location::Host));
    for rest in [0..elements, 3 * elements..4 * elements] {
        let rest = data.view_mut(rest).unwrap();
        rest.prefetch_on(Location::Host, &stream).unwrap();
        rest.advise(Advice::SetReadMostly).unwrap();
    }
    let all = data.range_attributes().unwrap();
    assert!(all.read_mostly && all.last_prefetch == Some(Location::Host));
    let mut batch = PrefetchBatch::new();
    let part = data.view(elements..3 * elements).unwrap();
    batch.add(part).add(part);
    assert_eq!(batch.len(), 2);
    batch.add(data.view(..elements).unwrap());
    batch.prefetch_on(Location::from(&device), &stream).unwrap();
    assert_eq!(data.range_attributes().unwrap().last_prefetch, None);
    let mut batch = PrefetchBatch::new();
    batch.add(data.view(3 * elements..).unwrap());
    batch.prefetch_on(Location::from(&device), &stream).unwrap();
    let last = data.range_attributes().unwrap().last_prefetch;
    assert_eq!(last, Some(Location::from(&device)));
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
