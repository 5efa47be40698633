//! The machine for the cases.

use crate::call::{Calls, load_kernels};
use anyhow::{Context, Result, ensure};
use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_sys::{RuntimeVersion, Table, cudaDeviceAttr as Attr};
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::{Arc, Mutex};
use um_profile::MigrationCounter;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Cuda,
    Sim {
        gpu: Gpu,
        cuda: CudaVersion,
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

/// The properties that cases may need: the attributes of these names hold for all devices.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) version: RuntimeVersion,
    pub(crate) devices: usize,
    pub(crate) managed: bool,
    pub(crate) concurrent: bool,
    pub(crate) pageable: bool,
    /// The host's page tables are used, or the host accesses device memory directly.
    pub(crate) coherent: bool,
    pub(crate) pools: bool,
    /// Devices 0 and 1 can access each other's memory.
    pub(crate) peers: bool,
    pub(crate) mapped_host: bool,
    pub(crate) host_register: bool,
    /// Migrations can be counted.
    pub(crate) counters: bool,
    pub(crate) simulated: bool,
}

impl Facts {
    /// Reads the properties of a machine, and creates a context on each device.
    fn read(table: &Table) -> Result<Self> {
        let devices = table.device_count()?;
        ensure!(devices > 0, "no device");
        for device in (0..devices).rev() {
            table.set_device(device)?;
            // Freeing null only creates the context.
            table.free(0)?;
        }
        let has = |device, which: Attr| table.device_attribute(which.0, device);
        let all = |which| (0..devices).all(|device| has(device, which).is_ok_and(|it| it != 0));
        let peers = devices > 1 && table.can_access_peer(0, 1) == Ok(1);
        table.forget_error();
        let host_tables = all(Attr::cudaDevAttrPageableMemoryAccessUsesHostPageTables);
        Ok(Self {
            version: table.version(),
            devices: devices as usize,
            managed: all(Attr::cudaDevAttrManagedMemory),
            concurrent: all(Attr::cudaDevAttrConcurrentManagedAccess),
            pageable: all(Attr::cudaDevAttrPageableMemoryAccess),
            coherent: host_tables || all(Attr::cudaDevAttrDirectManagedMemAccessFromHost),
            pools: all(Attr::cudaDevAttrMemoryPoolsSupported),
            peers,
            mapped_host: all(Attr::cudaDevAttrCanMapHostMemory),
            host_register: all(Attr::cudaDevAttrHostRegisterSupported),
            counters: false,
            simulated: false,
        })
    }
}

/// Kernels by device and name, as addresses of the driver's functions.
pub(crate) type Kernels = Mutex<HashMap<(u32, &'static CStr), usize>>;

/// A runtime, its devices, and a way to count migrations.
pub struct Machine {
    pub(crate) table: Arc<Table>,
    /// The simulator, if it is one.
    pub(crate) sim: Option<Sim>,
    pub(crate) facts: Facts,
    counter: Option<MigrationCounter>,
    pub(crate) kernels: Kernels,
}

impl Machine {
    /// Opens the machine, and creates a context on every device.
    pub fn open(choice: Choice) -> Result<Self> {
        let sim = match choice {
            Choice::Cuda => None,
            Choice::Sim { gpu, cuda, devices } => {
                let builder = Sim::builder().gpu(gpu).cuda(cuda).devices(devices);
                Some(builder.stream_writes(true).build()?)
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
                let told =
                    started.inspect_err(|why| eprintln!("migrations are not counted: {why}"));
                told.ok()
            }
        };
        let facts = Facts::read(&table).context("the runtime has no usable device")?;
        let (simulated, counters) = (sim.is_some(), sim.is_some() || counter.is_some());
        let facts = Facts {
            simulated,
            counters,
            ..facts
        };
        let kernels = Mutex::default();
        let machine = Self {
            table,
            sim,
            facts,
            counter,
            kernels,
        };
        load_kernels(&machine)?;
        Ok(machine)
    }

    /// "CUDA 13.0, 1 × NVIDIA H200".
    pub fn describe(&self) -> Result<String> {
        let Facts {
            version, devices, ..
        } = &self.facts;
        let name = self.table.device_name(0)?;
        Ok(format!("CUDA {version}, {devices} × {name}"))
    }

    /// Bytes that migrated to the device and to the host so far, faults of the host, and groups of faults of the device. Running work is
    /// counted later.
    pub(crate) fn counts(&self) -> Result<[u64; 4]> {
        if let Some(sim) = &self.sim {
            let now = sim.counters();
            return Ok([
                now.bytes_to_device,
                now.bytes_to_host,
                now.cpu_faults,
                now.gpu_fault_groups,
            ]);
        }
        let counter = self
            .counter
            .as_ref()
            .context("migrations are not counted")?;
        let now = counter.read()?;
        ensure!(now.dropped_records == 0, "CUPTI dropped records");
        Ok([
            now.bytes_to_device,
            now.bytes_to_host,
            now.cpu_faults,
            now.gpu_fault_groups,
        ])
    }
}
