//! Errors, files, texts and the curve.

use super::*;

#[test]
fn a_step_that_does_not_fit_is_an_error_with_both_sizes() {
    let program = forward(4);
    let budget = PlanBudget::new(10 * SLOT_BYTES);
    let error = program.solve(budget, Link::pcie5()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "step 0 (\"layer 0\") uses 33554432 bytes in whole slots of 2 MiB, and the budget has 20971520: raise the budget, or \
         split the step or its buffers"
    );
}

#[test]
fn values_that_are_not_allowed_are_named() {
    let link = Link::pcie5();
    let budget = PlanBudget::new(1 << 30);
    let error = |change: fn(&mut Program)| {
        let mut program = training(2);
        change(&mut program);
        program.solve(budget, link).unwrap_err().to_string()
    };
    assert_eq!(
        error(|program| program.buffers[1].bytes = 0),
        "buffers[1].bytes is 0; allowed is 1 to 2^53"
    );
    assert!(error(|program| program.steps[0].compute_seconds = f64::NAN).contains("NaN"));
    assert!(error(|program| program.steps[0].compute_seconds = -1.0).contains("0 to 1e9"));
    assert!(error(|program| program.steps[1].uses[0].buffer = 99).contains("99"));
    assert!(
        error(|program| program.steps[1].uses[1].buffer = 1).contains("one use of each buffer")
    );
    assert!(error(|program| program.steps[0].uses[0].access = Access::Write).contains("ReadOnly"));
    type Change = fn(&mut Link);
    let broken: [(&str, Change); 6] = [
        ("in_bytes_per_second", |link| link.in_bytes_per_second = 0.0),
        ("out_bytes_per_second", |link| {
            link.out_bytes_per_second = f64::NAN
        }),
        ("latency_seconds", |link| link.latency_seconds = -1.0),
        ("file.busy", |link| {
            let mut file = FileLink::of(link);
            file.busy = 1.1;
            link.file = Some(file);
        }),
        ("both_ways", |link| link.both_ways = 0.0),
        ("in_place", |link| link.in_place = 1.1),
    ];
    for (field, breaks) in broken {
        let mut link = link;
        breaks(&mut link);
        let error = training(2).solve(budget, link).unwrap_err().to_string();
        assert!(error.starts_with(&format!("link.{field} is ")), "{error}");
    }
}

#[test]
fn a_saved_plan_belongs_to_its_program_and_budget() {
    let program = training(8);
    let budget = share(&program, 0.5);
    let plan = solved(&program, budget, Link::pcie5());
    let text = plan.to_json();
    assert_eq!(Plan::from_json(&text, &program, budget).unwrap(), plan);
    let more = share(&program, 0.9);
    assert_eq!(Plan::from_json(&text, &program, more).unwrap(), plan);
    assert_eq!(Program::from_json(&program.to_json()).unwrap(), program);
    let of = |text: &str, program: &Program, budget| Plan::from_json(text, program, budget);
    let other = of(&text, &training(9), budget);
    assert!(matches!(other, Err(PlanError::Digest { .. })), "{other:?}");
    let less = of(&text, &program, share(&program, 0.4));
    assert!(matches!(less, Err(PlanError::Budget { .. })), "{less:?}");
    let version = text.replacen("\"version\":1", "\"version\":2", 1);
    let version = of(&version, &program, budget).unwrap_err();
    assert!(version.to_string().contains("version 2"), "{version}");
    for text in ["", "[]", "{\"version\":1}", "{}"] {
        let error = of(text, &program, budget);
        assert!(matches!(error, Err(PlanError::Json { .. })), "{error:?}");
    }
    let file = std::env::temp_dir().join(format!("cuda-um-plan-{}", std::process::id()));
    plan.save(&file).unwrap();
    assert_eq!(Plan::load(&file, &program, budget).unwrap(), plan);
    std::fs::remove_file(&file).unwrap();
    let missing = Plan::load(&file, &program, budget);
    assert!(
        matches!(missing, Err(PlanError::File { .. })),
        "{missing:?}"
    );
}

#[test]
fn a_plan_prints_bytes_times_and_the_bound() {
    let program = with_compute(&training(16), 0.02);
    let plan = solved(&program, share(&program, 0.5), Link::pcie5());
    let text = plan.to_string();
    for part in [
        "budget 640 MiB",
        "a pass takes",
        "waiting",
        "at least",
        "times the lower bound",
        "waits",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
