//! Memory that moved to a device and back without need.

use super::price;
use crate::report::context::{Context, Part, Wanted};
use crate::report::{Finding, FindingKind, Saving};
use crate::units::parts;
use crate::{Cause, Explanation, OperationKind, Place, RecordKind};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// The size that the driver moves at a fault. Round trips are tracked in parts of this size.
const CELL: u64 = 64 * 1024;

/// Moves that can be avoided: their records and their costs.
#[derive(Default)]
struct InVain {
    /// By record: the piece, and the number of its bytes.
    moves: BTreeMap<usize, (Part, u64)>,
}

impl InVain {
    fn add(&mut self, part: &Part, bytes: u64) {
        let entry = self.moves.entry(part.record).or_insert((*part, 0));
        entry.1 += bytes;
    }

    /// Claims the moves, and the faults that caused them.
    fn claim(&self, context: &Context, buffer: usize) -> Option<Saving> {
        let mut saves = Saving::default();
        let mut causes = HashSet::new();
        let mut calls = BTreeSet::new();
        let model = context.model;
        for (part, bytes) in self.moves.values() {
            // If most of a record can be avoided, the record counts as avoided; its other bytes would move with another record.
            if *bytes * 2 < part.piece.bytes {
                continue;
            }
            let RecordKind::Migration { to, cause, .. } = context.record(part).kind else {
                continue;
            };
            context.claim(part);
            saves.bytes += bytes;
            let explanation = context.explanation(part);
            saves.time += match (cause.by_fault(), to) {
                (true, _) => context.fault_price(part, *bytes),
                (false, Place::Host) => price::to_host(model, 0, *bytes),
                (false, _) => price::to_device(model, 0, *bytes),
            };
            if cause.by_fault() {
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

/// A move of memory.
struct Move<'a> {
    part: &'a Part,
    to: Place,
    cause: Cause,
    start: u64,
}

/// The moves of a buffer between host and devices, by time.
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

/// The cells that a piece touches, with the number of bytes in each.
fn cells(part: &Part) -> impl Iterator<Item = (u64, u64)> {
    let begin = part.piece.address;
    parts(begin..begin.saturating_add(part.piece.bytes), CELL)
}

/// Memory that moved to a device, back, and to the device again without a write in between. Read-mostly advice would have kept
/// both copies.
pub(super) fn read_by_both(context: &Context, buffer: usize) -> Option<Finding> {
    if advised_read_mostly(context, buffer) {
        return None;
    }
    // For each cell: the time of its move to a device, and the move back to the host.
    let mut there: HashMap<u64, u64> = HashMap::new();
    let mut back: HashMap<u64, (&Part, u64)> = HashMap::new();
    let mut in_vain = InVain::default();
    for one in moves(context, buffer) {
        for (cell, bytes) in cells(one.part) {
            match one.to {
                Place::Device(_) => {
                    let trip = (there.insert(cell, one.start), back.remove(&cell));
                    if let (Some(came), Some((part, part_bytes))) = trip
                        && unwritten(context, buffer, came, one.start)
                    {
                        in_vain.add(part, part_bytes);
                        in_vain.add(one.part, bytes);
                    }
                }
                Place::Host if one.cause != Cause::Eviction => {
                    back.insert(cell, (one.part, bytes));
                }
                Place::Host => {
                    there.remove(&cell);
                    back.remove(&cell);
                }
            }
        }
    }
    let saves = in_vain.claim(context, buffer)?;
    let kind = FindingKind::ReadByBoth { bytes: saves.bytes };
    Some(context.finding(buffer, kind, saves))
}

/// True if the trace has no write between two moves to a device.
fn unwritten(context: &Context, buffer: usize, from: u64, until: u64) -> bool {
    context.knows_kernels(from, until)
        && !context.used(buffer, from, until.saturating_sub(1), Wanted::Writes)
}

fn advised_read_mostly(context: &Context, buffer: usize) -> bool {
    context.operations(buffer).any(|(operation, _)| {
        matches!(&operation.kind, OperationKind::Advise { advice, .. } if advice == "SetReadMostly")
    })
}

/// Memory that was prefetched to a device, and moved back, or was evicted, without a use there.
pub(super) fn unused_prefetches(context: &Context, buffer: usize) -> Vec<Finding> {
    let mut waiting: HashMap<u64, (&Part, u64, usize)> = HashMap::new();
    let mut in_vain = [InVain::default(), InVain::default()];
    let mut calls = [BTreeSet::new(), BTreeSet::new()];
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
            let before = waiting.remove(&cell);
            match (one.to, prefetch) {
                (Place::Device(_), Some(operation)) => {
                    waiting.insert(cell, (one.part, bytes, operation));
                }
                (Place::Device(_), None) => {}
                (Place::Host, _) => {
                    if let Some((there, there_bytes, operation)) = before {
                        let asked = context.trace.operations[operation].start;
                        let used = context.used(buffer, asked, one.start, Wanted::ByDevices);
                        if used || !context.knows_kernels(asked, one.start) {
                            continue;
                        }
                        let why = usize::from(one.cause == Cause::Eviction);
                        in_vain[why].add(there, there_bytes);
                        in_vain[why].add(one.part, bytes);
                        calls[why].insert(operation);
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
    }
    let found = in_vain.iter().zip(calls).enumerate();
    let found = found.filter_map(|(why, (in_vain, calls))| {
        let saves = in_vain.claim(context, buffer)?;
        let (times, bytes) = (calls.len() as u64, saves.bytes);
        let kind = match why {
            0 => FindingKind::PrefetchUnused {
                device,
                times,
                bytes,
            },
            _ => FindingKind::EvictedBeforeUse {
                device,
                times,
                bytes,
            },
        };
        Some(context.finding(buffer, kind, saves))
    });
    found.collect()
}

/// Moves to devices and to the host, in order.
#[derive(Clone, Copy, Debug, Default)]
struct Directions {
    last: Option<bool>,
    /// Number of changes of direction.
    changes: u64,
}

impl Directions {
    /// One more move.
    fn go(&mut self, to_device: bool) {
        let last = self.last.replace(to_device);
        self.changes += u64::from(last.is_some_and(|last| last != to_device));
    }
}

/// Changes of direction by moves of these causes, for the part of a buffer with the most changes; and the bytes to devices and to
/// the host.
pub(crate) fn alternations(
    context: &Context,
    buffer: usize,
    counts: impl Fn(Cause) -> bool,
) -> (u64, u64, u64) {
    let mut seen: HashMap<u64, Directions> = HashMap::new();
    let (mut to_device, mut to_host) = (0, 0);
    for one in moves(context, buffer).filter(|one| counts(one.cause)) {
        let there = one.to != Place::Host;
        *if there { &mut to_device } else { &mut to_host } += one.part.piece.bytes;
        for (cell, _) in cells(one.part) {
            seen.entry(cell).or_default().go(there);
        }
    }
    let most = seen.values().map(|seen| seen.changes).max();
    (most.unwrap_or(0), to_device, to_host)
}

/// All faults of a buffer, and the cost of these faults and their migrations.
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
