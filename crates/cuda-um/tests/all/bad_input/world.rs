//! Two devices, a second runtime and a buffer of each kind; and the check that a refused call has not changed any of them.

use cuda_um::{
    Device, DeviceBuffer, Error, ErrorKind, Event, Location, MemoryKind, PinnedBuffer, Placement,
    Pool, PoolOptions, RegisteredBuffer, Result, Stream, UnifiedBuffer, UnifiedOptions,
    managed::RangeAttributes,
    resource::{DeviceArena, MemoryInfo, PoolStats},
};
use cuda_um_sim::{CudaVersion, Gpu, Sim};
use cuda_um_sys::cudaError;
use cuda_um_testkit::{Add, Checked, checked, message, on};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Elements of each buffer.
pub const LEN: usize = 1000;
/// Memory of each device.
pub const DEVICE_BYTES: usize = 64 << 20;

/// The objects for the calls.
pub struct World {
    pub device: Device,
    pub stream: Stream,
    /// An event without a time. Its stream keeps it, too.
    pub untimed: Event,
    /// Another device of the same runtime, and a stream on it.
    pub second: (Device, Stream),
    /// A device of another runtime, and a stream on it.
    pub other: (Device, Stream),
    pub unified: UnifiedBuffer<u32>,
    pub mapped: UnifiedBuffer<u32>,
    pub on_device: DeviceBuffer<u32>,
    pub pinned: PinnedBuffer<u32>,
    pub registered: RegisteredBuffer<'static, u32>,
    pub pooled: UnifiedBuffer<u32>,
    /// One element shorter.
    pub shorter: DeviceBuffer<u32>,
    pub on_second: DeviceBuffer<u32>,
    pub of_other: UnifiedBuffer<u32>,
    pub unified_pool: Pool,
    pub pinned_pool: Pool,
    pub arena: DeviceArena,
    pub device_pool: Pool,
    pub add: Add,
    /// Declared last, so that it is dropped after all objects; its drop checks that nothing is left.
    sim: Checked,
    _sim_of_other: Checked,
}

pub type Call = dyn Fn(&mut World) -> Result<()>;

/// A call with an invalid argument.
pub struct Case {
    /// The function, for messages.
    pub of: &'static str,
    /// The invalid argument.
    pub given: String,
    pub call: Box<Call>,
    pub kind: ErrorKind,
    /// Texts that the error must contain.
    pub says: Vec<String>,
    pub cuda: CudaVersion,
}

/// `"function", "what is wrong": |world| call => Kind, ["text", …];`
macro_rules! cases {
    ($($of:expr, $given:literal: |$world:ident| $call:expr => $kind:ident, [$($says:expr),* $(,)?];)*) => {
        [$($crate::bad_input::world::Case {
            of: $of,
            given: $given.to_owned(),
            call: Box::new(|$world: &mut $crate::bad_input::world::World| -> cuda_um::Result<()> {
                let result: cuda_um::Result<_> = $call;
                result.map(drop)
            }),
            kind: cuda_um::ErrorKind::$kind,
            says: vec![$($says.to_owned()),*],
            cuda: cuda_um_sim::CudaVersion::V13_0,
        }),*]
    };
}
pub(crate) use cases;

/// The state that a refused call must not change.
#[derive(Debug, PartialEq)]
struct State {
    residency: [Option<Location>; 2],
    attributes: [RangeAttributes; 2],
    memory: [MemoryInfo; 3],
    pools: [PoolStats; 3],
    /// Live memory, streams, events, modules and pools.
    alive: Vec<String>,
}

/// The contents of each buffer.
fn contents() -> Vec<u32> {
    (0..LEN as u32).map(|index| index * 7 + 1).collect()
}

impl World {
    pub fn new() -> Self {
        Self::of(CudaVersion::V13_0)
    }

    pub fn of(cuda: CudaVersion) -> Self {
        let builder = Sim::builder().gpu(Gpu::H200).cuda(cuda).devices(2);
        let builder = builder.total_memory_bytes(DEVICE_BYTES as u64);
        let (sim, device, stream) = checked(builder);
        let second = on(device.runtime(), 1);
        let (_sim_of_other, other, its_stream) = checked(Sim::builder().cuda(cuda));
        let other = (other, its_stream);
        let contents = contents();
        let mapped = UnifiedOptions::default().placement(Placement::Mapped);
        let unified_pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default()).unwrap();
        let mut pooled = UnifiedBuffer::zeroed_in(&unified_pool, LEN).unwrap();
        pooled.copy_from_host(&contents).unwrap();
        let world = Self {
            untimed: stream.record().unwrap(),
            unified: UnifiedBuffer::from_slice(&device, &contents).unwrap(),
            mapped: UnifiedBuffer::from_slice_with(&device, &contents, mapped).unwrap(),
            on_device: DeviceBuffer::from_slice(&device, &contents).unwrap(),
            pinned: PinnedBuffer::from_slice(&device, &contents).unwrap(),
            registered: RegisteredBuffer::from_vec(&device, contents.clone()).unwrap(),
            shorter: DeviceBuffer::zeroed(&device, LEN - 1).unwrap(),
            on_second: DeviceBuffer::zeroed(&second.0, LEN).unwrap(),
            of_other: UnifiedBuffer::zeroed(&other.0, LEN).unwrap(),
            pinned_pool: Pool::new(&device, MemoryKind::Pinned, PoolOptions::default()).unwrap(),
            arena: DeviceArena::new(&device, 4 << 20).unwrap(),
            device_pool: Pool::new(&device, MemoryKind::Device, PoolOptions::default()).unwrap(),
            add: Add::load(&device),
            unified_pool,
            pooled,
            other,
            second,
            stream,
            device,
            sim,
            _sim_of_other,
        };
        // From here on, objects that are created once exist: the chunks that stage copies, the events of waits, a retired pool of the driver.
        drop(Pool::new(&world.device, MemoryKind::Device, PoolOptions::default()).unwrap());
        // Retires the pool.
        world.device.runtime().reclaim().unwrap();
        assert_eq!(world.on_device.to_vec().unwrap(), contents);
        for device in [&world.device, &world.second.0, &world.other.0] {
            device.synchronize().unwrap();
        }
        world
    }

    fn state(&self) -> State {
        let memory = |device: &Device| device.memory_info().unwrap();
        let mut alive: Vec<_> = self
            .sim
            .leaks()
            .iter()
            .map(|leak| format!("{leak:?}"))
            .collect();
        alive.sort();
        State {
            residency: [&self.unified, &self.pooled].map(|buffer| buffer.residency().unwrap()),
            attributes: [&self.unified, &self.pooled]
                .map(|buffer| buffer.range_attributes().unwrap()),
            memory: [&self.device, &self.second.0, &self.other.0].map(memory),
            pools: [
                self.unified_pool.stats(),
                self.pinned_pool.stats(),
                self.device_pool.stats(),
            ],
            alive,
        }
    }

    /// Makes a call that must be refused.
    fn refuses(&mut self, call: impl FnOnce(&mut Self) -> Result<()>) -> Error {
        let before = self.state();
        let error = call(self).expect_err("refused");
        let table = self.sim.table();
        // SAFETY: the function takes no arguments.
        #[allow(unsafe_code, reason = "reads the thread's last error")]
        let last = unsafe { (table.cudaPeekAtLastError)() };
        assert_eq!(last, cudaError::cudaSuccess, "the last error is cleared");
        let after = self.state();
        assert_eq!(after, before, "changed");
        self.device.synchronize().unwrap();
        let contents = contents();
        for found in [
            self.unified.to_vec(),
            self.mapped.to_vec(),
            self.on_device.to_vec(),
            self.pinned.to_vec(),
            self.registered.to_vec(),
            self.pooled.to_vec(),
        ] {
            assert!(found.unwrap() == contents, "contents changed");
        }
        error
    }
}

/// Makes each call in a separate world, and reports all failures together.
pub fn run(cases: impl IntoIterator<Item = Case>) {
    let (mut count, mut failed) = (0, Vec::new());
    for case in cases {
        count += 1;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::of(case.cuda);
            let error = world.refuses(&case.call);
            let text = error.to_string();
            assert_eq!(error.kind(), case.kind, "{text}");
            for said in &case.says {
                assert!(text.contains(said), "{said:?} is not in {text:?}");
            }
        }));
        if let Err(panic) = outcome {
            let text = message(&*panic);
            failed.push(format!("{} with {}: {text}", case.of, case.given));
        }
    }
    assert!(failed.is_empty(), "{:#?}", failed);
    println!("{count} cases");
    assert!(count > 0);
}
