//! Every CUDA call behind the buffers of this crate fails once, in every way. Each failure is a typed error that names the call, nothing
//! leaks, and all other buffers still work. The failures, the rules for leaks and the runner are those of `cuda-um`.

use crate::support::opaque::OpaqueBuffer;
use cuda_um::Runtime;
use cuda_um_testkit::faults::check::{self, Combination, Scenario, run_all, sample, usual};
use cuda_um_testkit::faults::failure::{self, Failure};
use cuda_um_testkit::faults::rules::Rules;
use cuda_um_testkit::without_pools;
use um_backend::sim::{Gpu, Sim};
use um_backend::{
    Buffer, BufferKind, CudaBackend, CudaBackendConfig, CudaError, DType, Location, RuntimeChoice,
    SharedBuffer,
};

type Result<T = ()> = std::result::Result<T, CudaError>;

/// The GPU, and the number of devices.
type Machine = (Gpu, usize);
const MACHINES: [Machine; 4] = [
    (Gpu::H200, 1),
    (Gpu::H200, 2),
    (Gpu::NoConcurrentAccess, 1),
    (Gpu::Maxwell, 1),
];

/// Elements of a buffer.
const LEN: usize = 3000;

struct World {
    sim: Sim,
    backend: CudaBackend,
    /// The last device, which can be the same one.
    far: CudaBackend,
    /// One buffer of each kind.
    witnesses: Vec<Box<dyn Buffer<f32>>>,
}

fn numbers() -> Vec<f32> {
    (0..LEN).map(|i| i as f32).collect()
}

impl check::World for World {
    type Machine = Machine;
    type Error = CudaError;

    fn new((gpu, devices): Machine) -> Self {
        let sim = Sim::builder().gpu(gpu).devices(devices).build().unwrap();
        let config = CudaBackendConfig::default().simulator(sim.clone());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        // Each buffer makes its calls.
        for device in backend.device().runtime().devices().unwrap() {
            without_pools(&device);
        }
        let given = RuntimeChoice::Given(backend.device().runtime().clone());
        let config = CudaBackendConfig::default().runtime(given);
        let far = config.device(devices - 1);
        let witnesses = BufferKind::ALL.map(|kind| {
            let mut witness = backend.create::<f32>(kind, LEN).unwrap();
            witness.copy_from_host(&numbers()).unwrap();
            witness
        });
        backend.synchronize().unwrap();
        let world = Self {
            far: CudaBackend::initialize_blocking(far).unwrap(),
            witnesses: witnesses.into(),
            backend,
            sim,
        };
        world.sim.clear_trace();
        world
    }

    fn sim(&self) -> &Sim {
        &self.sim
    }

    fn cause(error: &CudaError) -> Option<&CudaError> {
        Some(error)
    }

    fn is_told(error: &CudaError, failure: &Failure) -> bool {
        error.to_string().lines().count() == 1 && failure.is_told_by(error)
    }

    fn runtime(&self) -> Runtime {
        self.backend.device().runtime().clone()
    }

    fn still_works(&mut self) -> Result {
        let backend = &self.backend;
        for witness in &mut self.witnesses {
            assert_eq!(witness.to_vec()?, numbers(), "a witness has changed");
            let mut copy = witness.clone_empty(LEN)?;
            copy.copy_from_buffer(&**witness)?;
            witness.fill(2.0)?;
            assert_eq!(witness.to_vec()?, [2.0; LEN]);
            witness.copy_from_buffer(&*copy)?;
        }
        for kind in BufferKind::ALL {
            assert_eq!(backend.create::<f32>(kind, 10)?.to_vec()?, [0.0; 10]);
        }
        backend.synchronize()?;
        self.far.synchronize()
    }
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        const SCENARIOS: &[Scenario<World>] = &[$(Scenario {
            name: stringify!($name),
            machines: &MACHINES,
            run: $name,
        }),*];
    };
}

scenarios! {
    every_kind_by_its_trait
    every_pair_copied
    from_open_to_end
    parts_files_and_streams
    erased_and_shared
}

#[test]
fn every_call_behind_a_buffer_fails_once() {
    let places = SCENARIOS
        .iter()
        .flat_map(|of| MACHINES.map(|machine| (of, machine)));
    let all: Vec<_> = places
        .flat_map(|(scenario, machine)| {
            // The first call of each name, and the last one.
            let failures = failure::each_once(&usual(scenario, machine), 1).into_iter();
            failures.map(move |failure| Combination {
                scenario,
                machine,
                failures: vec![failure],
            })
        })
        .collect();
    let struck = run_all(&all, &Rules::default());
    let struck = struck.get(&1).copied().unwrap_or(0);
    assert!(struck * sample() >= 1000, "{struck} failures struck");
}

fn make(backend: &CudaBackend, kind: BufferKind, value: f32) -> Result<Box<dyn Buffer<f32>>> {
    let mut buffer = backend.create(kind, LEN)?;
    buffer.fill(value)?;
    Ok(buffer)
}

fn every_kind_by_its_trait(world: &World) -> Result {
    for kind in BufferKind::ALL {
        let mut buffer = world.far.create::<f32>(kind, LEN)?;
        buffer.copy_from_host(&[1.5; LEN])?;
        buffer.copy_from_host_at(10, &[4.0; 5])?;
        let mut part = [0.0; 6];
        buffer.copy_to_host_at(9, &mut part)?;
        assert_eq!(part, [1.5, 4.0, 4.0, 4.0, 4.0, 4.0]);
        let mut other = buffer.clone_empty(LEN)?;
        assert_eq!(other.to_vec()?, [0.0; LEN]);
        other.copy_from_buffer(&*buffer)?;
        buffer.set_zero()?;
        assert_eq!(other.to_vec()?[8..11], [1.5, 1.5, 4.0]);
        assert_eq!(buffer.to_vec()?, [0.0; LEN]);
    }
    Ok(())
}

/// Copies between any two kinds, and through another implementation, by host memory. The target is on the last device.
fn every_pair_copied(world: &World) -> Result {
    let mut stranger = OpaqueBuffer::<f32>::new(LEN);
    for from in BufferKind::ALL {
        let source = make(&world.backend, from, 3.0)?;
        for to in BufferKind::ALL {
            let mut target = make(&world.far, to, 8.0)?;
            target.copy_from_buffer_at(1, &*source, 0..LEN - 1)?;
            let found = target.to_vec()?;
            assert_eq!((found[0], found[1], found[LEN - 1]), (8.0, 3.0, 3.0));
        }
        stranger.copy_from_buffer(&*source)?;
        let mut back = make(&world.backend, from, 1.0)?;
        back.copy_from_buffer(&stranger)?;
        assert_eq!(back.to_vec()?, [3.0; LEN]);
    }
    Ok(())
}

/// Opens and drops a backend, to cover the calls of both.
fn from_open_to_end(world: &World) -> Result {
    let config = CudaBackendConfig::default().simulator(world.sim.clone());
    let backend = CudaBackend::initialize_blocking(config)?;
    let runtime = backend.device().runtime().clone();
    let lived = (|| {
        let sibling = backend.device().sibling(0)?;
        sibling.memory_info()?;
        let buffer = make(&backend, BufferKind::Unified, 1.0)?;
        assert_eq!(buffer.to_vec()?, [1.0; LEN]);
        Ok(())
    })();
    backend.trim();
    drop(backend);
    let reclaimed = runtime.reclaim();
    lived.and(reclaimed)
}

/// Ranges, slices for the host, files and another stream, for every kind.
fn parts_files_and_streams(world: &World) -> Result {
    let stream = world.far.device().create_stream()?;
    for kind in BufferKind::ALL {
        let mut buffer = world.far.create::<f32>(kind, LEN)?;
        buffer.fill_range(0..10, 1.0)?;
        buffer.copy_within(0..10, 5)?;
        let mut view = buffer.host_mut()?;
        assert_eq!(view[..16], [[1.0; 15].as_slice(), &[0.0]].concat()[..]);
        view[15] = 2.0;
        view.close()?;
        let mut file = Vec::new();
        buffer.write_to(&mut file, 14..16)?;
        buffer.read_from(&mut &file[..], 0..2)?;
        let mut clone = buffer.try_clone()?;
        buffer.copy_from_host_on(&[7.0; LEN], &stream)?;
        assert_eq!(clone.host()?[..3], [1.0, 2.0, 1.0]);
        clone.copy_from_buffer_on(&*buffer, &stream)?;
        buffer.prefetch_range_on(0..LEN, Location::Host, &stream)?;
        buffer.fill_on(3.0, &stream)?;
        let mut back = [0.0; LEN];
        clone.copy_to_host_on(&mut back, &stream)?;
        assert_eq!((back, buffer.read_one(LEN - 1)?), ([7.0; LEN], 3.0));
    }
    Ok(())
}

/// Storage of a dtype, which two tensors share until one writes it.
fn erased_and_shared(world: &World) -> Result {
    for kind in BufferKind::ALL {
        let bytes = [1u8; 4 * LEN];
        let first = world.backend.create_erased_from(kind, DType::F32, &bytes)?;
        let first = SharedBuffer::new(first);
        let mut second = first.clone();
        second.make_unique()?;
        second.write()?.bytes_mut().set_zero()?;
        second.host_mut::<f32>()?[0] = 5.0;
        let value = f32::from_le_bytes([1; 4]);
        assert_eq!(*first.host::<f32>()?, [value; LEN]);
        assert_eq!(second.host::<f32>()?[..2], [5.0, 0.0]);
        let ([first], [mut written]) = SharedBuffer::lock([&first], [&second])?;
        written.copy_from(&first)?;
        assert_eq!(written.typed::<f32>()?.read_one(1)?, value);
    }
    Ok(())
}
