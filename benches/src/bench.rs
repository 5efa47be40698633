//! What everything is measured on.

use crate::clock::Clock;
use crate::peer::Peers;
use crate::raw::Raw;
use anyhow::{Context, Result};
use cuda_um::sys::Table;
use cuda_um::{Device, Runtime, Stream};
use cuda_um_sim::Sim;
use std::rc::Rc;
use std::sync::Arc;

/// How much is measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Sizes up to 16 MiB, and fewer rounds.
    pub quick: bool,
    /// So many rounds, whatever the size.
    pub rounds: Option<usize>,
}

impl Settings {
    /// The largest size measured.
    pub const LARGEST: usize = 256 << 20;
    /// The largest size of a quick run.
    pub const LARGEST_QUICK: usize = 16 << 20;

    /// Those of some sizes that are measured.
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

    /// Rounds for a size: fewer where each takes long.
    pub fn rounds(&self, bytes: usize) -> usize {
        let rounds = match bytes {
            0..=0xF_FFFF => 31,
            0x10_0000..=0x3FF_FFFF => 21,
            _ => 11,
        };
        self.rounds
            .unwrap_or(if self.quick { rounds / 3 } else { rounds })
            .max(1)
    }
}

/// A machine to measure on.
pub struct Bench {
    /// cuda-um over the machine's runtime.
    pub runtime: Runtime,
    /// The device measured: the first.
    pub device: Device,
    /// A stream of cuda-um.
    pub stream: Stream,
    /// CUDA by its own functions, on a stream that knows the default stream, as most C++ programs have it.
    pub raw: Rc<Raw>,
    /// The same table of functions that cuda-um uses.
    pub table: Arc<Table>,
    /// What times are taken by.
    pub clock: Clock,
    /// How much is measured.
    pub settings: Settings,
    /// The other libraries.
    pub peers: Peers,
}

impl Bench {
    /// Opens the GPU, or the simulator.
    ///
    /// # Errors
    /// There is no GPU, or what CUDA reports.
    pub fn open(simulated: bool, settings: Settings) -> Result<Self> {
        let (table, clock) = if simulated {
            um_kernels::sim::register();
            let sim = Sim::from_env()?;
            (sim.table(), Clock::Simulated(sim))
        } else {
            let table = cuda_um::sys::load().context("no CUDA runtime; --sim predicts")?;
            (table, Clock::wall())
        };
        let runtime = Runtime::from_table(Arc::clone(&table))?;
        let device = runtime.device(0).context("no GPU; --sim predicts")?;
        let stream = device.stream()?;
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

    /// What was measured on, in words: the GPU, or that there was none.
    pub fn gpu(&self) -> String {
        match self.clock.is_simulated() {
            true => format!("simulator of: {}", self.device.name()),
            false => self.device.name().to_owned(),
        }
    }
}
