//! What plans of layered programs reach, and their forms as text.

mod forms;

use crate::shapes::{forward, there_and_back, training, with_compute};
use cuda_um_plan::{
    Access, BufferSpec, FileLink, Link, Plan, PlanBudget, PlanError, Program, Recipe, Repeat, Role,
    SLOT_BYTES, Step, TransferKind, Use,
};

fn all_bytes(program: &Program) -> u64 {
    program.buffers.iter().map(|buffer| buffer.bytes).sum()
}

fn share(program: &Program, part: f64) -> PlanBudget {
    let bytes = (all_bytes(program) as f64 * part) as u64;
    PlanBudget::new(bytes)
}

fn solved(program: &Program, budget: PlanBudget, link: Link) -> Plan {
    let plan = program.solve(budget, link).unwrap();
    plan.check(program).unwrap();
    plan
}

/// Least recently used buffers would leave just before they are used: every byte would move in every pass.
#[test]
fn a_cyclic_pass_moves_what_does_not_fit() {
    let program = with_compute(&forward(128), 0.0);
    let link = Link::pcie5();
    for (part, most) in [(0.5, 0.53), (0.75, 0.28)] {
        let plan = solved(&program, share(&program, part), link);
        let moved = plan.prediction().in_bytes as f64 / all_bytes(&program) as f64;
        assert!(moved <= most && moved > 0.99 - part, "{moved} of the bytes");
        let recent = Recipe::LeastRecentlyUsed;
        let recent = program.recipe(recent, plan.budget(), link).unwrap();
        assert!(recent.prediction().in_bytes >= plan.prediction().in_bytes);
    }
    let fits = solved(&program, share(&program, 1.0), link);
    assert_eq!(fits.prediction().in_bytes, 0);
    assert_eq!(fits.resident().len(), 128);
}

#[test]
fn passes_take_the_time_of_the_link_or_of_the_steps() {
    let link = Link::pcie5();
    for (program, to_bound) in [(forward(256), 1.05), (there_and_back(96), 1.07)] {
        let all = all_bytes(&program);
        for size in [1.14, 1.33, 2.0, 4.0] {
            for ratio in [0.25, 1.0, 4.0] {
                let seconds = ratio * all as f64 / link.in_bytes_per_second;
                let program = with_compute(&program, seconds);
                let plan = solved(&program, share(&program, 1.0 / size), link);
                let prediction = plan.prediction();
                let busy = prediction.in_seconds.max(prediction.compute_seconds);
                let line = format!("{size} {ratio}: {prediction:?}");
                assert!(
                    prediction.seconds <= to_bound * prediction.bound.seconds,
                    "{line}"
                );
                assert!(prediction.seconds <= 1.03 * busy, "{line}");
            }
        }
    }
}

/// Both directions are busy, and gradients are used in one half of the pass: the bound ignores when bytes can move, so the true
/// optimum is between the bound and the plan.
#[test]
fn gradients_are_close_to_the_bound() {
    let link = Link::pcie5();
    for (size, ratio, most) in [
        (1.14, 0.25, 1.07),
        (1.33, 0.25, 1.46),
        (2.0, 0.25, 1.37),
        (4.0, 1.0, 1.2),
    ] {
        let program = training(96);
        let seconds = ratio * all_bytes(&program) as f64 / link.in_bytes_per_second;
        let program = with_compute(&program, seconds);
        let plan = solved(&program, share(&program, 1.0 / size), link);
        let prediction = plan.prediction();
        let times = prediction.seconds / prediction.bound.seconds;
        assert!((1.0..=most).contains(&times), "{size} {ratio}: {times}");
        let bound = program.lower_bound(plan.budget(), link).unwrap();
        assert_eq!(prediction.bound, bound);
    }
}

#[test]
fn no_recipe_is_faster() {
    let link = Link::pcie5();
    for program in [forward(64), there_and_back(48), training(32)] {
        for size in [1.14, 1.33, 2.0, 4.0] {
            for ratio in [0.25, 1.0, 4.0] {
                let seconds = ratio * all_bytes(&program) as f64 / link.in_bytes_per_second;
                let program = with_compute(&program, seconds);
                let budget = share(&program, 1.0 / size);
                let plan = solved(&program, budget, link);
                for recipe in Recipe::ALL {
                    let other = program.recipe(recipe, budget, link).unwrap();
                    other.check(&program).unwrap();
                    let (ours, theirs) = (plan.prediction().seconds, other.prediction().seconds);
                    assert!(
                        ours * 0.98 <= theirs,
                        "{recipe:?} {size} {ratio}: {ours} {theirs}"
                    );
                }
            }
        }
    }
}

#[test]
fn twice_the_budget_is_faster_than_a_double_buffer() {
    let link = Link::pcie5();
    let program = forward(128);
    let seconds = 0.25 * all_bytes(&program) as f64 / link.in_bytes_per_second;
    let program = with_compute(&program, seconds);
    let budget = share(&program, 0.5);
    let plan = solved(&program, budget, link);
    let streamed = program.recipe(Recipe::DoubleBuffer, budget, link).unwrap();
    let times = streamed.prediction().seconds / plan.prediction().seconds;
    assert!(times >= 1.75, "{times}");
}

fn buffer(name: &str, slots: u64, role: Role) -> BufferSpec {
    let mut spec = BufferSpec::new(name, slots * SLOT_BYTES, role);
    spec.in_place = role == Role::ReadOnly;
    spec
}

fn step(uses: &[(usize, Access)], compute_seconds: f64) -> Step {
    let uses = uses.iter().map(|&(buffer, access)| Use { buffer, access });
    Step::new("step", uses.collect(), compute_seconds)
}

/// The large buffer is read once. In the arena it would displace the small ones.
#[test]
fn data_that_are_read_once_stay_at_home() {
    let mut program = Program::new(
        vec![buffer("read once", 8, Role::ReadOnly)],
        vec![step(&[(0, Access::Read)], 1e-3)],
        Repeat::Cyclic,
    );
    for index in 1..=8 {
        program.buffers.push(buffer("often", 1, Role::ReadOnly));
        program.steps.push(step(&[(index, Access::Read)], 1e-6));
    }
    let budget = PlanBudget::new(8 * SLOT_BYTES);
    let plan = solved(&program, budget, Link::pcie5());
    let first = &plan.steps()[0].before;
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].kind, TransferKind::ReadInPlace);
    assert_eq!(plan.resident().len(), 8);
    assert!(plan.prediction().seconds <= plan.prediction().bound.seconds * 1.01);
}

/// The kernel reads at a quarter of the link's speed: a step in place is longer, and the plan has it only if the step computes for as long.
#[test]
fn a_step_that_reads_in_place_takes_as_long_as_its_kernel_reads() {
    let mut link = Link::pcie5();
    link.in_place = 0.25;
    let bytes = 8 * SLOT_BYTES;
    let (budget, needs) = (PlanBudget::new(bytes), link.in_place_seconds(bytes));
    assert!(needs > 3.9 * link.in_seconds(bytes));
    for (compute, is_read_in_place) in [(needs * 0.05, false), (needs * 1.1, true)] {
        let mut program = Program::new(
            vec![buffer("read once", 8, Role::ReadOnly)],
            vec![step(&[(0, Access::Read)], compute)],
            Repeat::Cyclic,
        );
        let recipe = program.recipe(Recipe::InPlace, budget, link).unwrap();
        let seconds = recipe.prediction().seconds;
        assert!((seconds - needs.max(compute)).abs() < 1e-9, "{seconds}");
        for index in 1..=2 {
            program.buffers.push(buffer("often", 4, Role::ReadOnly));
            program.steps.push(step(&[(index, Access::Read)], 1e-6));
        }
        let plan = solved(&program, budget, link);
        let kind = plan.steps()[0].before.first().map(|one| one.kind);
        let expected = [TransferKind::In, TransferKind::ReadInPlace];
        assert_eq!(
            kind,
            Some(expected[usize::from(is_read_in_place)]),
            "{plan}"
        );
    }
}

/// The deadline of a transfer from the device is the first step that takes its place or reads its contents.
#[test]
fn transfers_from_the_device_have_deadlines() {
    let program = with_compute(&training(12), 0.01);
    let plan = solved(&program, share(&program, 0.25), Link::pcie5());
    let steps = plan.steps().len();
    let all = plan.steps().iter().enumerate();
    let all = all.flat_map(|(step, planned)| planned.after.iter().map(move |one| (step, one)));
    let outs: Vec<_> = all
        .filter(|(_, one)| one.kind == TransferKind::Out)
        .collect();
    assert!(outs.len() > 12, "{}", outs.len());
    for (step, out) in outs {
        let deadline = out.deadline.expect("every place is used again");
        let mut later = (step + 1..steps).map(|step| (0, step));
        let waits = |&(_, step): &(i8, usize)| {
            plan.steps()[step].before.iter().any(|one| {
                let overlaps =
                    one.slots.first < out.slots.end() && out.slots.first < one.slots.end();
                overlaps || (one.buffer == out.buffer && one.kind == TransferKind::In)
            })
        };
        let first = later.find(waits);
        let first = first.or_else(|| (0..steps).map(|step| (1, step)).find(waits));
        assert_eq!(first, Some((deadline.pass, deadline.step)), "{out:?}");
    }
}

/// A result is written back once, and scratch memory never, if they fit.
#[test]
fn one_pass_writes_its_results_back() {
    let mut input = buffer("input", 2, Role::ReadOnly);
    input.in_place = false;
    let program = Program::new(
        vec![
            input,
            buffer("between", 2, Role::Scratch),
            buffer("result", 2, Role::ReadWrite),
        ],
        vec![
            step(&[(0, Access::Read), (1, Access::Write)], 1e-4),
            step(&[(1, Access::Read), (2, Access::Write)], 1e-4),
        ],
        Repeat::Once,
    );
    let budget = PlanBudget::new(4 * SLOT_BYTES);
    let plan = solved(&program, budget, Link::pcie5());
    let prediction = plan.prediction();
    let bytes = (prediction.in_bytes, prediction.out_bytes);
    assert_eq!(bytes, (2 * SLOT_BYTES, 2 * SLOT_BYTES));
    assert_eq!(
        bytes,
        (prediction.bound.in_bytes, prediction.bound.out_bytes)
    );
    let transfers =
        Link::pcie5().in_seconds(2 * SLOT_BYTES) + Link::pcie5().out_seconds(2 * SLOT_BYTES);
    assert!(
        (prediction.seconds - 2e-4 - transfers).abs() < 1e-9,
        "{prediction:?}"
    );
}
