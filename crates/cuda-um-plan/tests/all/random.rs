//! Plans of random programs: 2,000, or `PROPTEST_CASES`, and a fiftieth as many larger ones.

use cuda_um_plan::{Link, Plan, PlanBudget, Program, SLOT_BYTES};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::Cell;

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

fn plans_are_valid(cases: u32, programs: impl Strategy<Value = (Program, u64, Link)>) {
    let plans = Cell::new(0);
    run(cases, programs, |(program, slots, link)| {
        let budget = PlanBudget::new(slots * SLOT_BYTES);
        let plan = program.solve(budget, link).unwrap();
        plan.check(&program).unwrap();
        let prediction = plan.prediction();
        let bound = program.lower_bound(budget, link).unwrap();
        let bytes = (prediction.in_bytes, prediction.out_bytes);
        assert!(bytes.0 >= bound.in_bytes, "{prediction:?}");
        assert!(bytes.1 >= bound.out_bytes, "{prediction:?}");
        let seconds = prediction.seconds;
        assert!(seconds.is_finite(), "{prediction:?}");
        assert!(seconds >= bound.seconds * (1.0 - 1e-9), "{prediction:?}");
        if plans.get() % 16 == 0 {
            let read = Plan::from_json(&plan.to_json(), &program, budget).unwrap();
            assert_eq!(read, plan);
        }
        plans.set(plans.get() + 1);
    });
    println!("{} plans", plans.get());
}

#[test]
fn random_programs() {
    plans_are_valid(
        crate::support::cases(2_000),
        crate::support::programs(10, 14, 4),
    );
}

#[test]
fn larger_random_programs() {
    plans_are_valid(
        crate::support::cases(2_000) / 50,
        crate::support::programs(30, 60, 8),
    );
}
