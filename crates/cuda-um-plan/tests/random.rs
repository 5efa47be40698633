//! Plans of random programs: 100,000, or `PROPTEST_CASES`.

#[path = "support/mod.rs"]
mod support;

use cuda_um_plan::{Budget, Plan, SLOT_BYTES};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.map_or(100_000, |number| number.parse().unwrap())
}

fn run<S: Strategy>(cases: u32, strategy: S, test: impl Fn(S::Value)) {
    let config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let outcome = runner.run(&strategy, |value| {
        test(value);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn random_programs() {
    let plans = Cell::new(0);
    run(
        cases(),
        support::programs(10, 14, 4),
        |(program, slots, link)| {
            let budget = Budget {
                bytes: slots * SLOT_BYTES,
            };
            let plan = program.solve(budget, link).unwrap();
            plan.check(&program).unwrap();
            let prediction = plan.prediction();
            let bound = program.lower_bound(budget, link).unwrap();
            assert!(prediction.in_bytes >= bound.in_bytes, "{prediction:?}");
            assert!(prediction.out_bytes >= bound.out_bytes, "{prediction:?}");
            assert!(
                prediction.seconds.is_finite()
                    && prediction.seconds >= bound.seconds * (1.0 - 1e-9),
                "{prediction:?}"
            );
            if plans.get() % 16 == 0 {
                let read = Plan::from_json(&plan.to_json(), &program, budget).unwrap();
                assert_eq!(read, plan);
            }
            plans.set(plans.get() + 1);
        },
    );
    println!("{} plans", plans.get());
}
