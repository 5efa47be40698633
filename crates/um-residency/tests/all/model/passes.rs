//! Random programs whose passes follow a plan, also beside a thread with random sets.

use super::{Dice, Known, SMALL, play};
use crate::support::{Machine, SLOT};
use std::sync::atomic::Ordering;
use std::thread;
use um_backend::Buffer;
use um_backend::cuda_um::Stream;
use um_backend::sim::Gpu;
use um_residency::cuda_um_plan::Recipe;
use um_residency::{
    Access, Arena, Error, InOut, Input, Link, Output, Plan, Planned, Program, Role, working_set,
};

/// The number of random programs, unless `CUDA_UM_MODEL_PROGRAMS` has more.
const DEFAULT_PROGRAMS: u64 = 20;

/// A random pass: the uses of each step.
fn random_pass(dice: &mut Dice, roles: &[Role]) -> Vec<Vec<(usize, Access)>> {
    let steps = 2 + dice.below(10);
    let mut written = vec![false; roles.len()];
    let step = |dice: &mut Dice, written: &mut Vec<bool>| {
        let mut uses: Vec<(usize, Access)> = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let buffer = dice.below(roles.len());
            if uses.iter().any(|(other, _)| *other == buffer) {
                continue;
            }
            // The first use of a scratch buffer in a pass has no contents.
            let access = match (roles[buffer], written[buffer], dice.below(3)) {
                (Role::ReadOnly, ..) => Access::Read,
                (Role::Scratch, false, _) | (_, _, 0) => Access::Write,
                (_, _, 1) => Access::ReadWrite,
                _ => Access::Read,
            };
            written[buffer] |= access != Access::Read;
            uses.push((buffer, access));
        }
        uses
    };
    (0..steps).map(|_| step(dice, &mut written)).collect()
}

/// Runs a pass: checks what is read, and writes new values.
fn run_pass(
    stream: &Stream,
    buffers: &[Known],
    pass: &[Vec<(usize, Access)>],
    first: u32,
) -> Result<(), Error> {
    for (step, uses) in pass.iter().enumerate() {
        let of = |wanted| uses.iter().filter(move |(_, access)| *access == wanted);
        let reads: Vec<_> = of(Access::Read)
            .map(|(at, _)| Input(&buffers[*at].buffer))
            .collect();
        let writes: Vec<_> = of(Access::Write)
            .map(|(at, _)| Output(&buffers[*at].buffer))
            .collect();
        let updates: Vec<_> = of(Access::ReadWrite)
            .map(|(at, _)| InOut(&buffers[*at].buffer))
            .collect();
        let (reads, writes, updates) = working_set(stream, (reads, writes, updates))?;
        for (guard, (at, _)) in reads.iter().zip(of(Access::Read)) {
            buffers[*at].check(guard.view());
        }
        for (guard, (at, _)) in updates.iter().zip(of(Access::ReadWrite)) {
            buffers[*at].check(guard.view());
        }
        let changed = of(Access::Write).chain(of(Access::ReadWrite));
        for (mut guard, (at, _)) in writes.into_iter().chain(updates).zip(changed) {
            let value = first + step as u32;
            guard.view_mut().fill_on(value, stream)?;
            buffers[*at].value.store(value, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// A plan of the solver, or one that reads in place what it can.
fn plan(dice: &mut Dice, arena: &Arena, program: &Program) -> Plan {
    let (budget, link) = (arena.plan_budget(), Link::pcie5());
    let plan = match dice.below(2) {
        0 => program.solve(budget, link),
        _ => program.recipe(Recipe::InPlace, budget, link),
    };
    plan.unwrap()
}

/// The length of a buffer, in elements. Most programs of a long run have small buffers, in one slot each.
fn length(dice: &mut Dice, seed: u64) -> usize {
    let most = match seed >= DEFAULT_PROGRAMS && !seed.is_multiple_of(64) {
        true => SMALL,
        false => 2 * SLOT,
    };
    1 + dice.below(most)
}

/// The number of random programs: more with `CUDA_UM_MODEL_PROGRAMS`.
fn programs() -> u64 {
    let more = std::env::var("CUDA_UM_MODEL_PROGRAMS").ok();
    more.map_or(DEFAULT_PROGRAMS, |count| {
        count.parse().expect("CUDA_UM_MODEL_PROGRAMS is a number")
    })
}

#[test]
fn random_passes_follow_their_plans_and_see_the_right_bytes() {
    let machine = Machine::new(Gpu::H200);
    let (mut planned_bytes, mut in_place_bytes, mut off_plan) = (0, 0, 0);
    'programs: for seed in 0..programs() {
        if let Some(sim) = &machine.sim {
            sim.progress();
            sim.clear_trace();
        }
        let mut dice = Dice::new(seed + 1);
        let roles: Vec<Role> = (0..2 + dice.below(5))
            .map(|_| [Role::ReadOnly, Role::ReadWrite, Role::Scratch][dice.below(3)])
            .collect();
        let arena = machine.arena(6 + dice.below(4) as u64);
        let buffers: Vec<_> = roles
            .iter()
            .map(|&role| {
                let (kind, len) = (dice.below(4), length(&mut dice, seed));
                Known::of_kind(kind, &arena, seed as u32, len, role)
            })
            .collect();
        let pass = random_pass(&mut dice, &roles);
        let stream = &machine.stream;
        let (done, program) = arena
            .record(stream, || run_pass(stream, &buffers, &pass, 1000))
            .unwrap();
        done.unwrap();
        let plan = plan(&mut dice, &arena, &program);
        let predicted = plan.prediction().clone();
        let mut planned = Planned::new(&arena, program, plan).unwrap();
        // One pass in some runs has another step at first.
        let more = roles.iter().position(|role| *role != Role::Scratch);
        let other = more.filter(|_| dice.below(3) == 0).map(|_| dice.below(4));
        for number in 0..4 {
            let mut pass = pass.clone();
            if other == Some(number) {
                off_plan += 1;
                pass.insert(0, more.iter().map(|&at| (at, Access::Read)).collect());
            }
            let first = 2000 + 100 * number as u32;
            let ran = planned.run(stream, || run_pass(stream, &buffers, &pass, first));
            match ran.unwrap() {
                Ok(()) => {}
                // The pass reads contents that the plan dropped, because the recorded one overwrites them first.
                Err(Error::ContentsGone { .. }) if other == Some(number) => continue 'programs,
                Err(error) => panic!("{error}"),
            }
        }
        let report = planned.report().unwrap();
        for (number, found) in report.passes.iter().enumerate() {
            let follows = other.is_none_or(|other| number < other || number > other + 1);
            assert_eq!(
                found.divergence.is_some(),
                other == Some(number),
                "program {seed}: {report}"
            );
            if follows && number > 0 {
                planned_bytes += found.in_bytes;
                in_place_bytes += found.in_place_bytes;
                assert_eq!(
                    found.in_bytes, predicted.in_bytes,
                    "program {seed}: {report}"
                );
                assert_eq!(
                    found.out_bytes, predicted.out_bytes,
                    "program {seed}: {report}"
                );
            }
        }
        for (known, role) in buffers.iter().zip(&roles) {
            if *role != Role::Scratch {
                let expected = known.value.load(Ordering::Relaxed);
                assert!(
                    known
                        .buffer
                        .to_vec()
                        .unwrap()
                        .iter()
                        .all(|&value| value == expected)
                );
            }
        }
        assert!(arena.stats().peak_bytes <= arena.budget_bytes());
    }
    println!(
        "{planned_bytes} bytes to the device in passes that follow their plan, {in_place_bytes} of them in place; {off_plan} passes left it"
    );
    assert!(in_place_bytes > 0);
}

/// Passes by a plan beside a thread with random sets in the same arena, which drops buffers of the program between passes.
#[test]
fn passes_beside_another_thread_see_the_right_bytes() {
    let machine = Machine::new(Gpu::H200);
    for seed in 0..programs() / 4 {
        if let Some(sim) = &machine.sim {
            sim.progress();
            sim.clear_trace();
        }
        let mut dice = Dice::new(seed + 7);
        let roles: Vec<Role> = (0..2 + dice.below(5))
            .map(|_| [Role::ReadOnly, Role::ReadWrite][dice.below(2)])
            .collect();
        let slots = 8 + dice.below(4) as u64;
        let arena = machine.arena(slots);
        let known = |dice: &mut Dice, role| {
            let (kind, len) = (dice.below(3), 1 + dice.below(2 * SLOT));
            Known::of_kind(kind, &arena, seed as u32, len, role)
        };
        let buffers: Vec<_> = roles.iter().map(|&role| known(&mut dice, role)).collect();
        let dropped = known(&mut dice, Role::ReadOnly);
        let shared = [Role::ReadWrite, Role::ReadOnly, Role::ReadWrite];
        let shared = shared.map(|role| known(&mut dice, role));
        let pass = random_pass(&mut dice, &roles);
        let stream = &machine.stream;
        let all = || {
            let read = working_set(stream, Input(&dropped.buffer))?;
            dropped.check(read.view());
            drop(read);
            run_pass(stream, &buffers, &pass, 1000)
        };
        let (done, program) = arena.record(stream, all).unwrap();
        done.unwrap();
        let plan = plan(&mut dice, &arena, &program);
        let mut planned = Planned::new(&arena, program, plan).unwrap();
        planned.run(stream, all).unwrap().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let stream = machine.device.create_stream().unwrap();
                play(&arena, &shared, &stream, (seed, 20));
                drop(dropped);
            });
            for number in 0..4 {
                let first = 2000 + 100 * number;
                let run = planned.run(stream, || run_pass(stream, &buffers, &pass, first));
                match run {
                    Ok(done) => match done {
                        // A pass without the first step may read what the plan dropped.
                        Ok(()) | Err(Error::ContentsGone { .. }) => {}
                        Err(error) => panic!("{error}"),
                    },
                    Err(Error::UnknownBuffer { .. }) => {
                        let done = run_pass(stream, &buffers, &pass, first);
                        assert!(matches!(done, Ok(()) | Err(Error::ContentsGone { .. })));
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        for known in &shared {
            let (found, value) = (known.buffer.to_vec().unwrap(), &known.value);
            assert!(
                found
                    .iter()
                    .all(|found| *found == value.load(Ordering::Relaxed))
            );
        }
        assert!(arena.stats().peak_bytes <= arena.budget_bytes());
    }
}
