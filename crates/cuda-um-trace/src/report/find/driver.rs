//! Problems that the driver itself reports. They have no price, because it depends on the rest of the program.

use crate::report::context::Context;
use crate::report::{Finding, FindingKind, Saving};
use crate::{Cause, RecordKind};

pub(super) fn told(context: &Context, buffer: usize) -> Vec<Finding> {
    let (mut thrashing, mut throttled) = (0, 0);
    let (mut maps, mut mapped) = (0, 0);
    let mut evicted = 0;
    for part in &context.parts[buffer] {
        match context.record(part).kind {
            RecordKind::Thrashing { .. } => thrashing += 1,
            RecordKind::Throttling { .. } => throttled += 1,
            RecordKind::RemoteMap { bytes, .. } => {
                maps += 1;
                mapped += bytes;
            }
            RecordKind::Migration {
                cause: Cause::Eviction,
                ..
            } => evicted += part.piece.bytes,
            _ => {}
        }
    }
    let mut kinds = Vec::new();
    if thrashing + throttled > 0 {
        kinds.push(FindingKind::Thrashing {
            device: context.trace.buffers[buffer].device,
            times: thrashing,
            throttled,
        });
    }
    if maps > 0 {
        kinds.push(FindingKind::RemoteMaps {
            times: maps,
            bytes: mapped,
        });
    }
    if evicted > 0 {
        kinds.push(FindingKind::Evicted { bytes: evicted });
    }
    let kinds = kinds.into_iter();
    kinds
        .map(|kind| context.finding(buffer, kind, Saving::default()))
        .collect()
}
