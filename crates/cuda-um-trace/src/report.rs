//! [`MigrationReport`]: a trace as tables, and the changes that it suggests.

mod context;
mod find;
mod finding;
pub(crate) mod line;
mod text;
mod traffic;

pub use finding::{Call, Finding, FindingKind, Saving};
pub use line::{BufferLine, CauseLine, OperationLine};
pub use traffic::Traffic;

use crate::{Attribution, Source, Trace};
pub(crate) use context::Context;
use cuda_um_cost::CostModel;
pub(crate) use find::{ALTERNATIONS, alternations};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The migrations by buffer, by cause and by operation, and the part that can be avoided.
///
/// `Display` prints the summary for a terminal, in lines of about 100 characters. The data have exact bytes and nanoseconds.
///
/// ```
/// use cuda_um_trace::{MigrationReport, Trace, patterns, perfetto};
/// use cuda_um_cost::CostModel;
/// let trace = Trace { format: Trace::FORMAT, ..Trace::default() }; // as `cuda_um::Runtime::profile` makes it
/// let trace = Trace::from_json(&trace.to_json())?;
/// let report = MigrationReport::of(&trace, &CostModel::h200());
/// assert!(report.to_string().contains("Nothing moved"));
/// assert!(patterns(&trace).is_empty());
/// std::fs::write("/dev/null", perfetto(&trace))?; // a file for ui.perfetto.dev
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MigrationReport {
    /// The source of the trace.
    pub source: Source,
    /// The source of the cost model's values.
    pub cost_model: String,
    /// The recorded time.
    #[serde(rename = "duration_ns", with = "traffic::ns")]
    pub duration: Duration,
    /// Sums over all records.
    pub total: Traffic,
    /// By buffer; the ones with the longest migration time come first. If memory without a buffer moved, it has a line without
    /// an id.
    pub buffers: Vec<BufferLine>,
    /// Migrations by cause. Faults and other records have no cause.
    pub causes: Vec<CauseLine>,
    /// By the operation that was running.
    pub operations: Vec<OperationLine>,
    /// Suggested changes; the largest saving comes first.
    pub findings: Vec<Finding>,
    /// The saving of all findings. Alternatives are not counted twice.
    pub avoidable: Saving,
    /// Number of missing records: the sums are too low.
    pub dropped_records: u64,
    /// Number of missing operations, buffers and kernels: attribution and findings may be wrong.
    pub dropped_operations: u64,
}

impl MigrationReport {
    /// Makes a report of a trace; savings come from the cost model.
    pub fn of(trace: &Trace, model: &CostModel) -> Self {
        Self::with(trace, &Attribution::of(trace), model)
    }

    /// Like [`of`](Self::of), with an existing attribution.
    pub fn with(trace: &Trace, attribution: &Attribution, model: &CostModel) -> Self {
        let context = Context::new(trace, attribution, model);
        let findings = find::all(&context);
        let mut avoidable = Saving::default();
        for finding in findings.iter().filter(|finding| !finding.alternative) {
            avoidable += finding.saves;
        }
        Self {
            source: trace.source.clone(),
            cost_model: model.source.clone(),
            duration: Duration::from_nanos(trace.end.saturating_sub(trace.start)),
            total: line::total(trace),
            buffers: line::by_buffer(trace, attribution, &findings),
            causes: line::by_cause(trace),
            operations: line::by_operation(trace, attribution),
            findings,
            avoidable,
            dropped_records: trace.dropped_records,
            dropped_operations: trace.dropped_operations,
        }
    }

    /// True if nothing was dropped.
    pub fn is_complete(&self) -> bool {
        self.dropped_records == 0 && self.dropped_operations == 0
    }
}
