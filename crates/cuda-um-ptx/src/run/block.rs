//! A block of threads: its warps and its shared memory.

use std::sync::atomic::Ordering;

use super::access::set;
use super::barriers::Barriers;
use super::check::SharedChecks;
use super::exec::Stop;
use super::fragments::{Fragments, State};
use super::grid::Grid;
use super::{BLOCK_TURNS, TURN, Worker, mix};
use crate::launch::{Failure, FindingKind};
use crate::program::Constant;

pub(crate) struct Block {
    pub warps: Vec<Warp>,
    pub common: Common,
}

/// What the warps of a block share.
pub(crate) struct Common {
    /// Its place in the grid, and that as a number.
    pub id: [u32; 3],
    pub number: u64,
    shared: Vec<u64>,
    pub shared_bytes: usize,
    pub barriers: Barriers,
    pub checks: Option<Box<SharedChecks>>,
}

impl Common {
    pub fn shared(&mut self) -> *mut u8 {
        self.shared.as_mut_ptr().cast()
    }
}

pub(crate) struct Warp {
    pub index: u32,
    pub words: Vec<[u32; 32]>,
    pub longs: Vec<[u64; 32]>,
    pub preds: Vec<u32>,
    /// Local memory, a lane after the other.
    pub local: Vec<u8>,
    pub fragments: Fragments,
}

impl Block {
    pub fn new(grid: &Grid<'_>) -> Self {
        let warp = |index| Warp {
            index,
            words: Vec::new(),
            longs: Vec::new(),
            preds: Vec::new(),
            local: vec![0; 32 * grid.program.local_bytes],
            fragments: Fragments::default(),
        };
        Self {
            warps: (0..grid.warps).map(warp).collect(),
            common: Common {
                id: [0; 3],
                number: 0,
                shared: vec![0; grid.shared_bytes.div_ceil(8)],
                shared_bytes: grid.shared_bytes,
                barriers: Barriers::default(),
                checks: None,
            },
        }
    }

    /// Makes it block `number` of the grid, before its first instruction.
    pub fn begin(&mut self, grid: &Grid<'_>, number: u64) {
        let common = &mut self.common;
        (common.id, common.number) = (grid.block(number), number);
        common.shared.fill(0);
        common.barriers = Barriers::new(grid.threads);
        let checks = grid.launch.checks;
        common.checks = (checks.races || checks.unwritten).then(|| {
            Box::new(SharedChecks::new(
                grid.shared_bytes,
                grid.warps,
                checks.races,
            ))
        });
        for warp in &mut self.warps {
            warp.words.clone_from(&grid.words);
            warp.longs.clone_from(&grid.longs);
            warp.preds.clone_from(&grid.preds);
            warp.local.fill(0);
            let lanes = (grid.threads - warp.index * 32).min(32);
            warp.fragments.reset(u32::MAX >> (32 - lanes));
            for &(slot, constant) in &grid.program.constants {
                let Constant::Special(special) = constant else {
                    continue;
                };
                if grid.constant(constant).is_some() {
                    continue;
                }
                for lane in 0..32 {
                    let value = grid.special(special, common.id, number, warp.index, lane);
                    set(warp, slot, lane as usize, value.into());
                }
            }
        }
    }
}

impl Worker<'_> {
    /// Runs warps in turn until the block ends (`true`) or has had its turns. The blocks of a cooperative launch wait for each other, and one
    /// that waits uses up its turns: each has only one.
    pub fn run_block(&mut self, block: &mut Block) -> Result<bool, Box<Failure>> {
        let grid = self.grid;
        let count = block.warps.len();
        let turns = if grid.launch.cooperative {
            1
        } else {
            BLOCK_TURNS
        };
        for turn in 0..turns {
            let (mut ran, mut done) = (false, true);
            let first = if grid.launch.seed == 0 {
                0
            } else {
                mix(grid.launch.seed ^ block.common.number, turn.into()) as usize % count
            };
            for index in 0..count {
                let warp = &mut block.warps[(first + index) % count];
                if warp.fragments.all.is_empty() {
                    continue;
                }
                done = false;
                ran |= match self.run_warp(warp, &mut block.common, TURN) {
                    Ok(ran) => ran,
                    Err(Stop(failure)) => return Err(failure),
                };
            }
            if done {
                return Ok(true);
            }
            if !ran {
                return Err(Box::new(self.deadlock(block)));
            }
            if grid.memory.cancelled() || grid.stop.load(Ordering::Relaxed) {
                return Err(Box::new(Failure::Cancelled(grid.program.name.clone())));
            }
        }
        Ok(false)
    }

    fn deadlock(&self, block: &Block) -> Failure {
        let mut warps = block.warps.iter();
        let waiting = warps.find_map(|warp| Some((warp, warp.fragments.all.first()?)));
        let (mut at, mut thread, mut text) = (0, 0, "no thread is left".into());
        if let Some((warp, fragment)) = waiting {
            (at, text) = match fragment.state {
                State::Barrier { id, .. } => (
                    fragment.pc.saturating_sub(1) as usize,
                    format!("waits at barrier {id}, which the other threads do not reach"),
                ),
                _ => (
                    fragment.pc as usize,
                    "waits for lanes of its warp that do not come".into(),
                ),
            };
            thread = warp.index * 32 + fragment.mask.trailing_zeros();
        }
        let (kind, id) = (FindingKind::Deadlock, block.common.id);
        Failure::Finding(self.grid.finding(kind, at, id, thread, text))
    }
}
