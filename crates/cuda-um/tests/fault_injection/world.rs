//! A simulated machine in use, and the operations that must work on it after a failure.

use cuda_um::{
    Device, DeviceBuffer, Error, MemoryKind, PoolOptions, Runtime, Stream, UnifiedBuffer,
};
use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_testkit::faults::check;
use cuda_um_testkit::{Add, on, open, without_pools};
use std::fmt;
use std::sync::Mutex;

/// The simulated machine.
#[derive(Clone, Copy)]
pub struct Machine {
    pub gpu: Gpu,
    pub cuda: CudaVersion,
    pub devices: usize,
    /// True if the devices have their default pools.
    pub pooled: bool,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?} x{}", self.gpu, self.cuda, self.devices)
    }
}

/// A machine in use.
pub struct World {
    pub sim: Sim,
    pub runtime: Runtime,
    /// One for each device.
    pub posts: Vec<Post>,
    /// Errors of a scenario in addition to the one that it returns.
    pub more_errors: Mutex<Vec<Error>>,
}

/// A device in use.
pub struct Post {
    pub device: Device,
    pub stream: Stream,
    pub add: Add,
    /// Allocated before anything fails.
    witness: UnifiedBuffer<u32>,
}

const WITNESS: usize = 2000;

impl World {
    /// The device for scenarios with one device: the last one, so that on a machine with several devices it is not the thread's
    /// current device.
    pub fn here(&self) -> &Post {
        self.posts.last().expect("a machine has a device")
    }

    /// What it has.
    pub fn parts(&self) -> (&Device, &Stream, &Add) {
        let here = self.here();
        (&here.device, &here.stream, &here.add)
    }

    /// True if managed memory migrates, so that prefetch and advice are possible.
    pub fn migrates(&self) -> bool {
        self.here().device.capabilities().concurrent_managed_access
    }

    /// Returns the first error; the others are stored in `more_errors`.
    pub fn all_of(
        &self,
        outcomes: impl IntoIterator<Item = cuda_um::Result<()>>,
    ) -> cuda_um::Result<()> {
        let mut errors = outcomes.into_iter().filter_map(Result::err);
        let Some(first) = errors.next() else {
            return Ok(());
        };
        self.more_errors.lock().unwrap().extend(errors);
        Err(first)
    }
}

impl check::World for World {
    type Machine = Machine;
    type Error = Error;

    fn new(machine: Machine) -> Self {
        let builder = Sim::builder().gpu(machine.gpu).cuda(machine.cuda);
        let builder = builder.devices(machine.devices);
        let sim = builder.build().unwrap();
        let runtime = open(&sim);
        let ordinals = 0..machine.devices as u32;
        let posts = ordinals.map(|ordinal| Post::new(&runtime, ordinal, machine.pooled));
        let posts: Vec<_> = posts.collect();
        for post in &posts {
            post.device.synchronize().unwrap();
        }
        sim.clear_trace();
        Self {
            sim,
            runtime,
            posts,
            more_errors: Mutex::default(),
        }
    }

    fn sim(&self) -> &Sim {
        &self.sim
    }

    fn runtime(&self) -> Runtime {
        self.runtime.clone()
    }

    fn cause(error: &Error) -> Option<&Error> {
        Some(error)
    }

    fn more_errors(&self) -> Vec<Error> {
        std::mem::take(&mut self.more_errors.lock().unwrap())
    }

    fn still_works(&mut self) -> cuda_um::Result<()> {
        self.posts.iter_mut().try_for_each(Post::still_works)
    }

    fn not_sticky(&mut self) -> Vec<String> {
        self.posts.iter_mut().flat_map(Post::not_sticky).collect()
    }
}

impl Post {
    fn new(runtime: &Runtime, ordinal: u32, pooled: bool) -> Self {
        let (device, stream) = on(runtime, ordinal);
        match pooled {
            // Blocks above 1 MiB have slabs of their own, of which none is kept.
            true => {
                let options = PoolOptions::default().slab_bytes(2 << 20).keep_bytes(0);
                let kind = MemoryKind::Device;
                device.set_pool_options(kind, options).unwrap();
            }
            // Each buffer makes its calls.
            false => without_pools(&device),
        }
        let add = Add::load(&device);
        let mut witness = UnifiedBuffer::<u32>::zeroed(&device, WITNESS).unwrap();
        for (i, value) in witness.host_mut().unwrap().iter_mut().enumerate() {
            *value = i as u32;
        }
        Self {
            device,
            stream,
            add,
            witness,
        }
    }

    /// Checks that the witness has its contents and can be used in every way, and that new memory can be allocated.
    fn still_works(&mut self) -> cuda_um::Result<()> {
        let is_right = |values: &[u32], plus: u32| {
            let mut numbers = values.iter().enumerate();
            assert!(
                numbers.all(|(i, x)| *x == i as u32 + plus),
                "the witness has changed"
            );
        };
        is_right(&self.witness.host()?, 0);
        self.add
            .try_run(&self.stream, &mut self.witness, WITNESS, 3)?;
        let mut copy = DeviceBuffer::<u32>::zeroed(&self.device, WITNESS)?;
        self.device
            .create_stream()?
            .copy(&self.witness, &mut copy)?;
        is_right(&copy.to_vec()?, 3);
        self.witness.fill_on(9, &self.stream)?;
        assert!(self.witness.host()?.iter().all(|x| *x == 9));
        for (i, value) in self.witness.host_mut()?.iter_mut().enumerate() {
            *value = i as u32;
        }
        copy.close()?;
        UnifiedBuffer::from_slice(&self.device, &[1u8; 100])?.close()?;
        self.device.synchronize()
    }

    fn not_sticky(&mut self) -> Vec<String> {
        let (device, stream) = (&self.device, &self.stream);
        let outcomes = [
            ("a stream", device.create_stream().map(drop)),
            (
                "an allocation",
                DeviceBuffer::<u8>::zeroed(device, 100).map(drop),
            ),
            (
                "a managed allocation",
                UnifiedBuffer::<u8>::zeroed(device, 100).map(drop),
            ),
            ("synchronize", stream.synchronize()),
            (
                "a launch",
                self.add.try_run(stream, &mut self.witness, 10, 1),
            ),
            ("a fill", self.witness.fill_on(1, stream)),
            ("a guard", self.witness.host().map(drop)),
            ("reading back", self.witness.to_vec().map(drop)),
            ("the device", device.synchronize()),
        ];
        let wrong = outcomes.into_iter().filter_map(|(what, outcome)| {
            let found = match outcome {
                Ok(()) => "works".to_owned(),
                Err(error) if error.is_sticky() => return None,
                Err(error) => format!("says {error}"),
            };
            let ordinal = device.ordinal();
            Some(format!(
                "after a sticky error {what} on device {ordinal} {found}"
            ))
        });
        wrong.collect()
    }
}
