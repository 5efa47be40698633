//! One run with failures, and the checks after it.

use crate::call::Calls;
use crate::faults::failure::{self, Failure};
use crate::faults::leaks;
use crate::faults::rules::{self, Rules};
use crate::faults::workers::{self, Report, Summary};
use cuda_um::Runtime;
use cuda_um_sim::Sim;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A simulated machine in use, and the operations that must work, or must fail, after a failure.
pub trait World: Sized + 'static {
    type Machine: Copy + fmt::Debug + Sync;
    type Error: fmt::Debug + fmt::Display + From<cuda_um::Error>;

    /// Scenarios and their calls whose failure may have no effect, in addition to the rules for all libraries.
    const SILENT: &'static [(&'static str, &'static str)] = &[];

    fn new(machine: Self::Machine) -> Self;
    fn sim(&self) -> &Sim;
    fn runtime(&self) -> Runtime;

    /// The error of cuda-um in an error.
    fn cause(error: &Self::Error) -> Option<&cuda_um::Error>;

    /// True if the error is a correct report of a failure that is not sticky.
    fn is_told(error: &Self::Error, failure: &Failure) -> bool {
        Self::cause(error).is_some_and(|error| failure.is_told_by(error))
    }

    /// Takes the errors of a scenario in addition to the one that it returns.
    fn more_errors(&self) -> Vec<Self::Error> {
        Vec::new()
    }

    /// Checks that other objects keep their contents and work.
    fn still_works(&mut self) -> Result<(), Self::Error>;

    /// The operations that do not fail at once in a broken context.
    fn not_sticky(&mut self) -> Vec<String> {
        Vec::new()
    }
}

/// A short program that uses a library. It asserts its results, also after a failed call that had no effect.
pub struct Scenario<W: World> {
    pub name: &'static str,
    pub machines: &'static [W::Machine],
    pub run: fn(&W) -> Result<(), W::Error>,
}

/// The failures of one run of a scenario.
pub struct Combination<W: World> {
    pub scenario: &'static Scenario<W>,
    pub machine: W::Machine,
    pub failures: Vec<Failure>,
}

impl<W: World> fmt::Display for Combination<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.scenario.name, self.machine)?;
        self.failures
            .iter()
            .try_for_each(|failure| write!(f, ", {failure}"))
    }
}

/// If an operation in a broken context takes longer than this, it waits for something.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Runs a scenario with failures, and again without them.
pub fn run<W: World>(combination: &Combination<W>, rules: &Rules) -> Report {
    let scenario = combination.scenario;
    let mut problems = Vec::new();
    let mut world = W::new(combination.machine);
    let (sim, runtime) = (world.sim().clone(), world.runtime());
    let table = Arc::downgrade(&sim.table());
    for failure in &combination.failures {
        failure.inject(&sim);
    }
    let result = catch_unwind(AssertUnwindSafe(|| (scenario.run)(&world)));
    let reclaimed = runtime.reclaim();
    let struck = failure::struck(&combination.failures, &sim);
    sim.clear_failures();
    let Ok(result) = result else {
        problems.push("the scenario panicked".to_owned());
        return Report {
            struck: struck.len(),
            problems,
        };
    };
    let start = Instant::now();
    let sticky = struck.iter().any(|failure| failure.kind.is_sticky());
    let outcome = Outcome {
        scenario,
        struck: &struck,
        rules,
    };
    let errors = world.more_errors();
    let errors = result.err().into_iter().chain(errors);
    if struck.is_empty() {
        for error in errors.chain(reclaimed.err().map(W::Error::from)) {
            problems.push(format!("failed without a failure: {error}"));
        }
    } else if sticky {
        let mut errors: Vec<_> = errors.collect();
        if errors.is_empty() {
            errors.extend(reclaimed.err().map(W::Error::from));
        }
        problems.extend(outcome.after_sticky(errors, &mut world));
    } else {
        problems.extend(outcome.after_failure(errors.collect(), reclaimed, &mut world));
    }
    drop(world);
    let last = runtime.reclaim();
    if let Err(error) = last
        && !sticky
    {
        problems.push(format!("at the end: {error}"));
    }
    drop(runtime);
    if sticky && start.elapsed() > AT_ONCE {
        problems.push(format!("it took {:?} to say so", start.elapsed()));
    }
    if table.strong_count() > 0 {
        problems.push("the runtime lives on".to_owned());
    }
    if !sim.misuse().is_empty() {
        problems.push(format!("misuse: {:?}", sim.misuse()));
    }
    if !sticky {
        problems.extend(outcome.leaks(&leaks::words(&sim)));
    }
    Report {
        struck: struck.len(),
        problems,
    }
}

/// The failures that occurred, and their results.
struct Outcome<'a, W: World> {
    scenario: &'static Scenario<W>,
    struck: &'a [Failure],
    rules: &'a Rules,
}

impl<W: World> Outcome<'_, W> {
    fn allow(&self, about: rules::About, failure: &Failure) -> bool {
        self.rules.allow(about, self.scenario.name, failure.call)
    }

    /// True if the error is a correct report of one of the failures.
    fn is_told(&self, error: &W::Error) -> bool {
        self.struck
            .iter()
            .any(|failure| match failure.kind.is_sticky() {
                true => W::cause(error).is_some_and(|error| failure.broke(error)),
                false => W::is_told(error, failure),
            })
    }

    fn may_be_silent(&self) -> bool {
        let of_two = self.struck.len() == 2;
        self.struck.iter().all(|failure| {
            W::SILENT.contains(&(self.scenario.name, failure.call))
                || self.allow(rules::NO_ERROR, failure)
                || of_two && self.allow(rules::NO_ERROR_OF_TWO, failure)
        })
    }

    fn again(&self, world: &W) -> std::thread::Result<Result<(), W::Error>> {
        let result = catch_unwind(AssertUnwindSafe(|| (self.scenario.run)(world)));
        world.more_errors();
        result
    }

    fn after_sticky(&self, errors: Vec<W::Error>, world: &mut W) -> Vec<String> {
        let not_yet = || {
            let mut struck = self.struck.iter();
            struck.any(|failure| self.allow(rules::NOT_YET_STICKY, failure))
        };
        let mut problems = Vec::new();
        if errors.is_empty() && !self.may_be_silent() {
            problems.push("no error".to_owned());
        }
        let of_early =
            |error: &W::Error| self.struck.iter().any(|failure| W::is_told(error, failure));
        let wrong = errors
            .into_iter()
            .filter(|error| !(self.is_told(error) || of_early(error) && not_yet()));
        problems.extend(wrong.map(|error| format!("not told as sticky: {error:?}")));
        problems.extend(world.not_sticky());
        match self.again(world) {
            Ok(Err(error)) if W::cause(&error).is_some_and(cuda_um::Error::is_sticky) => {}
            Ok(Err(_)) if not_yet() => {}
            Ok(outcome) => {
                problems.push(format!("the same again in a broken context: {outcome:?}"))
            }
            Err(_) => problems.push("panicked in a broken context".to_owned()),
        }
        problems
    }

    fn after_failure(
        &self,
        mut errors: Vec<W::Error>,
        reclaimed: cuda_um::Result<()>,
        world: &mut W,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        if errors.len() > self.struck.len() {
            problems.push(format!("more errors than failures: {errors:?}"));
        }
        let reclaimed = reclaimed.err().filter(|_| errors.is_empty());
        errors.extend(reclaimed.map(W::Error::from));
        for error in errors.iter().filter(|error| !self.is_told(error)) {
            problems.push(format!("does not say what failed: {error:?}"));
        }
        if errors.is_empty() && !self.may_be_silent() {
            problems.push("no error".to_owned());
        }
        // The call is tried twice.
        let set = self.struck.iter().filter(|it| it.call == "cudaSetDevice");
        let device = world.sim().table().current_device();
        if device != Ok(0) && set.count() < 2 {
            problems.push(format!("the thread's device is {device:?} afterwards"));
        }
        match catch_unwind(AssertUnwindSafe(|| world.still_works())) {
            Ok(Ok(())) => {}
            outcome => problems.push(format!("the witness: {outcome:?}")),
        }
        match self.again(world) {
            Ok(Ok(())) => {}
            outcome => problems.push(format!("the same again: {outcome:?}")),
        }
        problems
    }

    fn leaks(&self, left: &[&'static str]) -> Option<String> {
        let explained = leaks::explained_by(left, self.struck);
        let is_allowed = explained.is_some_and(|failures| {
            let mut failures = failures.into_iter();
            failures.all(|failure| self.allow(leaks::rule_about(failure), failure))
        });
        (!is_allowed).then(|| format!("leaks: {left:?}"))
    }
}

/// The calls of a run without failures, with their counts.
pub fn usual<W: World>(scenario: &Scenario<W>, machine: W::Machine) -> Vec<(&'static str, u64)> {
    let mut world = W::new(machine);
    let runtime = world.runtime();
    (scenario.run)(&world).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    runtime.reclaim().unwrap();
    let more = world.more_errors();
    assert!(more.is_empty(), "{}: {more:?}", scenario.name);
    let sim = world.sim().clone();
    let calls = failure::calls(&sim);
    world.still_works().unwrap();
    drop(world);
    runtime.reclaim().unwrap();
    drop(runtime);
    let (name, leaks, misuse) = (scenario.name, leaks::words(&sim), sim.misuse());
    assert!(leaks.is_empty(), "{name}: {leaks:?}");
    assert!(misuse.is_empty(), "{name}: {misuse:?}");
    calls
}

/// [`run_all`] makes one of so many runs: all of them, unless `CUDA_UM_FAULT_SAMPLE` has another number, for an emulator.
pub fn sample() -> usize {
    let sample = std::env::var("CUDA_UM_FAULT_SAMPLE").ok();
    sample.map_or(1, |sample| {
        let sample = sample.parse().ok().filter(|sample| *sample > 0);
        sample.expect("CUDA_UM_FAULT_SAMPLE is a number from 1 on")
    })
}

/// Makes runs on several threads, and panics if one has a problem. Returns the number of runs by the number of failures that
/// occurred.
pub fn run_all<W: World>(all: &[Combination<W>], rules: &Rules) -> BTreeMap<usize, usize> {
    let start = Instant::now();
    let all: Vec<_> = all.iter().step_by(sample()).collect();
    let reports = workers::each(&all, |it| (it.to_string(), run(it, rules)));
    let summary = Summary::of(reports);
    println!(
        "{} runs, by number of failures {:?}, in {:.1?}",
        all.len(),
        summary.by_struck,
        start.elapsed(),
    );
    summary.assert_no_problems();
    summary.by_struck
}
