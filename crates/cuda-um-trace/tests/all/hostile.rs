//! Traces that no machine recorded are refused, and the error names the entry, the value and the allowed values. Extreme traces
//! cost no more than their number of records.

use crate::support::{Builder, DEVICE};
use cuda_um_cost::CostModel;
use cuda_um_trace::{
    AccessedRange, Cause, DeviceInfo, KernelRun, MigrationReport, OperationKind, Place, Record,
    RecordKind, Trace, html, patterns, perfetto,
};

/// One entry of each kind.
fn small() -> Trace {
    let mut builder = Builder::new();
    let data = builder.buffer("data", 3 << 20);
    builder.prefetch(data, DEVICE);
    builder.launch_faulting("step", &[(data, true)]);
    builder.host_faulting(data, true);
    builder.advise(data, "SetReadMostly");
    builder.finish()
}

fn refusal(change: impl FnOnce(&mut Trace)) -> String {
    let mut trace = small();
    assert_eq!(Trace::from_json(&trace.to_json()).unwrap(), trace);
    change(&mut trace);
    Trace::from_json(&trace.to_json()).unwrap_err().to_string()
}

fn all_outputs(trace: &Trace) -> MigrationReport {
    let report = MigrationReport::of(trace, &CostModel::h200());
    assert!(html(trace, &report).len() < 1 << 20);
    assert!(perfetto(trace).len() < 1 << 20);
    report
}

const LATE: u64 = 1 << 63;
const FAR: u64 = 1 << 57;

#[test]
fn times_that_no_clock_tells() {
    let says = refusal(|trace| trace.end = trace.start - 1);
    assert_eq!(
        says,
        "\"end\" of the trace is 1699999999999999999; allowed is no time before the start"
    );
    let says = refusal(|trace| trace.start = LATE);
    assert!(
        says.starts_with("\"start\" of the trace is 9223372036854775808; allowed is less than"),
        "{says}"
    );
    let says = refusal(|trace| trace.records[1].end = trace.records[1].start - 1);
    assert!(
        says.starts_with("\"end\" of records[1] is ") && says.ends_with("no time before the start"),
        "{says}"
    );
    let says = refusal(|trace| trace.kernels[0].start = u64::MAX);
    assert!(says.starts_with("\"start\" of kernels[0]"), "{says}");
    let says = refusal(|trace| trace.operations[2].end = LATE);
    assert!(says.starts_with("\"end\" of operations[2]"), "{says}");
    let says = refusal(|trace| trace.buffers[0].allocated = Some(LATE));
    assert!(says.starts_with("\"allocated\" of buffers[0]"), "{says}");
    let says = refusal(|trace| trace.buffers[0].freed = Some(5));
    assert!(
        says.starts_with("\"freed\" of buffers[0] is 5; allowed is no time before"),
        "{says}"
    );
}

#[test]
fn sums_that_overflow() {
    let long = |name: &str| KernelRun {
        name: name.into(),
        device: 0,
        stream: 0,
        start: 0,
        end: LATE / 2,
        operation: None,
    };
    let says = refusal(|trace| trace.kernels = vec![long("a"), long("b"), long("c")]);
    assert!(
        says.contains("of kernels[1] is 4611686018427387904; allowed is no time so late that all"),
        "{says}"
    );
    let faults = |faults| Record {
        kind: RecordKind::GpuFault {
            device: 0,
            faults,
            access: Default::default(),
        },
        address: 0,
        start: 0,
        end: 0,
    };
    let says = refusal(|trace| trace.records = vec![faults(1 << 40), faults(1)]);
    assert!(
        says.starts_with("\"faults\" of records[1] is 1; allowed is so many"),
        "{says}"
    );
    let bytes = Record {
        kind: RecordKind::Thrashing { bytes: FAR },
        ..faults(0)
    };
    let says = refusal(|trace| trace.records = vec![bytes; 65]);
    assert!(says.starts_with("\"bytes\" of records[64]"), "{says}");
    let says = refusal(|trace| {
        trace.buffers[0].address = 0;
        trace.buffers[0].bytes = FAR;
        let all = trace.operations[0].accesses[0];
        trace.operations[0].accesses = vec![AccessedRange { bytes: FAR, ..all }; 65];
    });
    assert!(says.starts_with("\"bytes\" of operations[0]"), "{says}");
}

#[test]
fn addresses_that_no_processor_has() {
    let says = refusal(|trace| trace.buffers[0].address = u64::MAX);
    assert!(
        says.starts_with("\"address\" of buffers[0] is 18446744073709551615; allowed is a range"),
        "{says}"
    );
    let says = refusal(|trace| trace.buffers[0].bytes = FAR);
    assert!(says.starts_with("\"bytes\" of buffers[0]"), "{says}");
    let says = refusal(|trace| trace.records[0].address = FAR);
    assert!(says.starts_with("\"bytes\" of records[0]"), "{says}");
    let says = refusal(|trace| trace.operations[0].accesses[0].offset = u64::MAX);
    assert_eq!(
        says,
        "\"accesses\" of operations[0] is 3145728 bytes from 18446744073709551615 on; allowed is a range inside the buffer"
    );
    let says = refusal(|trace| trace.operations[0].accesses[0].offset = 1);
    assert!(says.contains("bytes from 1 on"), "{says}");
    // The size of a dropped buffer is unknown.
    let says = refusal(|trace| {
        trace.operations[0].accesses[0].buffer = 7;
        trace.operations[0].accesses[0].bytes = FAR + 1;
    });
    assert!(says.contains("bytes from 0 on"), "{says}");
}

#[test]
fn devices_ids_and_names() {
    let gone = Place::Device(1024);
    let kind = RecordKind::RemoteMap {
        by: DEVICE,
        at: gone,
        bytes: 1,
    };
    type Change = fn(&mut Trace);
    let cases: [(&str, Change); 7] = [
        ("\"device\" of kernels[0] is 4294967295", |trace| {
            trace.kernels[0].device = u32::MAX;
        }),
        ("\"device\" of buffers[0] is 1024", |trace| {
            trace.buffers[0].device = 1024;
        }),
        ("\"id\" of buffers[1] is 100", |trace| {
            trace.buffers.push(trace.buffers[0].clone());
        }),
        ("\"id\" of operations[1] is 0", |trace| {
            trace.operations[1].id = 0;
        }),
        ("\"stream\" of operations[0] is", |trace| {
            trace.operations[0].stream = Some(u64::MAX);
        }),
        ("\"kernel\" of operations[0] is of 65537 bytes", |trace| {
            trace.operations[0].kind = OperationKind::Launch {
                kernel: "k".repeat((1 << 16) + 1),
            };
        }),
        ("\"ordinal\" of devices[1] is 0", |trace| {
            let again: DeviceInfo = trace.devices[0].clone();
            trace.devices.push(again);
        }),
    ];
    for (says, change) in cases {
        let refused = refusal(change);
        assert!(refused.starts_with(says), "{refused}");
    }
    let refused = refusal(|trace| trace.records[0].kind = kind);
    assert!(
        refused.starts_with("\"at\" of records[0] is 1024"),
        "{refused}"
    );
    // The entries to which they refer may have been dropped, or the device was never opened.
    let mut trace = small();
    trace.buffers[0].slab = Some(7);
    trace.kernels[0].operation = Some(99);
    trace.operations[0].accesses[0].buffer = 12;
    trace.kernels[0].device = 3;
    let trace = Trace::from_json(&trace.to_json()).unwrap();
    all_outputs(&trace);
}

/// The report had one entry for each block of 2 MiB, and one for each cell of 64 KiB: more than fit into memory.
#[test]
fn a_huge_migration_is_as_cheap_as_a_small_one() {
    let mut builder = Builder::new();
    let bytes = FAR / 2;
    let data = builder.buffer_at("data", 0, bytes, None);
    builder.launch("read", &[(data, false)]);
    for _ in 0..3 {
        for to in [DEVICE, Place::Host] {
            let from = if to == DEVICE { Place::Host } else { DEVICE };
            let cause = Cause::Coherence;
            let kind = RecordKind::Migration {
                from,
                to,
                bytes: bytes - 1,
                cause,
            };
            builder.record(kind, 1, 1_000);
            builder.launch("read", &[(data, false)]);
        }
    }
    let trace = Trace::from_json(&builder.finish().to_json()).unwrap();
    let report = all_outputs(&trace);
    assert_eq!(report.total.to_device_bytes, 3 * (bytes - 1));
    assert_eq!(report.buffers[0].traffic, report.total);
    assert!(!report.findings.is_empty());
    let found = patterns(&trace);
    let blocks: Vec<_> = found[0]
        .blocks
        .iter()
        .map(|one| (one.blocks, one.to_device_bytes, one.alternations))
        .collect();
    let block = cuda_um_trace::BLOCK_BYTES;
    assert_eq!(
        blocks,
        [
            (1, 3 * (block - 1), 5),
            (bytes / block - 2, 3 * block, 5),
            (1, 3 * block, 5)
        ]
    );
}

/// If each of all allowed faults costs an hour, the sum still fits into a `Duration`.
#[test]
fn the_dearest_faults_have_a_price() {
    let mut model = CostModel::h200();
    model.set("gpu_fault_us", 3.6e9).unwrap();
    let mut builder = Builder::new();
    let data = builder.buffer("data", 3 << 20);
    let address = builder.get(data).address;
    builder.gpu_fault(address, 1 << 40);
    let trace = Trace::from_json(&builder.finish().to_json()).unwrap();
    let report = MigrationReport::of(&trace, &model);
    assert_eq!(report.total.gpu_faults, 1 << 40);
    assert!(report.avoidable.time.as_secs() > 3_600 << 39);
}

/// Found by the fuzz target: the first line printed them unchanged.
#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut trace = small();
    let evil = "a\u{1b}[2J\u{7f}\r\nb".to_owned();
    trace.source.name = evil.clone();
    trace.source.cuda = evil.clone();
    trace.devices[0].name = evil.clone();
    trace.buffers[0].name = evil.clone();
    trace.buffers[0].site = Some(evil.clone());
    trace.kernels[0].name = evil;
    let report = all_outputs(&trace).to_string();
    let is_shown = |letter: char| letter == '\n' || !letter.is_control();
    assert!(report.chars().all(is_shown), "{report:?}");
}

/// Found by the fuzz target: a buffer that was allocated after the end of the trace, and never freed.
#[test]
fn a_buffer_that_is_younger_than_the_trace() {
    let mut trace = small();
    trace.buffers[0].allocated = Some(trace.end + 1_000_000_000);
    trace.buffers[0].freed = None;
    all_outputs(&Trace::from_json(&trace.to_json()).unwrap());
}

/// 3,000 records over 3,000 buffers: nine million pieces.
#[test]
fn migrations_over_very_many_buffers_are_told() {
    const EACH: u64 = 4096;
    let mut builder = Builder::new();
    for number in 0..1_200 {
        builder.buffer_at("small", number * EACH, EACH, None);
    }
    for _ in 0..1_000 {
        builder.migration(0, 1_200 * EACH, DEVICE, Cause::User);
    }
    let trace = Trace::from_json(&builder.finish().to_json()).unwrap();
    let report = MigrationReport::of(&trace, &CostModel::h200());
    let bytes: u64 = report.buffers.iter().map(|line| line.traffic.bytes()).sum();
    assert_eq!(bytes, 1_000 * 1_200 * EACH);
    // 2^18 splits, and 8 for each record, are enough for 225 records, and for a part of the next one.
    assert_eq!(report.uncut_records, 1_000 - 225);
    let text = report.to_string();
    assert!(
        text.contains("warning: 775 migrations over very many buffers not split at each, so some bytes count towards other buffers"),
        "{text}"
    );
}

/// A name of 64 KiB in each line of the outputs would make them grow out of proportion to the trace.
#[test]
fn long_names_are_cut_where_they_are_repeated() {
    let name = "n".repeat(1 << 16);
    let mut builder = Builder::new();
    let buffers: Vec<u64> = (0..20).map(|_| builder.buffer(&name, 1 << 20)).collect();
    let over: Vec<(u64, bool)> = buffers.iter().map(|&id| (id, true)).collect();
    builder.launch_faulting(&name, &over);
    let trace = builder.finish();
    let report = MigrationReport::of(&trace, &CostModel::h200());
    assert_eq!(report.findings.len(), 20);
    for finding in &report.findings {
        assert!(finding.to_string().len() < 1_000, "{finding}");
    }
    let input = trace.to_json().len();
    let output = perfetto(&trace);
    assert!(output.len() < input, "{} of {input} bytes", output.len());
    // Maps and tables have each buffer's name.
    assert!(html(&trace, &report).len() < 4 * input);
}

/// The explanation is the operation over this range, although a later operation names the buffer with another range.
#[test]
fn a_call_over_another_part_explains_nothing_here() {
    let mut builder = Builder::new();
    let data = builder.buffer("data", 8 << 20);
    let other = builder.buffer("other", 8 << 20);
    builder.prefetch_of_nothing(data, DEVICE);
    let later = OperationKind::Prefetch {
        to: Place::Device(1),
        left_out: false,
    };
    let later = builder.operation(later, &[(data, false), (other, false)]) as usize;
    builder.trace.operations[later].accesses[0].bytes = 4096;
    let address = builder.get(data).address;
    builder.migration(address + (4 << 20), 4096, DEVICE, Cause::User);
    builder.migration(address, 4096, DEVICE, Cause::User);
    let mut trace = builder.finish();
    for record in &mut trace.records {
        if let RecordKind::Migration { to, .. } = &mut record.kind {
            *to = Place::Device(2);
        }
    }
    let report = MigrationReport::of(&trace, &CostModel::h200());
    let mut names: Vec<_> = report
        .operations
        .iter()
        .map(|line| &line.name[..])
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["prefetch to device 0", "prefetch to device 1"]);
}
