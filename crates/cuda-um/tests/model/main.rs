//! Random sequences of operations against vectors: whatever the host reads is what the operations, one after the other, would have left.
//!
//! Work on several streams and devices is enqueued without waiting; on a simulator some of it is held until the host waits, and then
//! the host must not get at a buffer that it uses. At the end of a sequence nothing is leaked, and nothing was used after it was freed.
//!
//! `CUDA_UM_MODEL_CASES` says how many sequences, `CUDA_UM_MODEL_SEED` (a number) which ones. A failure prints a short sequence, to be
//! pasted into `regressions.rs`.

#[path = "../support/mod.rs"]
mod support;

mod hold;
mod model;
mod operation;
mod regressions;
mod replay;
mod world;

use cuda_um_sim::{CudaVersion, Gpu};
use operation::Operation;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use world::{Machine, Spec};

/// Sequences that share a machine.
const BLOCK: u64 = 100;
/// How often a sequence runs after one failed: what goes wrong by chance may go right once.
const AGAIN: usize = 8;

const fn simulated(gpu: Gpu, cuda: CudaVersion, devices: usize) -> Spec {
    Spec::Simulated { gpu, cuda, devices }
}

const MACHINES: [Spec; 8] = [
    simulated(Gpu::H200, CudaVersion::V13_0, 1),
    simulated(Gpu::H200, CudaVersion::V13_4, 2),
    simulated(Gpu::H200, CudaVersion::V12_2, 2),
    simulated(Gpu::Gh200, CudaVersion::V12_9, 2),
    simulated(Gpu::Pascal, CudaVersion::V11_8, 2),
    simulated(Gpu::H200, CudaVersion::V13_4, 1),
    simulated(Gpu::Maxwell, CudaVersion::V12_9, 1),
    simulated(Gpu::NoConcurrentAccess, CudaVersion::V13_0, 2),
];

fn on_a_gpu() -> bool {
    std::env::var("CUDA_UM_TEST_RUNTIME").is_ok_and(|runtime| runtime == "cuda")
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| {
        let parsed = value.replace('_', "").parse();
        parsed.unwrap_or_else(|_| panic!("{variable}={value}: a number is expected"))
    })
}

/// The machine of a block of sequences.
fn machine_of(block: u64) -> Spec {
    match on_a_gpu() {
        true => Spec::Real,
        false => MACHINES[(block % MACHINES.len() as u64) as usize],
    }
}

/// Runs the sequences of a block.
///
/// # Errors
///
/// A short sequence that fails, and how.
fn run_block(seed: u64, block: u64, cases: u64) -> Result<(), String> {
    let spec = machine_of(block);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&block.to_le_bytes());
    let config = Config {
        cases: u32::try_from(cases).expect("a block is small"),
        failure_persistence: None,
        max_shrink_iters: 3000,
        max_shrink_time: 5_000,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let machine = RefCell::new(None);
    let failed = Cell::new(false);
    let outcome = TestRunner::new_with_rng(config, rng).run(&operation::sequence(), |sequence| {
        let again = if failed.get() { AGAIN } else { 1 };
        // If anything goes wrong, also by a panic, the next sequence has a new machine.
        failed.set(true);
        let before = machine.take();
        let mut used: Machine = before.unwrap_or_else(|| Machine::new(spec));
        for _ in 0..again {
            replay::run(&mut used, &sequence).map_err(TestCaseError::fail)?;
        }
        machine.replace(Some(used));
        failed.set(again > 1);
        Ok(())
    });
    match outcome {
        Ok(()) => machine.take().map_or(Ok(()), Machine::close),
        Err(TestError::Fail(reason, sequence)) => Err(report(spec, &sequence, reason.message())),
        Err(error) => Err(error.to_string()),
    }
    .map_err(|error| format!("seed {seed}, block {block} of {BLOCK} sequences each:\n{error}"))
}

/// What `regressions.rs` takes.
fn report(spec: Spec, sequence: &[Operation], reason: &str) -> String {
    let mut text = format!("{reason}\n\nreplay(\n    {spec:?},\n    &[\n");
    for operation in sequence {
        text += &format!("        {operation:?},\n");
    }
    text + "    ],\n);"
}

#[test]
fn random_sequences_leave_what_the_model_says() {
    let cases = number("CUDA_UM_MODEL_CASES", 10_000);
    let seed = number("CUDA_UM_MODEL_SEED", 0);
    let workers = match on_a_gpu() {
        true => 1,
        false => std::thread::available_parallelism().map_or(1, |cores| cores.get().min(16)),
    };
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let started = std::time::Instant::now();
    let work = || -> Result<(), String> {
        while !stop.load(Ordering::Relaxed) {
            let block = next.fetch_add(1, Ordering::Relaxed);
            let left = cases.saturating_sub(block * BLOCK).min(BLOCK);
            if left == 0 {
                break;
            }
            run_block(seed, block, left).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect()
    });
    let failures: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{cases} sequences in {seconds:.1} s, {:.0} a second",
        cases as f64 / seconds
    );
}
