//! Prefetches that had nothing to do, and those that were left out although they had.

use super::price;
use crate::report::context::{Context, Wanted};
use crate::report::{Finding, FindingKind, Saving};
use crate::{AccessedRange, Operation, OperationKind, Place, RecordKind};
use std::collections::BTreeMap;

/// Prefetches to the same location as the last prefetch of the same memory, with no use and no move in between. Elided
/// prefetches cost nothing and do not count.
pub(super) fn twice(context: &Context, buffer: usize) -> Vec<Finding> {
    let mut last: Option<(&Operation, AccessedRange, Place)> = None;
    let mut again: BTreeMap<Place, (u64, u64)> = BTreeMap::new();
    for (operation, access) in context.operations(buffer) {
        let OperationKind::Prefetch {
            to,
            left_out: false,
        } = operation.kind
        else {
            continue;
        };
        if let Some((before, covered, place)) = last {
            let inside = covered.offset <= access.offset
                && access.offset + access.bytes <= covered.offset + covered.bytes;
            if place == to && inside && nothing_between(context, buffer, before, operation, to) {
                let entry = again.entry(to).or_default();
                *entry = (entry.0 + 1, entry.1 + access.bytes);
                // The earlier prefetch covers more, so later ones are compared with it.
                last = Some((operation, covered, to));
                continue;
            }
        }
        last = Some((operation, access, to));
    }
    let found = again.into_iter().map(|(to, (times, bytes))| {
        let saves = Saving {
            time: price::resident(context.model, times, bytes),
            ..Saving::default()
        };
        context.finding(buffer, FindingKind::PrefetchedTwice { to, times }, saves)
    });
    found.collect()
}

/// Prefetches that the library elided, after which the next use by the device faulted: the pages had left without a call of the library, as by
/// an eviction for another program.
pub(super) fn left_out(context: &Context, buffer: usize) -> Option<Finding> {
    let mut elided = false;
    let (mut times, mut faults) = (0, 0);
    for (operation, _) in context.operations(buffer) {
        match operation.kind {
            OperationKind::Prefetch { to, left_out } => elided = left_out && to != Place::Host,
            OperationKind::Launch { .. } if std::mem::take(&mut elided) => {
                let found = context.gpu_faults(buffer, operation);
                times += u64::from(found > 0);
                faults += found;
            }
            _ => {}
        }
    }
    let kind = FindingKind::LeftOut { times, faults };
    (times > 0).then(|| context.finding(buffer, kind, Saving::default()))
}

fn nothing_between(
    context: &Context,
    buffer: usize,
    first: &Operation,
    second: &Operation,
    to: Place,
) -> bool {
    let (from, until) = (first.start, second.start);
    // A kernel that was enqueued in between may run later, so its call counts as well.
    let called = context.called_between(buffer, from, until);
    let parts = &context.parts[buffer];
    let after = parts.partition_point(|part| context.record(part).start < from);
    let moved = parts[after..]
        .iter()
        .map(|part| context.record(part))
        .take_while(|record| record.start < until)
        .any(|record| matches!(record.kind, RecordKind::Migration { from, .. } if from == to));
    !called
        && !moved
        && !context.used(buffer, from, until, Wanted::Any)
        && context.knows_kernels(from, until)
}
