//! The simulated machine that a trace is replayed on, and the kernel that stands for all kernels.
#![allow(unsafe_code, reason = "launches the kernel")]

use crate::error::ReplayError;
use cuda_um::{Arguments, Device, Kernel, LaunchConfig, Module, Runtime, Stream};
use cuda_um_sim::{Builder, LaunchContext, TwinError};
use std::collections::HashMap;
use std::time::Duration;

/// Buffers that one launch can use; those of more are left out, by bytes the smallest first.
pub(crate) const MAX_ACCESSES: usize = 24;
const KERNEL: &str = "cuda_um_replay";

pub(crate) struct Machine {
    pub(crate) runtime: Runtime,
    devices: Vec<Device>,
    kernels: Vec<Kernel>,
    streams: HashMap<(u32, u64), Stream>,
}

impl Machine {
    pub(crate) fn build(builder: Builder, devices: usize) -> Result<Self, ReplayError> {
        // SAFETY: only `launch` below launches a kernel of this name on this simulator, with the ranges that `twin` touches.
        let builder = unsafe { builder.devices(devices).kernel(KERNEL, twin) };
        let sim = builder.build()?;
        let start = || -> cuda_um::Result<_> {
            let runtime = Runtime::from_table(sim.table())?;
            let devices = runtime.devices()?;
            let kernels = devices
                .iter()
                .map(|device| Module::load(device, &ptx())?.kernel(KERNEL))
                .collect::<cuda_um::Result<Vec<_>>>()?;
            Ok((runtime, devices, kernels))
        };
        let (runtime, devices, kernels) = start().map_err(|cause| ReplayError::Operation {
            operation: "starting the machine".to_owned(),
            cause,
        })?;
        Ok(Self {
            runtime,
            devices,
            kernels,
            streams: HashMap::new(),
        })
    }

    /// A device of the machine; the last one stands for those that it has not.
    pub(crate) fn device(&self, ordinal: u32) -> &Device {
        &self.devices[(ordinal as usize).min(self.devices.len() - 1)]
    }

    /// Whether pages migrate one by one, so that prefetches are possible.
    pub(crate) fn migrates(&self) -> bool {
        let mut devices = self.devices.iter();
        devices.all(|device| device.capabilities().concurrent_managed_access)
    }

    /// The stream that stands for a recorded one.
    pub(crate) fn stream(&mut self, device: u32, number: Option<u64>) -> cuda_um::Result<&Stream> {
        let key = (device, number.unwrap_or(0));
        if !self.streams.contains_key(&key) {
            let stream = self.device(device).stream()?;
            self.streams.insert(key, stream);
        }
        Ok(&self.streams[&key])
    }

    /// Runs the kernel on arguments as [`ptx`] has them: own time, number of ranges, then address and bytes (with the lowest bit for
    /// a write) of each.
    pub(crate) fn launch(
        &self,
        device: u32,
        stream: &Stream,
        arguments: Arguments<'_>,
    ) -> cuda_um::Result<()> {
        let kernel = &self.kernels[(device as usize).min(self.kernels.len() - 1)];
        // SAFETY: the arguments are those that the twin reads, which stays inside the ranges that they name.
        unsafe { kernel.launch(stream, LaunchConfig::linear(1, 32), arguments) }
    }

    /// Waits for everything.
    pub(crate) fn synchronize(&self) -> cuda_um::Result<()> {
        self.devices.iter().try_for_each(Device::synchronize)
    }
}

/// Touches what the recorded kernel was given, and takes as long as it did.
fn twin(launch: &mut LaunchContext<'_>) -> Result<(), TwinError> {
    let (own, count) = (launch.value::<u64>(0)?, launch.value::<u64>(1)?);
    for range in 0..count as usize {
        let (at, size) = (2 + 2 * range, launch.value::<u64>(3 + 2 * range)?);
        let (bytes, write) = ((size >> 1) as usize, size & 1 == 1);
        if write {
            launch.slice_mut::<u8>(at, bytes)?;
        } else {
            launch.slice::<u8>(at, bytes)?;
        }
    }
    launch.lasts(Duration::from_nanos(own));
    Ok(())
}

fn ptx() -> String {
    let parameters: Vec<String> = (0..2 + 2 * MAX_ACCESSES)
        .map(|index| format!(".param .u64 p{index}"))
        .collect();
    format!(
        ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry {KERNEL}({}) {{ ret; }}\n",
        parameters.join(", ")
    )
}
