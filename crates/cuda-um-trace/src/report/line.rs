//! The lines of the tables.

use super::{Finding, Saving, Traffic};
use crate::{Attribution, Cause, Explanation, OperationKind, RecordKind, Trace};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The records of a buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BufferLine {
    /// Its number in the trace; `None` for memory that belongs to no known buffer.
    pub id: Option<u64>,
    /// Its name.
    pub name: String,
    /// The call site of its allocation.
    pub site: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// Sums over its records.
    pub traffic: Traffic,
    /// The saving of its findings.
    pub avoidable: Saving,
}

/// Migrations of one cause.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CauseLine {
    /// The cause.
    pub cause: Cause,
    /// Sums over the migrations.
    pub traffic: Traffic,
}

/// The records during operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OperationLine {
    /// The operation: ``"kernel `cosine`"``, `"prefetch to device 0"`.
    pub name: String,
    /// Number of these operations that have records.
    pub times: u64,
    /// Sums over the records.
    pub traffic: Traffic,
}

/// The name of memory without a buffer.
pub(crate) const UNKNOWN: &str = "(no known buffer)";
pub(crate) const NOTHING: &str = "outside of any known operation";

pub(super) fn total(trace: &Trace) -> Traffic {
    let mut total = Traffic::default();
    for record in &trace.records {
        total.add_record(record);
    }
    total
}

pub(super) fn by_buffer(
    trace: &Trace,
    attribution: &Attribution,
    findings: &[Finding],
) -> Vec<BufferLine> {
    let mut lines: Vec<BufferLine> = trace
        .buffers
        .iter()
        .map(|buffer| BufferLine {
            id: Some(buffer.id),
            name: buffer.name.clone(),
            site: buffer.site.clone(),
            bytes: buffer.bytes,
            ..BufferLine::default()
        })
        .collect();
    let mut unknown = BufferLine {
        name: UNKNOWN.to_owned(),
        ..BufferLine::default()
    };
    for (index, record) in trace.records.iter().enumerate() {
        for piece in attribution.pieces(index) {
            let line = match piece.buffer {
                Some(buffer) => &mut lines[buffer],
                None => &mut unknown,
            };
            let traffic = &mut line.traffic;
            traffic.add(record, piece.bytes, piece.nanoseconds, piece.first);
        }
    }
    let places = trace.buffers.iter().enumerate();
    let places: HashMap<u64, usize> = places.map(|(place, one)| (one.id, place)).collect();
    let counted = findings.iter().filter(|finding| !finding.alternative);
    for finding in counted {
        let place = finding.buffer.and_then(|id| places.get(&id));
        if let Some(&place) = place {
            lines[place].avoidable += finding.saves;
        }
    }
    if unknown.traffic != Traffic::default() {
        lines.push(unknown);
    }
    // Stable: buffers with equal numbers stay in the order of their allocation.
    lines.sort_by_key(|line| {
        let time = line.traffic.migrating.max(line.traffic.gpu_faulting);
        std::cmp::Reverse((time, line.traffic.bytes(), line.traffic.cpu_faults))
    });
    lines
}

pub(super) fn by_cause(trace: &Trace) -> Vec<CauseLine> {
    let mut causes: BTreeMap<Cause, Traffic> = BTreeMap::new();
    for record in &trace.records {
        if let RecordKind::Migration { cause, .. } = record.kind {
            causes.entry(cause).or_default().add_record(record);
        }
    }
    let mut lines: Vec<CauseLine> = causes
        .into_iter()
        .map(|(cause, traffic)| CauseLine { cause, traffic })
        .collect();
    lines.sort_by_key(|line| std::cmp::Reverse(line.traffic.bytes()));
    lines
}

pub(super) fn by_operation(trace: &Trace, attribution: &Attribution) -> Vec<OperationLine> {
    let mut sums: BTreeMap<Explanation, Traffic> = BTreeMap::new();
    for (index, record) in trace.records.iter().enumerate() {
        let sum = sums.entry(attribution.explanation(index)).or_default();
        sum.add_record(record);
    }
    let mut lines: BTreeMap<String, OperationLine> = BTreeMap::new();
    for (explanation, traffic) in sums {
        let name = name(trace, explanation);
        let line = lines.entry(name).or_insert_with_key(|name| OperationLine {
            name: name.clone(),
            times: 0,
            traffic: Traffic::default(),
        });
        line.times += 1;
        line.traffic += traffic;
    }
    let mut lines: Vec<OperationLine> = lines.into_values().collect();
    lines.sort_by_key(|line| {
        let time = line.traffic.migrating.max(line.traffic.gpu_faulting);
        std::cmp::Reverse((time, line.traffic.bytes()))
    });
    lines
}

/// The name of an explanation.
pub(crate) fn name(trace: &Trace, explanation: Explanation) -> String {
    match explanation {
        Explanation::Run(kernel) => format!("kernel `{}`", trace.kernels[kernel].name),
        Explanation::Operation(operation) => operation_name(&trace.operations[operation].kind),
        Explanation::Nothing => NOTHING.to_owned(),
    }
}

pub(crate) fn operation_name(kind: &OperationKind) -> String {
    match kind {
        OperationKind::Launch { kernel } => format!("kernel `{kernel}`"),
        OperationKind::Prefetch { to, .. } => format!("prefetch to {}", to.words()),
        OperationKind::Advise { advice, place: at } => match at {
            Some(at) => format!("advise {advice} ({})", at.words()),
            None => format!("advise {advice}"),
        },
        OperationKind::Host => "host access".to_owned(),
        OperationKind::Copy => "copy".to_owned(),
        OperationKind::Fill => "fill".to_owned(),
        OperationKind::Other { name } => name.clone(),
    }
}

pub(crate) fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Unknown => "not reported",
        Cause::User => "requested (prefetch, advice)",
        Cause::Coherence => "page faults",
        Cause::Prefetch => "around faults, by the driver",
        Cause::Eviction => "eviction: device full",
        Cause::AccessCounters => "access counters",
    }
}
