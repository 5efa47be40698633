//! The exact text of the report for a terminal.

use crate::support::{Builder, DEVICE, model};
use cuda_um_trace::{MigrationReport, Place};

fn report() -> String {
    let mut builder = Builder::new();
    let targets = builder.buffer("targets", 3 << 20);
    let scores = builder.buffer(
        "scores with a name that is much too long for a table",
        65_536,
    );
    builder.launch_faulting("cosine", &[(targets, false), (scores, true)]);
    builder.host_faulting(scores, false);
    builder.prefetch(targets, Place::Host);
    builder.prefetch(targets, DEVICE);
    builder.cpu_fault(5);
    builder.trace.dropped_records = 2;
    MigrationReport::of(&builder.finish(), &model()).to_string()
}

#[test]
fn a_report_reads_like_this() {
    let expected = include_str!("../golden/report.txt");
    let report = report();
    assert_eq!(report, expected, "\n{report}");
}

#[test]
fn lines_fit_a_terminal() {
    for line in report().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
