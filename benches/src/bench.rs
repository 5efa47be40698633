//! The machine and the settings of a run.

use crate::clock::Clock;
use crate::peer::Peers;
use crate::raw::Raw;
use anyhow::{Context, Result};
use cuda_um::sys::Table;
use cuda_um::{Device, MemoryKind, PoolOptions, Runtime, Stream};
use cuda_um_sim::Sim;
use std::rc::Rc;
use std::sync::Arc;

/// The amount of measuring.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Sizes up to 16 MiB, and fewer rounds.
    pub quick: bool,
    /// The number of rounds for every size, whatever time they take.
    pub rounds: Option<usize>,
}

impl Settings {
    /// The largest size measured.
    pub const LARGEST: usize = 1 << 30;
    /// The largest size of a quick run.
    pub const LARGEST_QUICK: usize = 16 << 20;

    /// The sizes of a list that are measured.
    pub fn sizes(&self, all: &[usize]) -> Vec<usize> {
        let largest = match self.quick {
            true => Self::LARGEST_QUICK,
            false => Self::LARGEST,
        };
        all.iter()
            .copied()
            .filter(|size| *size <= largest)
            .collect()
    }

    /// The most rounds of a case with this usual number.
    pub fn rounds(&self, usual: usize) -> usize {
        let rounds = if self.quick { usual / 3 } else { usual };
        self.rounds.unwrap_or(rounds).max(1)
    }
}

/// What the pool of managed memory keeps in large slabs, beside the buffers that live: one buffer of the largest size.
const KEPT: usize = 256 << 20;

/// A machine to measure on.
pub struct Bench {
    /// cuda-um over the machine's runtime.
    pub runtime: Runtime,
    /// The measured device: the first one.
    pub device: Device,
    /// A stream of cuda-um.
    pub stream: Stream,
    /// Raw CUDA, on a blocking stream, as in most C++ programs.
    pub raw: Rc<Raw>,
    /// The same table of functions that cuda-um uses.
    pub table: Arc<Table>,
    /// The clock for all times.
    pub clock: Clock,
    /// The amount of measuring.
    pub settings: Settings,
    /// The other libraries.
    pub peers: Peers,
}

impl Bench {
    /// Opens the GPU, or the simulator.
    pub fn open(simulated: bool, settings: Settings) -> Result<Self> {
        let (table, clock) = if simulated {
            let sim = Sim::from_env()?;
            (sim.table(), Clock::Simulated(sim))
        } else {
            let table = cuda_um::sys::load().context("no CUDA runtime; --sim predicts")?;
            (table, Clock::wall())
        };
        let runtime = Runtime::from_table(Arc::clone(&table))?;
        let device = runtime.device(0).context("no GPU; --sim predicts")?;
        let options = PoolOptions::default().keep_bytes(KEPT);
        device.set_pool_options(MemoryKind::Managed, options)?;
        let stream = device.create_stream()?;
        let raw = Raw::open(&table, false)?;
        let peers = Peers::new(simulated);
        Ok(Self {
            runtime,
            device,
            stream,
            raw,
            table,
            clock,
            settings,
            peers,
        })
    }

    /// A description of the measured machine: the GPU, or the simulator.
    pub fn gpu(&self) -> String {
        match self.clock.is_simulated() {
            true => format!("simulator of: {}", self.device.name()),
            false => self.device.name().to_owned(),
        }
    }
}
