//! The transfers of a sweep, and the plan's lists of them.

use super::arena::{Holes, START};
use super::uses::Uses;
use crate::{Moment, Placed, PlannedStep, Slots, Transfer, TransferKind};

/// What comes before a step. `freed` is the step at whose end the place is free.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: TransferKind,
    buffer: usize,
    slots: Slots,
    freed: i64,
}

#[derive(Debug)]
pub(crate) struct Schedule {
    before: Vec<Vec<Entry>>,
    outs: Vec<Vec<(usize, Slots)>>,
    drops: Vec<Vec<(usize, Slots)>>,
    pub resident: Vec<Placed>,
    pub steps: Vec<PlannedStep>,
}

impl Schedule {
    pub(crate) fn new(steps: usize) -> Self {
        Self {
            before: vec![Vec::new(); steps],
            outs: vec![Vec::new(); steps],
            drops: vec![Vec::new(); steps],
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
        self.before[step].push(Entry {
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
        let mut entries = self.before[step].iter();
        entries.any(|entry| entry.buffer == buffer && entry.kind == TransferKind::ReadInPlace)
    }

    /// Removes what enters the arena before a step.
    pub(crate) fn undo(&mut self, step: usize) {
        self.before[step].retain(|entry| entry.kind == TransferKind::ReadInPlace);
    }

    pub(crate) fn out(&mut self, step: usize, buffer: usize, slots: Slots) {
        self.outs[step].push((buffer, slots));
    }

    pub(crate) fn drop(&mut self, step: usize, buffer: usize, slots: Slots) {
        self.drops[step].push((buffer, slots));
    }

    pub(crate) fn resident(&mut self, buffer: usize, slots: Slots) {
        self.resident.push(Placed { buffer, slots });
    }

    /// Makes the lists of the plan. `holes` are the free places at the end of the pass.
    pub(crate) fn close(&mut self, holes: &Holes, uses: &Uses) {
        self.steps = Vec::with_capacity(self.before.len());
        for step in 0..self.before.len() {
            let here = Moment { pass: 0, step };
            let earliest = |entry: &Entry| {
                let pass = |pass, step| Some(Moment { pass, step });
                match entry.freed {
                    _ if entry.kind == TransferKind::ReadInPlace => None,
                    START if !uses.cyclic => None,
                    START => {
                        let used = uses.buffers[entry.buffer].last;
                        let freed = holes.freed(entry.slots).max(0) as usize;
                        pass(-1, freed.max(used).max(step))
                    }
                    freed => pass(0, freed as usize),
                }
            };
            let before = self.before[step].iter().map(|entry| Transfer {
                kind: entry.kind,
                buffer: entry.buffer,
                slots: entry.slots,
                earliest: earliest(entry),
                deadline: Some(here),
            });
            let after = |kind| {
                move |&(buffer, slots): &(usize, Slots)| Transfer {
                    kind,
                    buffer,
                    slots,
                    earliest: Some(here),
                    deadline: None,
                }
            };
            let outs = self.outs[step].iter().map(after(TransferKind::Out));
            let drops = self.drops[step].iter().map(after(TransferKind::Drop));
            self.steps.push(PlannedStep {
                before: before.collect(),
                after: outs.chain(drops).collect(),
            });
        }
    }
}
