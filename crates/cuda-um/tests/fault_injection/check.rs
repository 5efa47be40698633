//! One run with one failure, and what must hold after it.

use crate::rules::{self, Rules};
use crate::scenarios::Scenario;
use crate::support::{Add, on, open};
use cuda_um::{Device, DeviceBuffer, Error, Module, Runtime, Stream, UnifiedBuffer};
use cuda_um_sim::{CudaVersion, Fail, Gpu, LaunchContext, Leak, Sim, TwinError};
use cuda_um_sys::cudaError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A simulated machine in use.
pub struct World {
    pub sim: Sim,
    pub runtime: Runtime,
    pub device: Device,
    pub stream: Stream,
    pub add: Add,
    /// Allocated before anything fails.
    witness: UnifiedBuffer<u32>,
}

const WITNESS: usize = 2000;

/// The kernel of add.ptx for every device that is simulated.
pub fn ptx() -> String {
    include_str!("../support/add.ptx").replace("sm_60", "sm_50")
}

fn twin(launch: &mut LaunchContext<'_>) -> Result<(), TwinError> {
    let (count, rounds) = (launch.value::<u32>(1)?, launch.value::<u32>(2)?);
    let values = launch.slice_mut::<u32>(0, count as usize)?;
    values
        .iter_mut()
        .for_each(|value| *value = value.wrapping_add(rounds));
    Ok(())
}

impl World {
    pub fn new((gpu, cuda): (Gpu, CudaVersion)) -> Self {
        let builder = Sim::builder().gpu(gpu).cuda(cuda).kernel("add", twin);
        let sim = builder.build().unwrap();
        let runtime = open(&sim);
        let (device, stream) = on(&runtime, 0);
        let module = Module::load(&device, &ptx()).unwrap();
        let add = Add(module.kernel("add").unwrap());
        let mut witness = UnifiedBuffer::<u32>::zeroed(&device, WITNESS).unwrap();
        for (i, value) in witness.host_mut().unwrap().iter_mut().enumerate() {
            *value = i as u32;
        }
        device.synchronize().unwrap();
        sim.clear_trace();
        Self {
            sim,
            runtime,
            device,
            stream,
            add,
            witness,
        }
    }

    /// Whether managed memory migrates, so that it can be prefetched and advised.
    pub fn migrates(&self) -> bool {
        self.device.capabilities().concurrent_managed_access
    }

    /// The witness holds what it held, and can be used in every way; new memory can be had.
    fn still_works(&mut self) -> cuda_um::Result<()> {
        let count = WITNESS as u32;
        let is_right = |values: &[u32], plus: u32| {
            let mut numbers = values.iter().enumerate();
            assert!(
                numbers.all(|(i, x)| *x == i as u32 + plus),
                "the witness has changed"
            );
        };
        is_right(&self.witness.host()?, 0);
        self.add
            .launch(&self.stream, WITNESS, (&mut self.witness, count, 3u32))?;
        let mut copy = DeviceBuffer::<u32>::zeroed(&self.device, WITNESS)?;
        self.device.stream()?.copy(&self.witness, &mut copy)?;
        is_right(&copy.read_back()?, 3);
        self.witness.fill(9, &self.stream)?;
        assert!(self.witness.host()?.iter().all(|x| *x == 9));
        for (i, value) in self.witness.host_mut()?.iter_mut().enumerate() {
            *value = i as u32;
        }
        copy.close()?;
        UnifiedBuffer::from_slice(&self.device, &[1u8; 100])?.close()?;
        self.device.synchronize()
    }

    /// What must fail at once in a broken context.
    fn all_say_sticky(&mut self) -> Vec<String> {
        let (device, stream) = (&self.device, &self.stream);
        let outcomes = [
            ("a stream", device.stream().map(drop)),
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
                self.add
                    .launch(stream, 10, (&mut self.witness, 10u32, 1u32)),
            ),
            ("a fill", self.witness.fill(1, stream)),
            ("a guard", self.witness.host().map(drop)),
            ("reading back", self.witness.read_back().map(drop)),
            ("the device", device.synchronize()),
        ];
        let wrong = outcomes.into_iter().filter_map(|(what, outcome)| {
            let found = match outcome {
                Ok(()) => "works".to_owned(),
                Err(error) if error.is_sticky() => return None,
                Err(error) => format!("says {error}"),
            };
            Some(format!("after a sticky error {what} {found}"))
        });
        wrong.collect()
    }
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    OutOfMemory,
    InvalidValue,
    /// The work is done, and a failure reported.
    Late,
    Sticky,
    DeviceLost,
}

pub const KINDS: [Kind; 5] = [
    Kind::OutOfMemory,
    Kind::InvalidValue,
    Kind::Late,
    Kind::Sticky,
    Kind::DeviceLost,
];

impl Kind {
    pub fn is_sticky(self) -> bool {
        matches!(self, Self::Sticky | Self::DeviceLost)
    }

    fn code(self) -> cudaError {
        match self {
            Self::OutOfMemory => cudaError::cudaErrorMemoryAllocation,
            Self::InvalidValue | Self::Late => cudaError::cudaErrorInvalidValue,
            Self::Sticky => cudaError::cudaErrorIllegalAddress,
            Self::DeviceLost => cudaError::cudaErrorDevicesUnavailable,
        }
    }

    fn failure(self, call: &str, nth: u64) -> Fail {
        let failure = Fail::call(call).nth(nth).with(self.code());
        match self {
            Self::Late => failure.after_the_call(),
            Self::DeviceLost => failure.sticky(),
            _ => failure,
        }
    }
}

/// One failure of one call in one scenario.
#[derive(Clone)]
pub struct Combination {
    pub scenario: &'static Scenario,
    pub machine: (Gpu, CudaVersion),
    pub call: &'static str,
    pub nth: u64,
    pub kind: Kind,
}

impl std::fmt::Display for Combination {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            scenario,
            machine,
            call,
            nth,
            kind,
        } = self;
        write!(f, "{} {machine:?} {call} #{nth} {kind:?}", scenario.name)
    }
}

/// What a run found.
#[derive(Default)]
pub struct Report {
    pub struck: bool,
    pub problems: Vec<String>,
}

/// The name without what tells versions of a function apart.
fn plain(call: &str) -> &str {
    call.strip_suffix("_v2").unwrap_or(call)
}

fn names(error: &Error, call: &str) -> bool {
    error.to_string().contains(plain(call))
}

/// An operation of a broken context that takes longer waits for something.
const AT_ONCE: Duration = Duration::from_secs(5);

pub fn run(combination: &Combination, rules: &Rules) -> Report {
    let Combination {
        scenario,
        machine,
        call,
        nth,
        kind,
    } = combination.clone();
    let mut report = Report::default();
    let mut problem = |text: String| report.problems.push(text);
    let mut world = World::new(machine);
    let sim = world.sim.clone();
    let table = Arc::downgrade(&sim.table());
    sim.fail(kind.failure(call, nth));
    let result = catch_unwind(AssertUnwindSafe(|| (scenario.run)(&world)));
    let reclaimed = world.runtime.reclaim();
    let struck = sim
        .trace()
        .iter()
        .any(|record| record.name == call && record.result == kind.code());
    sim.clear_failures();
    report.struck = struck;
    let Ok(result) = result else {
        problem("the scenario panicked".to_owned());
        return report;
    };
    let start = Instant::now();
    if !struck {
        if let Err(error) = result.and(reclaimed) {
            problem(format!("failed without a failure: {error}"));
        }
    } else if kind.is_sticky() {
        if let Err(error) = &result
            && !error.is_sticky()
            && !rules.allow(rules::NOT_YET_STICKY, scenario.name, call)
        {
            problem(format!("not recognised as sticky: {error}"));
        }
        world.all_say_sticky().into_iter().for_each(&mut problem);
        match catch_unwind(AssertUnwindSafe(|| (scenario.run)(&world))) {
            Ok(Err(error)) if error.is_sticky() => {}
            Ok(Err(_)) if rules.allow(rules::NOT_YET_STICKY, scenario.name, call) => {}
            Ok(outcome) => problem(format!("the same again in a broken context: {outcome:?}")),
            Err(_) => problem("panicked in a broken context".to_owned()),
        }
    } else {
        match (&result, &reclaimed) {
            (Err(error), _) | (Ok(()), Err(error)) if names(error, call) => {}
            (Err(error), _) => problem(format!("does not name the call: {error}")),
            _ => {
                if !rules.allow(rules::NO_ERROR, scenario.name, call) {
                    problem("no error".to_owned());
                }
            }
        }
        match catch_unwind(AssertUnwindSafe(|| world.still_works())) {
            Ok(Ok(())) => {}
            outcome => problem(format!("the witness: {outcome:?}")),
        }
        match catch_unwind(AssertUnwindSafe(|| (scenario.run)(&world))) {
            Ok(Ok(())) => {}
            outcome => problem(format!("the same again: {outcome:?}")),
        }
    }
    let runtime = world.runtime.clone();
    drop(world);
    let last = runtime.reclaim();
    if let Err(error) = last
        && !kind.is_sticky()
    {
        problem(format!("at the end: {error}"));
    }
    drop(runtime);
    if kind.is_sticky() && struck && start.elapsed() > AT_ONCE {
        problem(format!("it took {:?} to say so", start.elapsed()));
    }
    if table.strong_count() > 0 {
        problem("the runtime lives on".to_owned());
    }
    if !sim.misuse().is_empty() {
        problem(format!("misuse: {:?}", sim.misuse()));
    }
    let leaks = sim.leaks();
    let is_allowed = kind.is_sticky()
        || leaks.is_empty()
        || is_what_it_gives_back(call, &leaks) && rules.allow(rules::LEAKS, scenario.name, call);
    if !is_allowed {
        problem(format!(
            "leaks: {:?}",
            leaks.iter().map(word).collect::<Vec<_>>()
        ));
    }
    report
}

/// Whether this is one thing of the kind that the call gives back.
fn is_what_it_gives_back(call: &str, leaks: &[Leak]) -> bool {
    let mut words: Vec<_> = leaks.iter().map(word).collect();
    words.sort_unstable();
    match call {
        // Memory of a pool, which keeps its pool.
        "cudaFreeAsync" => words == ["cudaMallocAsync", "pool"],
        "cudaFree" => {
            matches!(words[..], ["cudaMallocManaged" | "cudaMalloc"])
                || words == ["cudaMallocAsync", "pool"]
        }
        "cudaFreeHost" => words == ["cudaHostAlloc"],
        "cudaStreamDestroy" => words == ["stream"],
        "cudaEventDestroy" => words == ["event"],
        "cuModuleUnload" => words == ["module"],
        "cudaMemPoolDestroy" => words == ["pool"],
        _ => false,
    }
}

fn word(leak: &Leak) -> &'static str {
    match leak {
        Leak::Memory { kind, .. } => kind,
        Leak::Stream => "stream",
        Leak::Event => "event",
        Leak::Pool => "pool",
        Leak::Module => "module",
        Leak::Registration { .. } => "registration",
        _ => "?",
    }
}

/// The calls of a run without failures, with how often each was made.
pub fn calls_of(scenario: &Scenario, machine: (Gpu, CudaVersion)) -> Vec<(&'static str, u64)> {
    let mut world = World::new(machine);
    (scenario.run)(&world).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    world.runtime.reclaim().unwrap();
    let mut calls: Vec<(&'static str, u64)> = Vec::new();
    for record in world.sim.trace() {
        match calls.iter_mut().find(|(name, _)| *name == record.name) {
            Some((_, count)) => *count += 1,
            None => calls.push((record.name, 1)),
        }
    }
    world.still_works().unwrap();
    let sim = world.sim.clone();
    drop(world);
    assert!(
        sim.leaks().is_empty(),
        "{}: {:?}",
        scenario.name,
        sim.leaks()
    );
    assert!(
        sim.misuse().is_empty(),
        "{}: {:?}",
        scenario.name,
        sim.misuse()
    );
    calls
}
