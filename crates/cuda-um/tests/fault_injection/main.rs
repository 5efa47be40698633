//! Every CUDA call of every scenario fails once, in every way, and in some runs two calls fail.
//!
//! # What it proves
//!
//! For each scenario (`scenarios/`: short programs that use the library), on its first simulated machine, or on each of them, whichever call fails:
//!
//! - The library returns a typed error with the call, its subject and the code, unless `rules.rs` has a reason to continue without an error.
//!   It does not panic, abort or hang.
//! - Other buffers keep their contents and work, and the same scenario works afterwards. The thread's current device is the same as before.
//! - Nothing is leaked and nothing is misused, by the simulator's own report.
//! - After a sticky failure every operation returns a sticky error within seconds, and all objects can be dropped. Memory is then lost with
//!   the context, so leaks are not counted.
//!
//! # How it works
//!
//! Read the files in this order. `failure.rs`: one failing call, by name, number and kind. `check.rs` in
//! `cuda_um_testkit::faults`: one run, and all checks after it. `world.rs`: a machine, and the operations that must work, or must fail, after a
//! failure. `rules.rs`: the effects that are allowed besides an error,
//! each with its reason; `leaks.rs` explains the resources that are left by the failed calls. `workers.rs`: many runs on four threads. This file
//! makes the runs with one failure: a run without failures counts the calls of each name; then the first and the last one fail, one in each run. `pairs.rs` draws the runs with two failures.
//!
//! # When it fails
//!
//! The test prints each problem with its count, and up to six of the runs that had it, for example
//!
//! ```text
//! no error: 96 times
//!     batch_prefetch H200 V13_4 x1, cudaMemPrefetchBatchAsync #1 OutOfMemory
//! ```
//!
//! That is: scenario, GPU, CUDA version, number of devices; then the name of the call, its number in the run, and the kind of failure. Below
//! `no longer needed` are rules that no run on all machines has used: remove them. A run that hangs is named by the watchdog after a minute, which ends the
//! process.
//!
//! ```text
//! cargo test -p cuda-um --test fault_injection every_call -- --nocapture
//! CUDA_UM_FAULT_FIRST=1000000 …       every call fails, not only the first and the last one of a name, on all machines of a scenario
//! CUDA_UM_FAULT_SAMPLE=7 …            one of seven runs
//! CUDA_UM_FAULT_SEED=7 CUDA_UM_FAULT_PAIRS=100 cargo test -p cuda-um --test fault_injection two_calls -- --nocapture
//! ```
//!
//! The runs are the same each time, and pairs with the same seed, apart from calls that depend on the timing of threads. To run one scenario,
//! remove the other lines of `scenarios!` for a while; unused rules then fail the test, too. To run one failure, pass it to `check::run`.
//!
//! # What it cannot find
//!
//! A call that no scenario makes, three failures in one run, and the behaviour of a real driver: the test runs only on simulators. An error that
//! is swallowed where a rule allows silence: `tests/all/errors.rs` checks that `close` returns the error of a failed `cudaFree`. Races between threads
//! are for `loom` and `stress`. Calls that only query errors or versions never fail (`failure::is_inquiry`).
//!
//! # To add
//!
//! An operation: call it in a function of `scenarios/`, which asserts its results and releases everything, and list a new function in
//! `scenarios!`. A CUDA call that creates or releases a resource: name it in `leaks.rs`, and in `rules.rs` if its failure gives no error.

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
