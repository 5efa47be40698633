//! The simulated machine of a replay, and the kernel that represents all kernels.
#![allow(unsafe_code, reason = "launches the kernel")]

use crate::replay::error::ReplayError;
use cuda_um::{
    Device, Kernel, LaunchConfig, Location, MemoryKind, Module, Runtime, Stream, kernel::Arguments,
};
use cuda_um_sim::{Builder, LaunchContext, ReferenceError};
use cuda_um_trace::Place;
use std::collections::HashMap;
use std::time::Duration;

/// Limit on the buffers of one launch. Of a launch with more, the smallest ones are left out.
pub(crate) const MAX_ACCESSES: usize = 24;
/// Limit on the streams of a device, because each simulated stream is a thread. Further recorded streams share these in turn,
/// which keeps the order of all work.
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
    /// For each recorded stream, the index in `made` of the stream that represents it.
    of: HashMap<u64, usize>,
}

impl Machine {
    pub(crate) fn build(builder: Builder, devices: usize) -> Result<Self, ReplayError> {
        // SAFETY: only `launch` below launches a kernel of this name on this simulator, with the ranges that the CPU reference
        // touches.
        let builder = unsafe { builder.devices(devices).kernel(KERNEL, reference) };
        let sim = builder.build()?;
        let start = || -> cuda_um::Result<_> {
            let runtime = Runtime::from_table(sim.table())?;
            let devices = runtime.devices()?;
            for device in &devices {
                // The addresses and sizes of the recorded buffers count, not those of blocks.
                device.set_pool_options(MemoryKind::Managed, None)?;
                device.set_pool_options(MemoryKind::Device, None)?;
            }
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

    /// The ordinal of the device that represents a recorded one. The last device represents all devices that the machine does
    /// not have.
    pub(crate) fn ordinal(&self, recorded: u32) -> u32 {
        recorded.min(self.devices.len() as u32 - 1)
    }

    /// The device that represents a recorded one.
    pub(crate) fn device(&self, recorded: u32) -> &Device {
        &self.devices[self.ordinal(recorded) as usize]
    }

    /// True if single pages migrate, so that prefetches are possible.
    pub(crate) fn migrates(&self) -> bool {
        let mut devices = self.devices.iter();
        devices.all(|device| device.capabilities().concurrent_managed_access)
    }

    /// The location that represents a recorded one.
    pub(crate) fn location(&self, place: Place) -> Location {
        match place {
            Place::Host => Location::Host,
            Place::Device(ordinal) => Location::Device(self.ordinal(ordinal)),
        }
    }

    /// The stream that represents a recorded one.
    pub(crate) fn stream(&mut self, device: u32, number: Option<u64>) -> cuda_um::Result<&Stream> {
        let ordinal = self.ordinal(device) as usize;
        let streams = &mut self.streams[ordinal];
        let next = streams.of.len();
        let place = *streams.of.entry(number.unwrap_or(0)).or_insert(next) % MOST_STREAMS;
        if place == streams.made.len() {
            streams.made.push(self.devices[ordinal].create_stream()?);
        }
        Ok(&streams.made[place])
    }

    /// The number of recorded streams that share a stream.
    pub(crate) fn shared_streams(&self) -> usize {
        let beyond = |streams: &Streams| streams.of.len().saturating_sub(MOST_STREAMS);
        self.streams.iter().map(beyond).sum()
    }

    /// Launches the kernel with the arguments of [`ptx`]: own time, number of ranges, then for each range its address and its
    /// bytes (the lowest bit means a write).
    pub(crate) fn launch(
        &self,
        device: u32,
        stream: &Stream,
        arguments: Arguments<'_>,
    ) -> cuda_um::Result<()> {
        let kernel = &self.kernels[self.ordinal(device) as usize];
        // SAFETY: the arguments are those that the CPU reference reads, and it stays inside the ranges that they name.
        unsafe { kernel.launch(stream, LaunchConfig::linear(1, 32), arguments) }
    }

    /// Waits for all work.
    pub(crate) fn synchronize(&self) -> cuda_um::Result<()> {
        self.devices.iter().try_for_each(Device::synchronize)
    }
}

/// Touches the memory of the recorded kernel, and takes the same time.
fn reference(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
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
