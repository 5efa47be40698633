//! Copies within one buffer.

use crate::views::{each_kind, everywhere};
use cuda_um::UnifiedBuffer;
use cuda_um_sim::Gpu;
use cuda_um_testkit::{calls, simulated};

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
