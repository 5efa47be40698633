//! Copies within one buffer.

use crate::views::{each_kind, on_each_gpu};
use cuda_um::{DeviceBuffer, UnifiedBuffer};
use cuda_um_sim::Gpu;
use cuda_um_testkit::{calls, simulated};

#[test]
fn ranges_that_overlap_are_moved_as_memmove_moves_them() {
    on_each_gpu(|_, device, stream| {
        let contents: Vec<u32> = (0..1000).collect();
        each_kind!(device, &contents, |mut buffer| {
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
                buffer.copy_within_on(range.clone(), to, stream).unwrap();
                expected.copy_within(range, to);
                assert_eq!(buffer.to_vec().unwrap(), expected);
            }
            let mut part = buffer.view_mut(100..200).unwrap();
            part.copy_within_on(..90, 10, stream).unwrap();
            expected[100..200].copy_within(..90, 10);
            assert_eq!(buffer.to_vec().unwrap(), expected);
        });
    });
}

#[test]
fn ranges_longer_than_the_memory_between_are_moved_in_pieces() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let contents: Vec<u32> = (0..5 << 20).collect();
    let mut buffer = UnifiedBuffer::from_slice(&device, &contents).unwrap();
    let before = calls(&sim, "cudaMemcpyAsync");
    buffer.copy_within_on(3.., 0, &stream).unwrap();
    assert_eq!(
        calls(&sim, "cudaMemcpyAsync") - before,
        6,
        "20 MiB through 8 MiB"
    );
    buffer.copy_within_on(..(5 << 20) - 5, 5, &stream).unwrap();
    let mut expected = contents;
    expected.copy_within(3.., 0);
    expected.copy_within(..(5 << 20) - 5, 5);
    assert!(buffer.to_vec().unwrap() == expected);
}

#[test]
fn ranges_apart_are_one_call_of_cuda() {
    let (sim, device, stream) = simulated(Gpu::H200);
    let mut buffer = DeviceBuffer::<u8>::zeroed(&device, 1000).unwrap();
    let before = calls(&sim, "cudaMemcpyAsync");
    buffer.copy_within_on(..500, 500, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemcpyAsync") - before, 1);
    buffer.copy_within_on(..800, 200, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemcpyAsync") - before, 5);
    buffer.copy_within_on(7..7, 200, &stream).unwrap();
    assert_eq!(calls(&sim, "cudaMemcpyAsync") - before, 5);
}
