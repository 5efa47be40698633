//! The same rules for every pool (`limits`, `order`, `reuse`), and the rules of one kind of pool.

mod default;
mod driver;
mod limits;
mod order;
mod reuse;
mod unified;

use cuda_um::resource::{DriverPool, MemoryResource, PoolStats};
use cuda_um::{Device, DeviceBuffer, ErrorKind, MemoryKind, Pool, PoolOptions, Result, Stream};
use cuda_um_sim::{Builder, Gpu};
use cuda_um_testkit::{
    Add, AnyBuffer, Checked, any_buffer, device, each, fails, no_memory_left, simulated_with,
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// The options of most pools of these tests.
fn small_slabs() -> PoolOptions {
    PoolOptions::default().slab_bytes(8 * MIB)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Unified,
    /// Device memory in a pool of the driver.
    Driver,
    /// Device memory in slabs.
    Slabs,
    Pinned,
}
use Kind::{Driver, Pinned, Slabs, Unified};

const ALL: &[Kind] = &[Unified, Driver, Slabs, Pinned];
const IN_SLABS: &[Kind] = &[Unified, Slabs, Pinned];
/// The device writes the first contents, so that no allocation waits.
const WAITLESS: &[Kind] = &[Unified, Driver, Slabs];

#[derive(Clone, Debug)]
enum AnyPool {
    Slabs(Pool),
    Driver(DriverPool),
}

impl AnyPool {
    fn resource(&self) -> &dyn MemoryResource {
        match self {
            Self::Slabs(pool) => pool,
            Self::Driver(pool) => pool,
        }
    }

    fn zeroed(&self, len: usize) -> Result<AnyBuffer> {
        AnyBuffer::zeroed_in(self.resource(), len)
    }

    fn copy_of(&self, elements: &[u32]) -> AnyBuffer {
        AnyBuffer::from_slice_in(self.resource(), elements).unwrap()
    }

    /// Memory with the contents of its former owner; in pinned memory zeros.
    #[allow(unsafe_code, reason = "the tests check what an allocation does")]
    fn uninit(&self, len: usize) -> Result<AnyBuffer> {
        let resource = self.resource();
        match resource.kind() {
            MemoryKind::Pinned => self.zeroed(len),
            // SAFETY: the tests write it first, or read data of the former owner; any bytes are a valid element.
            kind => Ok(any_buffer!(kind, Buffer => unsafe {
                Buffer::uninit_in(resource, len)?.assume_init()
            })),
        }
    }

    fn stats(&self) -> PoolStats {
        match self {
            Self::Slabs(pool) => pool.stats(),
            Self::Driver(pool) => pool.stats(),
        }
    }

    fn trim(&self) -> usize {
        match self {
            Self::Slabs(pool) => pool.trim(),
            Self::Driver(pool) => pool.trim(),
        }
    }
}

fn address(buffer: &AnyBuffer) -> usize {
    buffer.view(..).unwrap().as_ptr().addr()
}

/// Copies to device memory on a stream.
fn copy(buffer: &AnyBuffer, target: &mut DeviceBuffer<u32>, stream: &Stream) {
    each!(buffer, buffer => stream.copy(buffer, target)).unwrap();
}

/// A machine for one kind of pool.
struct Setup {
    kind: Kind,
    add: Add,
    device: Device,
    stream: Stream,
    /// Declared last, because it checks that nothing is left; `None` on a GPU.
    sim: Option<Checked>,
}

impl Setup {
    /// `None` if the machine has no such pool.
    fn new((sim, device, stream): (Option<Checked>, Device, Stream), kind: Kind) -> Option<Self> {
        if kind == Driver && !device.capabilities().memory_pools {
            return None;
        }
        let add = Add::load(&device);
        Some(Self {
            kind,
            add,
            device,
            stream,
            sim,
        })
    }

    fn is(&self, kind: Kind) -> bool {
        self.kind == kind
    }

    fn sim(&self) -> &Checked {
        self.sim.as_ref().expect("the test runs on a simulator")
    }

    /// The functions that allocate and free the memory, and the memory's name.
    fn names(&self) -> (&'static str, &'static str, &'static str) {
        match self.kind {
            Unified => ("cudaMallocManaged", "cudaFree", "managed memory"),
            Driver => ("cudaMallocFromPoolAsync", "cudaFreeAsync", "device memory"),
            Slabs => ("cudaMalloc", "cudaFree", "device memory"),
            Pinned => ("cudaHostAlloc", "cudaFreeHost", "pinned memory"),
        }
    }

    /// The number of calls of a CUDA function.
    fn calls(&self, name: &str) -> usize {
        cuda_um_testkit::calls(self.sim(), name)
    }

    fn open(&self, options: PoolOptions) -> Result<AnyPool> {
        let slabs = |kind| Pool::new(&self.device, kind, options).map(AnyPool::Slabs);
        match self.kind {
            Unified => slabs(MemoryKind::Managed),
            Slabs => slabs(MemoryKind::Device),
            Pinned => slabs(MemoryKind::Pinned),
            Driver => {
                DriverPool::new(&self.device, MemoryKind::Device, options).map(AnyPool::Driver)
            }
        }
    }

    fn pool(&self) -> AnyPool {
        self.open(small_slabs()).unwrap()
    }

    /// Enqueues a kernel that adds a number to the first `count` elements.
    fn add(&self, count: usize, number: u32, buffer: &mut AnyBuffer, stream: &Stream) {
        let view = buffer.view_mut(..).unwrap();
        self.add.run(stream, view, count, number);
    }

    /// Drops a buffer of 100 elements with a kernel in progress; a pool in slabs reuses its memory, at this address, next.
    fn leave_in_use(&self, pool: &AnyPool, stream: &Stream) -> usize {
        let mut buffer = pool.zeroed(100).unwrap();
        self.add(100, 1, &mut buffer, stream);
        address(&buffer)
    }

    /// Runs a test, which must leave no memory behind.
    fn run(self, test: impl Fn(&Self)) {
        println!("{:?}", self.kind);
        test(&self);
        if let Some(sim) = &self.sim
            && sim.poison().is_none()
        {
            no_memory_left(sim, self.device.runtime());
        }
    }
}

/// Runs a test on an H200 for each of these pools.
fn on_each(kinds: &[Kind], test: impl Fn(&Setup)) {
    on_each_with(kinds, |builder| builder, test);
}

/// The same on another machine, which has all these pools.
fn on_each_with(kinds: &[Kind], settings: impl Fn(Builder) -> Builder, test: impl Fn(&Setup)) {
    for &kind in kinds {
        // All slabs of pinned memory are then of `cudaHostAlloc`.
        let gpu = |builder: Builder| builder.gpu(Gpu::H200).host_register(false);
        let (sim, device, stream) = simulated_with(|builder| settings(gpu(builder)));
        let setup = Setup::new((Some(sim), device, stream), kind);
        setup.expect("the machine has this pool").run(&test);
    }
}

/// Runs a test for each of these pools that the machine of the environment has, which can be a GPU.
fn on_each_here(kinds: &[Kind], test: impl Fn(&Setup)) {
    let setups = kinds.iter().filter_map(|&kind| Setup::new(device(), kind));
    setups.for_each(|setup| setup.run(&test));
}
