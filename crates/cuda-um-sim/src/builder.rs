//! Building a simulator.
// A reference is trusted as a kernel is: giving one is unsafe.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use crate::Sim;
use crate::engine::{AddressSpace, Core, Machine};
use crate::kernel::Twin;
use crate::preset::{CudaVersion, Cupti, Gpu};
use cuda_um_cost::CostModel;

/// Devices that one simulator can have.
const MAX_DEVICES: usize = 8;
/// Addresses of each view: room for several times the memory of the largest machine. ThreadSanitizer leaves a process 8 TiB in all, too few for
/// the two views of more than three simulators; its build takes less.
const ADDRESSES: usize = if cfg!(thread_sanitizer) {
    1 << 38
} else {
    1 << 40
};

/// Why no simulator was built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A simulator has one to eight devices.
    #[error("{devices} devices: a simulator has 1 to {MAX_DEVICES}")]
    Devices {
        /// The number asked for.
        devices: usize,
    },
    /// All slots for simulators of this process stayed taken.
    #[error(
        "{slots} simulators live in this process already, and none ended while waiting: drop one first"
    )]
    NoFreeSlot {
        /// Simulators that can live at one time.
        slots: usize,
    },
    /// The prices of the clock are none that a machine can have.
    #[error("no clock runs on this cost model")]
    Cost(#[from] cuda_um_cost::CostError),
    /// The kernel refused the simulator's address space.
    #[error("no address space for simulated memory")]
    AddressSpace(#[source] io::Error),
    /// The table of functions could not be made.
    #[error("the simulated runtime lacks a symbol that its version should have")]
    Table(#[source] cuda_um_sys::LoadError),
    /// An environment variable holds something else than its documentation lists.
    #[error("{name}={value}: expected {expected}")]
    Environment {
        /// The variable.
        name: &'static str,
        /// What it holds.
        value: String,
        /// What it may hold.
        expected: &'static str,
    },
}

/// Sets up a [`Sim`]: see [`Sim::builder`].
#[derive(Clone, Debug)]
#[must_use = "call `build`"]
pub struct Builder {
    gpu: Gpu,
    cuda: CudaVersion,
    devices: usize,
    twins: HashMap<String, Twin>,
    total_memory_bytes: Option<u64>,
    cost: Option<CostModel>,
    crash_on_misuse: bool,
    cupti: Cupti,
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            gpu: Gpu::default(),
            cuda: CudaVersion::default(),
            devices: 1,
            twins: HashMap::new(),
            total_memory_bytes: None,
            cost: None,
            crash_on_misuse: false,
            cupti: Cupti::default(),
        }
    }

    /// The settings that the environment names, to change some of them: see [`Sim::from_env`](crate::Sim::from_env).
    ///
    /// # Errors
    /// A variable holds something else.
    pub fn from_env() -> Result<Builder, SimError> {
        let mut builder = Builder::new();
        // What is no text is nonsense too, and named as well as can be.
        let read = |name: &'static str| {
            let value = std::env::var_os(name)?.to_string_lossy().into_owned();
            Some(value).filter(|value| !value.is_empty())
        };
        let bad = |name, value, expected| SimError::Environment {
            name,
            value,
            expected,
        };
        if let Some(value) = read("CUDA_UM_SIM_GPU") {
            let gpu = Gpu::parse(&value);
            builder.gpu = gpu.ok_or_else(|| {
                bad(
                    "CUDA_UM_SIM_GPU",
                    value,
                    "h200, gh200, pascal, maxwell or no-concurrent",
                )
            })?;
        }
        if let Some(value) = read("CUDA_UM_SIM_CUDA") {
            let cuda = CudaVersion::parse(&value);
            builder.cuda = cuda
                .ok_or_else(|| bad("CUDA_UM_SIM_CUDA", value, "11.8, 12.2, 12.9, 13.0 or 13.4"))?;
        }
        if let Some(value) = read("CUDA_UM_SIM_DEVICES") {
            let devices = value
                .parse()
                .ok()
                .filter(|devices| (1..=MAX_DEVICES).contains(devices));
            builder.devices =
                devices.ok_or_else(|| bad("CUDA_UM_SIM_DEVICES", value, "a number from 1 to 8"))?;
        }
        Ok(builder)
    }

    /// The generation of GPU; [`Gpu::H200`] unless set. `CUDA_UM_SIM_GPU` for [`Sim::from_env`].
    pub fn gpu(self, gpu: Gpu) -> Builder {
        Builder { gpu, ..self }
    }

    /// The CUDA version; 13.0 unless set. `CUDA_UM_SIM_CUDA` for [`Sim::from_env`].
    pub fn cuda(self, cuda: CudaVersion) -> Builder {
        Builder { cuda, ..self }
    }

    /// The number of devices, all alike, 1 to 8; 1 unless set. `CUDA_UM_SIM_DEVICES` for [`Sim::from_env`].
    pub fn devices(self, devices: usize) -> Builder {
        Builder { devices, ..self }
    }

    /// The CPU reference of a kernel, for this simulator alone; it goes before one of
    /// [`register_kernel`](crate::register_kernel).
    ///
    /// # Safety
    ///
    /// As for [`register_kernel`](crate::register_kernel), for every kernel of this name that is looked up in this simulator: also those
    /// of other crates, whose safe launchers trust it.
    pub unsafe fn kernel(mut self, name: &str, twin: Twin) -> Builder {
        self.twins.insert(name.to_owned(), twin);
        self
    }

    /// Memory of each device, instead of the preset's. It is accounted for, not committed: a simulated device can be larger
    /// than this machine.
    pub fn total_memory_bytes(self, bytes: u64) -> Builder {
        Builder {
            total_memory_bytes: Some(bytes),
            ..self
        }
    }

    /// The prices of the virtual clock, instead of the preset's.
    pub fn cost_model(self, cost: CostModel) -> Builder {
        Builder {
            cost: Some(cost),
            ..self
        }
    }

    /// End the process, as hardware does, when the host touches managed memory that a kernel may be using on a device
    /// without concurrent managed access. Otherwise the touch is recorded as a [`Misuse`](crate::Misuse) and goes ahead.
    pub fn crash_on_misuse(self, crash: bool) -> Builder {
        Builder {
            crash_on_misuse: crash,
            ..self
        }
    }

    /// Which CUPTI it has; [`Cupti::Present`] unless set. One that is there and refuses is played by [`Sim::fail`].
    pub fn cupti(self, cupti: Cupti) -> Builder {
        Builder { cupti, ..self }
    }

    /// Builds the simulator.
    ///
    /// # Errors
    /// The number of devices is not 1 to 8; the cost model holds a value that no machine can have; the kernel refuses the address
    /// space; or 32 simulators live in this process and none ends within half a minute.
    pub fn build(self) -> Result<Sim, SimError> {
        if !(1..=MAX_DEVICES).contains(&self.devices) {
            return Err(SimError::Devices {
                devices: self.devices,
            });
        }
        let mut profile = self.gpu.profile();
        if let Some(bytes) = self.total_memory_bytes {
            profile.total_memory_bytes = bytes;
        }
        let cost = self.cost.unwrap_or_else(|| profile.cost.clone());
        cost.check()?;
        let space = AddressSpace::reserve(ADDRESSES).map_err(SimError::AddressSpace)?;
        let machine = Machine {
            space,
            cost,
            cuda: self.cuda,
            concurrent: profile.concurrent_managed_access,
            coherent: profile.direct_host_access,
            crash_on_misuse: self.crash_on_misuse,
            cupti: self.cupti,
            twins: self.twins,
            profile,
        };
        Sim::start(Core::new(machine, self.devices), Duration::from_secs(30))
    }
}
