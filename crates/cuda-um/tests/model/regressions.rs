//! Sequences that failed in the past, shortened, and some sequences that are easier to read than random ones.
#![allow(
    clippy::enum_glob_use,
    unused_imports,
    reason = "the output of a failure can be pasted as code"
)]

use crate::operation::Advising::*;
use crate::operation::Kind::*;
use crate::operation::Operation::{self, *};
use crate::operation::Prefetching::*;
use crate::operation::Reading::*;
use crate::operation::Start::*;
use crate::operation::Work::*;
use crate::operation::Writing::*;
use crate::operation::{ALL, At, Part};
use crate::world::{Machine, Spec};
use crate::{MACHINES, replay, simulated};
use cuda_um_sim::CudaVersion::*;
use cuda_um_sim::Gpu::*;
use cuda_um_testkit::on_gpu;

/// Runs a sequence a few times on a machine: the given one, or the GPU of the tests.
fn replay(spec: Spec, sequence: &[Operation]) {
    let spec = if on_gpu() { Spec::Real } else { spec };
    let mut machine = Machine::new(spec);
    for _ in 0..3 {
        replay::run(&mut machine, sequence).unwrap_or_else(|error| panic!("{spec:?}: {error}"));
    }
    machine.close().unwrap();
}

/// The same on every machine, with several orders of the streams.
fn replay_everywhere(sequence: impl Fn(u8) -> Vec<Operation>) {
    if on_gpu() {
        return replay(Spec::Real, &sequence(0));
    }
    for spec in MACHINES {
        (0..4).for_each(|order| replay(spec, &sequence(order)));
    }
}

fn new(kind: crate::operation::Kind, start: crate::operation::Start) -> Operation {
    Allocate(kind, 0, 1000, start)
}

fn step(slot: u8, stream: u8) -> Operation {
    Enqueue(stream, Step(slot, ALL, 5))
}

fn mix(slots: [u8; 3], stream: u8) -> Operation {
    Enqueue(stream, Mix(slots, ALL, 1))
}

fn prefetch(slot: u8, at: At, stream: u8, how: crate::operation::Prefetching) -> Operation {
    Prefetch(1 << slot, ALL, at, stream, how)
}

/// claims 1 and 2
#[test]
fn the_next_owner_of_a_block_comes_after_held_work() {
    for kind in [UnifiedPool, DevicePool, PinnedPool] {
        for start in [Stored(9, 1), From(9), Zeroed] {
            replay_everywhere(|order| {
                vec![
                    new(kind, From(7)),
                    Hold(order),
                    step(0, 0),
                    Drop(0),
                    new(kind, start),
                    Read(0, ALL, ReadGuard),
                ]
            });
        }
    }
}

#[test]
fn the_host_waits_asynchronously_after_a_stream_with_work_has_gone() {
    // `host_async` used to retry forever on devices without concurrent managed access.
    replay(
        simulated(Maxwell, V12_9, 1),
        &[
            new(Managed, From(1)),
            new(Device, From(2)),
            // Not a kernel, whose module would keep the stream.
            Enqueue(0, Fill(1, 1)),
            NewStream(0),
            Drop(1),
            Reclaim,
            Read(0, ALL, ReadAsync),
        ],
    );
}

#[test]
fn the_host_touches_what_a_kernel_moved_and_advice_has_mapped() {
    // The simulator used to serve the host's fault without end.
    replay(
        simulated(Gh200, V12_9, 2),
        &[
            new(Managed, From(1)),
            Advise(0, ALL, AccessedBy(true), At(0)),
            prefetch(0, At(1), 0, Each),
            Read(0, ALL, ReadGuard),
        ],
    );
}

/// Device 0 reads on one stream before device 1 gets the pages on another one; the two are not ordered.
fn looked_for_where_a_read_may_have_taken_it(kind: crate::operation::Kind, then: &[Operation]) {
    if on_gpu() {
        return;
    }
    let spec = simulated(H200, V13_4, 2);
    let new = |kind, device| Allocate(kind, device, 1, Zeroed);
    for order in 0..8 {
        let look = prefetch(2, At(2), 0, EachAndLook);
        let first = [new(Managed, 0), new(Device, 0), new(kind, 1)];
        let held = [Hold(order), mix([0; 3], 8)];
        let sequence = [&first[..], &held, then, &[look]].concat();
        (0..4).for_each(|_| replay(spec, &sequence));
    }
}

#[test]
fn a_prefetch_is_not_left_out_where_a_neighbours_earlier_read_may_come_later() {
    let neighbour = Allocate(UnifiedPool, 1, 1, Zeroed);
    looked_for_where_a_read_may_have_taken_it(UnifiedPool, &[neighbour, Close(2)]);
}

#[test]
fn a_prefetch_is_not_left_out_where_a_read_before_another_prefetch_may_come_later() {
    let prefetch = prefetch(2, At(2), 1, Each);
    looked_for_where_a_read_may_have_taken_it(Managed, &[prefetch]);
}
