//! Plans of tiny programs beside the best ones, which an exhaustive search finds.

use cuda_um_plan::{
    Access, BufferSpec, Link, PlanBudget, Program, Repeat, Role, SLOT_BYTES, Step, Use,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Buffers of one slot, and steps without computation, so that the time is that of the transfers.
fn tiny() -> impl Strategy<Value = (Program, u64)> {
    let role = prop_oneof![
        2 => Just(Role::ReadOnly),
        1 => Just(Role::ReadWrite),
        1 => Just(Role::Scratch)
    ];
    let roles = prop::collection::vec(role, 2..=5);
    let steps = prop::collection::vec(prop::collection::vec((0..5_usize, 0..3_u8), 1..=2), 1..=7);
    (roles, steps, any::<bool>(), 0..3_u64).prop_map(|(roles, steps, cyclic, spare)| {
        let buffer = |role: &Role| BufferSpec::new("", SLOT_BYTES, *role);
        let buffers: Vec<_> = roles.iter().map(buffer).collect();
        let repeat = if cyclic { Repeat::Cyclic } else { Repeat::Once };
        let mut program = Program::new(buffers, Vec::new(), repeat);
        for uses in steps {
            let mut step = Step::default();
            for (buffer, access) in uses {
                let buffer = buffer % roles.len();
                let access = match (access, roles[buffer]) {
                    (0, _) | (_, Role::ReadOnly) => Access::Read,
                    (1, _) => Access::Write,
                    _ => Access::ReadWrite,
                };
                if step.uses.iter().all(|one| one.buffer != buffer) {
                    step.uses.push(Use { buffer, access });
                }
            }
            program.steps.push(step);
        }
        let need = program.steps.iter().map(|step| step.uses.len()).max();
        (program, need.unwrap_or(0) as u64 + spare)
    })
}

/// The buffers in the arena, and those of them whose homes are stale, as bits.
type State = (u32, u32);

/// The transfers of the best pass.
fn least(program: &Program, slots: u64) -> u32 {
    let all = 1_u32 << program.buffers.len();
    if program.repeat == Repeat::Once {
        let ends = pass(program, slots, (0, 0));
        let end = |(&(_, dirty), &cost): (&State, &u32)| cost + results(program, dirty);
        return ends.iter().map(end).min().unwrap();
    }
    let states = (0..all).flat_map(|kept| (0..all).map(move |dirty| (kept, dirty)));
    let states =
        states.filter(|&(kept, dirty)| dirty & !kept == 0 && u64::from(kept.count_ones()) <= slots);
    let costs = states.filter_map(|state| pass(program, slots, state).get(&state).copied());
    costs.min().unwrap()
}

fn results(program: &Program, dirty: u32) -> u32 {
    let buffers = program.buffers.iter().enumerate();
    let written =
        buffers.filter(|(buffer, spec)| spec.role == Role::ReadWrite && dirty & (1 << buffer) != 0);
    written.count() as u32
}

/// Each state after a pass that begins with `start`, and the least number of transfers.
fn pass(program: &Program, slots: u64, start: State) -> HashMap<State, u32> {
    let mut states = HashMap::from([(start, 0)]);
    for (step, planned) in program.steps.iter().enumerate() {
        let mut next: HashMap<State, u32> = HashMap::new();
        let (mut used, mut written) = (0_u32, 0);
        for one in &planned.uses {
            let scratch = program.buffers[one.buffer].role == Role::Scratch;
            used |= 1 << one.buffer;
            if one.access != Access::Read || (scratch && is_first(program, step, one.buffer)) {
                written |= 1 << one.buffer;
            }
        }
        for (&(kept, dirty), &cost) in &states {
            let loads = planned.uses.iter().filter(|one| {
                let scratch = program.buffers[one.buffer].role == Role::Scratch;
                let needs = one.access != Access::Write
                    && !(scratch && is_first(program, step, one.buffer));
                needs && kept & (1 << one.buffer) == 0
            });
            let loads = loads.count() as u32;
            for stay in 0..1_u32 << program.buffers.len() {
                let (stay, other) = (stay & kept & !used, stay & !(kept & !used));
                let after = stay | used;
                if other != 0 || u64::from(after.count_ones()) > slots {
                    continue;
                }
                let left = kept & !after & dirty;
                let outs = (0..program.buffers.len())
                    .filter(|&buffer| left & (1 << buffer) != 0 && lives(program, step, buffer));
                let cost = cost + loads + outs.count() as u32;
                let state = (after, (dirty & after) | written);
                let best = next.entry(state).or_insert(cost);
                *best = cost.min(*best);
            }
        }
        states = next;
    }
    // Buffers may leave at the end of the pass.
    let mut ends: HashMap<State, u32> = HashMap::new();
    for (&(kept, dirty), &cost) in &states {
        for stay in 0..1_u32 << program.buffers.len() {
            if stay & !kept == 0 {
                let cost = cost + results(program, dirty & !stay);
                let scratch = (0..program.buffers.len())
                    .filter(|&buffer| program.buffers[buffer].role == Role::Scratch)
                    .fold(0, |all, buffer| all | 1 << buffer);
                let best = ends.entry((stay, dirty & stay & !scratch)).or_insert(cost);
                *best = cost.min(*best);
            }
        }
    }
    ends
}

fn is_first(program: &Program, step: usize, buffer: usize) -> bool {
    let mut before = program.steps[..step].iter().flat_map(|step| &step.uses);
    before.all(|one| one.buffer != buffer)
}

/// Whether contents are needed from this step on.
fn lives(program: &Program, step: usize, buffer: usize) -> bool {
    let mut later = program.steps[step..].iter().flat_map(|step| &step.uses);
    match later.find(|one| one.buffer == buffer) {
        Some(next) => {
            next.access != Access::Write
                && !(program.buffers[buffer].role == Role::Scratch
                    && is_first(program, step, buffer))
        }
        None => program.buffers[buffer].role == Role::ReadWrite,
    }
}

#[test]
fn tiny_programs() {
    let config = Config {
        cases: crate::support::cases(1_000),
        failure_persistence: None,
        ..Config::default()
    };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let ratios = RefCell::new(Vec::new());
    let bounds = Cell::new(0.0);
    // Both directions have the same speed, and one excludes the other, so the time is the number of transfers.
    let mut link = Link::pcie5();
    link.in_bytes_per_second = 1e9;
    link.out_bytes_per_second = 1e9;
    link.latency_seconds = 0.0;
    link.both_ways = 0.5;
    link.in_place = 1.0;
    let outcome = TestRunner::new_with_rng(config, random).run(&tiny(), |(program, slots)| {
        let bytes = slots * SLOT_BYTES;
        let plan = program.solve(PlanBudget::new(bytes), link).unwrap();
        let prediction = plan.prediction();
        let transfers = (prediction.in_bytes + prediction.out_bytes) / SLOT_BYTES;
        let least = u64::from(least(&program, slots));
        prop_assert!(
            transfers >= least,
            "{transfers} transfers, at least {least}"
        );
        let bound = program
            .lower_bound(PlanBudget::new(bytes), link)
            .unwrap()
            .seconds;
        let slots = bound * link.in_bytes_per_second / SLOT_BYTES as f64;
        prop_assert!(
            slots <= least as f64 * (1.0 + 1e-9),
            "the bound is {slots} transfers, the best plan has {least}"
        );
        bounds.set(bounds.get() + slots);
        ratios.borrow_mut().push((transfers, least));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
    let ratios = ratios.into_inner();
    let best = ratios
        .iter()
        .filter(|(found, least)| found == least)
        .count();
    let sum = |of: fn(&(u64, u64)) -> u64| ratios.iter().map(of).sum::<u64>();
    let (found, least) = (sum(|one| one.0), sum(|one| one.1));
    let worst = ratios.iter().map(|(found, least)| found - least).max();
    println!(
        "the bounds of all programs are {:.1} transfers",
        bounds.get()
    );
    println!(
        "{best} of {} plans are the best ones; {found} transfers, and {least} at least; at most {} more in a plan",
        ratios.len(),
        worst.unwrap_or_default()
    );
    assert!(bounds.get() > 0.96 * least as f64, "the bound is loose");
    assert!(best * 10 > ratios.len() * 9 && found * 100 < least * 105);
}
