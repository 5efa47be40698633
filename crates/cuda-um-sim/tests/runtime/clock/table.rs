//! The promise of the clock: a factor of two.

use std::ptr::null_mut;

use cuda_um_sys::{cudaMemcpyKind, cudaStream_t};

use super::cost;
use crate::support::{Cuda, bytes, call, h200, ok};

type Row = (&'static str, fn(usize) -> f64, [f64; 4]);

/// Pieces of work, and the microseconds that they took on an H200 with CUDA 13.0 and PCIe 5, for each of `SIZES`.
const ROWS: [Row; 8] = [
    ("copy from pinned memory", copy, [6.7, 26.0, 309.0, 4838.0]),
    (
        "prefetch to the device",
        |len| prefetch(len, 0),
        [14.7, 50.0, 348.0, 5243.0],
    ),
    (
        "prefetch to the host",
        |len| prefetch(len, -1),
        [11.6, 69.0, 685.0, 10937.0],
    ),
    (
        "prefetch of what is there",
        prefetch_again,
        [2.2, 2.0, 8.9, 113.0],
    ),
    (
        "a kernel faults it in",
        faults,
        [32.0, 225.0, 1919.0, 25763.0],
    ),
    (
        "the CPU faults it back",
        faults_of_the_host,
        [12.0, 126.0, 1746.0, 28275.0],
    ),
    (
        "allocate and free managed memory",
        allocate,
        [3.6, 3.6, 6.8, 10.8],
    ),
    ("accessed-by advice", advise, [0.8, 18.6, 311.0, 4835.0]),
];
const SIZES: [usize; 4] = [4 << 10, 1 << 20, 16 << 20, 256 << 20];
const ACCESSED_BY: u32 = 5;

#[test]
fn every_time_is_within_a_factor_of_two_of_what_was_measured() {
    let mut wrong = Vec::new();
    for (name, simulate, measured) in ROWS {
        for (len, measured) in SIZES.into_iter().zip(measured) {
            let simulated = simulate(len);
            let line = format!("{name}, {len} bytes: {simulated:.1} us for {measured} us");
            println!("{line}");
            if !(0.5..=2.0).contains(&(simulated / measured)) {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Managed memory that the host has written.
fn on_host(len: usize) -> (Cuda, *mut u8, cudaStream_t) {
    let cuda = h200();
    let (data, stream) = (cuda.managed(len), cuda.stream());
    bytes(data, len)
        .chunks_mut(4096)
        .for_each(|page| page[0] = 1);
    (cuda, data, stream)
}

/// The same, after a prefetch to the device.
fn on_device(len: usize) -> (Cuda, *mut u8, cudaStream_t) {
    let (cuda, data, stream) = on_host(len);
    ok(cuda.prefetch(data, len, 0, stream));
    cuda.sync(stream);
    (cuda, data, stream)
}

fn prefetched((cuda, data, stream): (Cuda, *mut u8, cudaStream_t), len: usize, to: i32) -> f64 {
    cost(&cuda, || {
        ok(cuda.prefetch(data, len, to, stream));
        cuda.sync(stream);
    })
}

fn prefetch(len: usize, to: i32) -> f64 {
    let from = if to == 0 {
        on_host(len)
    } else {
        on_device(len)
    };
    prefetched(from, len, to)
}

fn prefetch_again(len: usize) -> f64 {
    prefetched(on_device(len), len, 0)
}

fn copy(len: usize) -> f64 {
    let cuda = h200();
    let (to, from, stream) = (cuda.device(len), cuda.pinned(len), null_mut());
    let kind = cudaMemcpyKind::cudaMemcpyDefault;
    cost(&cuda, || {
        let copied = call!(
            cuda.table,
            cudaMemcpyAsync(to.cast(), from.cast(), len, kind, stream)
        );
        ok(copied);
        cuda.sync(stream);
    })
}

fn faults(len: usize) -> f64 {
    let (cuda, data, _) = on_host(len);
    cost(&cuda, || cuda.run("read", data, len))
}

fn faults_of_the_host(len: usize) -> f64 {
    let (cuda, data, _) = on_device(len);
    cost(&cuda, || {
        assert!(bytes(data, len).chunks(4096).all(|page| page[0] == 1))
    })
}

fn allocate(len: usize) -> f64 {
    let cuda = h200();
    cost(&cuda, || cuda.free(cuda.managed(len)))
}

fn advise(len: usize) -> f64 {
    let (cuda, data, _) = on_host(len);
    cost(&cuda, || ok(cuda.advise(data, len, ACCESSED_BY, 0)))
}
