//! Random programs.

use cuda_um_plan::{Access, BufferSpec, Link, Program, Repeat, Role, SLOT_BYTES, Step, Use};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// How many programs: `PROPTEST_CASES`, if it is set.
pub fn cases(default: u32) -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.map_or(default, |number| number.parse().unwrap())
}

fn buffer(most_slots: u64) -> impl Strategy<Value = BufferSpec> {
    let role = prop_oneof![
        Just(Role::ReadOnly),
        Just(Role::ReadWrite),
        Just(Role::Scratch)
    ];
    (1..=most_slots * 4, role, any::<bool>()).prop_map(|(quarters, role, in_place)| {
        let mut spec = BufferSpec::new("", quarters * SLOT_BYTES / 4, role);
        spec.in_place = in_place;
        spec
    })
}

fn access() -> impl Strategy<Value = Access> {
    prop_oneof![
        3 => Just(Access::Read),
        1 => Just(Access::Write),
        1 => Just(Access::ReadWrite)
    ]
}

/// A program, a budget in slots that is enough for each step, and a link.
pub fn programs(
    buffers: usize,
    steps: usize,
    most_slots: u64,
) -> impl Strategy<Value = (Program, u64, Link)> {
    let uses = vec((any::<Index>(), access()), 0..4);
    // Transfers of a slot take 40 us.
    let seconds = prop_oneof![Just(0.0), (0..200_u32).prop_map(|us| f64::from(us) * 1e-6)];
    let program = (
        vec(buffer(most_slots), 1..=buffers),
        vec((uses, seconds), 0..=steps),
        any::<bool>(),
    );
    let link = prop_oneof![Just(1.0), Just(0.87), Just(0.5)];
    (program, 0..=most_slots * 3, link).prop_map(|((buffers, steps, cyclic), spare, both_ways)| {
        let repeat = if cyclic { Repeat::Cyclic } else { Repeat::Once };
        let mut program = Program::new(buffers, Vec::new(), repeat);
        for (uses, compute_seconds) in steps {
            let mut step = Step::new("", Vec::new(), compute_seconds);
            for (index, access) in uses {
                let buffer = index.index(program.buffers.len());
                let read_only = program.buffers[buffer].role == Role::ReadOnly;
                let access = if read_only { Access::Read } else { access };
                if step.uses.iter().all(|one| one.buffer != buffer) {
                    step.uses.push(Use { buffer, access });
                }
            }
            program.steps.push(step);
        }
        let slots = need(&program) + spare;
        let mut link = Link::pcie5();
        link.in_bytes_per_second = 52e9;
        link.out_bytes_per_second = 40e9;
        link.latency_seconds = 1e-6;
        link.both_ways = both_ways;
        link.in_place = 0.8;
        (program, slots, link)
    })
}

/// The slots of the largest step.
pub fn need(program: &Program) -> u64 {
    let of = |step: &Step| -> u64 {
        let slots = step
            .uses
            .iter()
            .map(|one| program.buffers[one.buffer].slots());
        slots.sum()
    };
    program.steps.iter().map(of).max().unwrap_or(0)
}
