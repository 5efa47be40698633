//! The real side: a machine, simulated or not, and buffers of all kinds on it.

use crate::operation::Kind;
use crate::support::{Add, open};
use cuda_um::{
    Device, DeviceBuffer, DevicePool, Error, ErrorKind, PinnedBuffer, PinnedPool, Placement,
    PoolOptions, Runtime, Stream, TransferOptions, UnifiedBuffer, UnifiedOptions, UnifiedPool,
};
use cuda_um_sim::{CudaVersion, Gpu, Leak, Sim};

/// A machine to run on.
#[derive(Clone, Copy, Debug)]
pub enum Spec {
    Simulated {
        gpu: Gpu,
        cuda: CudaVersion,
        devices: usize,
    },
    /// The one that the tests run on.
    Real,
}

pub const STREAMS: usize = 3;

/// A machine, which outlives sequences.
pub struct Machine {
    pub sim: Option<Sim>,
    pub runtime: Runtime,
    pub sides: Vec<Side>,
    /// It refuses some advice, prefetches and kinds of memory.
    pub poor: bool,
    /// `residency` asks it.
    pub tells_residency: bool,
}

/// What a machine has of each device.
pub struct Side {
    pub device: Device,
    pub streams: [Stream; STREAMS],
    pub add: Add,
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
            None => Runtime::open().expect("CUDA_UM_TEST_RUNTIME=cuda needs a GPU"),
        };
        let side = |device: Device| Side {
            streams: std::array::from_fn(|_| device.stream().unwrap()),
            add: Add::load(&device),
            device,
        };
        let sides: Vec<_> = runtime.devices().unwrap().into_iter().map(side).collect();
        let is_poor = |side: &Side| {
            let can = side.device.capabilities();
            !(can.concurrent_managed_access && can.map_host_memory)
        };
        Self {
            poor: sides.iter().any(is_poor),
            // Page sampling of a real driver is its own business.
            tells_residency: matches!(
                spec,
                Spec::Simulated {
                    cuda: CudaVersion::V13_4,
                    ..
                }
            ),
            sim,
            runtime,
            sides,
        }
    }

    /// The side and the place of a stream.
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
        self.sides[side].streams[at] = self.sides[side].device.stream()?;
        Ok(())
    }

    pub fn synchronize(&self) -> Result<(), Error> {
        self.sides
            .iter()
            .try_for_each(|side| side.device.synchronize())
    }

    /// After a sequence: nothing is lost, and nothing was done that CUDA forbids.
    pub fn nothing_left(&self) -> Result<(), String> {
        self.runtime.reclaim().map_err(|error| error.to_string())?;
        self.synchronize().map_err(|error| error.to_string())?;
        for side in &self.sides {
            // Frees the pinned memory that stages copies.
            side.device.set_transfer_options(TransferOptions::default());
        }
        let Some(sim) = &self.sim else {
            return Ok(());
        };
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

    /// After the last sequence: streams, events and modules are given back, too.
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

/// A buffer of any kind.
pub enum Buffer {
    Unified(UnifiedBuffer<u32>),
    Device(DeviceBuffer<u32>),
    Pinned(PinnedBuffer<u32>),
}

/// The same for each kind of buffer.
macro_rules! each {
    ($buffer:expr, $name:ident => $body:expr) => {
        match $buffer {
            $crate::world::Buffer::Unified($name) => $body,
            $crate::world::Buffer::Device($name) => $body,
            $crate::world::Buffer::Pinned($name) => $body,
        }
    };
}
pub(crate) use each;

impl Buffer {
    pub fn ordinal(&self) -> u32 {
        each!(self, buffer => buffer.device().ordinal())
    }

    /// Managed memory.
    pub fn managed(&self) -> Option<&UnifiedBuffer<u32>> {
        match self {
            Self::Unified(buffer) if buffer.placement().placement == Placement::Managed => {
                Some(buffer)
            }
            _ => None,
        }
    }

    pub fn is_on_device(&self) -> bool {
        matches!(self, Self::Device(_))
    }

    /// Memory of the host, pinned or mapped.
    pub fn is_on_host(&self) -> bool {
        !self.is_on_device() && self.managed().is_none()
    }
}

/// The pools of one device, made when they are needed.
#[derive(Default)]
pub struct Pools {
    unified: Option<UnifiedPool>,
    device: Option<DevicePool>,
    pinned: Option<PinnedPool>,
}

/// Small slabs: some buffers have one of their own.
fn options() -> PoolOptions {
    PoolOptions::default().slab_bytes(2 << 20)
}

/// Makes it if it is not there.
fn ready<P>(
    pool: &mut Option<P>,
    make: impl FnOnce() -> cuda_um::Result<P>,
) -> cuda_um::Result<&mut P> {
    Ok(match pool {
        Some(pool) => pool,
        None => pool.insert(make()?),
    })
}

impl Pools {
    pub fn allocate(
        &mut self,
        kind: Kind,
        device: &Device,
        len: usize,
        elements: Option<&[u32]>,
    ) -> cuda_um::Result<Buffer> {
        let unified = UnifiedOptions::default();
        let unified = match kind {
            Kind::Mapped => unified.placement(Placement::Mapped),
            Kind::Pattern(pattern) => unified.pattern(pattern),
            _ => unified,
        };
        match kind {
            Kind::Managed | Kind::Mapped | Kind::Pattern(_) => match elements {
                Some(elements) => UnifiedBuffer::from_slice_with(device, elements, unified),
                None => UnifiedBuffer::zeroed_with(device, len, unified),
            }
            .map(Buffer::Unified),
            Kind::UnifiedPool => {
                let pool = ready(&mut self.unified, || UnifiedPool::new(device, options()))?;
                elements
                    .map_or_else(|| pool.zeroed(len), |elements| pool.from_slice(elements))
                    .map(Buffer::Unified)
            }
            Kind::Device => elements
                .map_or_else(
                    || DeviceBuffer::zeroed(device, len),
                    |elements| DeviceBuffer::from_slice(device, elements),
                )
                .map(Buffer::Device),
            Kind::DevicePool => {
                let pool = ready(&mut self.device, || DevicePool::new(device, options()))?;
                elements
                    .map_or_else(|| pool.zeroed(len), |elements| pool.from_slice(elements))
                    .map(Buffer::Device)
            }
            Kind::Pinned => elements
                .map_or_else(
                    || PinnedBuffer::zeroed(device, len),
                    |elements| PinnedBuffer::from_slice(device, elements),
                )
                .map(Buffer::Pinned),
            Kind::PinnedPool => {
                let pool = ready(&mut self.pinned, || PinnedPool::new(device, options()))?;
                elements
                    .map_or_else(|| pool.zeroed(len), |elements| pool.from_slice(elements))
                    .map(Buffer::Pinned)
            }
        }
    }

    pub fn trim(&self) {
        self.unified.iter().for_each(|pool| _ = pool.trim());
        self.device.iter().for_each(|pool| _ = pool.trim());
        self.pinned.iter().for_each(|pool| _ = pool.trim());
    }

    /// How many buffers of the kind live.
    pub fn live_buffers(&self, kind: Kind) -> usize {
        let stats = match kind {
            Kind::UnifiedPool => self.unified.as_ref().map(UnifiedPool::stats),
            Kind::DevicePool => self.device.as_ref().map(DevicePool::stats),
            Kind::PinnedPool => self.pinned.as_ref().map(PinnedPool::stats),
            _ => None,
        };
        stats.map_or(0, |stats| stats.live_buffers)
    }
}

/// Whether the machine may refuse that.
pub fn is_refusal(error: &Error) -> bool {
    error.kind() == ErrorKind::NotSupported
}
