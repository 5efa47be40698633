//! Two calls of one run fail: a first call, and a later call, mostly one that is made because the first one failed.

use crate::machines_of;
use crate::scenarios::{SCENARIOS, Scenario};
use crate::world::{Machine, World};
use cuda_um_testkit::faults::check::{Combination, World as _, run_all, sample, usual};
use cuda_um_testkit::faults::failure::{Failure, KINDS, Kind, is_inquiry};
use cuda_um_testkit::faults::rules::Rules;
use cuda_um_testkit::faults::workers;
use fastrand::Rng;
use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Number of first failures that are chosen for a scenario on a machine, each with three second failures.
const PAIRS: (&str, u64) = ("CUDA_UM_FAULT_PAIRS", 3);
const SEED: (&str, u64) = ("CUDA_UM_FAULT_SEED", 1);
/// Two second failures of each first one are directly after it, within this number of calls, and one is at any later time.
const CLOSE: usize = 16;

fn setting((name, default): (&str, u64)) -> u64 {
    let Ok(text) = std::env::var(name) else {
        return default;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("{name}={text}: a number"))
}

/// A scenario on a machine, and the calls that it makes there without failures.
struct Place {
    scenario: &'static Scenario,
    machine: Machine,
    calls: Vec<(&'static str, u64)>,
    seed: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pairs of {} {:?}", self.scenario.name, self.machine)
    }
}

impl Place {
    /// The first failure is not sticky, because after a sticky one every call fails anyway. Half of them are refused
    /// allocations, because the library has most code for these.
    fn first(&self, rng: &mut Rng) -> Failure {
        let allocates = |call: &str| call.contains("Malloc") || call == "cudaHostAlloc";
        let allocations: Vec<_> = self.calls.iter().filter(|it| allocates(it.0)).collect();
        if rng.bool()
            && let Some(&&(call, count)) = rng.choice(&allocations)
        {
            return Failure {
                call,
                nth: rng.u64(1..=count),
                kind: Kind::OutOfMemory,
            };
        }
        let (call, count) = *rng.choice(&self.calls).expect("a scenario calls something");
        let kinds = KINDS.into_iter().filter(|kind| !kind.is_sticky());
        Failure {
            call,
            nth: rng.u64(1..=count),
            kind: rng
                .choice(kinds.collect::<Vec<_>>())
                .expect("every call can fail"),
        }
    }

    /// The calls after the first failure, each with its count from the start.
    fn calls_after(&self, first: Failure) -> Vec<(&'static str, u64)> {
        let world = World::new(self.machine);
        first.inject(&world.sim);
        // Single failures are checked in other runs.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.scenario.run)(&world)));
        let _ = world.runtime.reclaim();
        let Some(position) = first.position(&world.sim) else {
            return Vec::new();
        };
        let mut counts = HashMap::<_, u64>::new();
        let numbered = world.sim.trace().into_iter().map(|record| {
            let count = counts.entry(record.name).or_default();
            *count += 1;
            (record.name, *count)
        });
        let after = numbered.skip(position + 1);
        after.filter(|(call, _)| !is_inquiry(call)).collect()
    }

    fn seconds(&self, first: Failure, rng: &mut Rng) -> Vec<Failure> {
        let after = self.calls_after(first);
        // Each function once: nearly every second call queries the current device.
        let mut close = after[..after.len().min(CLOSE)].to_vec();
        close.sort_unstable();
        close.dedup_by_key(|(call, _)| *call);
        let drawn = [rng.choice(&close), rng.choice(&close), rng.choice(&after)];
        let failure = |&(call, nth)| Failure {
            call,
            nth,
            kind: rng.choice(KINDS).expect("there are kinds"),
        };
        drawn.into_iter().flatten().map(failure).collect()
    }

    fn combinations(&self, firsts: u64) -> Vec<Combination<World>> {
        let mut rng = Rng::with_seed(self.seed);
        let pairs = (0..firsts).flat_map(|_| {
            let first = self.first(&mut rng);
            let seconds = self.seconds(first, &mut rng).into_iter();
            seconds.map(move |second| vec![first, second])
        });
        pairs
            .map(|failures| Combination {
                scenario: self.scenario,
                machine: self.machine,
                failures,
            })
            .collect()
    }
}

#[test]
fn two_calls_of_one_run_fail() {
    let (firsts, seed) = (setting(PAIRS), setting(SEED));
    let mut rng = Rng::with_seed(seed);
    let all = SCENARIOS.iter().flat_map(|scenario| {
        let machines = machines_of(scenario).iter();
        machines.map(move |&machine| (scenario, machine))
    });
    let places: Vec<_> = all
        .map(|(scenario, machine)| Place {
            scenario,
            machine,
            calls: usual(scenario, machine),
            seed: rng.u64(..),
        })
        .collect();
    let drawn = workers::each(&places, |place| place.combinations(firsts));
    let all: Vec<_> = drawn.into_iter().flatten().collect();
    let (count, struck) = (
        all.len().div_ceil(sample()),
        run_all(&all, &Rules::default()),
    );
    let both = struck.get(&2).copied().unwrap_or(0);
    println!("seed {seed}");
    // Some calls depend on the timing of threads.
    assert!(2 * both >= count, "both struck in {both} of {count}");
}
