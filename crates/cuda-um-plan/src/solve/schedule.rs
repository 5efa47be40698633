//! The transfers of a sweep.

use super::arena::{Arena, START};
use super::uses::Uses;
use crate::transfers::{List, Transfers};
use crate::{Moment, Resident, Slots, Transfer, TransferKind};

#[derive(Debug)]
pub(crate) struct Schedule {
    /// In the order of their steps.
    before: Vec<Transfer>,
    after: Vec<Transfer>,
    pub resident: Vec<Resident>,
}

impl Schedule {
    /// For a pass with this many uses.
    pub(crate) fn new(uses: usize) -> Self {
        Self {
            before: Vec::with_capacity(uses),
            // A use may have a transfer from the device, and the end of its buffer's place.
            after: Vec::with_capacity(2 * uses),
            resident: Vec::new(),
        }
    }

    /// A buffer comes before a step to a place that is free at the end of the step `freed`.
    pub(crate) fn enter(
        &mut self,
        step: usize,
        kind: TransferKind,
        buffer: usize,
        slots: Slots,
        freed: i64,
    ) {
        let earliest = usize::try_from(freed).ok();
        self.before.push(Transfer {
            kind,
            buffer,
            slots,
            earliest: earliest.and_then(here),
            deadline: here(step),
        });
    }

    pub(crate) fn read_in_place(&mut self, step: usize, buffer: usize) {
        let slots = Slots::default();
        self.enter(step, TransferKind::ReadInPlace, buffer, slots, START);
    }

    pub(crate) fn reads_in_place(&self, step: usize, buffer: usize) -> bool {
        let entries = self.before.iter().rev();
        let mut entries = entries.take_while(|one| one.deadline == here(step));
        entries.any(|one| one.buffer == buffer && one.kind == TransferKind::ReadInPlace)
    }

    /// Removes what enters the arena before a step.
    pub(crate) fn undo(&mut self, step: usize) {
        let first = self.before.partition_point(|one| one.deadline < here(step));
        let mut entries = self.before.split_off(first);
        entries.retain(|one| one.kind == TransferKind::ReadInPlace);
        self.before.append(&mut entries);
    }

    pub(crate) fn out(&mut self, step: usize, buffer: usize, slots: Slots) {
        self.leave(step, TransferKind::Out, buffer, slots);
    }

    pub(crate) fn drop(&mut self, step: usize, buffer: usize, slots: Slots) {
        self.leave(step, TransferKind::Drop, buffer, slots);
    }

    fn leave(&mut self, step: usize, kind: TransferKind, buffer: usize, slots: Slots) {
        self.after.push(Transfer {
            kind,
            buffer,
            slots,
            earliest: here(step),
            deadline: None,
        });
    }

    pub(crate) fn resident(&mut self, buffer: usize, slots: Slots) {
        self.resident.push(Resident { buffer, slots });
    }

    /// The buffers that stay between passes, and the transfers. `arena` is the one at the end of the pass.
    pub(crate) fn close(mut self, arena: &Arena, uses: &Uses) -> (Vec<Resident>, Transfers) {
        let step = |moment: Option<Moment>| moment.map_or(0, |moment| moment.step);
        let early = self.before.iter_mut().filter(|one| one.earliest.is_none());
        let copies = early.filter(|one| uses.cyclic && one.kind != TransferKind::ReadInPlace);
        for one in copies {
            // During the pass before.
            let used = uses.buffers[one.buffer].last;
            let freed = arena.freed(one.slots).max(0) as usize;
            one.earliest = Some(Moment {
                pass: -1,
                step: freed.max(used).max(step(one.deadline)),
            });
        }
        // Buffers that come back were added at the end.
        let before = List::of(uses.steps(), self.before, |one| (step(one.deadline), false));
        let after = List::of(uses.steps(), self.after, |one| {
            (step(one.earliest), one.kind == TransferKind::Drop)
        });
        (self.resident, Transfers { before, after })
    }
}

/// A step of this pass.
fn here(step: usize) -> Option<Moment> {
    Some(Moment { pass: 0, step })
}
