//! Goes through a pass, and decides which buffer leaves the arena for which other one.

use super::arena::{Arena, START};
use super::candidate::{Keep, MOST_AHEAD};
use super::schedule::Schedule;
use super::tenants::{Kept, Tenants};
use super::uses::{InPlace, OneUse, Uses};
use crate::transfers::Transfers;
use crate::{Resident, Slots, TransferKind};

/// The choices of a sweep.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    /// The places at the beginning of the pass.
    pub resident: Vec<Option<Slots>>,
    pub keep: Keep,
    /// The place of a transfer is free before the step of this many transfers earlier.
    pub ahead: usize,
    /// Which buffers are read in place instead of transferred.
    pub in_place: InPlace,
    /// The part of the time of transfers from the device that counts: they run beside those to the device.
    pub out_weight: f64,
}

pub(crate) struct Sweep<'a> {
    uses: &'a Uses,
    choices: &'a Choices,
    slots: u64,
    tenants: Tenants<'a>,
    arena: Arena,
    /// The last use of each buffer in this pass.
    used: Vec<i64>,
    missing: Vec<OneUse>,
    /// The steps of the last transfers to the device.
    transfers: Vec<i64>,
    /// Buffers that were there at the beginning, and left when the arena was dirty from the pass before.
    left_dirty: Vec<bool>,
    /// Buffers that left before their first use: they were not there at the beginning.
    lost: Vec<bool>,
    schedule: Schedule,
}

impl<'a> Sweep<'a> {
    pub(crate) fn new(uses: &'a Uses, choices: &'a Choices, slots: u64) -> Self {
        let buffers = uses.buffers.len();
        let mut sweep = Self {
            uses,
            choices,
            slots,
            tenants: Tenants::new(uses, choices.keep, choices.out_weight),
            arena: Arena::new(slots, START),
            used: vec![START; buffers],
            missing: Vec::new(),
            transfers: Vec::new(),
            left_dirty: vec![false; buffers],
            lost: vec![false; buffers],
            schedule: Schedule::new(uses.all.len()),
        };
        for (buffer, place) in choices.resident.iter().enumerate() {
            if let Some(slots) = *place {
                let (place, _) = sweep.arena.take(slots, buffer);
                let first = uses.buffers[buffer].first;
                let kept = Kept::new(slots, place, true, first);
                sweep.tenants.enter(buffer, kept);
            }
        }
        sweep
    }

    /// The buffers that stay between passes, and the transfers of the pass.
    pub(crate) fn run(mut self) -> (Vec<Resident>, Transfers) {
        for step in 0..self.uses.steps() {
            self.load(step);
            self.use_all(step);
        }
        self.finish();
        self.schedule.close(&self.arena, self.uses)
    }

    /// Makes all buffers of a step resident.
    fn load(&mut self, step: usize) {
        let uses = self.uses;
        let mut missing = std::mem::take(&mut self.missing);
        missing.clear();
        for one in uses.of_step(step) {
            if self.tenants.get(one.buffer).is_some() {
                continue;
            }
            if self.choices.in_place.applies(&uses.buffers[one.buffer]) {
                self.schedule.read_in_place(step, one.buffer);
                continue;
            }
            missing.push(*one);
        }
        missing.sort_unstable_by_key(|one| std::cmp::Reverse(uses.buffers[one.buffer].slots));
        let taken = missing.iter().all(|one| self.enter(step, one));
        if !taken {
            self.compact(step);
        }
        if missing.iter().any(|one| one.needs) {
            self.transfers.push(step as i64);
        }
        self.missing = missing;
    }

    /// Finds a place for a buffer, and returns whether there is one.
    fn enter(&mut self, step: usize, one: &OneUse) -> bool {
        let count = self.uses.buffers[one.buffer].slots;
        let ahead = self.choices.ahead.min(self.transfers.len()).min(MOST_AHEAD);
        let recent = self.transfers[self.transfers.len() - ahead..].iter();
        let limits = recent.copied().chain([step as i64]);
        let (limits, length) = limits.fold(([0; MOST_AHEAD + 1], 0), |(mut all, length), limit| {
            all[length] = limit;
            (all, length + 1)
        });
        let limits = &limits[..length];
        let home = self.choices.resident[one.buffer].filter(|_| !self.lost[one.buffer]);
        let home = home.filter(|&home| {
            let mut limits = limits.iter();
            limits.any(|&before| self.free_range(home, step, before))
        });
        let found = home.or_else(|| {
            let mut limits = limits.iter();
            limits.find_map(|&before| self.place(count, step, before))
        });
        let Some(slots) = found else {
            return false;
        };
        self.put(step, one, slots);
        true
    }

    /// A buffer takes a free range.
    fn put(&mut self, step: usize, one: &OneUse, slots: Slots) {
        let (place, freed) = self.arena.take(slots, one.buffer);
        let kind = match one.needs {
            true => TransferKind::In,
            false => TransferKind::Claim,
        };
        let freed = freed.max(self.used[one.buffer]);
        self.schedule.enter(step, kind, one.buffer, slots, freed);
        let kept = Kept::new(slots, place, false, step);
        self.tenants.enter(one.buffer, kept);
    }

    /// A range that is free, after buffers have left it. All of it was in use only before the step `before`.
    fn place(&mut self, count: u64, step: usize, before: i64) -> Option<Slots> {
        if let Some(found) = self.arena.find(count, before) {
            return Some(found);
        }
        if self.choices.keep == Keep::Resident {
            return self.window(count, step, before);
        }
        let victim = self.tenants.victim(count, step, before);
        let Some((leaves, kept)) =
            victim.and_then(|buffer| Some((buffer, *self.tenants.get(buffer)?)))
        else {
            return self.window(count, step, before);
        };
        self.leave(leaves);
        let first = kept.slots.first;
        Some(Slots { first, count })
    }

    /// Empties a given range if no buffer prevents it.
    fn free_range(&mut self, range: Slots, step: usize, before: i64) -> bool {
        if self.arena.freed(range) >= before {
            return false;
        }
        let Some(inside) = self.tenants.inside(&self.arena, range, step, before) else {
            return false;
        };
        inside
            .into_iter()
            .rev()
            .for_each(|buffer| self.leave(buffer));
        true
    }

    /// The range of adjacent free places and buffers that costs least to empty.
    fn window(&mut self, count: u64, step: usize, before: i64) -> Option<Slots> {
        let parts = self.tenants.parts(&self.arena, step, before);
        let mut best: Option<(f64, usize, usize)> = None;
        let (mut begin, mut cost) = (0, 0.0);
        for (index, part) in parts.iter().enumerate() {
            if index > begin && parts[index - 1].slots.end() != part.slots.first {
                (begin, cost) = (index, 0.0);
            }
            cost += part.cost;
            while part.slots.end() - parts[begin].slots.first >= count {
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, begin, index));
                }
                if begin == index {
                    break;
                }
                cost -= parts[begin].cost;
                begin += 1;
            }
        }
        let (_, begin, end) = best?;
        for part in &parts[begin..=end] {
            if let Some(buffer) = part.buffer {
                self.leave(buffer);
            }
        }
        let first = parts[begin].slots.first;
        Some(Slots { first, count })
    }

    /// Empties the arena, and puts the buffers of one step side by side.
    fn compact(&mut self, step: usize) {
        self.schedule.undo(step);
        let uses = self.uses;
        for one in uses.of_step(step) {
            // Nothing has happened yet with a buffer that came for this step.
            let new = |kept: &Kept| !kept.carried && kept.used == START;
            if self.tenants.get(one.buffer).is_some_and(new) {
                self.tenants.leave(one.buffer);
            }
        }
        for buffer in 0..uses.buffers.len() {
            self.leave(buffer);
        }
        self.arena = Arena::new(self.slots, step as i64 - 1);
        let mut first = 0;
        for one in uses.of_step(step) {
            if self.schedule.reads_in_place(step, one.buffer) {
                continue;
            }
            let count = uses.buffers[one.buffer].slots;
            self.put(step, one, Slots { first, count });
            first += count;
        }
    }

    fn use_all(&mut self, step: usize) {
        let uses = self.uses;
        for (index, one) in (uses.starts[step]..).zip(uses.of_step(step)) {
            self.used[one.buffer] = step as i64;
            let kept = self.tenants.update(one.buffer, |kept| {
                (kept.used, kept.last, kept.next) = (step as i64, index, one.next);
                if one.writes {
                    kept.written = step as i64;
                }
            });
            let Some(kept) = kept else {
                continue;
            };
            let resident = self.choices.resident[one.buffer];
            let wraps = one.next == usize::MAX || one.next >= uses.steps();
            let stays = match self.choices.keep {
                _ if wraps => resident == Some(kept.slots) && !self.lost[one.buffer],
                Keep::Resident => resident.is_some(),
                _ => one.returns || one.lives,
            };
            if !stays {
                self.leave(one.buffer);
            }
        }
    }

    /// A buffer leaves after its last use.
    fn leave(&mut self, buffer: usize) {
        let Some(kept) = self.tenants.leave(buffer) else {
            return;
        };
        self.arena.leave(kept.place, kept.used);
        if kept.used == START {
            self.lost[buffer] = true;
            return;
        }
        let lives = self.uses.all[kept.last].lives;
        if lives && kept.written > START {
            self.schedule.out(kept.written as usize, buffer, kept.slots);
        } else if lives && kept.carried && self.uses.buffers[buffer].writes {
            self.left_dirty[buffer] = true;
        }
        self.schedule.drop(kept.used as usize, buffer, kept.slots);
    }

    /// The buffer was there at the beginning and is not at the end: it comes for its first use.
    fn come_back(&mut self, buffer: usize, home: Slots) {
        let facts = &self.uses.buffers[buffer];
        let first = facts.first;
        let kind = match self.uses.all[facts.first_use].needs {
            true => TransferKind::In,
            false => TransferKind::Claim,
        };
        self.schedule.enter(first, kind, buffer, home, START);
    }

    /// The end of the pass: the buffers that were resident at the beginning and are in the same place are resident.
    fn finish(&mut self) {
        for buffer in 0..self.uses.buffers.len() {
            let Some(home) = self.choices.resident[buffer] else {
                self.leave(buffer);
                continue;
            };
            let kept = self.tenants.get(buffer).copied();
            let Some(kept) = kept.filter(|kept| kept.slots == home && !self.lost[buffer]) else {
                self.leave(buffer);
                if !self.lost[buffer] {
                    self.come_back(buffer, home);
                }
                continue;
            };
            self.schedule.resident(buffer, home);
            if self.left_dirty[buffer] && kept.written > START {
                self.schedule.out(kept.written as usize, buffer, home);
            }
        }
    }
}
