//! `Plan::check` finds each kind of mistake in a plan.

use crate::shapes::training;
use cuda_um_plan::{Link, Plan, PlanBudget, PlanError, Program};
use serde_json::Value;

/// A program, and a plan of it with transfers of all kinds.
fn planned() -> (Program, PlanBudget, Value) {
    let program = training(12);
    let all: u64 = program.buffers.iter().map(|buffer| buffer.bytes).sum();
    let budget = PlanBudget::new(all / 4);
    let plan = program.solve(budget, Link::pcie5()).unwrap();
    plan.check(&program).unwrap();
    (
        program,
        budget,
        serde_json::from_str(&plan.to_json()).unwrap(),
    )
}

/// Changes the first entry of a kind for which the change returns true.
fn change(plan: &mut Value, kind: &str, change: impl Fn(&mut Value) -> bool) {
    for step in plan["steps"].as_array_mut().unwrap() {
        for list in ["before", "after"] {
            for one in step[list].as_array_mut().unwrap() {
                if one["kind"] == kind && change(one) {
                    return;
                }
            }
        }
    }
    panic!("the plan has no such {kind}");
}

/// Removes the first entry of a kind.
fn remove(plan: &mut Value, kind: &str) {
    for step in plan["steps"].as_array_mut().unwrap() {
        for list in ["before", "after"] {
            let list = step[list].as_array_mut().unwrap();
            if let Some(at) = list.iter().position(|one| one["kind"] == kind) {
                list.remove(at);
                return;
            }
        }
    }
    panic!("the plan has no {kind}");
}

fn rule(alter: impl Fn(&mut Value)) -> &'static str {
    let (program, budget, mut plan) = planned();
    alter(&mut plan);
    match Plan::from_json(&plan.to_string(), &program, budget) {
        Err(PlanError::Broken { rule, .. }) => rule,
        other => panic!("{other:?}"),
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

#[test]
fn dirty_contents_are_written_back() {
    let rule = rule(|plan| remove(plan, "out"));
    assert_eq!(
        rule,
        "changed contents are written back before they are dropped"
    );
}

#[test]
fn a_step_finds_its_buffers() {
    assert_eq!(rule(|plan| remove(plan, "in")), "a step finds its buffers");
}

#[test]
fn places_do_not_overlap() {
    let moved = rule(|plan| {
        change(plan, "in", |one| {
            let first = number(&one["slots"]["first"]);
            one["slots"]["first"] = (first.max(1) - 1).into();
            first > 0
        });
    });
    assert_eq!(moved, "no two buffers have the same slot");
    let kept = rule(|plan| remove(plan, "drop"));
    let rules = [
        "no two buffers have the same slot",
        "a buffer has one place at a time",
    ];
    assert!(rules.contains(&kept), "{kept}");
}

#[test]
fn a_place_is_inside_the_budget() {
    let outside = rule(|plan| {
        change(plan, "in", |one| {
            one["slots"]["first"] = u64::MAX.into();
            true
        });
    });
    assert_eq!(outside, "a place is inside the budget");
    let small = rule(|plan| {
        change(plan, "in", |one| {
            one["slots"]["count"] = 1.into();
            true
        });
    });
    assert_eq!(small, "a place has as many slots as the buffer");
}

#[test]
fn a_transfer_does_not_begin_before_its_place_is_free() {
    let early = rule(|plan| {
        change(plan, "in", |one| {
            let step = number(&one["earliest"]["step"]);
            let may = one["earliest"]["pass"] == 0 && step > 0;
            if may {
                one["earliest"]["step"] = (step - 1).into();
            }
            may
        });
    });
    let rules = [
        "no two buffers have the same slot",
        "a buffer has one place at a time",
    ];
    assert!(rules.contains(&early), "{early}");
    let late = rule(|plan| {
        change(plan, "in", |one| {
            let deadline = one["deadline"]["step"].clone();
            let may = one["earliest"]["pass"] == 0;
            one["earliest"]["step"] = if may {
                deadline
            } else {
                one["earliest"]["step"].clone()
            };
            may
        });
    });
    assert_eq!(
        late,
        "the earliest point is the end of a step less than a pass before"
    );
}

#[test]
fn a_pass_ends_as_it_begins() {
    let gone = rule(|plan| {
        plan["resident"].as_array_mut().unwrap().pop().unwrap();
    });
    let rules = [
        "a step finds its buffers",
        "the arena at the end of a pass is that of its beginning",
        "a transfer leaves the place of its buffer",
    ];
    assert!(rules.contains(&gone), "{gone}");
    let claimed = rule(|plan| {
        change(plan, "in", |one| {
            one["kind"] = "claim".into();
            true
        });
    });
    assert_eq!(claimed, "a step reads current contents");
}

#[test]
fn buffers_are_read_in_place_only_if_they_allow_it() {
    let in_place = rule(|plan| {
        change(plan, "in", |one| {
            one["kind"] = "read_in_place".into();
            one["slots"]["count"] = 0.into();
            true
        });
    });
    assert!(
        in_place.starts_with("a buffer is read in place if it allows that"),
        "{in_place}"
    );
    let other = rule(|plan| {
        change(plan, "in", |one| {
            one["buffer"] = u64::from(u32::MAX).into();
            true
        });
    });
    assert_eq!(other, "a transfer names a buffer of the program");
}

#[test]
fn unknown_fields_are_refused() {
    let (program, budget, mut plan) = planned();
    plan["more"] = 1.into();
    let error = Plan::from_json(&plan.to_string(), &program, budget);
    assert!(matches!(error, Err(PlanError::Json { .. })), "{error:?}");
}
