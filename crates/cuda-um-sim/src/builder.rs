//! Building a simulator.
// A reference is trusted as a kernel is: giving one is unsafe.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::time::Duration;

use crate::Sim;
use crate::engine::{AddressSpace, Core, Machine};
use crate::error::{MAX_DEVICES, SimError};
use crate::kernel::Twin;
use crate::preset::{CudaVersion, Cupti, Gpu};
use cuda_um_cost::CostModel;

/// Addresses of each view: room for several times the memory of the largest machine. ThreadSanitizer leaves a process 8 TiB in all, too few for
/// the two views of more than three simulators; its build takes less.
const ADDRESSES: usize = if cfg!(thread_sanitizer) {
    1 << 38
} else {
    1 << 40
};

/// Sets up a [`Sim`]: see [`Sim::builder`].
#[derive(Clone, Debug)]
#[must_use = "call `build`"]
pub struct Builder {
    gpu: Gpu,
    cuda: CudaVersion,
    devices: usize,
    references: HashMap<String, Twin>,
    total_memory_bytes: Option<u64>,
    cost: Option<CostModel>,
    crash_on_misuse: bool,
    cupti: Cupti,
}

impl Sim {
    /// A simulator with settings.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A simulator as the environment says: `CUDA_UM_SIM_GPU` (`h200`, `gh200`, `pascal`, `maxwell`, `no-concurrent`),
    /// `CUDA_UM_SIM_CUDA` (`11.8`, `12.2`, `12.9`, `13.0`, `13.4`) and `CUDA_UM_SIM_DEVICES` (1 to 8). What is not set is an H200,
    /// 13.0, and 1.
    ///
    /// # Errors
    /// A variable holds something else, or as for [`Builder::build`].
    pub fn from_env() -> Result<Sim, SimError> {
        Builder::from_env()?.build()
    }
}

impl Builder {
    pub(crate) fn new() -> Builder {
        Builder {
            gpu: Gpu::default(),
            cuda: CudaVersion::default(),
            devices: 1,
            references: HashMap::new(),
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
    pub unsafe fn kernel(mut self, name: &str, reference: Twin) -> Builder {
        self.references.insert(name.to_owned(), reference);
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
            references: self.references,
            profile,
        };
        Sim::start(Core::new(machine, self.devices), Duration::from_secs(30))
    }
}
