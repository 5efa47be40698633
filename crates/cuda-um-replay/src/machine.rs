//! The simulated machine that a trace is replayed on, and the kernel that stands for all kernels.
#![allow(unsafe_code, reason = "launches the kernel")]

use crate::error::ReplayError;
use cuda_um::{Arguments, Device, Kernel, LaunchConfig, Location, Module, Runtime, Stream};
use cuda_um_sim::{Builder, LaunchContext, TwinError};
use cuda_um_trace::Place;
use std::collections::HashMap;
use std::time::Duration;

/// Buffers that one launch can use; those of more are left out, by bytes the smallest first.
pub(crate) const MAX_ACCESSES: usize = 24;
/// Streams of a device: each simulated one is a thread. The recorded ones beyond share them in turn, so that none of their work comes
/// before what it came after.
pub(crate) const MOST_STREAMS: usize = 64;
const KERNEL: &str = "cuda_um_replay";

pub(crate) struct Machine {
    pub(crate) runtime: Runtime,
    devices: Vec<Device>,
    kernels: Vec<Kernel>,
    streams: Vec<Streams>,
}

/// The streams of a device.
#[derive(Clone, Default)]
struct Streams {
    made: Vec<Stream>,
    /// Which of `made` stands for a recorded one.
    of: HashMap<u64, usize>,
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
            streams: vec![Streams::default(); devices.len()],
            devices,
            kernels,
        })
    }

    /// The ordinal of the device that stands for a recorded one: the last one stands for those that the machine has not.
    pub(crate) fn ordinal(&self, recorded: u32) -> u32 {
        recorded.min(self.devices.len() as u32 - 1)
    }

    /// The device that stands for a recorded one.
    pub(crate) fn device(&self, recorded: u32) -> &Device {
        &self.devices[self.ordinal(recorded) as usize]
    }

    /// Whether pages migrate one by one, so that prefetches are possible.
    pub(crate) fn migrates(&self) -> bool {
        let mut devices = self.devices.iter();
        devices.all(|device| device.capabilities().concurrent_managed_access)
    }

    /// The place that stands for a recorded one.
    pub(crate) fn location(&self, place: Place) -> Location {
        match place {
            Place::Host => Location::Host,
            Place::Device(ordinal) => Location::Device(self.ordinal(ordinal)),
        }
    }

    /// The stream that stands for a recorded one.
    pub(crate) fn stream(&mut self, device: u32, number: Option<u64>) -> cuda_um::Result<&Stream> {
        let ordinal = self.ordinal(device) as usize;
        let streams = &mut self.streams[ordinal];
        let next = streams.of.len();
        let place = *streams.of.entry(number.unwrap_or(0)).or_insert(next) % MOST_STREAMS;
        if place == streams.made.len() {
            streams.made.push(self.devices[ordinal].stream()?);
        }
        Ok(&streams.made[place])
    }

    /// How many recorded streams have no stream of their own.
    pub(crate) fn shared_streams(&self) -> usize {
        let beyond = |streams: &Streams| streams.of.len().saturating_sub(MOST_STREAMS);
        self.streams.iter().map(beyond).sum()
    }

    /// Runs the kernel on arguments as [`ptx`] has them: own time, number of ranges, then address and bytes (with the lowest bit for
    /// a write) of each.
    pub(crate) fn launch(
        &self,
        device: u32,
        stream: &Stream,
        arguments: Arguments<'_>,
    ) -> cuda_um::Result<()> {
        let kernel = &self.kernels[self.ordinal(device) as usize];
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
