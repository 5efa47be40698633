//! Limits on the host's threads, memory and time for small traces that ask for much.

use crate::alone;
use cuda_um_trace::{AccessedRange, Buffer, Operation, OperationKind, Place, Trace};
use um_benches::replay::{Replay, ReplayError, Replayed};

fn buffer(id: u64, bytes: u64) -> Buffer {
    Buffer {
        id,
        name: format!("b{id}"),
        site: None,
        address: (id + 1) << 40,
        bytes,
        element_bytes: 1,
        managed: true,
        slab: None,
        device: 0,
        allocated: None,
        freed: None,
    }
}

fn operation(id: u64, kind: OperationKind, buffer: u64, bytes: u64, write: bool) -> Operation {
    let access = AccessedRange {
        buffer,
        offset: 0,
        bytes,
        write,
    };
    Operation {
        id,
        kind,
        stream: Some(1),
        device: 0,
        start: id,
        end: id,
        accesses: vec![access],
    }
}

fn trace(buffers: Vec<Buffer>, operations: Vec<Operation>) -> Trace {
    let trace = Trace {
        format: Trace::FORMAT,
        end: 1_000,
        buffers,
        operations,
        ..Trace::default()
    };
    trace.check().unwrap();
    trace
}

fn launch(id: u64) -> Operation {
    let kernel = "k".to_owned();
    operation(id, OperationKind::Launch { kernel }, 0, 4096, true)
}

/// Each recorded stream was a thread: 20,000 streams ended the process.
#[test]
fn streams_beyond_the_limit_share_threads() {
    let _alone = alone();
    let on_its_own = |id: u64| Operation {
        stream: Some(id << 40),
        device: (id % 2) as u32,
        ..launch(id)
    };
    let run = |count: u64| {
        let trace = trace(vec![buffer(0, 4096)], (0..count).map(on_its_own).collect());
        Replay::of(&trace).run().unwrap()
    };
    let what = "streams beyond 64 of a device: they share those";
    let Replayed {
        trace, left_out, ..
    } = run(200);
    assert_eq!(trace.kernels.len(), 200);
    assert_eq!(left_out.get(what), Some(&72), "{left_out:?}");
    let mut streams: Vec<(u32, u32)> = trace
        .kernels
        .iter()
        .map(|one| (one.device, one.stream))
        .collect();
    streams.sort_unstable();
    streams.dedup();
    assert!(streams.len() <= 128, "{} streams", streams.len());
    assert!(run(128).left_out.is_empty());
}

/// The last device represents the devices that the machine does not have, also as a destination of memory.
#[test]
fn devices_beyond_the_machines_are_its_last() {
    let _alone = alone();
    let far = |to| OperationKind::Prefetch {
        to: Place::Device(to),
        left_out: false,
    };
    let prefetches = [7, 8, 1023].map(|to| operation(u64::from(to), far(to), 0, 4096, false));
    let advice = OperationKind::Advise {
        advice: "SetAccessedBy".to_owned(),
        place: Some(Place::Device(1000)),
    };
    let mut operations = prefetches.to_vec();
    operations.push(Operation {
        device: 900,
        ..operation(2_000, advice, 0, 4096, false)
    });
    let trace = trace(vec![buffer(0, 4096)], operations);
    assert!(Replay::of(&trace).run().unwrap().left_out.is_empty());
}

/// Twice as much was allowed: the buffer, and the program's memory for the copy.
#[test]
fn a_copy_counts_what_it_takes_of_the_programs_memory() {
    let _alone = alone();
    for write in [true, false] {
        let copy = operation(7, OperationKind::Copy, 0, 2 << 20, write);
        let trace = trace(vec![buffer(0, 2 << 20)], vec![copy]);
        let run = |most: u64| Replay::of(&trace).max_bytes(most).run();
        let error = run((4 << 20) - 1).unwrap_err();
        assert_eq!(
            error.to_string(),
            "operation 7 copies 2097152 bytes from or to the program's own memory, and this would need more than the 4194303 bytes that a replay may use at once"
        );
        run(4 << 20).unwrap();
    }
    // With another live buffer.
    let touch = operation(1, OperationKind::Host, 1, 1, true);
    let copy = operation(7, OperationKind::Copy, 0, 2 << 20, true);
    let trace = trace(
        vec![buffer(0, 2 << 20), buffer(1, 1 << 20)],
        vec![touch, copy],
    );
    let run = |most: u64| Replay::of(&trace).max_bytes(most).run();
    let error = run(4 << 20).unwrap_err();
    assert!(
        matches!(&error, ReplayError::CopyTooLarge { operation: 7, bytes, .. } if *bytes == 2 << 20),
        "{error}"
    );
    run(5 << 20).unwrap();
}

#[test]
fn small_buffers_count_as_pages() {
    let _alone = alone();
    let touch = |id| operation(id, OperationKind::Host, id, 1, true);
    let trace = trace(
        (0..3).map(|id| buffer(id, 1)).collect(),
        (0..3).map(touch).collect(),
    );
    let run = |most: u64| Replay::of(&trace).max_bytes(most).run();
    let error = run(3 * 4096 - 1).unwrap_err();
    assert!(
        matches!(&error, ReplayError::TooLarge { name, bytes: 1, most: 12287 } if name == "b2"),
        "{error}"
    );
    run(3 * 4096).unwrap();
}

/// One line of a trace can touch any number of pages, and there may be many lines.
#[test]
fn what_the_host_touches_is_bounded() {
    let _alone = alone();
    let to_host = OperationKind::Prefetch {
        to: Place::Host,
        left_out: false,
    };
    let kinds = [OperationKind::Host, to_host, OperationKind::Copy];
    let operations = kinds.into_iter().zip(0..).flat_map(|(kind, id)| {
        // Kernels migrate no more than the host had.
        [
            operation(2 * id, kind, 0, 1 << 20, true),
            Operation {
                accesses: operation(0, OperationKind::Host, 0, 1 << 20, true).accesses,
                ..launch(2 * id + 1)
            },
        ]
    });
    let trace = trace(vec![buffer(0, 1 << 20)], operations.collect());
    let run = |most: u64| Replay::of(&trace).max_host_bytes(most).run();
    let error = run((3 << 20) - 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the host touches, copies, fills or migrates back 3145728 bytes in this trace; the limit of a replay is 3145727"
    );
    run(3 << 20).unwrap();
}
