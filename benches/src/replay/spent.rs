//! The time that a program spent on memory and kernels, computed from its trace.

use cuda_um_trace::{Cause, OperationKind, RecordKind, Trace};
use std::fmt;
use std::time::Duration;

/// Time by kind. The parts may overlap. The total is their sum, so it measures work, not elapsed time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spent {
    /// Kernels on their devices, with the faults that they waited for.
    pub kernels: Duration,
    /// Migrations that the program requested.
    pub prefetches: Duration,
    /// Host guards, with the faults of the host.
    pub host: Duration,
}

impl Spent {
    /// Computes the times of a trace.
    pub fn of(trace: &Trace) -> Self {
        let kernels = trace.kernels.iter().map(|run| (run.start, run.end));
        let prefetches = trace.records.iter().filter_map(|record| match record.kind {
            RecordKind::Migration {
                cause: Cause::User, ..
            } => Some((record.start, record.end)),
            _ => None,
        });
        let host = trace
            .operations
            .iter()
            .filter(|operation| operation.kind == OperationKind::Host)
            .map(|operation| (operation.start, operation.end));
        Self {
            kernels: sum(kernels),
            prefetches: sum(prefetches),
            host: sum(host),
        }
    }

    /// The sum of all parts.
    pub fn total(&self) -> Duration {
        self.kernels + self.prefetches + self.host
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        write!(
            f,
            "{:.0} us (kernels {:.0}, prefetches {:.0}, host {:.0})",
            us(self.total()),
            us(self.kernels),
            us(self.prefetches),
            us(self.host)
        )
    }
}

fn sum(spans: impl Iterator<Item = (u64, u64)>) -> Duration {
    Duration::from_nanos(spans.map(|(start, end)| end.saturating_sub(start)).sum())
}
