//! Uses of buffers, and the patterns that fit them.

use crate::support::{Builder, DEVICE};
use cuda_um_trace::{BufferPattern, Cause, Order, Place, SuggestedPattern, Usage, patterns};

const MIB: u64 = 1 << 20;

/// The pattern of one buffer of 16 MiB.
fn pattern(work: impl Fn(&mut Builder, u64)) -> BufferPattern {
    let mut builder = Builder::new();
    let buffer = builder.buffer("data", 16 * MIB);
    work(&mut builder, buffer);
    patterns(&builder.finish()).remove(0)
}

fn order(offsets: &[u64]) -> Order {
    let faulted = pattern(|builder, buffer| {
        let base = builder.get(buffer).address;
        builder.launch_with("kernel", &[(buffer, false)], |builder| {
            for offset in offsets {
                builder.gpu_fault(base + offset, 1);
            }
        });
    });
    faulted.order
}

#[test]
fn the_order_of_faults() {
    let every = |step: u64| (0..12).map(move |index| index * step).collect::<Vec<u64>>();
    assert_eq!(order(&every(65_536)), Order::Sequential);
    assert_eq!(order(&every(MIB)), Order::Strided { stride_bytes: MIB });
    assert_eq!(
        order(&[7, 3, 11, 2, 9, 1, 14, 5].map(|at| at * MIB)),
        Order::Random
    );
    assert_eq!(
        order(&[0, 1, 3, 2, 5, 9, 10, 11, 13, 14, 15].map(|at| at * MIB)),
        Order::Sequential
    );
    assert_eq!(order(&[0, MIB]), Order::Unknown);
}

#[test]
fn faults_that_bring_whole_blocks_are_sequential() {
    let found = pattern(|builder, buffer| {
        let base = builder.get(buffer).address;
        builder.launch_with("kernel", &[(buffer, false)], |builder| {
            for block in 0..8 {
                builder.gpu_fault(base + block * 2 * MIB, 1);
                builder.migration(base + block * 2 * MIB, 2 * MIB, DEVICE, Cause::Prefetch);
            }
        });
    });
    assert_eq!(found.order, Order::Sequential);
}

#[test]
fn each_run_begins_anew() {
    let found = pattern(|builder, buffer| {
        for _ in 0..4 {
            builder.launch_faulting("kernel", &[(buffer, true)]);
        }
    });
    assert_eq!(found.order, Order::Sequential);
}

fn usage(work: impl Fn(&mut Builder, u64)) -> (Usage, Option<SuggestedPattern>) {
    let found = pattern(work);
    (found.usage, found.suggests)
}

#[test]
fn who_reads_and_writes() {
    use SuggestedPattern::{DeviceResident, ReadBack, ReadMostly, StreamOnce};
    assert_eq!(usage(|_, _| ()), (Usage::Untouched, None));
    let read_only = usage(|builder, data| {
        for _ in 0..2 {
            builder.launch("look_up", &[(data, false)]);
            builder.host(data, false);
        }
    });
    assert_eq!(read_only, (Usage::ReadOnly, Some(ReadMostly)));
    let write_once = usage(|builder, data| {
        builder.host(data, true);
        for _ in 0..3 {
            builder.launch("look_up", &[(data, false)]);
            builder.host(data, false);
        }
    });
    assert_eq!(write_once, (Usage::WriteOnce, Some(ReadMostly)));
    let stream_once = usage(|builder, data| {
        builder.host(data, true);
        builder.launch("look_up", &[(data, false)]);
    });
    assert_eq!(stream_once, (Usage::WriteOnce, Some(StreamOnce)));
    let to_vec = usage(|builder, data| {
        for _ in 0..2 {
            builder.launch("score", &[(data, true)]);
            builder.host(data, false);
        }
    });
    assert_eq!(to_vec, (Usage::Shared, Some(ReadBack)));
    let resident = usage(|builder, data| {
        for _ in 0..2 {
            builder.launch("step", &[(data, true)]);
        }
    });
    assert_eq!(resident, (Usage::DeviceOnly, Some(DeviceResident)));
    let host = usage(|builder, data| {
        builder.host(data, true);
        builder.host(data, true);
    });
    assert_eq!(host, (Usage::HostOnly, None));
}

#[test]
fn ping_pong_by_blocks() {
    let found = pattern(|builder, data| {
        let base = builder.get(data).address;
        builder.launch("step", &[(data, true)]);
        builder.host(data, true);
        for _ in 0..2 {
            builder.migration(base + 4 * MIB, 4096, DEVICE, Cause::Coherence);
            builder.migration(base + 4 * MIB, 4096, Place::Host, Cause::Coherence);
        }
        builder.migration(base + 7 * MIB, 2 * MIB, DEVICE, Cause::User);
    });
    assert_eq!(found.usage, Usage::PingPong);
    let blocks: Vec<_> = found
        .blocks
        .iter()
        .map(|one| (one.offset / MIB, one.to_device_bytes, one.alternations))
        .collect();
    assert_eq!(
        blocks,
        [(4, 8192, 3), (6, MIB, 0)],
        "two equal blocks are one run"
    );
}

#[test]
fn names_are_those_of_cuda_um() {
    assert_eq!(
        SuggestedPattern::ReadBack.to_string(),
        "AccessPattern::ReadBack"
    );
}
