//! Memory that moved to a device and back for nothing.

use super::faults::by_fault;
use super::{finding, price};
use crate::report::context::{Context, Part};
use crate::report::{Finding, FindingKind, Saving};
use crate::{Cause, Explanation, OperationKind, Place, RecordKind};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::time::Duration;

/// What the driver moves at a fault: round trips are followed in parts of this size.
const CELL: u64 = 64 * 1024;

/// Moves that go away: their records, and what they cost.
#[derive(Default)]
struct InVain {
    /// By record: the piece, and how many of its bytes.
    moves: BTreeMap<usize, (Part, u64)>,
}

impl InVain {
    fn add(&mut self, part: &Part, bytes: u64) {
        let entry = self.moves.entry(part.record).or_insert((*part, 0));
        entry.1 += bytes;
    }

    /// Claims the moves and the faults that caused them.
    fn claim(&self, context: &Context, buffer: usize) -> Option<Saving> {
        let mut saves = Saving::default();
        let mut causes = HashSet::new();
        let mut calls = BTreeSet::new();
        let model = context.model;
        for (part, bytes) in self.moves.values() {
            // A record of which most was in vain goes away; the rest of it would move in another one.
            if *bytes * 2 < part.piece.bytes {
                continue;
            }
            let RecordKind::Migration { to, cause, .. } = context.record(part).kind else {
                continue;
            };
            context.claim(part);
            saves.bytes += bytes;
            let explanation = context.explanation(part);
            saves.time += match (by_fault(cause), to) {
                (true, _) => context.fault_price(part, *bytes),
                (false, Place::Host) => price::to_host(model, 0, *bytes),
                (false, _) => price::to_device(model, 0, *bytes),
            };
            if by_fault(cause) {
                causes.insert(explanation);
            } else {
                calls.insert(explanation);
            }
        }
        saves.time += price::times(model.prefetch, calls.len() as u64);
        for part in &context.parts[buffer] {
            if !causes.contains(&context.explanation(part)) || !context.is_free(part) {
                continue;
            }
            let faults = match context.record(part).kind {
                RecordKind::CpuFault { .. } => 1,
                RecordKind::GpuFault { faults, .. } => faults,
                _ => continue,
            };
            context.claim(part);
            saves.faults += faults;
            saves.time += context.fault_price(part, 0);
        }
        (saves.bytes > 0).then_some(saves)
    }
}

/// A move of some cells.
struct Move<'a> {
    part: &'a Part,
    to: Place,
    cause: Cause,
    start: u64,
}

/// A buffer's moves between host and devices, by time.
fn moves<'a>(context: &'a Context, buffer: usize) -> impl Iterator<Item = Move<'a>> {
    let parts = context.parts[buffer].iter();
    parts.filter_map(|part| match context.record(part).kind {
        RecordKind::Migration { to, cause, .. } => Some(Move {
            part,
            to,
            cause,
            start: context.record(part).start,
        }),
        _ => None,
    })
}

/// The cells that a piece touches, with the bytes in each.
fn cells(part: &Part) -> impl Iterator<Item = (u64, u64)> {
    let (begin, end) = (
        part.piece.address,
        part.piece.address.saturating_add(part.piece.bytes),
    );
    (begin / CELL..end.div_ceil(CELL)).map(move |cell| {
        let from = begin.max(cell * CELL);
        let until = end.min((cell + 1).saturating_mul(CELL));
        (cell, until - from)
    })
}

/// To a device, back, and there again, though nobody wrote in between: read-mostly advice would have kept both copies.
pub(super) fn read_by_both(context: &Context, buffer: usize) -> Option<Finding> {
    #[derive(Clone, Copy)]
    struct Trip<'a> {
        there: u64,
        back: Option<(&'a Part, u64)>,
    }
    if advised_read_mostly(context, buffer) {
        return None;
    }
    let mut trips: BTreeMap<u64, Trip> = BTreeMap::new();
    let mut in_vain = InVain::default();
    for one in moves(context, buffer) {
        for (cell, bytes) in cells(one.part) {
            match (one.to, trips.get_mut(&cell)) {
                (
                    Place::Device(_),
                    Some(Trip {
                        there,
                        back: Some((back, back_bytes)),
                    }),
                ) if context.knows_kernels(*there, one.start)
                    && !context
                        .used(buffer, *there, one.start.saturating_sub(1), |one| one.write) =>
                {
                    in_vain.add(back, *back_bytes);
                    in_vain.add(one.part, bytes);
                }
                (Place::Host, Some(trip)) if one.cause != Cause::Eviction => {
                    trip.back = Some((one.part, bytes));
                    continue;
                }
                _ => {}
            }
            match one.to {
                Place::Device(_) => {
                    let trip = Trip {
                        there: one.start,
                        back: None,
                    };
                    trips.insert(cell, trip);
                }
                Place::Host => drop(trips.remove(&cell)),
            }
        }
    }
    let saves = in_vain.claim(context, buffer)?;
    let kind = FindingKind::ReadByBoth { bytes: saves.bytes };
    Some(finding(context, buffer, kind, saves))
}

fn advised_read_mostly(context: &Context, buffer: usize) -> bool {
    context.operations(buffer).any(|operation| {
        matches!(&operation.kind, OperationKind::Advise { advice, .. } if advice == "SetReadMostly")
    })
}

/// Prefetched to a device, and back without a use there.
pub(super) fn unused_prefetches(context: &Context, buffer: usize) -> Option<Finding> {
    let mut waiting: BTreeMap<u64, (&Part, u64, usize)> = BTreeMap::new();
    let mut in_vain = InVain::default();
    let mut calls = BTreeSet::new();
    let mut device = 0;
    let owned: Vec<Move> = moves(context, buffer)
        .filter(|one| context.is_free(one.part))
        .collect();
    for one in &owned {
        let explanation = context.explanation(one.part);
        let prefetch = match (explanation, context.operation_kind(explanation)) {
            (
                Explanation::Operation(operation),
                Some(OperationKind::Prefetch {
                    to: Place::Device(_),
                    ..
                }),
            ) => Some(operation),
            _ => None,
        };
        for (cell, bytes) in cells(one.part) {
            match (one.to, prefetch) {
                (Place::Device(_), Some(operation)) => {
                    waiting.insert(cell, (one.part, bytes, operation));
                }
                (Place::Device(_), None) => drop(waiting.remove(&cell)),
                (Place::Host, _) => {
                    let Some((there, there_bytes, operation)) = waiting.remove(&cell) else {
                        continue;
                    };
                    let asked = context.trace.operations[operation].start;
                    let used = context.used(buffer, asked, one.start, |one| one.by != Place::Host);
                    if used || !context.knows_kernels(asked, one.start) {
                        continue;
                    }
                    in_vain.add(there, there_bytes);
                    in_vain.add(one.part, bytes);
                    calls.insert(operation);
                    if let RecordKind::Migration {
                        to: Place::Device(to),
                        ..
                    } = context.record(there).kind
                    {
                        device = to;
                    }
                }
            }
        }
    }
    let saves = in_vain.claim(context, buffer)?;
    let kind = FindingKind::PrefetchUnused {
        device,
        times: calls.len() as u64,
        bytes: saves.bytes,
    };
    Some(finding(context, buffer, kind, saves))
}

/// Changes of direction of the part of a buffer that has most of them, by faults alone; and the bytes to devices and to the host.
pub(super) fn alternations(context: &Context, buffer: usize) -> (u64, u64, u64) {
    let mut cells_seen: BTreeMap<u64, (bool, u64)> = BTreeMap::new();
    let (mut to_device, mut to_host) = (0, 0);
    for one in moves(context, buffer).filter(|one| by_fault(one.cause)) {
        let there = one.to != Place::Host;
        *if there { &mut to_device } else { &mut to_host } += one.part.piece.bytes;
        for (cell, _) in cells(one.part) {
            let entry = cells_seen.entry(cell).or_insert((there, 0));
            if entry.0 != there {
                *entry = (there, entry.1 + 1);
            }
        }
    }
    let most = cells_seen.values().map(|&(_, changes)| changes).max();
    (most.unwrap_or(0), to_device, to_host)
}

/// All of a buffer's faults, and what they and what they brought cost.
pub(super) fn faults_price(context: &Context, buffer: usize) -> (u64, Duration) {
    let parts = context.parts[buffer].iter();
    let faults = parts.map(|part| {
        let faults = match context.record(part).kind {
            RecordKind::CpuFault { .. } => 1,
            RecordKind::GpuFault { faults, .. } => faults,
            _ => 0,
        };
        (faults, context.fault_price(part, part.piece.bytes))
    });
    faults.fold((0, Duration::ZERO), |sum, one| {
        (sum.0 + one.0, sum.1 + one.1)
    })
}
