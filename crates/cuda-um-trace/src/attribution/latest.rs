//! The latest operation of a kind over a range of a buffer, for increasing times.

use crate::{Operation, OperationKind, Place, Trace};
use std::collections::HashMap;
use std::ops::Range;

/// Kinds of operations that explain records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wanted {
    /// Uses of memory by a device: launches, copies, fills.
    Use,
    /// Prefetches to a location.
    PrefetchTo(Place),
    /// Prefetches to any location.
    Prefetch,
    /// Other calls that move memory.
    Call,
}

fn kinds_of(operation: &Operation) -> impl Iterator<Item = Wanted> {
    use OperationKind as O;
    let kinds = match operation.kind {
        O::Launch { .. } => [Some(Wanted::Use), None],
        O::Copy | O::Fill => [Some(Wanted::Use), Some(Wanted::Call)],
        O::Prefetch {
            to,
            left_out: false,
        } => [Some(Wanted::PrefetchTo(to)), Some(Wanted::Prefetch)],
        O::Advise { .. } => [Some(Wanted::Call), None],
        O::Prefetch { .. } | O::Host | O::Other { .. } => [None, None],
    };
    kinds.into_iter().flatten()
}

/// Position of an operation in the order of starts, from 1 on.
pub(super) type Rank = usize;

/// Operations of one kind over one buffer.
#[derive(Default)]
struct Over {
    latest: Rank,
    /// The latest operations over its ranges, the newest one last.
    parts: Vec<(Range<u64>, Rank)>,
}

pub(super) struct Latest<'a> {
    trace: &'a Trace,
    /// Operations by start.
    order: Vec<usize>,
    /// Number of operations that have begun.
    begun: usize,
    over: HashMap<(u64, Wanted), Over>,
    /// The latest prefetch to any device.
    to_devices: Rank,
}

impl<'a> Latest<'a> {
    pub(super) fn new(trace: &'a Trace, order: Vec<usize>) -> Self {
        Self {
            trace,
            order,
            begun: 0,
            over: HashMap::new(),
            to_devices: 0,
        }
    }

    /// Advances to a time: operations that have begun by then count.
    pub(super) fn advance(&mut self, time: u64) {
        let trace = self.trace;
        while let Some(&index) = self.order.get(self.begun)
            && trace.operations[index].start <= time
        {
            self.begun += 1;
            let operation = &trace.operations[index];
            for kind in kinds_of(operation) {
                if matches!(kind, Wanted::PrefetchTo(Place::Device(_))) {
                    self.to_devices = self.begun;
                }
                for access in &operation.accesses {
                    let over = self.over.entry((access.buffer, kind)).or_default();
                    over.latest = self.begun;
                    let range = access.offset..end_of(access);
                    let is_within =
                        |part: &Range<u64>| range.start <= part.start && part.end <= range.end;
                    over.parts.retain(|(part, _)| !is_within(part));
                    over.parts.push((range, self.begun));
                }
            }
        }
    }

    /// The latest operation over a buffer.
    pub(super) fn over(&self, buffer: u64, wanted: Wanted) -> Option<Rank> {
        let over = self.over.get(&(buffer, wanted))?;
        (over.latest > 0).then_some(over.latest)
    }

    /// The latest operation over a range of a buffer.
    pub(super) fn over_part(
        &self,
        buffer: u64,
        wanted: Wanted,
        offset: u64,
        bytes: u64,
    ) -> Option<Rank> {
        let over = self.over.get(&(buffer, wanted))?;
        // Calls round outwards to blocks at most. A piece that begins at the end of a call's range counts as covered by the
        // call.
        let last = offset.saturating_add(bytes);
        let mut parts = over.parts.iter().rev();
        let found = parts.find(|(part, _)| part.start <= last && offset < part.end);
        found.map(|(_, rank)| *rank)
    }

    /// The latest prefetch to any device.
    pub(super) fn to_devices(&self) -> Option<usize> {
        let rank = self.to_devices.checked_sub(1)?;
        Some(self.order[rank])
    }

    /// The operation of a rank.
    pub(super) fn operation(&self, rank: Rank) -> usize {
        self.order[rank - 1]
    }
}

fn end_of(access: &crate::AccessedRange) -> u64 {
    access.offset.saturating_add(access.bytes.max(1))
}
