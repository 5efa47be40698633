//! The machine for the cases.

mod open;

use anyhow::{Context, Result, ensure};
use um_profile::MigrationCounter;
use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_sys::{RuntimeVersion, Table};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// The choice of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The CUDA runtime and the GPUs of this machine.
    Cuda,
    /// A simulator.
    Sim {
        /// The generation of GPU.
        gpu: Gpu,
        /// The CUDA version.
        cuda: CudaVersion,
        /// The number of devices.
        devices: usize,
    },
}

/// The simulator's generations of GPU, by name.
pub const GPUS: &[(&str, Gpu)] = &[
    ("h200", Gpu::H200),
    ("gh200", Gpu::Gh200),
    ("pascal", Gpu::Pascal),
    ("maxwell", Gpu::Maxwell),
    ("hmm", Gpu::Hmm),
    ("gb10", Gpu::Gb10),
    ("no-concurrent", Gpu::NoConcurrentAccess),
];

/// The simulator's CUDA versions, by name.
pub const VERSIONS: &[(&str, CudaVersion)] = &[
    ("11.8", CudaVersion::V11_8),
    ("12.2", CudaVersion::V12_2),
    ("12.9", CudaVersion::V12_9),
    ("13.0", CudaVersion::V13_0),
    ("13.4", CudaVersion::V13_4),
];

impl Choice {
    /// The options of `um_conformance` for this choice.
    pub fn arguments(self) -> Vec<String> {
        let words = match self {
            Choice::Cuda => "--runtime cuda".to_owned(),
            Choice::Sim { gpu, cuda, devices } => format!(
                "--runtime sim --gpu {} --cuda {} --devices {devices}",
                name(GPUS, gpu),
                name(VERSIONS, cuda)
            ),
        };
        words.split(' ').map(str::to_owned).collect()
    }
}

fn name<T: Copy + PartialEq>(names: &[(&'static str, T)], value: T) -> &'static str {
    let found = names.iter().find(|(_, listed)| *listed == value);
    found.expect("all are listed").0
}

/// The properties that cases may need.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The runtime's version.
    pub version: RuntimeVersion,
    /// Devices.
    pub devices: usize,
    /// `cudaDevAttrManagedMemory`. This and the following fields hold for all devices.
    pub managed: bool,
    /// `cudaDevAttrConcurrentManagedAccess`.
    pub concurrent: bool,
    /// `cudaDevAttrPageableMemoryAccess`.
    pub pageable: bool,
    /// `cudaDevAttrPageableMemoryAccessUsesHostPageTables`, or direct access from the host.
    pub coherent: bool,
    /// `cudaDevAttrMemoryPoolsSupported`.
    pub pools: bool,
    /// Devices 0 and 1 can access each other's memory.
    pub peers: bool,
    /// `cudaDevAttrCanMapHostMemory`.
    pub mapped_host: bool,
    /// `cudaDevAttrHostRegisterSupported`.
    pub host_register: bool,
    /// Migrations can be counted.
    pub counters: bool,
    /// It is a simulator.
    pub simulated: bool,
}

/// The number of migrations and page faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) to_device: u64,
    pub(crate) to_host: u64,
    pub(crate) cpu_faults: u64,
    pub(crate) gpu_fault_groups: u64,
}

/// Kernels by (device, name), as addresses of the driver's functions.
pub(crate) type Kernels = Mutex<HashMap<(u32, &'static str), usize>>;

/// A runtime, its devices, and a way to count migrations.
pub struct Machine {
    /// The functions.
    pub table: Arc<Table>,
    /// The simulator, if it is one.
    pub sim: Option<Sim>,
    /// The properties of the machine.
    pub facts: Facts,
    counter: Option<MigrationCounter>,
    pub(crate) kernels: Kernels,
}

impl Machine {
    /// The number of migrations so far; running work is counted later.
    pub(crate) fn counts(&self) -> Result<Counts> {
        if let Some(sim) = &self.sim {
            let counters = sim.counters();
            return Ok(Counts {
                to_device: counters.bytes_to_device,
                to_host: counters.bytes_to_host,
                cpu_faults: counters.cpu_faults,
                gpu_fault_groups: counters.gpu_fault_groups,
            });
        }
        let counter = self
            .counter
            .as_ref()
            .context("migrations are not counted")?;
        let counts = counter.read()?;
        ensure!(counts.dropped_records == 0, "CUPTI dropped records");
        Ok(Counts {
            to_device: counts.bytes_to_device,
            to_host: counts.bytes_to_host,
            cpu_faults: counts.cpu_faults,
            gpu_fault_groups: counts.gpu_fault_groups,
        })
    }
}
