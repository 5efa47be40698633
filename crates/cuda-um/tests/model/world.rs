//! The real side: a simulated or real machine.

use crate::kernels::Kernels;
use cuda_um::{Device, Devices, Error, ErrorKind, Runtime, Stream};
use cuda_um_sim::{CudaVersion, Gpu, Leak, Sim};
use cuda_um_testkit::call::Calls;
use cuda_um_testkit::{machine, open};

/// A machine for the sequences.
#[derive(Clone, Copy, Debug)]
pub enum Spec {
    Simulated {
        gpu: Gpu,
        cuda: CudaVersion,
        devices: usize,
    },
    /// The machine of the tests.
    Real,
}

pub const STREAMS: usize = 3;

/// A machine, used for several sequences.
#[derive(Clone)]
pub struct Machine {
    pub sim: Option<Sim>,
    pub runtime: Runtime,
    pub sides: Vec<Side>,
    /// True if the devices access each other's memory.
    pub has_peer_access: bool,
    /// True if it refuses some advice, prefetches and kinds of memory.
    pub poor: bool,
    /// True if `residency` queries the driver.
    pub tells_residency: bool,
}

/// The objects for each device of a machine.
#[derive(Clone)]
pub struct Side {
    pub device: Device,
    pub streams: [Stream; STREAMS],
    pub kernels: Kernels,
}

impl Machine {
    pub fn new(spec: Spec) -> Self {
        let sim = match spec {
            Spec::Real => None,
            Spec::Simulated { gpu, cuda, devices } => {
                let builder = Sim::builder().gpu(gpu).cuda(cuda).devices(devices);
                Some(builder.build().unwrap())
            }
        };
        let runtime = match &sim {
            Some(sim) => open(sim),
            None => machine().1,
        };
        let side = |device: Device| Side {
            streams: std::array::from_fn(|_| device.create_stream().unwrap()),
            kernels: Kernels::load(&device),
            device,
        };
        // One device of a real machine: without held streams, several devices would not show ordering errors.
        let count = if sim.is_some() { usize::MAX } else { 1 };
        let devices = runtime.devices().unwrap().into_iter().take(count);
        let sides: Vec<_> = devices.map(side).collect();
        // Without it, a launch with memory of another device is refused, which the machines of two devices check.
        let has_peer_access = sides.len() > 2;
        if has_peer_access {
            let devices = sides.iter().map(|side| side.device.clone());
            Devices::of(devices).unwrap().enable_peer_access().unwrap();
        }
        // The caller's device is the same after every call, and no call may take device 0 for it.
        if let Some(sim) = &sim {
            sim.table().set_device(sides.len() as i32 - 1).unwrap();
        }
        let is_poor = |side: &Side| {
            let can = side.device.capabilities();
            !(can.concurrent_managed_access && can.map_host_memory)
        };
        Self {
            poor: sides.iter().any(is_poor),
            // The page sampling of a real driver is not specified.
            tells_residency: matches!(
                spec,
                Spec::Simulated {
                    cuda: CudaVersion::V13_4,
                    ..
                }
            ),
            sim,
            runtime,
            has_peer_access,
            sides,
        }
    }

    /// The side and the index of a stream.
    fn place(&self, stream: u8) -> (usize, usize) {
        let stream = usize::from(stream);
        let sides = self.sides.len();
        (stream % sides, stream / sides % STREAMS)
    }

    pub fn stream(&self, stream: u8) -> (&Side, &Stream) {
        let (side, at) = self.place(stream);
        (&self.sides[side], &self.sides[side].streams[at])
    }

    pub fn new_stream(&mut self, stream: u8) -> Result<(), Error> {
        let (side, at) = self.place(stream);
        self.sides[side].streams[at] = self.sides[side].device.create_stream()?;
        Ok(())
    }

    pub fn synchronize(&self) -> Result<(), Error> {
        self.sides
            .iter()
            .try_for_each(|side| side.device.synchronize())
    }

    /// After a sequence: checks that nothing is leaked, and that nothing was done that CUDA forbids.
    pub fn nothing_left(&self) -> Result<(), String> {
        self.runtime.reclaim().map_err(|error| error.to_string())?;
        self.synchronize().map_err(|error| error.to_string())?;
        for side in &self.sides {
            side.device.trim();
        }
        let Some(sim) = &self.sim else {
            return Ok(());
        };
        let current = sim.table().current_device();
        if current != Ok(self.sides.len() as i32 - 1) {
            return Err(format!("the thread's device is {current:?}"));
        }
        sim.clear_trace();
        let mut leaks = sim.leaks();
        leaks.retain(|leak| matches!(leak, Leak::Memory { .. }));
        if !leaks.is_empty() {
            return Err(format!("leaks: {leaks:?}"));
        }
        match sim.misuse() {
            misuse if misuse.is_empty() => Ok(()),
            misuse => Err(format!("misuse: {misuse:?}")),
        }
    }

    /// After the last sequence: also releases streams, events and modules.
    pub fn close(self) -> Result<(), String> {
        let Self {
            sim,
            runtime,
            sides,
            ..
        } = self;
        drop((sides, runtime));
        match sim.map(|sim| sim.leaks()) {
            Some(leaks) if !leaks.is_empty() => Err(format!("leaks at the end: {leaks:?}")),
            _ => Ok(()),
        }
    }
}

/// True for an error that the machine may give.
pub fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::NotSupported
}
