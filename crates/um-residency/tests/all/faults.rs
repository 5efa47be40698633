//! Every CUDA call behind working sets fails once, in every way. Each failure is a typed error, no contents are lost, nothing
//! leaks, and the arena works afterwards.

use std::fs::File;
use std::io::Write as _;

use cuda_um_testkit::faults::check::{self, Combination, Scenario, run_all, usual};
use cuda_um_testkit::faults::failure::{Failure, each_once};
use cuda_um_testkit::faults::rules::Rules;
use cuda_um_testkit::without_pools;

use um_backend::cuda_um::{self, Runtime, Stream, UnifiedBuffer};
use um_backend::sim::{Gpu, Sim};
use um_backend::{Buffer, CudaBackend, CudaBackendConfig};
use um_residency::{Arena, Budget, Error, Homed, InOut, Input, Output, Role, working_set};

/// The number of first occurrences of a call that fail; 1, unless `CUDA_UM_FAULT_FIRST` has another one. The last one fails, too.
fn first() -> u64 {
    let first = std::env::var("CUDA_UM_FAULT_FIRST").ok();
    first.map_or(1, |first| {
        first.parse().expect("CUDA_UM_FAULT_FIRST is a number")
    })
}

/// The elements of a buffer, which takes a slot.
const LEN: usize = 1000;

struct World {
    sim: Sim,
    stream: Stream,
    arena: Arena,
    buffers: Vec<Homed<u32>>,
    _backend: CudaBackend,
}

impl check::World for World {
    type Machine = ();
    type Error = Error;
    /// If a transfer ahead of its use fails, the set makes it.
    const SILENT: &[(&str, &str)] = &[("read_ahead", "cudaMemcpyAsync")];

    fn new((): ()) -> Self {
        let sim = Sim::builder().gpu(Gpu::H200).build().unwrap();
        let config = CudaBackendConfig::default().simulator(sim.clone());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        let device = backend.device().clone();
        without_pools(&device);
        let arena = Arena::new(&device, Budget::Bytes(3 << 21)).unwrap();
        let pinned = |value| Homed::from_slice(&arena, &vec![value; LEN], Role::ReadWrite).unwrap();
        let unified = UnifiedBuffer::from_slice(&device, &[2; LEN]).unwrap();
        let unified = Homed::from_unified(&arena, unified, Role::ReadWrite).unwrap();
        let mut buffers = vec![pinned(0), pinned(1), unified];
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytemuck::cast_slice(&vec![3u32; LEN]))
            .unwrap();
        let in_file =
            |file: File| Homed::from_file(&arena, file, (0, LEN), Role::ReadWrite).unwrap();
        buffers.push(in_file(file));
        for (number, buffer) in buffers.iter_mut().enumerate() {
            buffer.set_name(&format!("buffer {number}"));
        }
        device.synchronize().unwrap();
        sim.clear_trace();
        Self {
            sim,
            stream: device.create_stream().unwrap(),
            arena,
            buffers,
            _backend: backend,
        }
    }

    fn sim(&self) -> &Sim {
        &self.sim
    }

    fn runtime(&self) -> Runtime {
        self.arena.device().runtime().clone()
    }

    fn cause(error: &Error) -> Option<&cuda_um::Error> {
        match error {
            Error::Cuda(error) => Some(error),
            _ => None,
        }
    }

    fn is_told(error: &Error, _: &Failure) -> bool {
        matches!(error, Error::Cuda(_)) && error.to_string().lines().count() == 1
    }

    /// No contents are lost.
    fn still_works(&mut self) -> Result<(), Error> {
        assert!(self.arena.stats().peak_bytes <= 6 << 20);
        self.values().map(drop)
    }
}

impl World {
    /// Adds 10 to each buffer, in sets of two.
    fn pass(&self) -> Result<(), Error> {
        for pair in [[0, 1], [2, 3], [1, 2], [3, 0]] {
            let [a, b] = pair.map(|at| &self.buffers[at]);
            let (mut a, b) = working_set(&self.stream, (InOut(a), Input(b)))?;
            let values = [a.to_vec()?[LEN - 1], b.to_vec()?[LEN - 1]];
            assert_eq!(
                (values[0] % 10, values[1] % 10),
                (pair[0] as u32, pair[1] as u32)
            );
            a.view_mut().fill_on(values[0] + 10, &self.stream)?;
        }
        Ok(())
    }

    /// The value of each buffer: all elements are the same.
    fn values(&self) -> Result<Vec<u32>, Error> {
        let value = |(number, buffer): (usize, &Homed<u32>)| {
            let found = buffer.to_vec()?;
            assert!(
                found.iter().all(|&value| value == found[0]),
                "buffer {number} is torn"
            );
            assert_eq!(found[0] as usize % 10, number);
            Ok(found[0])
        };
        self.buffers.iter().enumerate().map(value).collect()
    }

    /// The last passes follow the order of the first ones.
    fn read_ahead(&self) -> Result<(), Error> {
        (0..4).try_for_each(|_| self.pass())
    }

    /// A unified buffer becomes the home of another one.
    fn unified(&self) -> Result<(), Error> {
        let home = UnifiedBuffer::from_slice(self.arena.device(), &[7; LEN])?;
        let mut made = Homed::from_unified(&self.arena, home, Role::ReadOnly)?;
        let guard = working_set(&self.stream, Input(&made))?;
        assert_eq!(guard.to_vec()?, vec![7; LEN]);
        drop(guard);
        made.fill(8)?;
        assert_eq!(made.to_vec()?, vec![8; LEN]);
        Ok(())
    }

    /// Steps that write everything: what fails leaves the old contents, which are also the new ones.
    fn writes(&self) -> Result<(), Error> {
        let all = &self.buffers[..3];
        drop(working_set(
            &self.stream,
            [Input(&all[0]), Input(&all[1]), Input(&all[2])],
        )?);
        let values = self.values()?;
        let pass = || {
            for (buffer, value) in all.iter().zip(&values) {
                let mut guard = working_set(&self.stream, Output(buffer))?;
                guard.view_mut().fill_on(*value, &self.stream)?;
            }
            Ok::<(), Error>(())
        };
        pass()
    }

    fn host(&self) -> Result<(), Error> {
        self.pass()?;
        self.values().map(drop)
    }
}

macro_rules! scenarios {
    ($($name:ident)*) => {
        const SCENARIOS: &[Scenario<World>] = &[$(Scenario {
            name: stringify!($name),
            machines: &[()],
            run: World::$name,
        }),*];
    };
}

scenarios! { read_ahead unified host writes }

#[test]
fn every_call_behind_a_working_set_fails_once() {
    let combinations_of = |scenario: &'static Scenario<World>| {
        let failures = each_once(&usual(scenario, ()), first()).into_iter();
        failures.map(move |failure| Combination {
            scenario,
            machine: (),
            failures: vec![failure],
        })
    };
    let all: Vec<_> = SCENARIOS.iter().flat_map(combinations_of).collect();
    let struck = run_all(&all, &Rules::default()).get(&1).copied();
    let struck = struck.unwrap_or(0);
    assert!(struck * check::sample() > 150, "{struck}");
}
