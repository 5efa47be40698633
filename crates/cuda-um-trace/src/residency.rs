//! The location of each block of a buffer over time, computed from migrations.

use crate::{Attribution, BLOCK_BYTES, Buffer, OperationKind, Place, RecordKind, Trace};
use std::collections::{HashMap, HashSet};

/// The driver's page size on the device.
const FINEST: u64 = 64 * 1024;
/// Small buffers are divided into about this number of smaller blocks.
const FEW: u64 = 48;
/// Huge buffers are divided into larger blocks, down to about this number.
const MANY: u64 = 256;
/// Blocks are also larger if records cover many blocks each: the records of all blocks together make at most this number of
/// changes, plus a few for each record.
const MOST_CHANGES: u64 = 1 << 14;
const CHANGES_OF_A_RECORD: u64 = 4;

/// The location of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No record shows it.
    Unknown,
    /// This percentage is on a device; the rest is on the host.
    OnDevice(u8),
    /// Read-mostly: host and device have copies.
    Both,
}

/// The state of a block from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) time: u64,
    pub(crate) block: u32,
    pub(crate) state: State,
}

/// A buffer's blocks over time.
#[derive(Clone, Debug)]
pub(crate) struct Residency {
    /// Index into [`Trace::buffers`].
    pub(crate) buffer: usize,
    pub(crate) block_bytes: u64,
    pub(crate) first: Vec<State>,
    /// By time.
    pub(crate) changes: Vec<Change>,
}

/// The buffers that have records, in the order of the trace.
pub(crate) fn buffers(trace: &Trace, attribution: &Attribution) -> Vec<usize> {
    let records = (0..trace.records.len()).flat_map(|record| attribution.pieces(record));
    let happened: HashSet<usize> = records.filter_map(|piece| piece.buffer).collect();
    let prefetched = prefetched_to_devices(trace);
    let buffers = trace.buffers.iter().enumerate();
    buffers
        .filter(|(index, buffer)| happened.contains(index) || prefetched.contains_key(&buffer.id))
        .map(|(index, _)| index)
        .collect()
}

/// The residency of some buffers.
pub(crate) fn of(trace: &Trace, attribution: &Attribution, chosen: &[usize]) -> Vec<Residency> {
    let mut parts: HashMap<usize, Vec<(usize, u64, u64)>> = HashMap::new();
    parts.extend(chosen.iter().map(|&buffer| (buffer, Vec::new())));
    let mut order: Vec<usize> = (0..trace.records.len()).collect();
    order.sort_by_key(|&record| trace.records[record].start);
    for record in order {
        for piece in attribution.pieces(record) {
            if let Some(parts) = piece.buffer.and_then(|buffer| parts.get_mut(&buffer)) {
                parts.push((record, piece.address, piece.bytes));
            }
        }
    }
    let advised = read_mostly(trace);
    let prefetched = prefetched_to_devices(trace);
    let of_one = |&buffer: &usize| {
        let id = trace.buffers[buffer].id;
        let advised = advised.get(&id).map_or(&[][..], Vec::as_slice);
        let prefetched = prefetched.get(&id).map_or(&[][..], Vec::as_slice);
        of_buffer(trace, buffer, &parts[&buffer], advised, prefetched)
    };
    chosen.iter().map(of_one).collect()
}

fn of_buffer(
    trace: &Trace,
    buffer: usize,
    parts: &[(usize, u64, u64)],
    advised: &[(u64, bool)],
    prefetched: &[u64],
) -> Residency {
    let about = &trace.buffers[buffer];
    let block_bytes = block_bytes(about, parts);
    let count = about.bytes.div_ceil(block_bytes).max(1) as usize;
    let size = |block: usize| {
        let begin = block as u64 * block_bytes;
        block_bytes.min(about.bytes.saturating_sub(begin)).max(1)
    };
    let block_of = |address: u64| {
        let block = address.saturating_sub(about.address) / block_bytes;
        (block as usize).min(count - 1)
    };
    // The first migration of a block shows its location before.
    let mut first = vec![State::Unknown; count];
    for &(record, address, bytes) in parts {
        let RecordKind::Migration { to, .. } = trace.records[record].kind else {
            continue;
        };
        let before = match to {
            Place::Host => State::OnDevice(100),
            Place::Device(_) => State::OnDevice(0),
        };
        let last = block_of(address.saturating_add(bytes.saturating_sub(1)));
        for state in &mut first[block_of(address)..=last] {
            if *state == State::Unknown {
                *state = before;
            }
        }
    }
    let mut there: Vec<u64> = first
        .iter()
        .enumerate()
        .map(|(block, state)| match state {
            State::OnDevice(100) => size(block),
            _ => 0,
        })
        .collect();
    let mut now = first.clone();
    let mut changes = Vec::new();
    let mut set = |time: u64, block: usize, state: State| {
        if now[block] != state {
            now[block] = state;
            changes.push(Change {
                time,
                block: block as u32,
                state,
            });
        }
    };
    for &(record, address, bytes) in parts {
        let record = &trace.records[record];
        match record.kind {
            RecordKind::Migration { to, .. } => {
                let end = address.saturating_add(bytes);
                let last = block_of(end.saturating_sub(1));
                let touched = there.iter_mut().enumerate().take(last + 1);
                for (block, there) in touched.skip(block_of(address)) {
                    let begin = about.address + block as u64 * block_bytes;
                    let part = end
                        .min(begin.saturating_add(block_bytes))
                        .saturating_sub(address.max(begin));
                    *there = match to {
                        Place::Device(_) => (*there + part).min(size(block)),
                        Place::Host => there.saturating_sub(part),
                    };
                    let copies = to != Place::Host && is_read_mostly(advised, record.start);
                    let share = (*there * 100).div_ceil(size(block)).min(100) as u8;
                    let state = match copies && share == 100 {
                        true => State::Both,
                        false => State::OnDevice(share),
                    };
                    set(record.end, block, state);
                }
            }
            // Memory that never moved was populated by its first access,
            RecordKind::GpuFault { .. } => {
                let block = block_of(address);
                if first[block] == State::Unknown {
                    set(record.end, block, State::OnDevice(100));
                }
            }
            RecordKind::CpuFault { .. } => {
                let block = block_of(address);
                if first[block] == State::Unknown {
                    set(record.end, block, State::OnDevice(0));
                }
            }
            _ => {}
        }
    }
    // or by a prefetch, which leaves no record if nothing moved.
    let touched: Vec<bool> = {
        let mut touched = vec![false; count];
        for change in &changes {
            touched[change.block as usize] = true;
        }
        touched
    };
    if let Some(&time) = prefetched.first() {
        for block in 0..count {
            if first[block] == State::Unknown && !touched[block] {
                changes.push(Change {
                    time,
                    block: block as u32,
                    state: State::OnDevice(100),
                });
            }
        }
    }
    changes.sort_by_key(|change| change.time);
    Residency {
        buffer,
        block_bytes,
        first,
        changes,
    }
}

/// 2 MiB; smaller for small buffers, larger for huge ones.
fn block_bytes(about: &Buffer, parts: &[(usize, u64, u64)]) -> u64 {
    let bytes = about.bytes;
    let mut block = FINEST;
    while block < BLOCK_BYTES && bytes.div_ceil(block) > FEW {
        block *= 2;
    }
    while bytes.div_ceil(block) > MANY {
        block *= 2;
    }
    let changes = |block: u64| {
        let of_part = |&(_, address, bytes): &(usize, u64, u64)| {
            let offset = address.saturating_sub(about.address);
            (offset + bytes).div_ceil(block) - offset / block
        };
        parts.iter().map(of_part).sum::<u64>()
    };
    let most = MOST_CHANGES + CHANGES_OF_A_RECORD * parts.len() as u64;
    while block < bytes && changes(block) > most {
        block *= 2;
    }
    block
}

/// The times at which read-mostly was set and unset, by buffer.
fn read_mostly(trace: &Trace) -> HashMap<u64, Vec<(u64, bool)>> {
    let mut advised: HashMap<u64, Vec<(u64, bool)>> = HashMap::new();
    for operation in &trace.operations {
        let OperationKind::Advise { advice, .. } = &operation.kind else {
            continue;
        };
        let on = match advice.as_str() {
            "SetReadMostly" => true,
            "UnsetReadMostly" => false,
            _ => continue,
        };
        for access in &operation.accesses {
            let list = advised.entry(access.buffer).or_default();
            list.push((operation.start, on));
        }
    }
    advised
}

fn is_read_mostly(advised: &[(u64, bool)], time: u64) -> bool {
    let before = advised.partition_point(|&(start, _)| start <= time);
    before > 0 && advised[before - 1].1
}

fn prefetched_to_devices(trace: &Trace) -> HashMap<u64, Vec<u64>> {
    let mut prefetched: HashMap<u64, Vec<u64>> = HashMap::new();
    for operation in &trace.operations {
        if let OperationKind::Prefetch {
            to: Place::Device(_),
            left_out: false,
        } = operation.kind
        {
            for access in &operation.accesses {
                let list = prefetched.entry(access.buffer).or_default();
                list.push(operation.end);
            }
        }
    }
    prefetched
}
