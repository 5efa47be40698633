//! Allocating and freeing.
#![allow(
    unsafe_code,
    reason = "`assume_init` of a buffer with one used element"
)]

use super::measurement::{KIB, MIB, Measurement};
use crate::Bench;
use crate::measure::{Budget, Case, Round};
use crate::peer::{CUDA_CPP, CUDARC, CUPY, RMM, TORCH};
use crate::raw::{Kind, ManagedPool, Raw};
use crate::report::CaseReport;
use anyhow::{Result, bail, ensure};
use cuda_um::{MemoryKind, Pool, PoolOptions, UnifiedBuffer};
use serde_json::json;
use std::rc::Rc;
use std::time::Duration;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "allocate",
    what: "Allocates and frees 64 times, one after the other, without touching the memory; the time of one. From a pool 50,000 times; with 8 threads the \
           time is divided by the number of all allocations. PyTorch and CuPy take memory from \
           their caches.",
    seconds: 30,
    run,
    notes,
};

const TIMES: usize = 64;
/// The number for a pool: 64 are too fast for the clock.
const POOLED: usize = 50_000;
/// Pools are kept small, so larger sizes are not measured with them.
const LARGEST_POOLED: usize = MIB;

/// Names of the pools, with the number of threads that allocate at the same time.
const POOLS: [(&str, usize); 2] = [("cuda-um, pool", 1), ("cuda-um, pool, 8 threads", 8)];

fn run(bench: &Bench, budget: &mut Budget, cases: &mut Vec<CaseReport>) -> Result<()> {
    let sizes = [4 * KIB, 64 * KIB, MIB, 16 * MIB, 256 * MIB];
    let sizes = bench.settings.sizes(&sizes);
    budget.split(sizes.len());
    for bytes in sizes {
        let (raw, len) = (&bench.raw, bytes / 4);
        // One value is written and read, to verify the memory.
        let mut case = Case::new(crate::measure::size_text(bytes), bytes, 1);
        case.ours("cuda-um, uninit and drop", |round| ours(bench, len, round));
        add_pools(bench, len, &mut case)?;
        case.raw("cudaMallocManaged, cudaFree", |round| {
            let time = round
                .clock
                .time_each(TIMES, || raw.allocate(Kind::Managed, len)?.free())?;
            let mut memory = raw.allocate(Kind::Managed, len)?;
            memory.host_mut()[len - 1] = round.source[0];
            round.verify(&[memory.host()[len - 1]], 1.0)?;
            memory.free()?;
            Ok(time)
        });
        case.raw("cudaMallocAsync, cudaFreeAsync", |round| {
            let time = round
                .clock
                .time_each(TIMES, || raw.allocate_and_free_in_order(bytes))?;
            raw.synchronize()?;
            let found = raw.through_memory_in_order(bytes, round.source[0])?;
            round.verify(&[found], 1.0)?;
            Ok(time)
        });
        add_managed_pool(raw, bytes, &mut case);
        case.raw("cudaMalloc, cudaFree", |round| {
            let time = round
                .clock
                .time_each(TIMES, || raw.allocate(Kind::Device, len)?.free())?;
            let (mut memory, mut found) = (raw.allocate(Kind::Device, 1)?, [f32::NAN]);
            raw.copy_from_slice(&mut memory, &round.source[..1])?;
            raw.copy_to_slice(&memory, &mut found)?;
            round.verify(&found, 1.0)?;
            Ok(time)
        });
        let request = json!({"do": "allocate", "bytes": bytes, "repeats": TIMES});
        case.peer(bench, TORCH, "PyTorch empty", request.clone());
        case.peer(bench, CUPY, "CuPy empty", request.clone());
        case.peer(
            bench,
            CUPY,
            "CuPy empty, pool over managed",
            json!({"do": "allocate", "bytes": bytes, "repeats": TIMES, "managed": true}),
        );
        add_compiled_peers(bench, bytes, &mut case);
        cases.push(case.run(&bench.clock, &bench.settings, budget));
    }
    Ok(())
}

fn add_managed_pool<'a>(raw: &Rc<Raw>, bytes: usize, case: &mut Case<'a>) {
    let name = "cudaMallocFromPoolAsync of managed memory, cudaFreeAsync";
    match ManagedPool::new(raw) {
        Err(error) => case.skipped(crate::report::Kind::Raw, name, &error.to_string()),
        Ok(pool) => case.raw(name, move |round| {
            let time = round
                .clock
                .time_each(TIMES, || pool.allocate_and_free(bytes))?;
            let found = pool.through_memory(bytes, round.source[0])?;
            round.verify(&[found], 1.0)?;
            Ok(time)
        }),
    }
}

fn add_compiled_peers(bench: &Bench, bytes: usize, case: &mut Case<'_>) {
    let mut add = |peer, name: &str, memory: &str, times: usize| {
        let request = json!({"do": "allocate", "bytes": bytes, "repeats": times, "memory": memory});
        case.peer(bench, peer, name, request);
    };
    add(CUDA_CPP, "CUDA C++ cudaMallocManaged", "managed", TIMES);
    add(CUDARC, "cudarc alloc", "async", TIMES);
    add(CUDARC, "cudarc alloc_unified", "managed", TIMES);
    if bytes > LARGEST_POOLED {
        return;
    }
    add(RMM, "RMM managed", "managed", TIMES);
    add(RMM, "RMM pool over managed", "pool", POOLED);
    add(RMM, "RMM cuda_async", "async", POOLED);
}

fn ours(bench: &Bench, len: usize, round: &mut Round<'_>) -> Result<Duration> {
    let make = || UnifiedBuffer::<f32>::uninit(&bench.device, len);
    let time = round.clock.time_each(TIMES, || {
        drop(make()?);
        Ok(())
    })?;
    bench.runtime.reclaim()?;
    let uninit = make()?;
    ensure!(uninit.len() == len, "WRONG RESULT: the length");
    // SAFETY: only the last element is read below, and it is written before.
    let mut buffer = unsafe { uninit.assume_init() };
    let mut found = [f32::NAN];
    buffer.copy_from_host_at(len - 1, &round.source[..1])?;
    buffer.copy_to_host_at(len - 1, &mut found)?;
    round.verify(&found, 1.0)?;
    buffer.close()?;
    Ok(time)
}

/// A warm pool: with one thread, and with eight threads at the same time.
fn add_pools<'a>(bench: &'a Bench, len: usize, case: &mut Case<'a>) -> Result<()> {
    if len * size_of::<f32>() > LARGEST_POOLED {
        return Ok(());
    }
    for (name, threads) in POOLS {
        let pool = Pool::new(&bench.device, MemoryKind::Managed, PoolOptions::default())?;
        case.ours(name, move |round| {
            let work = || {
                (0..POOLED).try_for_each(|_| UnifiedBuffer::<f32>::uninit_in(&pool, len).map(drop))
            };
            let time = round.clock.time(|| match threads {
                1 => Ok(work()?),
                _ => std::thread::scope(|scope| {
                    let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
                    started.into_iter().try_for_each(|one| match one.join() {
                        Ok(done) => Ok(done?),
                        Err(_) => bail!("a thread panicked"),
                    })
                }),
            })?;
            let mut buffer = UnifiedBuffer::<f32>::zeroed_in(&pool, len)?;
            let mut found = [f32::NAN];
            buffer.copy_from_host_at(len - 1, &round.source[..1])?;
            buffer.copy_to_host_at(len - 1, &mut found)?;
            round.verify(&found, 1.0)?;
            Ok(time.div_f64((POOLED * threads) as f64))
        });
    }
    Ok(())
}

/// The throughput of eight threads.
fn notes(cases: &[CaseReport]) -> Vec<String> {
    let [(one, _), (eight, _)] = POOLS;
    let gain = |case: &CaseReport| {
        let (one, eight) = (case.median(one)?, case.median(eight)?);
        let ratio = if eight > 0.0 { one / eight } else { 1.0 };
        Some(format!(
            "{}: 8 threads with one pool have × {ratio:.2} the throughput of one thread",
            case.label
        ))
    };
    cases.iter().filter_map(gain).collect()
}
