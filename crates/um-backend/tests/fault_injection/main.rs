//! Every CUDA call behind the buffers of this crate fails once, in every way. Each failure is a typed error that names the call, nothing
//! leaks, and all other buffers still work. The failures, the
//! rules for leaks and the runner are those of `cuda-um`; the machines and the scenarios are in this folder.

mod scenarios;
#[path = "../support/mod.rs"]
mod support;
mod world;

use cuda_um_testkit::faults::check::{Combination, run_all, sample, usual};
use cuda_um_testkit::faults::failure;
use cuda_um_testkit::faults::rules::Rules;
use scenarios::SCENARIOS;

/// The first occurrences of a call that fail: so many, and the last one.
const FIRST: u64 = 1;

#[test]
fn every_call_behind_a_buffer_fails_once() {
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        for &machine in scenario.machines {
            let failures = failure::each_once(&usual(scenario, machine), FIRST);
            all.extend(failures.into_iter().map(|failure| Combination {
                scenario,
                machine,
                failures: vec![failure],
            }));
        }
    }
    let struck = run_all(&all, &Rules::default())
        .get(&1)
        .copied()
        .unwrap_or(0);
    assert!(struck * sample() >= 1000, "{struck} failures struck");
}
