//! Traces that no machine recorded are refused, and odd ones are read.

use crate::support::{Builder, DEVICE};
use cuda_um_cost::CostModel;
use cuda_um_trace::{
    Cause, MigrationReport, OperationKind, Place, RecordKind, Trace, html, perfetto,
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

/// The error names the entry.
#[test]
fn numbers_that_no_machine_has_are_refused() {
    type Case = (&'static str, fn(&mut Trace));
    let cases: [Case; 6] = [
        ("the trace[0]", |trace| trace.end = 3),
        ("buffers[0]", |trace| trace.buffers[0].address = u64::MAX),
        ("operations[0]", |trace| {
            trace.operations[0].accesses[0].offset = 1;
        }),
        ("operations[1]", |trace| trace.operations[1].end = 1),
        ("kernels[0]", |trace| trace.kernels[0].start = u64::MAX),
        ("records[2]", |trace| trace.records[2].address = u64::MAX),
    ];
    for (entry, change) in cases {
        let mut trace = small();
        assert_eq!(Trace::from_json(&trace.to_json()).unwrap(), trace);
        change(&mut trace);
        let refused = Trace::from_json(&trace.to_json()).unwrap_err().to_string();
        assert!(
            refused.starts_with(&format!("{entry} has a number ")),
            "{refused}"
        );
    }
}

/// The entries to which others refer may have been dropped, a device may never have been opened, and a buffer may be younger than the trace.
#[test]
fn what_is_not_known_is_no_error() {
    let mut trace = small();
    trace.buffers[0].slab = Some(7);
    trace.buffers[0].allocated = Some(trace.end + 1_000_000_000);
    trace.kernels[0].operation = Some(99);
    trace.operations[0].accesses[0].buffer = 12;
    trace.kernels[0].device = 3;
    let trace = Trace::from_json(&trace.to_json()).unwrap();
    let report = MigrationReport::of(&trace, &CostModel::h200());
    assert_eq!(report.total.bytes(), small_bytes());
    assert!(html(&trace, &report).ends_with("</html>\n") && perfetto(&trace).ends_with('}'));
}

fn small_bytes() -> u64 {
    MigrationReport::of(&small(), &CostModel::h200())
        .total
        .bytes()
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
    let report = MigrationReport::of(&trace, &CostModel::h200()).to_string();
    let is_shown = |letter: char| letter == '\n' || !letter.is_control();
    assert!(report.chars().all(is_shown), "{report:?}");
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
