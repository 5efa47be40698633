//! Temporary.
use std::time::Instant;
use um_kernels::{CpuTargets, Filter, cosine_top_k_cpu};
fn noise(seed: u64, count: usize) -> Vec<f32> {
    let mut state = seed | 1;
    (0..count)
        .map(|_| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let mut s = 0f32;
            let mut x = state;
            for _ in 0..4 {
                x ^= x >> 29;
                x = x.wrapping_mul(0xbf58476d1ce4e5b9);
                s += (x >> 40) as f32 / (1u64 << 24) as f32 - 0.5;
            }
            s
        })
        .collect()
}
fn ticks() -> f64 {
    let s = std::fs::read_to_string("/proc/self/stat").unwrap();
    let v: Vec<&str> = s.split(' ').collect();
    (v[13].parse::<f64>().unwrap() + v[14].parse::<f64>().unwrap()) * 10.0
}
fn main() {
    let a: Vec<usize> = std::env::args()
        .skip(1)
        .map(|a| a.parse().unwrap())
        .collect();
    let (q, n, dim, k, rounds) = (a[0], a[1], a[2], a[3], a[4]);
    let (queries, targets) = (noise(1, q * dim), noise(2, n * dim));
    let mut s = vec![0f32; q * k];
    let mut i = vec![0u32; q * k];
    let (mut s2, mut i2) = (s.clone(), i.clone());
    let mut c = [0.0; 3];
    let mut t: [Vec<f64>; 3] = Default::default();
    let mut counts = Default::default();
    for round in 0..rounds {
        let (start, c0) = (Instant::now(), ticks());
        if round == 0 || a.len() < 6 {
            cosine_top_k_cpu(&queries, &targets, dim, k, &mut s, &mut i);
        }
        t[0].push(start.elapsed().as_secs_f64() * 1e3);
        let (start, c0) = (Instant::now(), ticks());
        let prepared = CpuTargets::new(&targets[..], dim, Filter::Int8, q);
        t[1].push(start.elapsed().as_secs_f64() * 1e3);
        let (start, c0) = (Instant::now(), ticks());
        counts = prepared.search(&queries, k, &mut s2, &mut i2);
        t[2].push(start.elapsed().as_secs_f64() * 1e3);
        assert!(i == i2 && s.iter().zip(&s2).all(|(a, b)| a.to_bits() == b.to_bits()));
    }
    for t in &mut t {
        t.sort_by(f64::total_cmp);
    }
    let m = |x: &Vec<f64>| x[x.len() / 2];
    println!(
        "{q}x{n}x{dim} k{k}: off {:.2} ms, prepare {:.2}, search {:.2}, ratio {:.2}; {counts:?}; CPU ms {:.1?} ratio {:.2}",
        m(&t[0]),
        m(&t[1]),
        m(&t[2]),
        m(&t[0]) / (m(&t[1]) + m(&t[2])),
        c.map(|c| c / rounds as f64),
        c[0] / (c[1] + c[2])
    );
}
