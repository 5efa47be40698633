//! The cost of a pool with many live buffers.
#![allow(
    unsafe_code,
    reason = "`assume_init` of a buffer with one used element"
)]

use super::measurement::Measurement;
use crate::Bench;
use crate::measure::{Case, Round};
use crate::report::CaseReport;
use anyhow::Result;
use cuda_um::{MemoryKind, Pool, PoolOptions, UnifiedBuffer};
use std::cell::RefCell;

pub(super) const MEASUREMENT: Measurement = Measurement {
    name: "pool_growth",
    what: "Allocates and frees a buffer of 256 bytes, 5000 times, while this number of other buffers of a pool is live; the time of one. \
           Replacing: each time another one of the live buffers is freed, and then one is allocated. Raw: in stream order, from \
           the device's default pool, with the same number of live allocations.",
    run,
    notes,
};

/// Bytes of a buffer, and elements.
const BYTES: usize = 256;
const LEN: usize = BYTES / size_of::<f32>();
/// Number of live buffers; 10^6 of them are 256 MB.
const ALIVE: [usize; 5] = [100, 1000, 10_000, 100_000, 1_000_000];
/// Allocations in a sample.
const TIMES: usize = 5000;
/// Far from the previous one, and coprime to the numbers of live buffers, so that every buffer is replaced in turn.
const STRIDE: usize = 61_803;

const OURS: [&str; 2] = ["cuda-um, pool", "cuda-um, pool, replacing"];
const RAW: &str = "cudaMallocAsync, cudaFreeAsync";

fn run(bench: &Bench, cases: &mut Vec<CaseReport>) -> Result<()> {
    let sizes = bench.settings.sizes(&ALIVE.map(|alive| alive * BYTES));
    for alive in sizes.into_iter().map(|bytes| bytes / BYTES) {
        let raw = &bench.raw;
        let pool = Pool::new(&bench.device, MemoryKind::Managed, PoolOptions::default())?;
        let held = (0..alive)
            .map(|_| UnifiedBuffer::<f32>::uninit_in(&pool, LEN).map(Some))
            .collect::<Result<Vec<_>, _>>()?;
        let held = RefCell::new(held);
        let raw_held = raw.hold_in_order(BYTES, alive)?;
        // One value is written and read, to verify the memory.
        let label = format!("10^{} alive", alive.ilog10());
        let mut case = Case::new(label, alive * BYTES, 1);
        case.ours(OURS[0], |round| {
            let time = round.clock.time_each(TIMES, || {
                drop(UnifiedBuffer::<f32>::uninit_in(&pool, LEN)?);
                Ok(())
            })?;
            verify(&pool, round)?;
            Ok(time)
        });
        let mut place = 0;
        case.ours(OURS[1], |round| {
            let mut held = held.borrow_mut();
            let time = round.clock.time_each(TIMES, || {
                place = (place + STRIDE) % alive;
                held[place] = None;
                held[place] = Some(UnifiedBuffer::<f32>::uninit_in(&pool, LEN)?);
                Ok(())
            })?;
            verify(&pool, round)?;
            Ok(time)
        });
        case.raw(RAW, |round| {
            let time = round
                .clock
                .time_each(TIMES, || raw.allocate_and_free_in_order(BYTES))?;
            raw.synchronize()?;
            let found = raw.through_memory_in_order(BYTES, round.source[0])?;
            round.verify(&[found], 1.0)?;
            Ok(time)
        });
        cases.push(case.run(&bench.clock, &bench.settings));
        drop(raw_held);
        raw.synchronize()?;
    }
    Ok(())
}

/// Checks that the next buffer keeps the written value.
fn verify(pool: &Pool, round: &mut Round<'_>) -> Result<()> {
    // SAFETY: only the last element is read below, and it is written before.
    let mut buffer = unsafe { UnifiedBuffer::<f32>::uninit_in(pool, LEN)?.assume_init() };
    let mut found = [f32::NAN];
    buffer.copy_from_host_at(LEN - 1, &round.source[..1])?;
    buffer.copy_to_host_at(LEN - 1, &mut found)?;
    round.verify(&found, 1.0)
}

fn notes(cases: &[CaseReport]) -> Vec<String> {
    let grown = |name: &str| {
        let first = cases.first()?.median(name)?;
        let each = cases.iter().filter_map(|case| {
            let median = case.median(name)?;
            let ratio = if first > 0.0 { median / first } else { 1.0 };
            Some(format!(
                "{} {:.0} ns (× {ratio:.2})",
                case.label,
                median * 1e9
            ))
        });
        let each: Vec<String> = each.collect();
        Some(format!(
            "{name}, one, and over 10^2 alive: {}",
            each.join(", ")
        ))
    };
    [OURS[0], OURS[1], RAW]
        .into_iter()
        .filter_map(grown)
        .collect()
}
