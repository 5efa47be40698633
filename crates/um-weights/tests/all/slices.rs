//! Slices for tensor parallelism: what they hold, and what they read.

use std::sync::atomic::Ordering;

use proptest::prelude::*;
use um_backend::BufferKind;
use um_backend::sim::Gpu;
use um_weights::{Error, LoadOptions};

use crate::support::{Storage, backend, byte, bytes_of, machine, safetensors};

#[test]
fn one_of_eight_ranks_reads_an_eighth_of_the_bytes() {
    let file = safetensors(&[
        ("rows", "F32", &[64, 500], 128_000),
        ("columns", "BF16", &[500, 64], 64_000),
        ("cube", "U8", &[10, 24, 30], 7200),
    ]);
    for dimension in [0, 1] {
        for kind in [BufferKind::Cuda, BufferKind::Unified, BufferKind::Host] {
            let (storage, weights) = Storage::of(file.clone()).open();
            let weights = weights.unwrap();
            let (_sim, backend) = machine(Gpu::H200);
            let header = storage.read.load(Ordering::Relaxed);
            let mut all = [Vec::new(), Vec::new(), Vec::new()];
            for rank in 0..8 {
                let options = LoadOptions::default().slices(move |info| {
                    let dimension = match info.name() {
                        "rows" => 0,
                        "columns" => 1,
                        _ => return (dimension == 1).then(|| (1, rank * 3..(rank + 1) * 3)),
                    };
                    let part = info.shape()[dimension] / 8;
                    Some((dimension, rank * part..(rank + 1) * part))
                });
                let options = match dimension {
                    0 => options.only(|name| name != "cube"),
                    _ => options,
                };
                let before = storage.read.load(Ordering::Relaxed);
                let tensors = weights.load(&backend, kind, &options).unwrap();
                let bytes: usize = tensors
                    .values()
                    .map(|tensor| tensor.buffer().size_bytes())
                    .sum();
                assert_eq!(storage.read.load(Ordering::Relaxed) - before, bytes as u64);
                let whole = 192_000 + 7200 * dimension;
                assert_eq!(bytes, whole / 8);
                assert_eq!(tensors["rows"].shape(), [8, 500]);
                assert_eq!(tensors["columns"].shape(), [500, 8]);
                for (name, parts) in ["rows", "columns", "cube"].iter().zip(&mut all) {
                    parts.extend(tensors.get(*name).map(bytes_of));
                }
            }
            let whole = |tensor: usize, bytes: usize| -> Vec<u8> {
                (0..bytes).map(|at| byte(tensor, at)).collect()
            };
            assert!(all[0].concat() == whole(0, 128_000));
            // Row by row, a piece of each rank.
            let join = |parts: &[Vec<u8>], row: usize, rows: usize| -> Vec<u8> {
                let rows = 0..rows;
                rows.flat_map(|number| {
                    parts
                        .iter()
                        .flat_map(move |part| part[number * row..(number + 1) * row].to_vec())
                })
                .collect()
            };
            assert!(join(&all[1], 16, 500) == whole(1, 64_000));
            if dimension == 1 {
                assert!(join(&all[2], 3 * 30, 10) == whole(2, 7200));
            }
            assert!(header < file.len() as u64);
        }
    }
}

#[test]
fn wrong_slices_are_refused_before_a_byte_is_read() {
    let file = safetensors(&[("a", "F32", &[4, 6], 96), ("packed", "F4", &[3, 4], 6)]);
    let (storage, weights) = Storage::of(file).open();
    let (weights, backend) = (weights.unwrap(), backend());
    let before = storage.read.load(Ordering::Relaxed);
    #[allow(clippy::reversed_empty_ranges, reason = "one of the wrong slices")]
    for (name, dimension, range, reason) in [
        ("a", 2, 0..1, "it has 2 dimensions"),
        ("a", 1, 0..7, "the dimension has 6 elements"),
        ("a", 0, 3..2, "the dimension has 4 elements"),
        ("packed", 1, 0..1, "blocks of F4 have 2 elements"),
    ] {
        let slice = range.clone();
        let options = LoadOptions::default()
            .slices(move |info| (info.name() == name).then(|| (dimension, slice.clone())));
        let error = weights
            .load(&backend, BufferKind::Cuda, &options)
            .unwrap_err();
        assert!(
            matches!(&error, Error::Refused { tensor, reason: found } if tensor == name && found.ends_with(reason)),
            "{error}"
        );
        assert!(
            weights
                .load_each(&backend, BufferKind::Cuda, &options)
                .is_err()
        );
    }
    assert_eq!(storage.read.load(Ordering::Relaxed), before);
    // Whole bytes of a packed type, and nothing at all.
    let options = LoadOptions::default().slices(|info| match info.name() {
        "packed" => Some((1, 2..4)),
        _ => Some((1, 3..3)),
    });
    let tensors = weights.load(&backend, BufferKind::Cuda, &options).unwrap();
    assert_eq!(
        bytes_of(&tensors["packed"]),
        [1, 3, 5].map(|at| byte(1, at))
    );
    assert_eq!(
        (tensors["a"].shape(), tensors["a"].buffer().len()),
        (&[4, 0][..], 0)
    );
}

#[test]
fn a_dimension_of_any_number_is_an_error() {
    let (_storage, weights) = Storage::of(safetensors(&[("t", "U8", &[3], 3)])).open();
    let weights = weights.unwrap();
    for dimension in [1, usize::MAX] {
        let options = LoadOptions::default().slices(move |_| Some((dimension, 0..1)));
        let error = weights
            .load(&backend(), BufferKind::Host, &options)
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("it has 1 dimensions"), "{text}");
    }
}

proptest! {
    #[test]
    fn a_slice_is_what_indexing_says(
        shape in proptest::collection::vec(1usize..6, 1..4),
        width in 0usize..3,
        choice in any::<[u16; 3]>(),
    ) {
        let (dtype, width) = [("U8", 1), ("BF16", 2), ("F64", 8)][width];
        let elements: usize = shape.iter().product();
        let file = safetensors(&[("pad", "U8", &[3], 3), ("t", dtype, &shape, elements * width)]);
        let (_storage, weights) = Storage::of(file).open();
        let dimension = usize::from(choice[0]) % shape.len();
        let len = shape[dimension];
        let start = usize::from(choice[1]) % (len + 1);
        let end = start + usize::from(choice[2]) % (len - start + 1);
        let options = LoadOptions::default()
            .slices(move |info| (info.name() == "t").then_some((dimension, start..end)));
        let tensors = weights.unwrap().load(&backend(), BufferKind::Cuda, &options).unwrap();
        let inner: usize = shape[dimension + 1..].iter().product();
        let right: Vec<u8> = (0..elements)
            .filter(|element| (start..end).contains(&(element / inner % len)))
            .flat_map(|element| (0..width).map(move |at| byte(1, element * width + at)))
            .collect();
        prop_assert_eq!(bytes_of(&tensors["t"]), right);
        prop_assert_eq!(tensors["t"].shape()[dimension], end - start);
        prop_assert_eq!(bytes_of(&tensors["pad"]), [0, 1, 2].map(|at| byte(0, at)));
    }
}
