//! Every CUDA call of every scenario fails once, in every way, and in some runs two calls fail. The result is a typed error,
//! without leak, abort or hang, and everything else continues. At the same time a `tracing` subscriber panics at every warning,
//! or more often.

mod check;
mod pairs;
mod scenarios;
mod world;

use check::{Combination, run, usual};
use cuda_um_testkit::bomb::{self, Plan};
use cuda_um_testkit::faults::failure::{self, Failure, Kind};
use cuda_um_testkit::faults::rules::Rules;
use cuda_um_testkit::faults::workers::{self, Summary};
use scenarios::{SCENARIOS, Scenario};
use std::time::Instant;
use world::Machine;

/// Number of first calls of a name that fail, in addition to the last one: 5, unless this variable is set. With 5 there are
/// more than 30,000 combinations.
const FIRST: &str = "CUDA_UM_FAULT_FIRST";

fn first() -> u64 {
    let said = std::env::var(FIRST).ok();
    said.map_or(5, |said| {
        said.parse().expect("CUDA_UM_FAULT_FIRST is a number")
    })
}

/// The runs of one scenario on one machine in which at most one call fails.
fn combinations_of(scenario: &'static Scenario, machine: Machine) -> Vec<Combination> {
    let (calls, told) = usual(scenario, machine);
    let combination = |failures: Vec<Failure>, subscriber| Combination {
        scenario,
        machine,
        failures,
        subscriber,
    };
    let each = failure::each_once(&calls, first());
    // For calls on the path of an error, and for those after a call that did its work.
    let is_sample = |failure: &&Failure| {
        failure.nth == 1 && matches!(failure.kind, Kind::InvalidValue | Kind::Late)
    };
    let sample: Vec<_> = each.iter().filter(is_sample).copied().collect();
    let alone = each.into_iter();
    let alone = alone.map(|failure| combination(vec![failure], Plan::Warnings));
    let sample = sample.into_iter();
    let sample = sample.map(|failure| combination(vec![failure], Plan::Always));
    // One panic, at each call of the subscriber in turn.
    let nth = (1..=told).map(|nth| combination(Vec::new(), Plan::Nth(nth)));
    let always = combination(Vec::new(), Plan::Always);
    alone.chain(sample).chain(nth).chain([always]).collect()
}

#[test]
fn every_call_fails_once_in_every_way() {
    bomb::install();
    let start = Instant::now();
    let places = SCENARIOS.iter().flat_map(|scenario| {
        let machines = scenario.machines.iter();
        machines.map(move |&machine| (scenario, machine))
    });
    let all: Vec<_> = places
        .flat_map(|(scenario, machine)| combinations_of(scenario, machine))
        .collect();
    let rules = Rules::default();
    let reports = workers::each(&all, |it| (it.to_string(), run(it, &rules)));
    let summary = Summary::of(reports);
    let struck = summary.struck(1);
    let (count, took) = (all.len(), start.elapsed());
    let panics = bomb::panics();
    println!(
        "{count} combinations, {struck} failures struck, {panics} panics of subscribers, in {took:.1?}"
    );
    summary.assert_no_problems();
    let unused = rules.unused();
    assert!(unused.is_empty(), "no longer needed: {unused:#?}");
    if std::env::var_os(FIRST).is_none() {
        assert!(
            count >= 30_000 && struck >= 20_000,
            "{count} combinations, {struck} failures struck"
        );
    }
}
