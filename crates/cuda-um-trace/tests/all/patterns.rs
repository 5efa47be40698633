//! Uses of buffers, and the patterns that fit them.

use crate::support::{Builder, DEVICE};
use cuda_um_trace::{BufferPattern, Cause, Place, SuggestedPattern, Usage, patterns};

const MIB: u64 = 1 << 20;

/// The pattern of one buffer of 16 MiB.
fn pattern(work: impl Fn(&mut Builder, u64)) -> BufferPattern {
    let mut builder = Builder::new();
    let buffer = builder.buffer("data", 16 * MIB);
    work(&mut builder, buffer);
    patterns(&builder.finish()).remove(0)
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
fn ping_pong_of_a_part() {
    let found = pattern(|builder, data| {
        let base = builder.get(data).address;
        builder.launch("step", &[(data, true)]);
        builder.host(data, true);
        for _ in 0..2 {
            builder.migration(base + 4 * MIB, 4096, DEVICE, Cause::Coherence);
            builder.migration(base + 4 * MIB, 4096, Place::Host, Cause::Coherence);
        }
    });
    assert_eq!(found.usage, Usage::PingPong);
}

#[test]
fn names_are_those_of_cuda_um() {
    assert_eq!(
        SuggestedPattern::ReadBack.to_string(),
        "AccessPattern::ReadBack"
    );
}
