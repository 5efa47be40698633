//! Searches on the CPU without and with the filter, in turn in one run: wall-clock time, and the CPU time of the process (all
//! threads, Linux). The lists must be bit-identical.
//!
//! `cargo run --release -p um-kernels --example cpu_targets QUERIES TARGETS [ROUNDS]`

use std::time::Instant;
use um_kernels::{CpuTargets, Filter, SearchCounts};

const DIM: usize = 768;
const K: usize = 10;

fn main() {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .map(|word| word.parse().expect("QUERIES TARGETS [ROUNDS] are numbers"))
        .collect();
    let &[queries, targets, ref rest @ ..] = &numbers[..] else {
        panic!("QUERIES TARGETS [ROUNDS]");
    };
    let rounds = rest.first().copied().unwrap_or(11);
    let (queries, targets) = (noise(1, queries * DIM), noise(2, targets * DIM));
    let parts = [
        "norms",
        "search",
        "norms and conversion",
        "search with the filter",
    ];
    let mut times: [Vec<[f64; 2]>; 4] = Default::default();
    let mut counts = SearchCounts::default();
    for _ in 0..rounds {
        let mut lists = Vec::new();
        for (side, filter) in [Filter::Off, Filter::Int8].into_iter().enumerate() {
            let places = queries.len() / DIM * K;
            let (mut scores, mut indices) = (vec![0.0f32; places], vec![0; places]);
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let prepared = CpuTargets::new(&targets[..], DIM, filter, queries.len() / DIM);
            let (middle, cpu_middle) = (Instant::now(), cpu_seconds());
            counts = prepared.search(&queries, K, &mut scores, &mut indices);
            let (end, cpu_end) = (Instant::now(), cpu_seconds());
            let conversion = (middle - start).as_secs_f64();
            times[2 * side].push([conversion, cpu_middle - cpu]);
            times[2 * side + 1].push([(end - middle).as_secs_f64(), cpu_end - cpu_middle]);
            let bits: Vec<u32> = scores.iter().map(|score| score.to_bits()).collect();
            lists.push((bits, indices));
        }
        assert!(lists[0] == lists[1], "the lists differ");
    }
    let (q, t) = (queries.len() / DIM, targets.len() / DIM);
    println!(
        "{q} x {t} x {DIM}, top {K}, random rows, {} threads, {rounds} rounds",
        rayon::current_num_threads()
    );
    for (part, times) in parts.iter().zip(&mut times) {
        // CPU time has a resolution of 10 ms; wall-clock time depends on other work.
        let cpu = times.iter().map(|time| time[1]).sum::<f64>() / rounds as f64;
        times.sort_by(|a, b| a[0].total_cmp(&b[0]));
        let [low, median, high] =
            [rounds / 4, rounds / 2, rounds * 3 / 4].map(|at| times[at][0] * 1e3);
        println!(
            "{part:24} {median:9.2} ms (quartiles {low:.2} to {high:.2}), CPU time, mean {:9.2} ms",
            cpu * 1e3
        );
    }
    let each = |count: u64| count as f64 / q as f64;
    println!(
        "candidates, scores and fallbacks a query: {:.1}, {:.1}, {:.3}\n",
        each(counts.candidates),
        each(counts.rescored),
        each(counts.fallback_queries)
    );
}

/// CPU time of all threads so far; 0 where it is not known.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = text.split(' ').skip(13).take(2);
    ticks
        .filter_map(|ticks| ticks.parse::<f64>().ok())
        .sum::<f64>()
        / 100.0
}

/// Numbers of a nearly normal distribution around 0.
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let bytes = state.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes();
        bytes[..4].iter().map(|byte| f32::from(*byte)).sum::<f32>() - 510.0
    };
    (0..count).map(|_| next()).collect()
}
