//! Views: parts of buffers do what whole buffers do, a buffer as input and output, and copies within one.

use crate::views::double::Double;
use crate::views::{each_kind, everywhere};
use cuda_um::{DeviceBuffer, Location, MemoryKind, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{calls, simulated, unpooled};

#[test]
fn views_name_their_memory() {
    for (_sim, device, _stream) in everywhere() {
        let buffer = DeviceBuffer::<u32>::zeroed(&device, 10).unwrap();
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

#[test]
fn a_buffer_is_input_and_output_of_one_launch() {
    for (_sim, device, stream) in everywhere() {
        let double = Double::load(&device);
        let mut data = UnifiedBuffer::from_slice(&device, &[1u32; 300]).unwrap();
        let part = data.view_mut(100..).unwrap().in_place();
        double.launch(&stream, 200, (part, part, 200u32)).unwrap();
        double.launch(&stream, 100, (part, part, 100u32)).unwrap();
        let host = data.host().unwrap();
        assert_eq!(host[99..101], [1, 4]);
        assert_eq!(host[199..201], [4, 2]);
    }
}

/// claim 2
#[test]
fn it_is_a_write_that_later_uses_wait_for() {
    let (sim, device, stream) = unpooled(Gpu::H200);
    let other = device.create_stream().unwrap();
    let double = Double::load(&device);
    let mut data = DeviceBuffer::from_slice(&device, &[1u32; 100]).unwrap();
    let mut copy = DeviceBuffer::<u32>::zeroed(&device, 100).unwrap();
    device.synchronize().unwrap();
    let held = sim.hold(0);
    let both = data.as_view_mut().in_place();
    double.launch(&stream, 100, (both, both, 100u32)).unwrap();
    double
        .launch(&other, 100, (&data, &mut copy, 100u32))
        .unwrap();
    drop(data);
    assert_eq!(calls(&sim, "cudaFree"), 0, "in use, so not freed");
    drop(held);
    assert_eq!(copy.to_vec().unwrap(), [4; 100]);
}

#[test]
fn ranges_that_overlap_are_moved_as_memmove_moves_them() {
    for (_sim, device, stream) in everywhere() {
        let contents: Vec<u32> = (0..1000).collect();
        each_kind!(&device, &contents, |mut buffer| {
            let mut expected = contents.clone();
            for (range, to) in [
                (0..999, 1),
                (1..1000, 0),
                (0..500, 500),
                (500..1000, 0),
                (0..700, 300),
                (300..1000, 0),
                (0..990, 7),
                (13..1000, 0),
                (0..857, 143),
                (100..200, 100),
                (3..3, 900),
            ] {
                buffer.copy_within_on(range.clone(), to, &stream).unwrap();
                expected.copy_within(range, to);
                assert_eq!(buffer.to_vec().unwrap(), expected);
            }
            let mut part = buffer.view_mut(100..200).unwrap();
            part.copy_within_on(..90, 10, &stream).unwrap();
            expected[100..200].copy_within(..90, 10);
            assert_eq!(buffer.to_vec().unwrap(), expected);
        });
    }
}

#[test]
fn ranges_apart_are_one_call_of_cuda_and_others_are_moved_in_pieces() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut expected: Vec<u32> = (0..5 << 20).collect();
    let mut buffer = UnifiedBuffer::from_slice(&device, &expected).unwrap();
    const LEN: usize = 5 << 20;
    for (range, to, copies) in [
        (0..LEN / 2, LEN / 2, 1),
        (7..7, 200, 0),
        (0..LEN / 5 * 4, LEN / 5, 4),
        // 20 MiB through 8 MiB.
        (3..LEN, 0, 6),
        (0..LEN - 5, 5, 6),
    ] {
        let before = calls(&sim, "cudaMemcpyAsync");
        buffer.copy_within_on(range.clone(), to, &stream).unwrap();
        assert_eq!(calls(&sim, "cudaMemcpyAsync") - before, copies, "{range:?}");
        expected.copy_within(range, to);
    }
    assert!(buffer.to_vec().unwrap() == expected);
}
