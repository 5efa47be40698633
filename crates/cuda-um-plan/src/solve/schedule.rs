//! The transfers of a sweep, and the plan's lists of them.

use super::arena::{Holes, START};
use super::uses::Uses;
use crate::{Moment, Placed, PlannedStep, Slots, Transfer, TransferKind};

/// What comes before a step. `freed` is the step at whose end the place is free.
#[derive(Clone, Copy, Debug)]
struct Entry {
    step: usize,
    kind: TransferKind,
    buffer: usize,
    slots: Slots,
    freed: i64,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    /// In the order of their steps.
    before: Vec<Entry>,
    after: Vec<(usize, TransferKind, usize, Slots)>,
    length: usize,
    pub resident: Vec<Placed>,
    pub steps: Vec<PlannedStep>,
}

impl Schedule {
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            before: Vec::new(),
            after: Vec::new(),
            length: steps,
            resident: Vec::new(),
            steps: Vec::new(),
        }
    }

    pub(crate) fn enter(
        &mut self,
        step: usize,
        kind: TransferKind,
        buffer: usize,
        slots: Slots,
        freed: i64,
    ) {
        self.before.push(Entry {
            step,
            kind,
            buffer,
            slots,
            freed,
        });
    }

    pub(crate) fn read_in_place(&mut self, step: usize, buffer: usize) {
        let slots = Slots::default();
        self.enter(step, TransferKind::ReadInPlace, buffer, slots, START);
    }

    pub(crate) fn reads_in_place(&self, step: usize, buffer: usize) -> bool {
        let entries = self.before.iter().rev();
        let mut entries = entries.take_while(|entry| entry.step == step);
        entries.any(|entry| entry.buffer == buffer && entry.kind == TransferKind::ReadInPlace)
    }

    /// Removes what enters the arena before a step.
    pub(crate) fn undo(&mut self, step: usize) {
        let first = self.before.partition_point(|entry| entry.step < step);
        let mut entries = self.before.split_off(first);
        entries.retain(|entry| entry.kind == TransferKind::ReadInPlace);
        self.before.append(&mut entries);
    }

    pub(crate) fn out(&mut self, step: usize, buffer: usize, slots: Slots) {
        self.after.push((step, TransferKind::Out, buffer, slots));
    }

    pub(crate) fn drop(&mut self, step: usize, buffer: usize, slots: Slots) {
        self.after.push((step, TransferKind::Drop, buffer, slots));
    }

    pub(crate) fn resident(&mut self, buffer: usize, slots: Slots) {
        self.resident.push(Placed { buffer, slots });
    }

    /// Makes the lists of the plan. `holes` are the free places at the end of the pass.
    pub(crate) fn close(&mut self, holes: &Holes, uses: &Uses) {
        // Buffers that come back were added at the end.
        self.before.sort_by_key(|entry| entry.step);
        self.after
            .sort_by_key(|&(step, kind, ..)| (step, kind == TransferKind::Drop));
        let (mut before, mut after) = (self.before.iter().peekable(), self.after.iter().peekable());
        self.steps = Vec::with_capacity(self.length);
        for step in 0..self.length {
            let here = Moment { pass: 0, step };
            let mut planned = PlannedStep::default();
            while let Some(entry) = before.next_if(|entry| entry.step == step) {
                planned.before.push(Transfer {
                    kind: entry.kind,
                    buffer: entry.buffer,
                    slots: entry.slots,
                    earliest: entry.earliest(holes, uses),
                    deadline: Some(here),
                });
            }
            while let Some(&(_, kind, buffer, slots)) = after.next_if(|one| one.0 == step) {
                planned.after.push(Transfer {
                    kind,
                    buffer,
                    slots,
                    earliest: Some(here),
                    deadline: None,
                });
            }
            self.steps.push(planned);
        }
    }
}

impl Entry {
    fn earliest(&self, holes: &Holes, uses: &Uses) -> Option<Moment> {
        let at = |pass, step| Some(Moment { pass, step });
        match self.freed {
            _ if self.kind == TransferKind::ReadInPlace => None,
            START if !uses.cyclic => None,
            START => {
                let used = uses.buffers[self.buffer].last;
                let freed = holes.freed(self.slots).max(0) as usize;
                at(-1, freed.max(used).max(self.step))
            }
            freed => at(0, freed as usize),
        }
    }
}
