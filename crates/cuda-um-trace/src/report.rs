//! [`MigrationReport`]: a trace as tables, and what to change.

mod context;
mod find;
mod finding;
pub(crate) mod line;
mod text;
mod traffic;

pub use finding::{Finding, FindingKind, Saving};
pub use line::{BufferLine, CauseLine, OperationLine};
pub use traffic::Traffic;

use crate::{Attribution, Source, Trace};
pub(crate) use context::Context;
use cuda_um_cost::CostModel;
pub(crate) use find::Directions;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What moved, by buffer, by cause and by operation; and which part of it can be avoided.
///
/// Display gives the summary for a terminal, in lines of about 100 letters. The data has exact bytes and nanoseconds.
///
/// ```
/// use cuda_um_trace::{MigrationReport, Trace};
/// use cuda_um_cost::CostModel;
/// let report = MigrationReport::of(&Trace::default(), &CostModel::h200());
/// assert!(report.to_string().contains("Nothing moved"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MigrationReport {
    /// Who recorded the trace.
    pub source: Source,
    /// Where the cost model has its values from.
    pub cost_model: String,
    /// How long was recorded.
    #[serde(rename = "duration_ns", with = "traffic::ns")]
    pub duration: Duration,
    /// Everything.
    pub total: Traffic,
    /// By buffer, those that took the most time first. Memory that is nobody's has a line without an id, if any of it moved.
    pub buffers: Vec<BufferLine>,
    /// Migrations by cause; faults and the rest have none.
    pub causes: Vec<CauseLine>,
    /// By what was running.
    pub operations: Vec<OperationLine>,
    /// What to change; what saves most comes first.
    pub findings: Vec<Finding>,
    /// What following the findings would save, alternatives not counted twice.
    pub avoidable: Saving,
    /// Records that are missing: the numbers are too low.
    pub dropped_records: u64,
    /// Operations, buffers and kernels that are missing: attribution and findings may be wrong.
    pub dropped_operations: u64,
    /// Migrations over so many buffers that parts of them count to others ([`Attribution::uncut_records`]).
    #[serde(default)]
    pub uncut_records: u64,
}

impl MigrationReport {
    /// Reports on a trace, with times to be saved by a cost model.
    pub fn of(trace: &Trace, model: &CostModel) -> Self {
        Self::with(trace, &Attribution::of(trace), model)
    }

    /// Like [`of`](Self::of), with an attribution that is there already.
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
            uncut_records: attribution.uncut_records(),
        }
    }

    /// Whether nothing was dropped.
    pub fn is_complete(&self) -> bool {
        self.dropped_records == 0 && self.dropped_operations == 0
    }
}
