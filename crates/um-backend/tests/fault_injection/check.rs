//! One run with one failure, and the checks after it.

use crate::scenarios::Scenario;
use crate::world::{Machine, World};
use cuda_um_testkit::bomb::{self, Plan};
use cuda_um_testkit::faults::failure::{self, Failure};
use cuda_um_testkit::faults::leaks;
use cuda_um_testkit::faults::rules::{self, Rules};
use cuda_um_testkit::faults::workers::Report;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use um_backend::{CudaError, cuda_um::ErrorKind};

/// One failure of one call in one scenario.
pub struct Combination {
    pub scenario: &'static Scenario,
    pub machine: Machine,
    pub failure: Failure,
    /// The events at which the subscriber of `tracing` panics on the thread of the scenario.
    pub subscriber: Plan,
}

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((gpu, devices), failure) = (self.machine, self.failure);
        let (name, plan) = (self.scenario.name, self.subscriber);
        write!(
            f,
            "{name} {gpu:?} x{devices}, {failure}, the subscriber panics: {plan:?}"
        )
    }
}

/// Whether the type and the fields of the error identify the failure.
fn is_typed(error: &CudaError, failure: &Failure) -> bool {
    let one_line = error.to_string().lines().count() == 1;
    one_line
        && match error {
            error if error.kind() == ErrorKind::Sticky => failure.broke(error),
            error => failure.is_told_by(error),
        }
}

/// Runs a scenario with a failure, and again without it.
pub fn run(combination: &Combination, rules: &Rules) -> Report {
    let Combination {
        scenario,
        machine,
        failure,
        subscriber,
    } = combination;
    let allow = |about| rules.allow(about, scenario.name, failure.call);
    let mut problems = Vec::new();
    let mut world = World::new(*machine);
    let (sim, runtime) = (world.sim.clone(), world.runtime());
    failure.inject(&sim);
    let work = || {
        let result = catch_unwind(AssertUnwindSafe(|| (scenario.run)(&world)));
        // The payload of the subscriber's panic must not be dropped.
        let result = result.map_err(std::mem::forget);
        (result, runtime.reclaim())
    };
    let ((result, reclaimed), _) = bomb::with(*subscriber, work);
    let struck = !failure::struck(&[*failure], &sim).is_empty();
    let sticky = struck && failure.kind.is_sticky();
    sim.clear_failures();
    let error = match result {
        Ok(Err(error)) => Some(error),
        Ok(Ok(())) => reclaimed.err(),
        Err(_) => {
            problems.push("the scenario panicked".to_owned());
            None
        }
    };
    match &error {
        Some(error) if !struck => problems.push(format!("failed without a failure: {error}")),
        Some(error) => {
            let may_be = || sticky && allow(rules::NOT_YET_STICKY);
            if !is_typed(error, failure) && !may_be() {
                problems.push(format!("not typed: {error:?}"));
            }
        }
        None if !struck || sticky || allow(rules::NO_ERROR) => {}
        None => problems.push("no error".to_owned()),
    }
    let again = || catch_unwind(AssertUnwindSafe(|| (scenario.run)(&world)));
    if sticky {
        match again() {
            Ok(Err(error)) if error.is_sticky() || allow(rules::NOT_YET_STICKY) => {}
            outcome => problems.push(format!("the same again in a broken context: {outcome:?}")),
        }
        problems.extend(world.not_sticky());
    } else {
        match again() {
            Ok(Ok(())) => {}
            outcome => problems.push(format!("the same again: {outcome:?}")),
        }
        match catch_unwind(AssertUnwindSafe(|| world.still_works())) {
            Ok(Ok(())) => {}
            outcome => problems.push(format!("the witnesses: {outcome:?}")),
        }
    }
    drop(world);
    let last = runtime.reclaim();
    drop(runtime);
    if !sim.misuse().is_empty() {
        problems.push(format!("misuse: {:?}", sim.misuse()));
    }
    if !sticky {
        problems.extend(last.err().map(|error| format!("at the end: {error}")));
        let left = leaks::words(&sim);
        let failures = if struck { &[*failure][..] } else { &[] };
        let explained = leaks::explained_by(&left, failures);
        let mut by = explained.iter().flatten();
        if explained.is_none() || !by.all(|failure| allow(leaks::rule_about(failure))) {
            problems.push(format!("leaks: {left:?}"));
        }
    }
    Report {
        struck: usize::from(struck),
        problems,
    }
}

/// The calls of a run without failures, and the number of each.
pub fn calls_of(scenario: &Scenario, machine: Machine) -> Vec<(&'static str, u64)> {
    let mut world = World::new(machine);
    (scenario.run)(&world).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    world.runtime().reclaim().unwrap();
    let calls = failure::calls(&world.sim);
    world.still_works().unwrap();
    let (sim, runtime) = (world.sim.clone(), world.runtime());
    drop(world);
    runtime.reclaim().unwrap();
    drop(runtime);
    assert_eq!(leaks::words(&sim), [""; 0], "{}", scenario.name);
    calls
}
