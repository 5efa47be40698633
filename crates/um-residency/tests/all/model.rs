//! Random working sets of several threads, with drops and host access, and random orders that repeat: every read sees the
//! right bytes, the budget holds, and nothing hangs.

mod orders;

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use crate::support::{Machine, SLOT, each_machine};
use um_backend::Buffer;
use um_backend::cuda_um::{Stream, UnifiedBuffer, View};
use um_residency::{Arena, Error, Homed, InOut, Input, Output, Role, working_set};

/// A xorshift generator with a fixed seed, so that each run makes the same calls.
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

/// The length of small buffers, in elements.
const SMALL: usize = 64;

/// A shared buffer, and its value: all elements are the same. Changed while a guard is held.
struct Known {
    buffer: Homed<u32>,
    value: AtomicU32,
}

impl Known {
    fn new(arena: &Arena, value: u32, len: usize, role: Role) -> Self {
        let buffer = Homed::from_slice(arena, &vec![value; len], role).unwrap();
        let value = AtomicU32::new(value);
        Self { buffer, value }
    }

    /// In a file.
    fn in_file(arena: &Arena, value: u32, len: usize, role: Role) -> Self {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytemuck::cast_slice(&vec![value; len]))
            .unwrap();
        let buffer = Homed::from_file(arena, file, (0, len), role).unwrap();
        let value = AtomicU32::new(value);
        Self { buffer, value }
    }

    /// In a unified buffer.
    fn unified(arena: &Arena, value: u32, len: usize, role: Role) -> Self {
        let below = arena.device();
        let home = UnifiedBuffer::from_slice(below, &vec![value; len]).unwrap();
        let buffer = Homed::from_unified(arena, home, role).unwrap();
        let value = AtomicU32::new(value);
        Self { buffer, value }
    }

    /// With a home of one of the kinds: a file, a unified buffer, or pinned memory.
    fn of_kind(kind: usize, arena: &Arena, value: u32, len: usize, role: Role) -> Self {
        let has_unified = arena.device().capabilities().concurrent_managed_access;
        match kind {
            0 => return Self::in_file(arena, value, len, role),
            1 if has_unified => return Self::unified(arena, value, len, role),
            _ => {}
        }
        Self::new(arena, value, len, role)
    }

    fn check(&self, view: View<'_, u32>) {
        let (len, expected) = (view.len(), self.value.load(Ordering::Relaxed));
        if len <= SMALL {
            let found = view.to_vec().unwrap();
            return assert!(found.iter().all(|&value| value == expected));
        }
        for at in [0, len / 2, len - 1] {
            let found = view.slice(at..=at).unwrap().to_vec().unwrap();
            assert_eq!(found, [expected]);
        }
    }
}

/// A thread's random calls. Returns the number of sets.
fn play(arena: &Arena, shared: &[Known], stream: &Stream, (seed, turns): (u64, usize)) -> usize {
    let mut dice = Dice::new(seed);
    let mut own: Vec<Known> = Vec::new();
    let mut sets = 0;
    for turn in 0..turns {
        let new = seed as u32 * 1_000_000 + turn as u32;
        match dice.below(10) {
            0 => {
                let (kind, len) = (dice.below(3), 1 + dice.below(2 * SLOT));
                own.push(Known::of_kind(kind, arena, new, len, Role::ReadWrite));
            }
            1 if !own.is_empty() => drop(own.swap_remove(dice.below(own.len()))),
            2 if !own.is_empty() => {
                let at = dice.below(own.len());
                let known = &mut own[at];
                let middle =
                    [known.buffer.len() / 2; 1].map(|at| known.buffer.read_one(at).unwrap());
                assert_eq!(middle, [known.value.load(Ordering::Relaxed)]);
                known.buffer.fill(new).unwrap();
                known.value.store(new, Ordering::Relaxed);
            }
            _ => {
                let all: Vec<&Known> = shared.iter().chain(&own).collect();
                let (a, b) = (dice.below(all.len()), dice.below(all.len()));
                let access = dice.below(3);
                if a == b || all[b].buffer.role() == Role::ReadOnly {
                    continue;
                }
                sets += 1;
                let read = Input(&all[a].buffer);
                let (from, mut to) = match access {
                    0 => working_set(stream, (read, InOut(&all[b].buffer))).unwrap(),
                    _ => working_set(stream, (read, Output(&all[b].buffer))).unwrap(),
                };
                all[a].check(from.view());
                if access == 0 {
                    all[b].check(to.view());
                }
                to.view_mut().fill_on(new, stream).unwrap();
                all[b].value.store(new, Ordering::Relaxed);
                if dice.below(4) == 0 {
                    drop(from);
                    // A set beside a held one is granted at once, or refused.
                    match working_set(stream, Input(&all[a].buffer)) {
                        Ok(again) => all[a].check(again.view()),
                        Err(Error::WouldDeadlock { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }
    sets
}

#[test]
fn threads_with_random_sets_see_the_right_bytes() {
    each_machine(random_sets);
}

fn random_sets(machine: &Machine) {
    let arena = &machine.arena(7);
    let role = |at: usize| [Role::ReadWrite, Role::ReadWrite, Role::ReadOnly][at % 3];
    let shared: Vec<_> = (0..9)
        .map(|at| {
            let len = 1 + (at * 7919 * 64) % (3 * SLOT);
            Known::of_kind(at % 4, arena, at as u32, len, role(at))
        })
        .collect();
    let play = |seed| {
        let stream = machine.device.create_stream().unwrap();
        play(arena, &shared, &stream, (seed, 80))
    };
    let sets: usize = thread::scope(|scope| {
        let threads = [1, 2, 3, 4].map(|seed| scope.spawn(move || play(seed)));
        threads.map(|thread| thread.join().unwrap()).iter().sum()
    });
    assert!(sets > 100, "{sets}");
    for known in &shared {
        let found = known.buffer.to_vec().unwrap();
        let expected = known.value.load(Ordering::Relaxed);
        assert!(found.iter().all(|&value| value == expected));
    }
    assert!(arena.stats().peak_bytes <= arena.budget_bytes());
}
