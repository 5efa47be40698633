//! Sequences that once failed, shortened, and some that are read more easily than random ones.

use crate::operation::Kind::*;
use crate::operation::Operation::{self, *};
use crate::operation::{ALL, Part, Reading, Writing};
use crate::world::{Machine, Spec};
use crate::{MACHINES, on_a_gpu, replay};

/// Runs a sequence a few times on a machine: the one given, or the GPU that the tests run on.
fn replay(spec: Spec, sequence: &[Operation]) {
    let spec = if on_a_gpu() { Spec::Real } else { spec };
    let mut machine = Machine::new(spec);
    for _ in 0..10 {
        replay::run(&mut machine, sequence).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    }
    machine.close().unwrap();
}

/// The same on every machine.
fn replay_everywhere(sequence: &[Operation]) {
    MACHINES.iter().for_each(|spec| replay(*spec, sequence));
}

fn new(kind: crate::operation::Kind) -> Operation {
    Allocate {
        kind,
        device: 0,
        len: 1000,
        seed: Some(7),
    }
}

#[test]
fn the_next_owner_of_a_block_comes_after_held_work() {
    for kind in [UnifiedPool, DevicePool, PinnedPool] {
        replay_everywhere(&[
            new(kind),
            Hold,
            Add {
                slot: 0,
                part: ALL,
                stream: 2,
                number: 5,
            },
            Drop { slot: 0 },
            new(kind),
            Read {
                slot: 0,
                part: ALL,
                how: Reading::Guard,
            },
        ]);
    }
}

#[test]
fn a_ping_pong_over_streams_and_kinds() {
    let copy = |from, to, stream| Copy {
        from,
        part: Part(9000, 60_000),
        to,
        offset: 0,
        stream,
    };
    let add = |slot, stream| Add {
        slot,
        part: Part(20_000, 30_000),
        stream,
        number: 3,
    };
    replay_everywhere(&[
        new(Managed),
        new(Device),
        new(Pinned),
        Hold,
        add(0, 0),
        copy(0, 1, 2),
        add(1, 4),
        copy(1, 2, 0),
        add(2, 2),
        copy(2, 0, 4),
        Read {
            slot: 0,
            part: ALL,
            how: Reading::Try,
        },
        Write {
            slot: 0,
            part: ALL,
            seed: 1,
            how: Writing::Try,
        },
        Read {
            slot: 0,
            part: ALL,
            how: Reading::Async,
        },
    ]);
}
