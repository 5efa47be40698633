//! Building a simulator.

use std::time::Duration;

use crate::Sim;
use crate::engine::{AddressSpace, Core, Machine};
use crate::error::{MAX_DEVICES, SimError};
use crate::preset::{CudaVersion, Cupti, Gpu, KernelChecks, Topology};
use cuda_um_cost::CostModel;

/// Sets up a [`Sim`]: see [`Sim::builder`].
#[derive(Clone, Debug)]
#[must_use = "call `build`"]
pub struct Builder {
    gpu: Gpu,
    cuda: CudaVersion,
    devices: usize,
    topology: Option<Topology>,
    kernel_checks: KernelChecks,
    kernel_instructions: u64,
    kernel_seed: u64,
    total_memory_bytes: Option<u64>,
    page_cache_bytes: u64,
    cost: Option<CostModel>,
    crash_on_misuse: bool,
    cupti: Cupti,
    stream_writes: bool,
    host_register: bool,
}

impl Sim {
    /// Starts to configure a simulator.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Builds a simulator with the settings of the environment: `CUDA_UM_SIM_GPU` (`h200`, `gh200`, `hmm`, `gb10`,
    /// `pascal`, `maxwell`, `no-concurrent`), `CUDA_UM_SIM_CUDA` (`11.8`, `12.2`, `12.9`, `13.0`, `13.4`), `CUDA_UM_SIM_DEVICES` (1 to 8) and
    /// `CUDA_UM_SIM_KERNEL_CHECKS` (`none`, `default`, `all`). The defaults are `h200`, `13.0`, 1 and `default`.
    ///
    /// # Errors
    /// A variable holds another value, or as for [`Builder::build`].
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
            topology: None,
            kernel_checks: KernelChecks::default(),
            kernel_instructions: 1 << 40,
            kernel_seed: 0,
            total_memory_bytes: None,
            page_cache_bytes: 0,
            cost: None,
            crash_on_misuse: false,
            cupti: Cupti::default(),
            stream_writes: false,
            host_register: true,
        }
    }

    /// The settings of the environment, to change some of them: see [`Sim::from_env`](crate::Sim::from_env).
    ///
    /// # Errors
    /// A variable holds another value.
    pub fn from_env() -> Result<Builder, SimError> {
        let mut builder = Builder::new();
        // A value that is not UTF-8 is wrong, too: the error shows it approximately.
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
                    "h200, gh200, hmm, gb10, pascal, maxwell or no-concurrent",
                )
            })?;
        }
        if let Some(value) = read("CUDA_UM_SIM_CUDA") {
            let cuda = CudaVersion::parse(&value);
            builder.cuda = cuda
                .ok_or_else(|| bad("CUDA_UM_SIM_CUDA", value, "11.8, 12.2, 12.9, 13.0 or 13.4"))?;
        }
        if let Some(value) = read("CUDA_UM_SIM_KERNEL_CHECKS") {
            let checks = KernelChecks::parse(&value);
            let expected = "none, default or all";
            builder.kernel_checks =
                checks.ok_or_else(|| bad("CUDA_UM_SIM_KERNEL_CHECKS", value, expected))?;
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

    /// Sets the generation of GPU; [`Gpu::H200`] unless set. `CUDA_UM_SIM_GPU` for [`Sim::from_env`].
    pub fn gpu(self, gpu: Gpu) -> Builder {
        Builder { gpu, ..self }
    }

    /// Sets the CUDA version; 13.0 unless set. `CUDA_UM_SIM_CUDA` for [`Sim::from_env`].
    pub fn cuda(self, cuda: CudaVersion) -> Builder {
        Builder { cuda, ..self }
    }

    /// Sets the number of devices, 1 to 8, of the same generation; 1 unless set. `CUDA_UM_SIM_DEVICES` for [`Sim::from_env`].
    pub fn devices(self, devices: usize) -> Builder {
        Builder { devices, ..self }
    }

    /// Sets how the devices are connected; unless set, as the generation of GPU usually is: H200s by NVLink.
    pub fn topology(self, topology: Topology) -> Builder {
        Builder {
            topology: Some(topology),
            ..self
        }
    }

    /// Sets what is checked while kernels run; [`KernelChecks::Default`] unless set. `CUDA_UM_SIM_KERNEL_CHECKS` for [`Sim::from_env`].
    pub fn kernel_checks(self, kernel_checks: KernelChecks) -> Builder {
        Builder {
            kernel_checks,
            ..self
        }
    }

    /// Sets the number of instructions, counted once for the 32 threads of a warp, after which a launch fails with
    /// `cudaErrorLaunchTimeout`, so that a kernel that never ends is an error; 2^40 unless set.
    pub fn kernel_instructions(self, instructions: u64) -> Builder {
        Builder {
            kernel_instructions: instructions,
            ..self
        }
    }

    /// Sets the order in which blocks and warps run: with 0, the default, by their numbers; any other number gives another order, always
    /// the same one.
    pub fn kernel_seed(self, seed: u64) -> Builder {
        Builder {
            kernel_seed: seed,
            ..self
        }
    }

    /// Sets the memory of each device, instead of the preset's. It is only accounted for, so that a simulated device can have more memory
    /// than this machine.
    pub fn total_memory_bytes(self, bytes: u64) -> Builder {
        Builder {
            total_memory_bytes: Some(bytes),
            ..self
        }
    }

    /// Sets the page cache of the operating system on an integrated device (GB10, Jetson), whose memory is the host's: `cudaMemGetInfo` counts
    /// these bytes as used, and allocations reclaim them. The default is 0. Other devices have no page cache.
    pub fn page_cache_bytes(self, bytes: u64) -> Builder {
        Builder {
            page_cache_bytes: bytes,
            ..self
        }
    }

    /// Sets the cost model of the virtual clock, instead of the preset's.
    pub fn cost_model(self, cost: CostModel) -> Builder {
        Builder {
            cost: Some(cost),
            ..self
        }
    }

    /// With `true`, ends the process, as hardware does, when the host touches managed memory that a kernel may be using on a device
    /// without concurrent managed access. With `false`, the default, the touch succeeds and is recorded as a [`Misuse`](crate::Misuse).
    pub fn crash_on_misuse(self, crash: bool) -> Builder {
        Builder {
            crash_on_misuse: crash,
            ..self
        }
    }

    /// Sets the CUPTI of the machine; [`Cupti::Present`] unless set. [`Sim::fail`] simulates one that is present and refuses.
    pub fn cupti(self, cupti: Cupti) -> Builder {
        Builder { cupti, ..self }
    }

    /// With `true`, streams can write values to memory (`cuStreamWriteValue32`, from CUDA 12.0 on). Off by default: the host polls such a
    /// value, which the simulator does not see, so the calls of a program would depend on the speed of this machine. The virtual clock
    /// assumes that the host polls until the value arrives.
    pub fn stream_writes(self, stream_writes: bool) -> Builder {
        Builder {
            stream_writes,
            ..self
        }
    }

    /// With `false`, CUDA registers no memory of the host (`hostRegisterSupported`). On by default.
    pub fn host_register(self, host_register: bool) -> Builder {
        Builder {
            host_register,
            ..self
        }
    }

    /// Builds the simulator.
    ///
    /// # Errors
    /// The number of devices is not 1 to 8; a device has no memory; the cost model holds an impossible value; the kernel refuses the address space; or 32
    /// simulators exist in this process, and none ends within half a minute.
    pub fn build(self) -> Result<Sim, SimError> {
        if !(1..=MAX_DEVICES).contains(&self.devices) {
            return Err(SimError::Devices {
                devices: self.devices,
            });
        }
        let mut profile = self.gpu.profile();
        if let Some(bytes) = self.total_memory_bytes {
            if bytes == 0 {
                return Err(SimError::NoMemory);
            }
            profile.total_memory_bytes = bytes;
        }
        if profile.integrated {
            profile.page_cache_bytes = self.page_cache_bytes;
        }
        let cost = self.cost.unwrap_or_else(|| profile.cost.clone());
        cost.check()?;
        let space = AddressSpace::new().map_err(SimError::AddressSpace)?;
        let machine = Machine {
            space,
            cost,
            cuda: self.cuda,
            topology: self.topology.unwrap_or(profile.topology),
            concurrent: profile.concurrent_managed_access,
            coherent: profile.direct_host_access,
            crash_on_misuse: self.crash_on_misuse,
            cupti: self.cupti,
            stream_writes: self.stream_writes,
            checks: self.kernel_checks.of_machine(),
            instructions: self.kernel_instructions,
            seed: self.kernel_seed,
            host_register: self.host_register,
            profile,
        };
        Sim::start(Core::new(machine, self.devices), Duration::from_secs(30))
    }
}
