//! Random sequences of operations, compared with vectors.
//!
//! The host reads the data that the operations would give one after the other, whatever memory the buffers have, and on however many streams and
//! devices the work is. No call waits that must not wait. After each sequence no memory is left and no rule of CUDA was broken.
//!
//! `operation.rs` has the operations of a sequence, and how they are drawn; `model.rs` the vectors; `replay.rs` runs a sequence on both sides, with
//! the operations of `work.rs`, `on_host.rs` and `placing.rs`. The results of the kernels (`kernels.ptx`) depend on their order. `regressions.rs` has
//! sequences that failed in the past.
//!
//! On a simulator an operation `Hold` holds all streams: work is enqueued, and nothing runs until a call waits. Until then a guard for a buffer
//! that held work uses is an error. At the wait the streams run one by one, in an order that the sequence selects. So a missing wait shows each
//! time, without luck in the timing of threads; and a call that ends the hold, but must not wait (`Replay::waits`), is an error.
//!
//! This file runs blocks of 250 sequences, each block on one of ten simulated machines in turn. A block depends only on the seed and on its own
//! number. If a sequence fails, proptest shortens it; the test prints the operation, the difference, and a call of `replay` to paste into
//! `regressions.rs`.
//!
//! ```text
//! CUDA_UM_MODEL_SEED=0 CUDA_UM_MODEL_SEQUENCES=1000 cargo test -p cuda-um --test model random -- --nocapture
//! ```
//!
//! `CUDA_UM_MODEL_SEED` (0) selects the sequences, `CUDA_UM_MODEL_SEQUENCES` (2,500: a block for each machine; 500 on a GPU) their number, and
//! `CUDA_UM_MODEL_SECONDS` (3600; 120 on a GPU) a time limit: a number that was requested and not reached in time is a failure.
//! `CUDA_UM_TEST_RUNTIME=cuda` runs on the GPU, where no stream is held.
//!
//! It cannot find races of host threads (`loom`, and `stress` with the same operations), errors of CUDA (`fault_injection`), nor a needless copy.
//!
//! A new operation is a variant of `Operation` or `Work` with its weight, valid with any numbers, with an arm in `Replay::act` and `Replay::waits`
//! or in `work.rs`. A new kind of memory is a variant of `Kind` with its weight, and an arm in `Pools::allocate`.

mod buffer;
mod kernels;
mod model;
mod on_host;
mod operation;
mod placing;
mod pools;
mod regressions;
mod replay;
mod stress;
mod work;
mod world;

use cuda_um_sim::{CudaVersion, Gpu};
use cuda_um_testkit::on_gpu;
use operation::Operation;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use world::{Machine, Spec};

/// Sequences that share a machine.
const BLOCK: u64 = 250;
/// Number of repetitions after a failure, because an error that depends on timing may not occur each time.
const AGAIN: usize = 4;

const fn simulated(gpu: Gpu, cuda: CudaVersion, devices: usize) -> Spec {
    Spec::Simulated { gpu, cuda, devices }
}

const MACHINES: [Spec; 10] = [
    simulated(Gpu::H200, CudaVersion::V13_0, 1),
    simulated(Gpu::H200, CudaVersion::V13_4, 2),
    simulated(Gpu::H200, CudaVersion::V12_2, 3),
    simulated(Gpu::Gh200, CudaVersion::V12_9, 2),
    simulated(Gpu::Pascal, CudaVersion::V11_8, 2),
    simulated(Gpu::H200, CudaVersion::V13_4, 1),
    simulated(Gpu::Maxwell, CudaVersion::V12_9, 1),
    simulated(Gpu::H200, CudaVersion::V13_0, 8),
    simulated(Gpu::NoConcurrentAccess, CudaVersion::V13_0, 2),
    simulated(Gpu::Gh200, CudaVersion::V13_4, 4),
];

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| {
        let parsed = value.replace('_', "").parse();
        parsed.unwrap_or_else(|_| panic!("{variable}={value}: a number is expected"))
    })
}

/// The machine of a block of sequences.
fn machine_of(block: u64) -> Spec {
    match on_gpu() {
        true => Spec::Real,
        false => MACHINES[(block % MACHINES.len() as u64) as usize],
    }
}

/// Runs the sequences of a block; returns their number of operations.
///
/// # Errors
///
/// A short sequence that fails, and the reason.
fn run_block(seed: u64, block: u64, cases: u64) -> Result<u64, String> {
    let spec = machine_of(block);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&block.to_le_bytes());
    let config = Config {
        cases: u32::try_from(cases).expect("a block is small"),
        failure_persistence: None,
        max_shrink_iters: 3000,
        max_shrink_time: 10_000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let machine = RefCell::new(None);
    let (failed, operations) = (Cell::new(false), Cell::new(0));
    let outcome = TestRunner::new_with_rng(config, rng).run(&operation::sequence(), |sequence| {
        let again = if failed.get() { AGAIN } else { 1 };
        // After any error or panic, the next sequence gets a new machine.
        failed.set(true);
        let before = machine.take();
        let mut used: Machine = before.unwrap_or_else(|| Machine::new(spec));
        for _ in 0..again {
            replay::run(&mut used, &sequence).map_err(TestCaseError::fail)?;
        }
        machine.replace(Some(used));
        operations.set(operations.get() + sequence.len() as u64);
        failed.set(again > 1);
        Ok(())
    });
    match outcome {
        Ok(()) => machine.take().map_or(Ok(()), Machine::close),
        Err(TestError::Fail(reason, sequence)) => Err(report(spec, &sequence, reason.message())),
        Err(error) => Err(error.to_string()),
    }
    .map(|()| operations.get())
    .map_err(|error| format!("seed {seed}, block {block} of {BLOCK} sequences each:\n{error}"))
}

/// The text for `regressions.rs`.
fn report(spec: Spec, sequence: &[Operation], reason: &str) -> String {
    let mut text = format!("{reason}\n\nreplay(\n    {spec:?},\n    &[\n");
    for operation in sequence {
        text += &format!("        {operation:?},\n");
    }
    text + "    ],\n);"
}

/// claims 1 and 2
#[test]
fn random_sequences_leave_what_the_model_says() {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // On a GPU a sequence takes long: the number is chosen for the time of the bundle.
    let (default, seconds, workers) = match on_gpu() {
        true => (500, 120, 1),
        false => (BLOCK * MACHINES.len() as u64, 3600, cores.min(16)),
    };
    let asked = number("CUDA_UM_MODEL_SEQUENCES", 0);
    let sequences = if asked > 0 { asked } else { default };
    let seed = number("CUDA_UM_MODEL_SEED", 0);
    let most = Duration::from_secs(number("CUDA_UM_MODEL_SECONDS", seconds));
    let (started, blocks, stop) = (Instant::now(), AtomicU64::new(0), AtomicBool::new(false));
    // The numbers of sequences and operations of one thread.
    let work = || -> Result<[u64; 2], String> {
        let mut done = [0; 2];
        while !stop.load(Ordering::Relaxed) && started.elapsed() < most {
            let block = blocks.fetch_add(1, Ordering::Relaxed);
            let left = sequences.saturating_sub(block * BLOCK).min(BLOCK);
            if left == 0 {
                break;
            }
            let failed = |_: &String| stop.store(true, Ordering::Relaxed);
            done[1] += run_block(seed, block, left).inspect_err(failed)?;
            done[0] += left;
        }
        Ok(done)
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, _>| worker.join().unwrap();
        workers.into_iter().map(join).collect()
    });
    let [done, operations] =
        [0, 1].map(|at| outcomes.iter().flatten().map(|of| of[at]).sum::<u64>());
    let failures: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    println!("{:.1} s", started.elapsed().as_secs_f64());
    println!("{done} sequences, {operations} operations, 0 divergences");
    // The default may be cut short, but a requested number may not.
    assert!(
        done >= asked,
        "{done} of {asked} sequences when the time was up: CUDA_UM_MODEL_SECONDS={}",
        most.as_secs()
    );
}
