//! Traces for `um_trace`. A record takes about 100 bytes of JSON, a buffer 170, an access 50.

use super::records::{
    CELL, DEVICE, LONGEST_NAME, TIB, access, buffer, cpu_fault, gpu_fault, kernel, launch,
    migration, moved, operation, prefetch, trace,
};
use super::run;
use cuda_um_trace::{
    Buffer, Cause, KernelRun, Operation, OperationKind, Place, Record, RecordKind, Trace,
};
use um_fuzz::trace as target;

fn check(name: &str, trace: &Trace) {
    Trace::from_json(&trace.to_json()).expect("it is accepted");
    run(name, target, trace.to_json().as_bytes());
}

/// Each output took a minute: every record examined every buffer, and again at each border.
#[test]
fn buffers_that_overlap() {
    let buffers = (0..3_000).map(|id| buffer(id, (1 << 50) + id * 4096, TIB));
    let address = |time: u64| (1 << 50) + time * 12_345_678 % TIB;
    for bytes in [4096, TIB] {
        let records = (0..3_000).map(|time| moved(address(time), bytes, DEVICE, time));
        let trace = Trace {
            buffers: buffers.clone().collect(),
            records: records.collect(),
            ..trace()
        };
        check("overlap", &trace);
    }
}

/// Each record has a piece in each buffer: nine million of them.
#[test]
fn migrations_over_many_buffers() {
    for size in [256, 4096, 64 << 20] {
        let buffers = (0..3_000).map(|id| buffer(id, TIB + id * size, size));
        let turn = |time: u64| {
            if time.is_multiple_of(2) {
                DEVICE
            } else {
                Place::Host
            }
        };
        let records = (0..3_000).map(|time| moved(TIB, 3_000 * size, turn(time), time));
        let trace = Trace {
            buffers: buffers.collect(),
            records: records.collect(),
            ..trace()
        };
        check("over many", &trace);
    }
}

/// Slabs below one buffer, and freed buffers: borders that split no record.
#[test]
fn migrations_over_borders_that_cut_nothing() {
    let slab = |id: u64| Buffer {
        slab: Some(id + 1),
        ..buffer(id, TIB + id * 4096, 4096)
    };
    let gone = |id: u64| Buffer {
        freed: Some(1),
        ..buffer(10_000 + id, TIB + id * 4096, 4096)
    };
    let mut buffers: Vec<Buffer> = (0..1_500).map(slab).collect();
    buffers.extend((0..1_500).map(gone));
    buffers.push(buffer(1_500, TIB, TIB));
    let records = (2..3_000).map(|time| moved(TIB, TIB, DEVICE, time));
    let trace = Trace {
        buffers,
        records: records.collect(),
        ..trace()
    };
    check("borders", &trace);
}

/// All kernels come from one launch, which names many buffers, but not the one that faults.
#[test]
fn kernels_that_run_at_once() {
    let ids: Vec<u64> = (1..5_000).collect();
    let trace = Trace {
        buffers: vec![buffer(0, TIB, TIB)],
        operations: vec![launch(1, 0, &ids)],
        kernels: (0..3_500).map(|time| kernel(1, time, 1 << 20)).collect(),
        records: (0..4_000)
            .map(|time| gpu_fault(TIB + time * CELL, 5_000 + time))
            .collect(),
        ..trace()
    };
    check("kernels", &trace);
}

#[test]
fn guards_that_live_at_once() {
    let guard = |id: u64| Operation {
        end: 1 << 20,
        ..operation(id, OperationKind::Host, 0, &[1 + id % 2, 3])
    };
    let faults = (0..4_000).map(|time| cpu_fault(TIB + time * 4096, time));
    let back = (0..1_000).map(|time| moved(TIB + time * 4096, 4096, Place::Host, time));
    let trace = Trace {
        buffers: vec![buffer(0, TIB, TIB)],
        operations: (0..2_500).map(guard).collect(),
        records: faults.chain(back).collect(),
        ..trace()
    };
    check("guards", &trace);
}

/// Each record searches for the latest operation over its range, which is the oldest operation, or there is none.
#[test]
fn operations_over_other_parts() {
    for cause in [Cause::User, Cause::Coherence, Cause::Eviction] {
        let part = |id: u64, operation: Operation| Operation {
            accesses: vec![access(0, id * 4096, 4096), access(1, 0, 1)],
            ..operation
        };
        let operations = (0..1_000).flat_map(|id| {
            let id = 3 * id;
            [
                part(id, prefetch(id, id, &[])),
                part(id + 1, launch(id + 1, id, &[])),
                part(id + 2, operation(id + 2, OperationKind::Fill, id, &[])),
            ]
        });
        let turn = |time: u64| {
            if time.is_multiple_of(3) {
                Place::Host
            } else {
                DEVICE
            }
        };
        let far = TIB + (1 << 39);
        let records = (0..4_000).map(|time| migration(far, 4096, turn(time), cause, 5_000 + time));
        let trace = Trace {
            buffers: vec![buffer(0, TIB, TIB), buffer(1, 4 * TIB, TIB)],
            operations: operations.collect(),
            records: records.collect(),
            ..trace()
        };
        check("operations", &trace);
    }
}

/// Parts with different events each, and then records over all of them.
#[test]
fn one_buffer_in_many_parts() {
    let parts = |bytes: u64| {
        let odd = (0..2_500).map(move |at| moved(TIB + 2 * at * bytes, bytes, DEVICE, at));
        let turn = |time: u64| {
            if time.is_multiple_of(3) {
                DEVICE
            } else {
                Place::Host
            }
        };
        let all = (0..5_000).map(move |time| moved(TIB, 5_000 * bytes, turn(time), 10_000 + time));
        odd.chain(all)
    };
    for bytes in [CELL, 2 << 20, 4096] {
        let used = |id: u64| launch(id, 9_000 + 2 * id, &[0]);
        let trace = Trace {
            buffers: vec![buffer(0, TIB, TIB)],
            operations: (0..1_000).map(used).collect(),
            records: parts(bytes).collect(),
            ..trace()
        };
        check("parts", &trace);
    }
}

/// Every fourth record is over all blocks of a map.
#[test]
fn maps_that_change_all_the_time() {
    let buffers = (0..30).map(|id| buffer(id, TIB + id * (1 << 34), 1 << 34));
    let turn = |time: u64| {
        if time.is_multiple_of(2) {
            DEVICE
        } else {
            Place::Host
        }
    };
    let of = |time: u64| TIB + time % 30 * (1 << 34);
    let records = (0..7_000).map(|time| moved(of(time / 2), 1 << 34, turn(time), time));
    let trace = Trace {
        buffers: buffers.collect(),
        records: records.collect(),
        ..trace()
    };
    check("maps", &trace);
}

#[test]
fn prefetches_again_and_again() {
    let again = |id: u64| {
        let accesses = (0..10).map(|buffer| access(buffer, 0, TIB / 16));
        Operation {
            accesses: accesses.collect(),
            ..prefetch(id, id, &[])
        }
    };
    let trace = Trace {
        buffers: (0..10).map(|id| buffer(id, (id + 1) << 45, TIB)).collect(),
        operations: (0..1_500).map(again).collect(),
        ..trace()
    };
    check("prefetches", &trace);
    let all: Vec<u64> = (0..3_000).collect();
    let twice = (0..3).map(|id| prefetch(id, id, &all));
    let trace = Trace {
        buffers: (0..3_000)
            .map(|id| buffer(id, (id + 1) << 25, 1 << 25))
            .collect(),
        operations: twice.collect(),
        ..trace
    };
    check("one prefetch of many", &trace);
}

/// Outputs repeat names in every line.
#[test]
fn long_names() {
    let long = |id: u64| format!("{id}{}", "<\u{e4}\u{1b}&`".repeat(LONGEST_NAME / 8));
    let named = |id: u64| Buffer {
        name: long(id),
        ..buffer(id, (id + 1) << 45, TIB)
    };
    let order = |id: u64| (0..6).map(move |at| (id + at * (1 + id % 5)) % 6);
    let uses = |id: u64| {
        let over: Vec<u64> = order(id).collect();
        let kind = OperationKind::Host;
        Operation {
            end: id + 100,
            ..operation(id, kind, id, &over)
        }
    };
    let trace = Trace {
        buffers: (0..6).map(named).collect(),
        operations: (0..1_000).map(uses).collect(),
        records: (0..2_000)
            .map(|time| cpu_fault((time % 6 + 1) << 45, time))
            .collect(),
        ..trace()
    };
    check("names of buffers", &trace);
    let trace = Trace {
        buffers: (0..2_000)
            .map(|id| buffer(id, TIB + id * CELL, CELL))
            .collect(),
        kernels: vec![KernelRun {
            name: long(0),
            ..kernel(0, 0, 10_000)
        }],
        records: (0..5_000)
            .map(|time| gpu_fault(TIB + time % 2_000 * CELL, time))
            .collect(),
        ..trace
    };
    check("name of a kernel", &trace);
}

/// As many lanes, tracks and lines of tables as entries.
#[test]
fn everything_of_its_own_kind() {
    let other = |id: u64| Operation {
        stream: Some(id << 30),
        device: id as u32 % 1024,
        ..operation(
            id,
            OperationKind::Other {
                name: format!("o{id}"),
            },
            7,
            &[id],
        )
    };
    let run = |id: u32| KernelRun {
        name: format!("k{id}"),
        device: id % 1024,
        stream: id,
        operation: None,
        ..kernel(0, 7, 7)
    };
    let between = |id: u64| Record {
        kind: RecordKind::Migration {
            from: Place::Device(id as u32 % 1023),
            to: Place::Device(id as u32 % 1024),
            bytes: 1 << (id % 30),
            cause: Cause::AccessCounters,
        },
        ..moved(TIB + id * 4096, 1, DEVICE, 7)
    };
    let trace = Trace {
        buffers: (0..1_500)
            .map(|id| buffer(id, TIB + id * 4096, 4096))
            .collect(),
        operations: (0..1_500).map(other).collect(),
        kernels: (0..3_000).map(run).collect(),
        records: (0..2_000).map(between).collect(),
        ..trace()
    };
    check("kinds", &trace);
}

/// Fields that traces do not have, before the fields that they have: the reader skips them.
#[test]
fn json_that_is_no_trace() {
    let size = super::SIZE;
    for (begin, part) in [
        ("{\"x\":", "["),
        ("{\"x\":[", "0,"),
        ("{\"records\":[{\"x\":[", "0,"),
        ("{\"records\":[{\"record\":{\"x\":[", "{},"),
        ("{\"operations\":[{\"x\":", "[[],"),
        ("{\"buffers\":[", "{},"),
        ("", "{\"a\":"),
        ("{\"source\":\"", "\\u0000"),
        ("{\"end\":", "9"),
    ] {
        let text = format!("{begin}{}", part.repeat(size / part.len()));
        run("no trace", target, text.as_bytes());
    }
    let fields: Vec<String> = (0..size / 10)
        .map(|field| format!("\"{field}\":0"))
        .collect();
    let record = format!("{{\"records\":[{{{}}}]}}", fields.join(","));
    run("no record", target, record.as_bytes());
}
