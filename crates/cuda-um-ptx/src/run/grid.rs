//! What the blocks of a launch share, and the values that they begin with.

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::{check, regions};
use crate::launch::{Failure, Finding, FindingKind, Launch, Memory};
use crate::program::{Class, Constant, Program, SHARED_WINDOW, Special};

/// What all blocks of a launch share.
pub(crate) struct Grid<'a> {
    pub program: &'a Program,
    pub launch: &'a Launch<'a>,
    pub memory: &'a dyn Memory,
    pub regions: regions::Regions,
    pub checker: Option<check::GlobalRaces>,
    /// Registers as every warp begins with them.
    pub words: Vec<[u32; 32]>,
    pub longs: Vec<[u64; 32]>,
    pub preds: Vec<u32>,
    pub threads: u32,
    pub warps: u32,
    pub blocks: u64,
    pub shared_bytes: usize,
    /// Instructions that no worker has taken yet.
    pub left: AtomicU64,
    pub stop: AtomicBool,
}

impl<'a> Grid<'a> {
    pub fn new(
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
    pub fn constant(&self, constant: Constant) -> Option<u64> {
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
    pub fn special(
        &self,
        special: Special,
        block: [u32; 3],
        number: u64,
        warp: u32,
        lane: u32,
    ) -> u32 {
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

    pub fn thread(&self, linear: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [linear % x, linear / x % y, linear / x / y]
    }

    pub fn block(&self, linear: u64) -> [u32; 3] {
        let [x, y, _] = self.launch.grid.map(u64::from);
        [linear % x, linear / x % y, linear / x / y].map(|place| place as u32)
    }

    pub fn finding(
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
