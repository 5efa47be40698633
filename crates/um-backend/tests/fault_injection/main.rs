//! Every CUDA call behind the buffers of this crate fails once, in every way. Each failure is a typed error that names the call, nothing
//! leaks, and all other buffers still work. Meanwhile a subscriber of `tracing` panics, at every warning or at every event. The failures, the
//! rules for leaks and the runner are those of `cuda-um`; the machines and the scenarios are in this folder.

mod check;
mod scenarios;
#[path = "../support/mod.rs"]
mod support;
mod world;

use check::{Combination, calls_of, run};
use cuda_um_testkit::bomb::{self, Plan};
use cuda_um_testkit::faults::failure;
use cuda_um_testkit::faults::rules::Rules;
use cuda_um_testkit::faults::workers::{self, Summary};
use scenarios::SCENARIOS;
use std::time::Instant;
use world::MACHINES;

/// The number of first occurrences of a call that fail. The last one fails, too.
const FIRST: u64 = 3;

#[test]
fn every_call_behind_a_buffer_fails_once() {
    bomb::install();
    let start = Instant::now();
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        for &machine in &MACHINES {
            let failures = failure::each_once(&calls_of(scenario, machine), FIRST);
            all.extend(failures.into_iter().map(|failure| Combination {
                scenario,
                machine,
                failure,
                subscriber: match failure.nth {
                    1 => Plan::Always,
                    _ => Plan::Warnings,
                },
            }));
        }
    }
    let rules = Rules::default();
    let reports = workers::each(&all, |it| (it.to_string(), run(it, &rules)));
    let summary = Summary::of(reports);
    let (count, struck, took) = (all.len(), summary.struck(1), start.elapsed());
    let panics = bomb::panics();
    println!(
        "{count} combinations, {struck} failures struck, {panics} panics of subscribers, in {took:.1?}"
    );
    summary.assert_no_problems();
    assert!(struck >= 1000, "{struck} failures struck");
}
