//! Runs a [`Program`]: blocks on threads of the host, each block's warps in turn on one of them.

mod access;
mod atomics;
mod block;
mod check;
mod codes;
mod collective;
mod exec;
mod fragments;
mod memory;
mod print;
mod regions;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::launch::{Checks, Failure, Finding, FindingKind, Launch, LineReport, Memory, Report};
use crate::program::{Class, Constant, Program, SHARED_WINDOW, Special};
use block::{Block, Common, Warp};
pub(crate) use codes::Code;
use exec::Stop;
use regions::Cache;

/// Instructions of a warp until it gives way to the next one.
const TURN: u64 = 4096;
/// Turns of all warps of a block until the block gives way to the next one.
const BLOCK_TURNS: u32 = 64;
/// Blocks that wait for a turn: beyond, none is started.
const SUSPENDED: usize = 4096;

/// What all blocks of a launch share.
pub(crate) struct Grid<'a> {
    program: &'a Program,
    launch: &'a Launch<'a>,
    memory: &'a dyn Memory,
    regions: regions::Regions,
    checker: Option<check::GlobalRaces>,
    /// Registers as every warp begins with them.
    words: Vec<[u32; 32]>,
    longs: Vec<[u64; 32]>,
    preds: Vec<u32>,
    threads: u32,
    warps: u32,
    blocks: u64,
    shared_bytes: usize,
    /// Instructions that no worker has taken yet.
    left: AtomicU64,
    stop: AtomicBool,
}

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

impl<'a> Grid<'a> {
    fn new(
        program: &'a Program,
        launch: &'a Launch<'a>,
        memory: &'a dyn Memory,
    ) -> Result<Self, Failure> {
        let product = |dims: [u32; 3]| {
            let mut dims = dims.iter();
            dims.try_fold(1u64, |all, &n| all.checked_mul(n.into()))
                .unwrap_or(0)
        };
        let (blocks, threads) = (product(launch.grid), product(launch.block));
        let most = program.max_threads.map_or(1024, |most| most.min(1024));
        let shared_bytes = program.dynamic_shared as usize + launch.shared_bytes;
        let required = program.required_threads.unwrap_or(launch.block);
        let (bytes, addresses) = (launch.parameters.len(), launch.variables.len());
        let refusal = match () {
            () if blocks == 0 || threads == 0 => {
                format!(
                    "a grid of {:?} blocks of {:?} threads",
                    launch.grid, launch.block
                )
            }
            () if threads > most.into() => {
                format!("{threads} threads in a block, at most {most} are possible")
            }
            () if required != launch.block => {
                format!(
                    "a block of {:?} threads, the kernel requires {required:?}",
                    launch.block
                )
            }
            () if bytes < program.parameter_bytes => {
                format!(
                    "{bytes} bytes of parameters, the kernel has {}",
                    program.parameter_bytes
                )
            }
            () if addresses < program.variables => {
                format!(
                    "addresses of {addresses} variables, the module has {}",
                    program.variables
                )
            }
            () if shared_bytes > 1 << 22 => format!("{shared_bytes} bytes of shared memory"),
            () => String::new(),
        };
        if !refusal.is_empty() {
            return Err(Failure::Geometry(refusal));
        }
        let mut grid = Self {
            program,
            launch,
            memory,
            regions: regions::Regions::default(),
            checker: launch.checks.races.then(|| check::GlobalRaces::new(blocks)),
            words: vec![[0; 32]; program.words],
            longs: vec![[0; 32]; program.longs],
            preds: vec![0; program.preds],
            threads: threads as u32,
            warps: (threads as u32).div_ceil(32),
            blocks,
            shared_bytes,
            left: AtomicU64::new(launch.instructions),
            stop: AtomicBool::new(false),
        };
        for &(slot, constant) in &program.constants {
            let Some(value) = grid.constant(constant) else {
                continue;
            };
            let index = slot.index as usize;
            match slot.class {
                Class::Word => grid.words[index] = [(value & slot.mask()) as u32; 32],
                Class::Long => grid.longs[index] = [value; 32],
                Class::Pred => grid.preds[index] = if value & 1 != 0 { u32::MAX } else { 0 },
            }
        }
        Ok(grid)
    }

    /// The value of a slot for all warps of the launch.
    fn constant(&self, constant: Constant) -> Option<u64> {
        let launch = self.launch;
        Some(match constant {
            Constant::Value(value) => value,
            Constant::Parameter {
                offset,
                bytes,
                signed,
            } => {
                let (mut value, size) = ([0; 8], bytes as usize);
                value[..size].copy_from_slice(&launch.parameters[offset as usize..][..size]);
                let (value, unused) = (u64::from_le_bytes(value), 64 - 8 * bytes);
                if signed {
                    ((value << unused) as i64 >> unused) as u64
                } else {
                    value
                }
            }
            Constant::Variable { index, offset } => {
                launch.variables[index as usize].wrapping_add_signed(offset)
            }
            Constant::DynamicShared { offset, generic } => {
                let window = u64::from(generic) * SHARED_WINDOW;
                (window + self.program.dynamic_shared).wrapping_add_signed(offset)
            }
            Constant::Special(special) => match special {
                Special::Ntid(axis) => launch.block[usize::from(axis)].into(),
                Special::Nctaid(axis) => launch.grid[usize::from(axis)].into(),
                Special::Warps => 64,
                Special::Processors => launch.processors.into(),
                Special::Grid => 1,
                Special::Workspace(half) => launch.workspace >> (32 * half) & 0xffff_ffff,
                Special::DynamicShared => launch.shared_bytes as u64,
                Special::TotalShared => self.shared_bytes as u64,
                _ => return None,
            },
        })
    }

    /// The value of a slot that depends on the thread.
    fn special(&self, special: Special, block: [u32; 3], number: u64, warp: u32, lane: u32) -> u32 {
        match special {
            Special::Tid(axis) => self.thread(warp * 32 + lane)[usize::from(axis)],
            Special::Ctaid(axis) => block[usize::from(axis)],
            Special::Lane => lane,
            Special::Warp => warp,
            Special::Processor => (number % u64::from(self.launch.processors.max(1))) as u32,
            Special::MaskEq => 1 << lane,
            Special::MaskLt => (1 << lane) - 1,
            Special::MaskLe => ((1 << lane) - 1) | (1 << lane),
            Special::MaskGt => !(((1 << lane) - 1) | (1 << lane)),
            Special::MaskGe => !((1 << lane) - 1),
            _ => 0,
        }
    }

    fn thread(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [linear % x, linear / x % y, linear / x / y]
    }

    fn block(&self, linear: u64) -> [u32; 3] {
        let [x, y, _] = self.launch.grid.map(u64::from);
        [linear % x, linear / x % y, linear / x / y].map(|place| place as u32)
    }

    fn finding(
        &self,
        kind: FindingKind,
        at: usize,
        block: [u32; 3],
        thread: u32,
        detail: impl Into<String>,
    ) -> Box<Finding> {
        let program = self.program;
        let place = program.places[at.min(program.places.len() - 1)];
        let named = |file: &&(u32, String)| file.0 == place.source.0 && place.source.1 != 0;
        let file = program.files.iter().find(named);
        Box::new(Finding {
            kind,
            kernel: program.name.clone(),
            line: place.line,
            instruction: program.line(place.line).into(),
            source: file.map(|(_, name)| (name.clone(), place.source.1)),
            block,
            thread: self.thread(thread),
            address: None,
            bytes: 0,
            region: None,
            parameter: None,
            detail: detail.into(),
        })
    }
}
