//! A backend with a buffer of each kind, and the check that a refused call has changed nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};

use cuda_um_testkit::message;
use um_backend::sim::{Gpu, Sim};
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError, PinnedBuffer, UnifiedBuffer,
    cuda_um::{Placement, PoolOptions, UnifiedOptions, resource::PoolStats},
};

/// Elements of each buffer.
pub const LEN: usize = 1000;
/// Memory of each device.
const DEVICE_BYTES: u64 = 64 << 20;

/// The objects for the calls.
pub struct World {
    pub sim: Sim,
    pub backend: CudaBackend,
    pub unified: UnifiedBuffer<f32>,
    pub mapped: UnifiedBuffer<f32>,
    pub pinned: PinnedBuffer<f32>,
    /// One of each kind.
    pub buffers: Vec<(BufferKind, Box<dyn Buffer<f32>>)>,
}

type Call = dyn Fn(&mut World) -> Result<(), CudaError>;

/// A call with a wrong input.
pub struct Case {
    /// The function, for messages.
    pub of: &'static str,
    /// The wrong input.
    pub given: String,
    pub call: Box<Call>,
    /// The variant of the error, of this crate or of `cuda_um`.
    pub is: &'static str,
    /// The parts of its text.
    pub says: Vec<String>,
}

/// `"function", "wrong input": |world| call => Variant, ["text", …];`
macro_rules! cases {
    ($($of:literal, $given:literal: |$world:ident| $call:expr => $is:ident, [$($says:expr),* $(,)?];)*) => {
        vec![$($crate::world::Case {
            of: $of,
            given: $given.to_owned(),
            call: Box::new(|$world: &mut $crate::world::World| {
                let result: Result<_, um_backend::CudaError> = $call;
                result.map(drop)
            }),
            is: stringify!($is),
            says: vec![$($says.to_string()),*],
        }),*]
    };
}
pub(crate) use cases;

/// The state that a refused call must not change.
#[derive(Debug, PartialEq)]
struct State {
    free_bytes: [usize; 2],
    pool: Option<PoolStats>,
    attributes: String,
    residency: String,
    /// Memory, streams, events, modules, pools that are alive.
    alive: Vec<String>,
}

fn contents() -> Vec<f32> {
    (0..LEN).map(|index| index as f32 * 0.5 - 7.0).collect()
}

impl World {
    pub fn new() -> Self {
        let builder = Sim::builder().gpu(Gpu::H200).devices(2);
        let sim = builder.total_memory_bytes(DEVICE_BYTES).build().unwrap();
        let config = CudaBackendConfig::default()
            .simulator(sim.clone())
            .unified_pool(PoolOptions::default());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        let filled = |mut buffer: Box<dyn Buffer<f32>>| {
            buffer.copy_from_host(&contents()).unwrap();
            buffer
        };
        let kinds = BufferKind::ALL.into_iter();
        let buffers = kinds
            .map(|kind| (kind, filled(backend.create(kind, LEN).unwrap())))
            .collect();
        let device = backend.device().clone();
        let mapped = UnifiedOptions::default().placement(Placement::Mapped);
        let mut world = Self {
            mapped: UnifiedBuffer::zeroed_with(&device, LEN, mapped).unwrap(),
            unified: UnifiedBuffer::zeroed(&device, LEN).unwrap(),
            pinned: backend.create_pinned(LEN).unwrap(),
            buffers,
            backend,
            sim,
        };
        world.mapped.copy_from_host(&contents()).unwrap();
        world.unified.copy_from_host(&contents()).unwrap();
        world.pinned.copy_from_host(&contents()).unwrap();
        // Allocates now what is allocated only once: the chunks for staged copies, the stream of the second device.
        drop(world.backend.device().sibling(1).unwrap());
        world.check_contents();
        world.backend.synchronize().unwrap();
        world
    }

    fn check_contents(&self) {
        let all = self.buffers.iter().map(|(_, buffer)| &**buffer);
        let own: [&dyn Buffer<f32>; 3] = [&self.unified, &self.mapped, &self.pinned];
        for buffer in all.chain(own) {
            assert!(buffer.to_vec().unwrap() == contents(), "{buffer:?}");
        }
    }

    fn state(&self) -> State {
        let device = self.backend.device();
        let free = |device: &um_backend::CudaDevice| device.memory_info().unwrap().free_bytes;
        let managed = &self.unified;
        let mut alive: Vec<_> = self
            .sim
            .leaks()
            .iter()
            .map(|leak| format!("{leak:?}"))
            .collect();
        alive.sort();
        State {
            free_bytes: [free(device), free(&device.sibling(1).unwrap())],
            pool: self.backend.pool_stats(),
            attributes: format!("{:?}", managed.range_attributes().unwrap()),
            residency: format!("{:?}", managed.residency().unwrap()),
            alive,
        }
    }

    fn refuses(&mut self, case: &Case) {
        let before = self.state();
        let error = (case.call)(self).expect_err("refused");
        let after = self.state();
        assert!(after == before, "changed: {before:#?} became {after:#?}");
        self.check_contents();
        let (text, variant) = (error.to_string(), variant(&error));
        assert!(variant.starts_with(case.is), "{variant}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        for said in &case.says {
            assert!(text.contains(said), "{said:?} is not in {text:?}");
        }
    }

    fn ends_clean(self) {
        let runtime = self.backend.device().runtime().clone();
        self.backend.synchronize().unwrap();
        let sim = self.sim.clone();
        drop(self);
        runtime.reclaim().unwrap();
        drop(runtime);
        assert_eq!(sim.leaks(), [], "leaks");
        assert_eq!(sim.misuse(), [], "misuse");
    }
}

/// The name of the error's variant, and maybe its fields.
fn variant(error: &CudaError) -> String {
    macro_rules! name {
        ($($variant:ident),*) => {
            match error {
                $(CudaError::$variant { .. } => stringify!($variant).to_owned(),)*
                other => panic!("no case expects {other}"),
            }
        };
    }
    name!(
        OutOfMemory,
        DTypeMismatch,
        WouldDeadlock,
        Busy,
        NoSuchDevice,
        Io
    )
}

/// Makes each call in a new world, and reports all failures together.
pub fn run(cases: Vec<Case>) {
    assert!(!cases.is_empty());
    let mut failed = Vec::new();
    for case in &cases {
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let mut world = World::new();
            world.refuses(case);
            world.ends_clean();
        }));
        if let Err(panic) = outcome {
            let text = message(&*panic);
            failed.push(format!("{} with {}: {text}", case.of, case.given));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
    println!("{} cases", cases.len());
}
