//! Every CUDA call of every scenario fails once, in every way, and in some runs two calls fail.
//!
//! For each scenario (`scenarios/`: short programs that use the library), on a simulated machine, whichever call fails:
//!
//! - The library returns a typed error with the call, its subject and the code, unless `rules.rs` has a reason to continue without an error.
//!   It does not panic, abort or hang.
//! - Other buffers keep their contents and work, and the same scenario works afterwards. The thread's current device is the same as before.
//! - Nothing is leaked and nothing is misused, by the simulator's own report.
//! - After a sticky failure every operation returns a sticky error within seconds, and all objects can be dropped.
//!
//! A run without failures counts the calls of each name; then the first and the last one fail, one in each run; `pairs.rs` draws the runs with
//! two failures. In `cuda_um_testkit::faults`, `failure.rs` is a failing call, `check.rs` a run and its checks, `rules.rs` what is allowed besides
//! an error, and `leaks.rs` explains what is left. A problem is printed with its count and some of its runs: scenario, GPU, CUDA version, number of
//! devices, call, its number in the run, kind of failure. The watchdog names a run that hangs.
//!
//! ```text
//! cargo test -p cuda-um --test fault_injection every_call -- --nocapture
//! CUDA_UM_FAULT_FIRST=1000000 …       every call fails, not only the first and the last one of a name, on all machines of a scenario
//! CUDA_UM_FAULT_SAMPLE=7 …            one of seven runs
//! CUDA_UM_FAULT_SEED=7 CUDA_UM_FAULT_PAIRS=100 cargo test -p cuda-um --test fault_injection two_calls -- --nocapture
//! ```
//!
//! It cannot find a call that no scenario makes, what a real driver does, races (`loom`, `stress`), and an error that is swallowed where a rule
//! allows it: `tests/all/errors.rs` checks that `close` returns the error of a failed `cudaFree`.
//!
//! A new operation is a call in a function of `scenarios/`, which asserts its results and releases everything. A new CUDA call that creates or
//! releases a resource is named in `leaks.rs`, and in `rules.rs` if its failure gives no error.

mod pairs;
mod scenarios;
mod world;

use cuda_um_testkit::faults::check::{Combination, run_all, sample, usual};
use cuda_um_testkit::faults::failure;
use cuda_um_testkit::faults::rules::Rules;
use scenarios::{SCENARIOS, Scenario};
use world::{Machine, World};

/// Number of first calls of a name that fail, in addition to the last one: 1, unless this variable is set. If it is set, each scenario runs on
/// all of its machines, and otherwise on the first one.
const FIRST: &str = "CUDA_UM_FAULT_FIRST";

fn first() -> Option<u64> {
    let said = std::env::var(FIRST).ok();
    said.map(|said| said.parse().expect("CUDA_UM_FAULT_FIRST is a number"))
}

fn machines_of(scenario: &'static Scenario) -> &'static [Machine] {
    let count = first().map_or(1, |_| scenario.machines.len());
    &scenario.machines[..count]
}

/// The runs of one scenario in which at most one call fails.
fn combinations_of(scenario: &'static Scenario) -> impl Iterator<Item = Combination<World>> {
    let on = move |&machine| combinations_on(scenario, machine);
    machines_of(scenario).iter().flat_map(on)
}

/// All of them on one machine.
fn combinations_on(scenario: &'static Scenario, machine: Machine) -> Vec<Combination<World>> {
    let calls = usual(scenario, machine);
    let each = failure::each_once(&calls, first().unwrap_or(1)).into_iter();
    let combination = |failure| Combination {
        scenario,
        machine,
        failures: vec![failure],
    };
    each.map(combination).collect()
}

/// claims 3 and 30
#[test]
fn every_call_fails_once_in_every_way() {
    let all: Vec<_> = SCENARIOS.iter().flat_map(combinations_of).collect();
    let rules = Rules::default();
    let struck = run_all(&all, &rules).get(&1).copied().unwrap_or(0);
    let (unused, count) = (rules.unused(), all.len());
    if first().is_some() {
        // Other machines need other rules.
        assert!(
            sample() > 1 || unused.is_empty(),
            "no longer needed: {unused:#?}"
        );
    } else {
        assert!(
            count >= 4_000 && struck * sample() >= 2_500,
            "{count} combinations, {struck} failures struck"
        );
    }
}
