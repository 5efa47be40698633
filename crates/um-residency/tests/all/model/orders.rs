//! Random orders of working sets that repeat, with passes that differ, and beside a thread with random sets.

use super::{Dice, Known, SMALL, play};
use crate::support::{Machine, SLOT};
use std::sync::atomic::Ordering;
use std::thread;
use um_backend::Buffer;
use um_backend::cuda_um::Stream;
use um_backend::sim::Gpu;
use um_residency::{InOut, Input, Output, Role, working_set};

/// The number of random programs, unless `CUDA_UM_MODEL_PROGRAMS` has more.
const DEFAULT_PROGRAMS: u64 = 20;

#[derive(Clone, Copy, PartialEq)]
enum Access {
    Read,
    Write,
    ReadWrite,
}

/// A random pass: the uses of each step.
fn random_pass(dice: &mut Dice, roles: &[Role]) -> Vec<Vec<(usize, Access)>> {
    let steps = 2 + dice.below(10);
    let step = |dice: &mut Dice| {
        let mut uses: Vec<(usize, Access)> = Vec::new();
        for _ in 0..1 + dice.below(3) {
            let buffer = dice.below(roles.len());
            if uses.iter().any(|(other, _)| *other == buffer) {
                continue;
            }
            let access = match (roles[buffer], dice.below(3)) {
                (Role::ReadOnly, _) | (_, 2) => Access::Read,
                (_, 0) => Access::Write,
                _ => Access::ReadWrite,
            };
            uses.push((buffer, access));
        }
        uses
    };
    (0..steps).map(|_| step(dice)).collect()
}

/// Runs a pass: checks what is read, and writes new values.
fn run_pass(stream: &Stream, buffers: &[Known], pass: &[Vec<(usize, Access)>], first: u32) {
    for (step, uses) in pass.iter().enumerate() {
        let of = |wanted| {
            let uses = uses.iter().filter(move |(_, access)| *access == wanted);
            uses.map(|(at, _)| &buffers[*at])
        };
        let reads: Vec<_> = of(Access::Read).map(|known| Input(&known.buffer)).collect();
        let writes: Vec<_> = of(Access::Write)
            .map(|known| Output(&known.buffer))
            .collect();
        let updates = of(Access::ReadWrite).map(|known| InOut(&known.buffer));
        let set = (reads, writes, updates.collect::<Vec<_>>());
        let (reads, writes, updates) = working_set(stream, set).unwrap();
        for (guard, known) in reads.iter().zip(of(Access::Read)) {
            known.check(guard.view());
        }
        for (guard, known) in updates.iter().zip(of(Access::ReadWrite)) {
            known.check(guard.view());
        }
        let changed = of(Access::Write).chain(of(Access::ReadWrite));
        for (mut guard, known) in writes.into_iter().chain(updates).zip(changed) {
            let value = first + step as u32;
            guard.view_mut().fill_on(value, stream).unwrap();
            known.value.store(value, Ordering::Relaxed);
        }
    }
}

/// The number of random programs: more with `CUDA_UM_MODEL_PROGRAMS`.
fn programs() -> u64 {
    let more = std::env::var("CUDA_UM_MODEL_PROGRAMS").ok();
    more.map_or(DEFAULT_PROGRAMS, |count| {
        count.parse().expect("CUDA_UM_MODEL_PROGRAMS is a number")
    })
}

/// A pass is repeated eight times. Before one of the passes the host writes a buffer, and a further step reads it; in every second program, a
/// thread with random sets in the same arena runs beside the last passes.
#[test]
fn passes_that_repeat_see_the_right_bytes() {
    let machine = Machine::new(Gpu::H200);
    let mut followed = 0;
    for seed in 0..programs() {
        if let Some(sim) = &machine.sim {
            sim.progress();
            sim.clear_trace();
        }
        let mut dice = Dice::new(seed + 1);
        let roles: Vec<Role> = (0..2 + dice.below(5))
            .map(|_| [Role::ReadOnly, Role::ReadWrite, Role::Scratch][dice.below(3)])
            .collect();
        let arena = machine.arena(6 + dice.below(4) as u64);
        // Most programs of a long run have small buffers, in one slot each.
        let longest = match seed >= DEFAULT_PROGRAMS && !seed.is_multiple_of(64) {
            true => SMALL,
            false => 2 * SLOT,
        };
        let known = |dice: &mut Dice, role| {
            let (kind, len) = (dice.below(4), 1 + dice.below(longest));
            Known::of_kind(kind, &arena, seed as u32, len, role)
        };
        let mut buffers: Vec<_> = roles.iter().map(|&role| known(&mut dice, role)).collect();
        let shared = [Role::ReadWrite, Role::ReadOnly].map(|role| known(&mut dice, role));
        let pass = random_pass(&mut dice, &roles);
        let (stream, differs) = (&machine.stream, dice.below(8));
        for number in 0..8 {
            let (first, host) = (2000 + 100 * number as u32, dice.below(buffers.len()));
            if number == differs {
                buffers[host].buffer.fill(first).unwrap();
                buffers[host].value.store(first, Ordering::Relaxed);
                run_pass(stream, &buffers, &[vec![(host, Access::Read)]], first);
            }
            thread::scope(|scope| {
                if number > 5 && seed % 2 == 1 {
                    scope.spawn(|| {
                        let stream = machine.device.create_stream().unwrap();
                        play(&arena, &shared, &stream, (seed, 20));
                    });
                }
                run_pass(stream, &buffers, &pass, first);
            });
            followed += u64::from(arena.stats().followed > 0);
        }
        for known in buffers.iter().chain(&shared) {
            let (found, value) = (known.buffer.to_vec().unwrap(), &known.value);
            let expected = value.load(Ordering::Relaxed);
            assert!(
                found.iter().all(|&value| value == expected),
                "program {seed}"
            );
        }
        assert!(arena.stats().peak_bytes <= arena.budget_bytes());
    }
    assert!(followed > 2 * programs(), "{followed}");
}
