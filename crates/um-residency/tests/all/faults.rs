//! Every CUDA call behind working sets and plans fails once, in every way. Each failure is a typed error, no contents are lost, nothing
//! leaks, and the arena works afterwards.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use cuda_um_testkit::faults::failure::{Failure, calls, each_once, struck};
use cuda_um_testkit::faults::leaks;
use cuda_um_testkit::without_pools;

use um_backend::cuda_um::{Stream, UnifiedBuffer};
use um_backend::sim::{Gpu, Sim};
use um_backend::{Buffer, CudaBackend, CudaBackendConfig};
use um_residency::cuda_um_plan::Recipe;
use um_residency::{
    Arena, Budget, Error, Homed, InOut, Input, Link, Output, Planned, Role, working_set,
};

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
    stream: Stream,
    arena: Arena,
    buffers: Vec<Homed<u32>>,
    /// Read in place, and never changed.
    weights: Homed<u32>,
    _backend: CudaBackend,
}

impl World {
    fn new(sim: &Sim) -> Self {
        let config = CudaBackendConfig::default().simulator(sim.clone());
        let backend = CudaBackend::initialize_blocking(config).unwrap();
        let device = Arc::clone(backend.device());
        without_pools(device.as_cuda_um());
        let arena = Arena::new(&device, Budget::Bytes(3 << 21)).unwrap();
        let pinned = |value| Homed::from_slice(&arena, &vec![value; LEN], Role::ReadWrite).unwrap();
        let unified = UnifiedBuffer::from_slice(device.as_cuda_um(), &[2; LEN]).unwrap();
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
        let mut weights = Homed::from_slice(&arena, &vec![4; LEN], Role::ReadOnly).unwrap();
        weights.set_name("weights");
        weights.set_read_once(true).unwrap();
        device.synchronize().unwrap();
        Self {
            weights,
            stream: device.as_cuda_um().stream().unwrap(),
            arena,
            buffers,
            _backend: backend,
        }
    }

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

    fn look_ahead(&self) -> Result<(), Error> {
        for buffer in &self.buffers {
            self.arena.announce(&Input(buffer))?;
        }
        let outcome = self.pass();
        self.arena.forget_announced();
        outcome
    }

    fn planned(&self) -> Result<(), Error> {
        let (done, program) = self.arena.record(&self.stream, || self.pass())?;
        done?;
        let plan = program.solve(self.arena.plan_budget(), Link::pcie5())?;
        let mut planned = Planned::new(&self.arena, program, plan)?;
        planned.measure_stalls(true);
        for _ in 0..2 {
            planned.run(&self.stream, || self.pass())??;
        }
        planned.report()?;
        Ok(())
    }

    /// As `planned`, beside a buffer that the plan reads in place.
    fn in_place(&self) -> Result<(), Error> {
        let pass = || {
            let weights = working_set(&self.stream, Input(&self.weights))?;
            assert_eq!(weights.to_vec()?, vec![4; LEN]);
            drop(weights);
            self.pass()
        };
        let (done, program) = self.arena.record(&self.stream, pass)?;
        done?;
        let budget = self.arena.plan_budget();
        let plan = program.recipe(Recipe::InPlace, budget, Link::pcie5())?;
        let mut planned = Planned::new(&self.arena, program, plan)?;
        planned.run(&self.stream, pass)??;
        assert!(planned.report()?.passes[0].in_place_bytes > 0);
        Ok(())
    }

    /// A unified buffer becomes the home of another one.
    fn unified(&self) -> Result<(), Error> {
        let home = UnifiedBuffer::from_slice(self.arena.device().as_cuda_um(), &[7; LEN])?;
        let mut made = Homed::from_unified(&self.arena, home, Role::ReadOnly)?;
        let guard = working_set(&self.stream, Input(&made))?;
        assert_eq!(guard.to_vec()?, vec![7; LEN]);
        drop(guard);
        made.fill(8)?;
        assert_eq!(made.to_vec()?, vec![8; LEN]);
        Ok(())
    }

    /// Steps that write everything, measured: what fails leaves the old contents, which are also the new ones.
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
        self.arena.record(&self.stream, pass)?.0
    }

    fn host(&self) -> Result<(), Error> {
        self.pass()?;
        self.values()?;
        let empty = Arena::new(self.arena.device(), Budget::Bytes(2 << 21))?;
        empty.measure_link().map(drop)
    }
}

type Scenario = (&'static str, fn(&World) -> Result<(), Error>);
const SCENARIOS: [Scenario; 6] = [
    ("look ahead", World::look_ahead),
    ("planned", World::planned),
    ("in place", World::in_place),
    ("unified", World::unified),
    ("host", World::host),
    ("writes", World::writes),
];

fn sim() -> Sim {
    Sim::builder().gpu(Gpu::H200).build().unwrap()
}

/// Runs a scenario with a failure, and again without it. Returns whether the failure happened.
fn run((name, scenario): Scenario, failure: Failure) -> bool {
    let sim = sim();
    let world = World::new(&sim);
    failure.inject(&sim);
    let outcome = scenario(&world);
    let runtime = world.arena.device().as_cuda_um().runtime().clone();
    // The reclaim thread makes calls, too: none may fail after the failure is looked for.
    let _ = runtime.reclaim();
    let happened = !struck(&[failure], &sim).is_empty();
    sim.clear_failures();
    let what = format!("{name}, {failure}: {outcome:?}");
    assert!(happened || outcome.is_ok(), "{what}");
    if let Err(error) = &outcome {
        assert!(matches!(error, Error::Cuda(_)), "{what}");
        assert_eq!(error.to_string().lines().count(), 1, "{what}");
    }
    let sticky = happened && failure.kind.is_sticky();
    if sticky {
        assert!(scenario(&world).is_err() || outcome.is_ok(), "{what}");
    } else {
        assert_eq!(
            world.arena.stats().peak_bytes.max(6 << 20),
            6 << 20,
            "{what}"
        );
        world
            .values()
            .unwrap_or_else(|error| panic!("{what}; then {error}"));
        scenario(&world).unwrap_or_else(|error| panic!("{what}; again {error}"));
        world
            .values()
            .unwrap_or_else(|error| panic!("{what}; at last {error}"));
    }
    drop(world);
    let _ = runtime.reclaim();
    drop(runtime);
    assert!(sim.misuse().is_empty(), "{what}: {:?}", sim.misuse());
    if !sticky {
        let left = leaks::words(&sim);
        let failures = if happened { &[failure][..] } else { &[] };
        assert!(
            leaks::explained_by(&left, failures).is_some(),
            "{what}: {left:?}"
        );
    }
    happened
}

#[test]
fn every_call_behind_a_working_set_fails_once() {
    let mut happened = 0;
    for scenario in SCENARIOS {
        let simulator = sim();
        let world = World::new(&simulator);
        simulator.clear_trace();
        scenario.1(&world).unwrap();
        let made = calls(&simulator);
        drop(world);
        for failure in each_once(&made, first()) {
            happened += usize::from(run(scenario, failure));
        }
    }
    println!("{happened} failures happened");
    assert!(happened > 150, "{happened}");
}
