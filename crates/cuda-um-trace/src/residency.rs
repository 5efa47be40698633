//! The location of each block of a buffer over time, computed from migrations.

use crate::{Attribution, BLOCK_BYTES, Buffer, OperationKind, Place, RecordKind, Trace};
use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

/// The driver's page size on the device.
const FINEST: u64 = 64 * 1024;
/// Small buffers are divided into about this number of smaller blocks.
const FEW: u64 = 48;
/// Huge buffers are divided into larger blocks, down to about this number.
const MANY: u64 = 256;

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
    let mut parts: HashMap<usize, Vec<Part>> = HashMap::new();
    parts.extend(chosen.iter().map(|&buffer| (buffer, Vec::new())));
    let mut order: Vec<usize> = (0..trace.records.len()).collect();
    order.sort_by_key(|&record| trace.records[record].start);
    for record in order {
        for piece in attribution.pieces(record) {
            if let Some(parts) = piece.buffer.and_then(|buffer| parts.get_mut(&buffer)) {
                parts.push(Part {
                    record,
                    address: piece.address,
                    bytes: piece.bytes,
                });
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

/// The bytes of a buffer that a record concerns.
struct Part {
    /// Index into [`Trace::records`].
    record: usize,
    address: u64,
    bytes: u64,
}

impl Part {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

fn of_buffer(
    trace: &Trace,
    buffer: usize,
    parts: &[Part],
    advised: &[(u64, bool)],
    prefetched: &[u64],
) -> Residency {
    let blocks = Blocks::of(&trace.buffers[buffer]);
    let first = blocks.first_states(trace, parts);
    let mut history = History::new(&blocks, &first);
    for part in parts {
        let record = &trace.records[part.record];
        match record.kind {
            RecordKind::Migration { to, .. } => {
                let copies = to != Place::Host && is_read_mostly(advised, record.start);
                history.migrate(record.end, part, to, copies);
            }
            // Memory that never moved was populated by its first access,
            RecordKind::GpuFault { .. } => history.populate(record.end, part, 100),
            RecordKind::CpuFault { .. } => history.populate(record.end, part, 0),
            _ => {}
        }
    }
    // or by a prefetch, which leaves no record if nothing moved.
    if let Some(&time) = prefetched.first() {
        history.prefetch(time);
    }
    let mut changes = history.changes;
    changes.sort_by_key(|change| change.time);
    Residency {
        buffer,
        block_bytes: blocks.bytes_each,
        first,
        changes,
    }
}

/// The division of a buffer into blocks.
struct Blocks<'a> {
    buffer: &'a Buffer,
    bytes_each: u64,
    count: usize,
}

impl<'a> Blocks<'a> {
    fn of(buffer: &'a Buffer) -> Self {
        let bytes_each = block_bytes(buffer.bytes);
        Self {
            buffer,
            bytes_each,
            count: buffer.bytes.div_ceil(bytes_each).max(1) as usize,
        }
    }

    fn size(&self, block: usize) -> u64 {
        let begin = block as u64 * self.bytes_each;
        self.bytes_each
            .min(self.buffer.bytes.saturating_sub(begin))
            .max(1)
    }

    fn at(&self, address: u64) -> usize {
        let block = address.saturating_sub(self.buffer.address) / self.bytes_each;
        (block as usize).min(self.count - 1)
    }

    /// The blocks of a part; at least one.
    fn range(&self, part: &Part) -> RangeInclusive<usize> {
        let last = part.address.saturating_add(part.bytes.saturating_sub(1));
        self.at(part.address)..=self.at(last)
    }

    /// Bytes of a part in a block.
    fn overlap(&self, block: usize, part: &Part) -> u64 {
        let begin = self.buffer.address + block as u64 * self.bytes_each;
        let end = part.end().min(begin.saturating_add(self.bytes_each));
        end.saturating_sub(part.address.max(begin))
    }

    /// The first migration of a block shows its location before.
    fn first_states(&self, trace: &Trace, parts: &[Part]) -> Vec<State> {
        let mut first = vec![State::Unknown; self.count];
        for part in parts {
            let before = match trace.records[part.record].kind {
                RecordKind::Migration {
                    to: Place::Host, ..
                } => State::OnDevice(100),
                RecordKind::Migration { .. } => State::OnDevice(0),
                _ => continue,
            };
            for state in &mut first[self.range(part)] {
                if *state == State::Unknown {
                    *state = before;
                }
            }
        }
        first
    }
}

/// The changes of a buffer's blocks, and their state after them.
struct History<'a> {
    blocks: &'a Blocks<'a>,
    first: &'a [State],
    now: Vec<State>,
    /// Bytes of each block on devices.
    there: Vec<u64>,
    changes: Vec<Change>,
}

impl<'a> History<'a> {
    fn new(blocks: &'a Blocks<'a>, first: &'a [State]) -> Self {
        let there = first.iter().enumerate().map(|(block, state)| match state {
            State::OnDevice(100) => blocks.size(block),
            _ => 0,
        });
        Self {
            blocks,
            first,
            now: first.to_vec(),
            there: there.collect(),
            changes: Vec::new(),
        }
    }

    fn set(&mut self, time: u64, block: usize, state: State) {
        if self.now[block] != state {
            self.now[block] = state;
            self.changes.push(Change {
                time,
                block: block as u32,
                state,
            });
        }
    }

    /// `copies`: the source keeps its copy.
    fn migrate(&mut self, time: u64, part: &Part, to: Place, copies: bool) {
        for block in self.blocks.range(part) {
            let (size, bytes) = (self.blocks.size(block), self.blocks.overlap(block, part));
            let there = match to {
                Place::Device(_) => (self.there[block] + bytes).min(size),
                Place::Host => self.there[block].saturating_sub(bytes),
            };
            self.there[block] = there;
            let share = (there * 100).div_ceil(size).min(100) as u8;
            let state = match copies && share == 100 {
                true => State::Both,
                false => State::OnDevice(share),
            };
            self.set(time, block, state);
        }
    }

    /// The first access populates a block that never moves.
    fn populate(&mut self, time: u64, part: &Part, share: u8) {
        let block = self.blocks.at(part.address);
        if self.first[block] == State::Unknown {
            self.set(time, block, State::OnDevice(share));
        }
    }

    /// A prefetch populates all blocks without a record.
    fn prefetch(&mut self, time: u64) {
        for block in 0..self.blocks.count {
            if self.now[block] == State::Unknown {
                self.set(time, block, State::OnDevice(100));
            }
        }
    }
}

/// 2 MiB; smaller for small buffers, larger for huge ones.
fn block_bytes(bytes: u64) -> u64 {
    let mut block = FINEST;
    while block < BLOCK_BYTES && bytes.div_ceil(block) > FEW {
        block *= 2;
    }
    while bytes.div_ceil(block) > MANY {
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
