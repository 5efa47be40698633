//! Runs a [`Program`]: blocks on threads of the host, each block's warps in turn on one of them.

mod access;
mod atomics;
mod barriers;
mod block;
mod check;
mod codes;
mod collective;
mod exec;
mod fragments;
mod grid;
mod memory;
mod print;
mod profile;
mod regions;

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use crate::launch::{Checks, Failure, FindingKind, Launch, LineReport, Memory, Report};
use crate::program::Program;
use block::{Block, Common, Warp};
pub(crate) use codes::Code;
use exec::Stop;
use grid::Grid;
use regions::Cache;

/// Instructions of a warp until it gives way to the next one.
const TURN: u64 = 4096;
/// Turns of all warps of a block until the block gives way to the next one.
const BLOCK_TURNS: u32 = 64;
/// Blocks that wait for a turn: beyond, none is started.
const SUSPENDED: usize = 4096;

/// Blocks that have begun and wait for a turn, the number of those that have not begun, and of those at work.
#[derive(Default)]
struct Queue {
    suspended: VecDeque<Box<Block>>,
    next: u64,
    failure: Option<Failure>,
}

/// Counts of one worker.
#[derive(Default)]
pub(crate) struct Counts {
    report: Report,
    lines: Vec<LineReport>,
}

pub(crate) struct Worker<'a> {
    grid: &'a Grid<'a>,
    cache: Cache,
    counts: Counts,
    /// Instructions that may be executed before more are taken from the grid's.
    budget: u64,
    checks: Checks,
    /// Whether accesses are looked at one by one.
    observing: bool,
}

/// A worker at an instruction of a warp.
pub(crate) struct At<'a, 'g> {
    worker: &'a mut Worker<'g>,
    warp: &'a mut Warp,
    common: &'a mut Common,
    /// The lanes that execute it.
    mask: u32,
    pc: usize,
}

impl At<'_, '_> {
    fn fail<T>(&self, kind: FindingKind, lane: usize, text: impl Into<String>) -> Result<T, Stop> {
        Err(self.finding(kind, lane, None, None, text))
    }

    /// What is wrong in a lane: with the address and size of an access, the region and its parameter.
    fn finding(
        &self,
        kind: FindingKind,
        lane: usize,
        access: Option<(u64, u32)>,
        place: Option<(u64, Option<usize>)>,
        text: impl Into<String>,
    ) -> Stop {
        let thread = self.warp.index * 32 + lane as u32;
        let mut finding = (self.worker.grid).finding(kind, self.pc, self.common.id, thread, text);
        finding.address = access.map(|(address, _)| address);
        finding.bytes = access.map_or(0, |(_, bytes)| bytes);
        (finding.region, finding.parameter) = (
            place.map(|(id, _)| id),
            place.and_then(|(_, parameter)| parameter),
        );
        finding.into()
    }
}

impl Program {
    /// Runs the kernel to its end.
    ///
    /// # Errors
    /// [`Failure::Finding`] names the first mistake that a check found, [`Failure::Geometry`] a launch that is not possible,
    /// [`Failure::Limit`] one that executes too many instructions.
    pub fn run(&self, launch: &Launch<'_>, memory: &dyn Memory) -> Result<Report, Failure> {
        let grid = Grid::new(self, launch, memory)?;
        let available = || std::thread::available_parallelism().map_or(1, usize::from);
        let wanted = if launch.threads == 0 {
            available()
        } else {
            launch.threads
        };
        let others = (wanted as u64).min(grid.blocks).max(1) - 1;
        let queue = Mutex::new(Queue::default());
        let counts = std::thread::scope(|scope| {
            let work = || work(&grid, &queue);
            let others: Vec<_> = (0..others).map(|_| scope.spawn(work)).collect();
            let mut counts = vec![work()];
            counts.extend(others.into_iter().map(|worker| {
                (worker.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            }));
            counts
        });
        if let Some(failure) = queue
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .failure
        {
            return Err(failure);
        }
        Ok(self.report(counts))
    }

    fn report(&self, counts: Vec<Counts>) -> Report {
        let mut report = Report::default();
        let mut lines = std::collections::BTreeMap::<u32, LineReport>::new();
        for Counts {
            report: one,
            lines: places,
        } in counts
        {
            report.instructions += one.instructions;
            report.thread_instructions += one.thread_instructions;
            report.divergent_branches += one.divergent_branches;
            for (sum, part) in [
                (&mut report.global, one.global),
                (&mut report.shared, one.shared),
                (&mut report.local, one.local),
            ] {
                sum.read += part.read;
                sum.written += part.written;
            }
            for (place, line) in self.places.iter().zip(places) {
                let sum = lines.entry(place.line).or_default();
                (sum.line, sum.source) = (place.line, place.source);
                sum.instructions += line.instructions;
                sum.thread_instructions += line.thread_instructions;
                sum.divergent_branches += line.divergent_branches;
                sum.sectors += line.sectors;
                sum.ideal_sectors += line.ideal_sectors;
                sum.bank_conflicts += line.bank_conflicts;
            }
        }
        report.lines = lines
            .into_values()
            .filter(|line| line.instructions > 0)
            .collect();
        report
    }
}

/// One thread of the host: takes blocks until none is left.
fn work(grid: &Grid<'_>, queue: &Mutex<Queue>) -> Counts {
    let mut worker = Worker {
        grid,
        cache: Cache::default(),
        counts: Counts::default(),
        budget: 0,
        checks: grid.launch.checks,
        observing: grid.launch.checks.unwritten || grid.launch.checks.races || grid.launch.profile,
    };
    if grid.launch.profile {
        worker.counts.lines = vec![LineReport::default(); grid.program.code.len()];
    }
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let mut spare: Option<Box<Block>> = None;
    loop {
        let mut turn = lock();
        if turn.failure.is_some() || grid.stop.load(Ordering::Relaxed) {
            break;
        }
        // New blocks before suspended ones: a block that waits for another one waits for one that may not have begun.
        let start = turn.next < grid.blocks
            && (turn.suspended.len() < SUSPENDED || grid.launch.cooperative);
        let mut block = if start {
            let index = turn.next;
            turn.next += 1;
            drop(turn);
            let mut block = spare.take().unwrap_or_else(|| Box::new(Block::new(grid)));
            block.begin(grid, permuted(index, grid.blocks, grid.launch.seed));
            block
        } else if let Some(block) = turn.suspended.pop_front() {
            drop(turn);
            block
        } else {
            break;
        };
        match worker.run_block(&mut block) {
            Ok(true) => spare = Some(block),
            Ok(false) => lock().suspended.push_back(block),
            Err(failure) => {
                grid.stop.store(true, Ordering::Relaxed);
                lock().failure.get_or_insert(*failure);
                break;
            }
        }
    }
    worker.counts
}

/// A permutation of `0..count` that the seed decides; the identity for a seed of 0.
fn permuted(index: u64, count: u64, seed: u64) -> u64 {
    if seed == 0 {
        return index;
    }
    // A bijection of the next power of two, applied until the number is small enough.
    let bits = (64 - (count - 1).leading_zeros()).max(1);
    let mask = u64::MAX >> (64 - bits);
    let mut value = index;
    loop {
        for round in 0..3 {
            value = value.wrapping_mul(mix(seed, round) | 1) & mask;
            value ^= value >> bits.div_ceil(2);
            value = value.wrapping_add(mix(seed, round + 3)) & mask;
        }
        if value < count {
            return value;
        }
    }
}

/// A number without pattern (SplitMix64).
pub(crate) fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
