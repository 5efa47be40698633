//! Traces for `um_replay`.

use super::records::{access, buffer, kernel, launch, migration, operation, trace};
use super::run;
use cuda_um_trace::{Cause, Operation, OperationKind, Place, Trace};
use um_fuzz::replay as target;

fn check(name: &str, trace: &Trace) {
    Trace::from_json(&trace.to_json()).expect("it is accepted");
    run(name, target, trace.to_json().as_bytes());
}

/// Each stream had a thread: 20,000 streams ended the process.
#[test]
fn many_streams() {
    let on_its_own = |id: u64| Operation {
        stream: Some(id),
        device: (id % 3) as u32 * 400,
        ..launch(id, id, &[0])
    };
    let trace = Trace {
        buffers: vec![buffer(0, 1 << 40, 4096)],
        operations: (0..2_500).map(on_its_own).collect(),
        ..trace()
    };
    check("streams", &trace);
}

#[test]
fn many_buffers() {
    let touch = |id: u64| operation(id, OperationKind::Host, id, &[id]);
    let trace = Trace {
        buffers: (0..1_000).map(|id| buffer(id, (id + 1) << 30, 1)).collect(),
        operations: (0..1_000).map(touch).collect(),
        ..trace()
    };
    check("buffers", &trace);
}

/// Sizes that no machine has are refused before anything is allocated.
#[test]
fn huge_buffers_and_copies() {
    for bytes in [(1 << 20) + 1, 1 << 40, 1 << 56] {
        for kind in [
            OperationKind::Host,
            OperationKind::Copy,
            OperationKind::Fill,
        ] {
            let whole = Operation {
                accesses: vec![access(0, 0, bytes)],
                ..operation(0, kind, 0, &[])
            };
            let trace = Trace {
                buffers: vec![buffer(0, 0, bytes)],
                operations: vec![whole],
                ..trace()
            };
            check("sizes", &trace);
        }
    }
}

/// The own time of each kernel and guard was searched in all records.
#[test]
fn kernels_and_guards_beside_many_records() {
    let guard = |id: u64| Operation {
        end: 1 << 20,
        ..operation(id, OperationKind::Host, id, &[])
    };
    let mut operations = vec![launch(5_000, 0, &[0])];
    operations.extend((0..1_500).map(guard));
    let far = |time: u64| migration(1 << 50, 1, Place::Host, Cause::Coherence, 2 * time);
    let records = (0..4_000).map(|time| cuda_um_trace::Record {
        end: 2 * time + 1,
        ..far(time)
    });
    let trace = Trace {
        buffers: vec![buffer(0, 1 << 40, 4096)],
        operations,
        kernels: (0..3_000)
            .map(|time| kernel(5_000, time, 1 << 20))
            .collect(),
        records: records.collect(),
        ..trace()
    };
    check("own times", &trace);
}
