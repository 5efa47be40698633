//! Opens a machine by calling its own functions.

use super::{Choice, Facts, Machine};
use crate::{call, kernels};
use anyhow::{Context, Result, ensure};
use um_profile::MigrationCounter;
use cuda_um_sim::Sim;
use std::sync::{Arc, Mutex};

impl Machine {
    /// Opens the machine, and creates a context on every device.
    ///
    /// # Errors
    /// There is no runtime or no device, or it does not respond.
    pub fn open(choice: Choice) -> Result<Self> {
        kernels::register();
        let sim = match choice {
            Choice::Cuda => None,
            Choice::Sim { gpu, cuda, devices } => {
                let builder = Sim::builder()
                    .gpu(gpu)
                    .cuda(cuda)
                    .devices(devices)
                    .stream_writes(true);
                Some(builder.build()?)
            }
        };
        let table = match &sim {
            Some(sim) => sim.table(),
            None => cuda_um_sys::load().context("no CUDA runtime; --runtime sim needs none")?,
        };
        // CUPTI does not report managed memory that was allocated before its start.
        let counter = match &sim {
            Some(_) => None,
            None => {
                let runtime = cuda_um::Runtime::from_table(Arc::clone(&table))?;
                let started = MigrationCounter::start(&runtime);
                started
                    .inspect_err(|error| eprintln!("migrations are not counted: {error}"))
                    .ok()
            }
        };
        let mut facts = call::device::facts(&table).context("the runtime has no usable device")?;
        facts.simulated = sim.is_some();
        facts.counters = sim.is_some() || counter.is_some();
        ensure!(facts.devices > 0, "no device");
        let machine = Self {
            table,
            sim,
            facts,
            counter,
            kernels: Mutex::default(),
        };
        call::driver::load_kernels(&machine)?;
        Ok(machine)
    }

    /// "CUDA 13.0, 1 × NVIDIA H200".
    ///
    /// # Errors
    /// The driver does not return the device's name.
    pub fn describe(&self) -> Result<String> {
        let name = call::driver::device_name(&self.table, 0)?;
        let Facts {
            version, devices, ..
        } = &self.facts;
        Ok(format!("CUDA {version}, {devices} × {name}"))
    }
}
