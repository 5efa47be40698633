//! Every CUDA call of every scenario fails once, in every way, and some of them two in one run: a typed error, no leak, no abort, no
//! hang, and the rest goes on.

mod check;
mod failure;
mod leaks;
mod pairs;
mod rules;
mod scenarios;
#[path = "../support/mod.rs"]
mod support;
mod workers;
mod world;

use check::{Combination, calls_of, run};
use rules::Rules;
use scenarios::SCENARIOS;
use std::time::Instant;
use workers::Summary;

/// Of a call that is made often, the first so many times and the last one: `CUDA_UM_FAULT_FIRST` says how many, else 5.
fn first() -> u64 {
    let said = std::env::var("CUDA_UM_FAULT_FIRST").ok();
    said.map_or(5, |said| {
        said.parse().expect("CUDA_UM_FAULT_FIRST is a number")
    })
}

fn combinations() -> Vec<Combination> {
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        for &machine in scenario.machines {
            let failures = failure::each_once(&calls_of(scenario, machine), first());
            all.extend(failures.into_iter().map(|failure| Combination {
                scenario,
                machine,
                failures: vec![failure],
            }));
        }
    }
    all
}

#[test]
fn every_call_fails_once_in_every_way() {
    let start = Instant::now();
    let (all, rules) = (combinations(), Rules::default());
    let reports = workers::each(&all, |it| (it.to_string(), run(it, &rules)));
    let summary = Summary::of(reports);
    let struck = summary.struck(1);
    let (count, took) = (all.len(), start.elapsed());
    println!("{count} combinations, {struck} failures struck, in {took:.1?}");
    summary.assert_no_problems();
    let unused = rules.unused();
    assert!(unused.is_empty(), "no longer needed: {unused:#?}");
    assert!(struck >= 8000, "{struck} failures struck");
}
