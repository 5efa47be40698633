//! One run with failures, and the checks after it.

use crate::scenarios::Scenario;
use crate::world::{Machine, World};
use cuda_um::{Error, Result};
use cuda_um_testkit::bomb::{self, Plan};
use cuda_um_testkit::faults::failure::{self, Failure};
use cuda_um_testkit::faults::leaks;
use cuda_um_testkit::faults::rules::{self, Rules};
use cuda_um_testkit::faults::workers::Report;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The failures of one run of a scenario.
#[derive(Clone)]
pub struct Combination {
    pub scenario: &'static Scenario,
    pub machine: Machine,
    pub failures: Vec<Failure>,
    /// The times at which the `tracing` subscriber panics on the thread of the scenario.
    pub subscriber: Plan,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine {
            gpu, cuda, devices, ..
        } = self.machine;
        write!(f, "{} {gpu:?} {cuda:?} x{devices}", self.scenario.name)?;
        self.failures
            .iter()
            .try_for_each(|failure| write!(f, ", {failure}"))?;
        match self.subscriber {
            Plan::Warnings => Ok(()),
            plan => write!(f, ", the subscriber panics: {plan:?}"),
        }
    }
}

/// If an operation in a broken context takes longer than this, it waits for something.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Runs a scenario with failures, and again without them.
pub fn run(combination: &Combination, rules: &Rules) -> Report {
    let scenario = combination.scenario;
    let mut problems = Vec::new();
    let mut world = World::new(combination.machine);
    let sim = world.sim.clone();
    let table = Arc::downgrade(&sim.table());
    for failure in &combination.failures {
        failure.inject(&sim);
    }
    let work = || {
        let result = catch_unwind(AssertUnwindSafe(|| (scenario.run)(&world)));
        // The payload of a subscriber's panic must not be dropped.
        let result = result.map_err(std::mem::forget);
        (result, world.runtime.reclaim())
    };
    let ((result, reclaimed), _) = bomb::with(combination.subscriber, work);
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
    let errors = std::mem::take(&mut *world.more_errors.lock().unwrap());
    let errors = result.err().into_iter().chain(errors);
    if struck.is_empty() {
        for error in errors.chain(reclaimed.err()) {
            problems.push(format!("failed without a failure: {error}"));
        }
    } else if sticky {
        problems.extend(outcome.after_sticky(errors.collect(), &mut world));
    } else {
        problems.extend(outcome.after_failure(errors.collect(), reclaimed, &mut world));
    }
    let runtime = world.runtime.clone();
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
    // The reclaim thread may hold the last handle; it has done its work and releases it.
    let dropped = Instant::now();
    while table.strong_count() > 0 && dropped.elapsed() < AT_ONCE {
        std::thread::sleep(Duration::from_millis(1));
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
struct Outcome<'a> {
    scenario: &'static Scenario,
    struck: &'a [Failure],
    rules: &'a Rules,
}

impl Outcome<'_> {
    fn allow(&self, about: rules::About, failure: &Failure) -> bool {
        self.rules.allow(about, self.scenario.name, failure.call)
    }

    /// True if the error is a correct report of one of the failures.
    fn is_told(&self, error: &Error) -> bool {
        self.struck
            .iter()
            .any(|failure| match failure.kind.is_sticky() {
                true => failure.broke(error),
                false => failure.is_told_by(error),
            })
    }

    fn may_be_silent(&self) -> bool {
        let of_two = self.struck.len() == 2;
        self.struck.iter().all(|failure| {
            self.allow(rules::NO_ERROR, failure)
                || of_two && self.allow(rules::NO_ERROR_OF_TWO, failure)
        })
    }

    fn again(&self, world: &World) -> std::thread::Result<Result<()>> {
        let result = catch_unwind(AssertUnwindSafe(|| (self.scenario.run)(world)));
        world.more_errors.lock().unwrap().clear();
        result
    }

    fn after_sticky(&self, errors: Vec<Error>, world: &mut World) -> Vec<String> {
        let not_yet = || {
            let mut struck = self.struck.iter();
            struck.any(|failure| self.allow(rules::NOT_YET_STICKY, failure))
        };
        let mut problems = Vec::new();
        if errors.is_empty() && !self.may_be_silent() {
            problems.push("no error".to_owned());
        }
        let of_early = |error: &Error| self.struck.iter().any(|failure| failure.is_told_by(error));
        let wrong = errors
            .into_iter()
            .filter(|error| !(self.is_told(error) || of_early(error) && not_yet()));
        problems.extend(wrong.map(|error| format!("not told as sticky: {error:?}")));
        problems.extend(world.not_sticky());
        match self.again(world) {
            Ok(Err(error)) if error.is_sticky() => {}
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
        mut errors: Vec<Error>,
        reclaimed: Result<()>,
        world: &mut World,
    ) -> Vec<String> {
        let mut problems = Vec::new();
        if errors.len() > self.struck.len() {
            problems.push(format!("more errors than failures: {errors:?}"));
        }
        errors.extend(reclaimed.err().filter(|_| errors.is_empty()));
        for error in errors.iter().filter(|error| !self.is_told(error)) {
            problems.push(format!("does not say what failed: {error:?}"));
        }
        if errors.is_empty() && !self.may_be_silent() {
            problems.push("no error".to_owned());
        }
        // The call is tried twice.
        let set = self.struck.iter().filter(|it| it.call == "cudaSetDevice");
        let device = world.current_device();
        if device != 0 && set.count() < 2 {
            problems.push(format!("the thread's device is {device} afterwards"));
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
pub fn calls_of(scenario: &Scenario, machine: Machine) -> Vec<(&'static str, u64)> {
    usual(scenario, machine).0
}

/// The same, and how often a subscriber of all events is called on the scenario's thread.
pub fn usual(scenario: &Scenario, machine: Machine) -> (Vec<(&'static str, u64)>, u64) {
    let mut world = World::new(machine);
    let work = || {
        (scenario.run)(&world).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        world.runtime.reclaim().unwrap();
    };
    let ((), told) = bomb::with(Plan::Never, work);
    let more = std::mem::take(&mut *world.more_errors.lock().unwrap());
    assert!(more.is_empty(), "{}: {more:?}", scenario.name);
    let calls = failure::calls(&world.sim);
    world.still_works().unwrap();
    let sim = world.sim.clone();
    drop(world);
    let (name, leaks, misuse) = (scenario.name, sim.leaks(), sim.misuse());
    assert!(leaks.is_empty(), "{name}: {leaks:?}");
    assert!(misuse.is_empty(), "{name}: {misuse:?}");
    (calls, told)
}
