//! How much faster a filter in fewer bits could be on a processor: products of rows in f32, bf16 and int8, each in the same blocked
//! loop, and the conversion of the targets, which a single call needs first.
//!
//! rustc -O -C target-cpu=native benches/experiments/cpu_filter.rs && ./cpu_filter

#[cfg(not(target_arch = "x86_64"))]
fn main() {}

#[cfg(target_arch = "x86_64")]
fn main() {
    use std::is_x86_feature_detected as has;
    if !(has!("avx512f") && has!("avx512vnni") && has!("avx512bf16")) {
        return println!("this processor has no AVX-512 with VNNI and bf16");
    }
    println!("{} queries x {} targets x {}, {THREADS:?} threads; GMAC/s, median of {ROUNDS}", QUERIES, TARGETS, DIM);
    for threads in THREADS {
        let rate = |what: fn(usize)| QUERIES as f64 * TARGETS as f64 * DIM as f64 / seconds(threads, what) / 1e9;
        println!("{threads} threads: f32 {:.0}, bf16 {:.0}, int8 {:.0}", rate(f32_rows), rate(bf16_rows), rate(int8_rows));
        let bytes = TARGETS as f64 * DIM as f64 * 4.0;
        println!("{threads} threads: conversion of the targets to int8 {:.1} GB/s", bytes / seconds(threads, convert) / 1e9);
    }
}

const QUERIES: usize = 996;
const TARGETS: usize = 4096;
const DIM: usize = 768;
const ROUNDS: usize = 9;
const THREADS: [usize; 2] = [1, 2];
/// Queries, and vectors of 16 targets, of a block: their sums are in registers.
const Q: usize = 6;
const T: usize = 4;

/// Median seconds of `work` for each thread's share of the targets.
#[cfg(target_arch = "x86_64")]
fn seconds(threads: usize, work: fn(usize)) -> f64 {
    let mut taken: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = std::time::Instant::now();
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| work(TARGETS / threads));
                }
            });
            start.elapsed().as_secs_f64()
        })
        .collect();
    taken.sort_by(f64::total_cmp);
    taken[ROUNDS / 2]
}

#[cfg(target_arch = "x86_64")]
macro_rules! rows {
    ($name:ident, $inside:ident, $feature:literal, $per:literal, $zero:ident, $set:ident, $step:expr) => {
        fn $name(targets: usize) {
            // Packed: the elements of 16 targets beside each other, 4 bytes of each.
            let steps = DIM / $per;
            let packed = vec![0x3c003c00u32; targets * steps];
            let queries = vec![0x3c003c00u32; QUERIES * steps];
            // SAFETY: `main` has checked that the processor has the instructions.
            unsafe { $inside(&packed, &queries, targets, steps) };
        }

        #[target_feature(enable = $feature)]
        fn $inside(packed: &[u32], queries: &[u32], targets: usize, steps: usize) {
            use std::arch::x86_64::*;
            // Blocks of queries stay in the second-level cache, blocks of targets in the first.
            for panel in packed.chunks_exact(16 * T * steps) {
                for rows in queries.chunks_exact(Q * steps) {
                    let mut sums = [[$zero(); T]; Q];
                    for at in 0..steps {
                        let mut loaded = [$zero(); T];
                        for (t, loaded) in loaded.iter_mut().enumerate() {
                            let from = &panel[(at * T + t) * 16..][..16];
                            // SAFETY: 16 numbers of 4 bytes are read.
                            *loaded = unsafe { std::ptr::read_unaligned(from.as_ptr().cast()) };
                        }
                        for (q, sums) in sums.iter_mut().enumerate() {
                            let query = $set(rows[q * steps + at]);
                            for (sum, target) in sums.iter_mut().zip(loaded) {
                                *sum = $step(*sum, query, target);
                            }
                        }
                    }
                    std::hint::black_box(&sums);
                }
            }
            std::hint::black_box(targets);
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod with {
    use std::arch::x86_64::*;
    #[target_feature(enable = "avx512f")]
    pub fn f32_set(bits: u32) -> __m512 {
        _mm512_set1_ps(f32::from_bits(bits))
    }
    #[target_feature(enable = "avx512f")]
    pub fn f32_step(sum: __m512, q: __m512, t: __m512) -> __m512 {
        _mm512_fmadd_ps(q, t, sum)
    }
    #[target_feature(enable = "avx512f,avx512bf16")]
    pub fn bf16_step(sum: __m512, q: __m512, t: __m512) -> __m512 {
        // SAFETY: the same 64 bytes.
        unsafe { _mm512_dpbf16_ps(sum, std::mem::transmute(q), std::mem::transmute(t)) }
    }
    #[target_feature(enable = "avx512f")]
    pub fn int8_set(bits: u32) -> __m512i {
        _mm512_set1_epi32(bits as i32)
    }
    #[target_feature(enable = "avx512f,avx512vnni")]
    pub fn int8_step(sum: __m512i, q: __m512i, t: __m512i) -> __m512i {
        _mm512_dpbusd_epi32(sum, q, t)
    }
}
#[cfg(target_arch = "x86_64")]
use with::*;

#[cfg(target_arch = "x86_64")]
rows!(f32_rows, f32_inside, "avx512f", 1, _mm512_setzero_ps, f32_set, f32_step);
#[cfg(target_arch = "x86_64")]
rows!(bf16_rows, bf16_inside, "avx512f,avx512bf16", 2, _mm512_setzero_ps, f32_set, bf16_step);
#[cfg(target_arch = "x86_64")]
rows!(int8_rows, int8_inside, "avx512f,avx512vnni", 4, _mm512_setzero_si512, int8_set, int8_step);

/// The largest element, the scaled rows in 8 bits, and the sum of the squared errors.
#[cfg(target_arch = "x86_64")]
fn convert(targets: usize) {
    let rows = vec![0.03f32; targets.min(256) * DIM];
    let mut narrow = vec![0i8; DIM];
    for row in 0..targets {
        let row = &rows[row % 256 * DIM..][..DIM];
        let mut lanes = [0.0f32; 16];
        for part in row.chunks_exact(16) {
            for (lane, value) in lanes.iter_mut().zip(part) {
                *lane = lane.max(value.abs());
            }
        }
        let scale = 127.0 / lanes.iter().fold(0.0f32, |a, b| a.max(*b));
        let mut errors = [0.0f32; 16];
        for (part, narrow) in row.chunks_exact(16).zip(narrow.chunks_exact_mut(16)) {
            for ((value, narrow), error) in part.iter().zip(narrow).zip(&mut errors) {
                let scaled = value * scale;
                let rounded = scaled.round_ties_even();
                *narrow = rounded as i8;
                *error += (scaled - rounded) * (scaled - rounded);
            }
        }
        std::hint::black_box((&narrow, errors));
    }
}
