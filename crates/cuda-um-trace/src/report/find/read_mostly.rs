//! Read-mostly memory that is written.

use crate::report::context::Context;
use crate::report::{Finding, FindingKind, Saving};
use crate::{Explanation, OperationKind, Place, RecordKind};
use std::collections::HashSet;

/// A single write may be the next batch. From this number on the advice is wrong.
const COLLAPSES: u64 = 2;

/// Writes to read-mostly memory after a device had read a copy.
pub(super) fn collapsed(context: &Context, buffer: usize) -> Option<Finding> {
    let advised = context.operations(buffer).filter_map(|(operation, _)| {
        let OperationKind::Advise { advice, .. } = &operation.kind else {
            return None;
        };
        let on = match advice.as_str() {
            "SetReadMostly" => true,
            "UnsetReadMostly" => false,
            _ => return None,
        };
        Some((operation.start, on))
    });
    let advised: Vec<(u64, bool)> = advised.collect();
    let read_mostly = |time| {
        let before = advised.partition_point(|&(start, _)| start <= time);
        before > 0 && advised[before - 1].1
    };
    let mut copied = false;
    let mut writes = HashSet::new();
    for one in &context.uses[buffer] {
        if !read_mostly(one.start) {
            copied = false;
        } else if one.write && copied {
            writes.insert(one.operation);
            copied = false;
        } else if !one.write && one.by != Place::Host {
            copied = true;
        }
    }
    let times = writes.len() as u64;
    if times < COLLAPSES {
        return None;
    }
    let mut saves = Saving::default();
    for part in &context.parts[buffer] {
        let explanation: Explanation = context.explanation(part);
        let operation = context.attribution.operation(explanation);
        let by_write = operation.is_some_and(|operation| writes.contains(&operation));
        if !by_write || !context.is_free(part) || !part.is_fault(context.record(part)) {
            continue;
        }
        let faults = match context.record(part).kind {
            RecordKind::GpuFault { faults, .. } => faults,
            _ => 1,
        };
        context.claim(part);
        saves.faults += faults;
        saves.time += context.fault_price(part, 0);
    }
    let kind = FindingKind::ReadMostlyCollapsed { times };
    Some(context.finding(buffer, kind, saves))
}
