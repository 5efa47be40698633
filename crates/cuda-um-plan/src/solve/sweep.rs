//! Goes through a pass, and decides which buffer leaves the arena for which other one.

use super::arena::{Holes, START};
use super::schedule::Schedule;
use super::uses::{InPlace, OneUse, Uses};
use crate::{Slots, TransferKind};
use std::collections::BTreeSet;

/// Candidates that are compared when a buffer must leave.
const COMPARED: usize = 16;

/// What stays in the arena between two uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Buffers that cost least, in proportion to the time until their next use, leave (Belady's rule, with costs).
    Best,
    /// Least recently used buffers leave.
    Recent,
    /// Only buffers that are resident at the beginning of the pass.
    Resident,
}

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
}

/// A buffer in the arena.
#[derive(Clone, Copy, Debug)]
struct Kept {
    slots: Slots,
    /// It is there since the pass before.
    carried: bool,
    /// The last use, and the last write, in this pass.
    used: i64,
    written: i64,
    /// The last use as an entry of all uses.
    last: usize,
    next: usize,
}

pub(crate) struct Sweep<'a> {
    uses: &'a Uses,
    choices: &'a Choices,
    slots: u64,
    kept: Vec<Option<Kept>>,
    holes: Holes,
    /// The last use of each buffer in this pass.
    used: Vec<i64>,
    /// Buffers by the order in which they leave.
    order: BTreeSet<(usize, usize)>,
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
            kept: vec![None; buffers],
            holes: Holes::default(),
            used: vec![START; buffers],
            order: BTreeSet::new(),
            transfers: Vec::new(),
            left_dirty: vec![false; buffers],
            lost: vec![false; buffers],
            schedule: Schedule::new(uses.steps()),
        };
        sweep.holes.add(
            Slots {
                first: 0,
                count: slots,
            },
            START,
        );
        for (buffer, place) in choices.resident.iter().enumerate() {
            if let Some(slots) = *place {
                sweep.holes.take(slots);
                sweep.insert(
                    buffer,
                    Kept {
                        slots,
                        carried: true,
                        used: START,
                        written: START,
                        last: usize::MAX,
                        next: uses.buffers[buffer].first,
                    },
                );
            }
        }
        sweep
    }

    /// The transfers of the pass.
    pub(crate) fn run(mut self) -> Schedule {
        for step in 0..self.uses.steps() {
            self.load(step);
            self.use_all(step);
        }
        self.finish();
        self.schedule
    }

    fn key(&self, kept: &Kept) -> usize {
        match self.choices.keep {
            Keep::Recent => usize::MAX - (kept.used + 1) as usize,
            _ => kept.next,
        }
    }

    fn insert(&mut self, buffer: usize, kept: Kept) {
        self.order.insert((self.key(&kept), buffer));
        self.kept[buffer] = Some(kept);
    }

    fn remove(&mut self, buffer: usize) -> Option<Kept> {
        let kept = self.kept[buffer].take()?;
        self.order.remove(&(self.key(&kept), buffer));
        Some(kept)
    }

    /// Makes all buffers of a step resident.
    fn load(&mut self, step: usize) {
        let uses = self.uses;
        let mut missing: Vec<OneUse> = Vec::new();
        for one in uses.of_step(step) {
            if self.kept[one.buffer].is_some() {
                continue;
            }
            if self.choices.in_place.applies(&uses.buffers[one.buffer]) {
                self.schedule.read_in_place(step, one.buffer);
                continue;
            }
            missing.push(*one);
        }
        if missing.is_empty() {
            return;
        }
        missing.sort_by_key(|one| std::cmp::Reverse(uses.buffers[one.buffer].slots));
        let taken = missing.iter().all(|one| self.enter(step, one));
        if !taken {
            self.compact(step);
        }
        if missing.iter().any(|one| one.needs) {
            self.transfers.push(step as i64);
        }
    }

    /// Finds a place for a buffer, and returns whether there is one.
    fn enter(&mut self, step: usize, one: &OneUse) -> bool {
        let count = self.uses.buffers[one.buffer].slots;
        let ahead = self.choices.ahead.min(self.transfers.len());
        let recent = self.transfers[self.transfers.len() - ahead..].iter();
        let limits: Vec<i64> = recent.copied().chain([step as i64]).collect();
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
        let freed = self.holes.take(slots);
        self.put(step, one, slots, freed);
        true
    }

    fn put(&mut self, step: usize, one: &OneUse, slots: Slots, freed: i64) {
        let kind = match one.needs {
            true => TransferKind::In,
            false => TransferKind::Claim,
        };
        let freed = freed.max(self.used[one.buffer]);
        self.schedule.enter(step, kind, one.buffer, slots, freed);
        self.insert(
            one.buffer,
            Kept {
                slots,
                carried: false,
                used: START,
                written: START,
                last: usize::MAX,
                next: step,
            },
        );
    }

    /// A range that is free, after buffers have left it. All of it was in use only before the step `before`.
    fn place(&mut self, count: u64, step: usize, before: i64) -> Option<Slots> {
        if let Some(found) = self.holes.find(count, before) {
            return Some(found);
        }
        if self.choices.keep == Keep::Resident {
            return self.window(count, step, before);
        }
        let best = self
            .order
            .iter()
            .rev()
            .filter_map(|&(_, buffer)| self.kept[buffer].map(|kept| (buffer, kept)))
            .filter(|(_, kept)| Self::may_leave(kept, step, before))
            .take(COMPARED)
            .filter(|(_, kept)| kept.slots.count >= count)
            .map(|(buffer, kept)| (self.cost(buffer, &kept, step), buffer));
        let best = match self.choices.keep {
            Keep::Recent => best.take(1).last(),
            _ => best.min_by(|one, other| one.0.total_cmp(&other.0)),
        };
        match best {
            Some((_, leaves)) => {
                let first = self.kept[leaves].map_or(0, |kept| kept.slots.first);
                self.leave(leaves);
                Some(Slots { first, count })
            }
            None => self.window(count, step, before),
        }
    }

    fn may_leave(kept: &Kept, step: usize, before: i64) -> bool {
        kept.used < before && kept.next != step
    }

    /// The cost of a buffer that leaves, in proportion to the time until it is used again.
    fn cost(&self, buffer: usize, kept: &Kept, step: usize) -> f64 {
        let facts = &self.uses.buffers[buffer];
        let (returns, lives) = match self.uses.all.get(kept.last) {
            Some(last) => (last.returns, last.lives),
            None => (true, facts.writes),
        };
        let dirty = kept.written > START || (kept.carried && facts.writes);
        let seconds = f64::from(u8::from(returns)) * facts.in_seconds
            + f64::from(u8::from(lives && dirty)) * facts.out_seconds;
        seconds / (kept.next.saturating_sub(step)).max(1) as f64
    }

    /// Empties a given range if no buffer prevents it.
    fn free_range(&mut self, range: Slots, step: usize, before: i64) -> bool {
        if self.holes.freed(range) >= before {
            return false;
        }
        let inside = |kept: &Kept| kept.slots.first < range.end() && range.first < kept.slots.end();
        let mut free = 0;
        for hole in self.holes.all() {
            let end = (hole.first + hole.count).min(range.end());
            free += end.saturating_sub(hole.first.max(range.first));
        }
        if free == range.count {
            return true;
        }
        let mut leave = Vec::new();
        for (buffer, kept) in self.kept.iter().enumerate() {
            let Some(kept) = kept.as_ref().filter(|kept| inside(kept)) else {
                continue;
            };
            if !Self::may_leave(kept, step, before) {
                return false;
            }
            leave.push(buffer);
        }
        leave.into_iter().for_each(|buffer| self.leave(buffer));
        true
    }

    /// The range of adjacent free places and buffers that costs least to empty.
    fn window(&mut self, count: u64, step: usize, before: i64) -> Option<Slots> {
        // The first slot, the end, the buffer and the cost of each part of the arena.
        let mut parts: Vec<(u64, u64, Option<usize>, f64)> = Vec::new();
        for hole in self.holes.all().iter().filter(|hole| hole.freed < before) {
            parts.push((hole.first, hole.first + hole.count, None, 0.0));
        }
        for (buffer, kept) in self.kept.iter().enumerate() {
            if let Some(kept) = kept
                .as_ref()
                .filter(|kept| Self::may_leave(kept, step, before))
            {
                let cost = self.cost(buffer, kept, step);
                parts.push((kept.slots.first, kept.slots.end(), Some(buffer), cost));
            }
        }
        parts.sort_unstable_by_key(|part| part.0);
        let mut best: Option<(f64, usize, usize)> = None;
        let (mut begin, mut cost) = (0, 0.0);
        for index in 0..parts.len() {
            if index > begin && parts[index - 1].1 != parts[index].0 {
                (begin, cost) = (index, 0.0);
            }
            cost += parts[index].3;
            while parts[index].1 - parts[begin].0 >= count {
                if best.is_none_or(|(least, ..)| cost < least) {
                    best = Some((cost, begin, index));
                }
                if begin == index {
                    break;
                }
                cost -= parts[begin].3;
                begin += 1;
            }
        }
        let (_, begin, end) = best?;
        for part in &parts[begin..=end] {
            if let Some(buffer) = part.2 {
                self.leave(buffer);
            }
        }
        let first = parts[begin].0;
        Some(Slots { first, count })
    }

    /// Empties the arena, and puts the buffers of one step side by side.
    fn compact(&mut self, step: usize) {
        self.schedule.undo(step);
        let uses = self.uses;
        for one in uses.of_step(step) {
            // Nothing has happened yet with a buffer that came for this step.
            let new = |kept: &Kept| !kept.carried && kept.used == START;
            if self.kept[one.buffer].as_ref().is_some_and(new) {
                self.remove(one.buffer);
            }
        }
        for buffer in 0..self.kept.len() {
            if self.kept[buffer].is_some() {
                self.leave(buffer);
            }
        }
        self.holes.clear();
        let slots = self.slots;
        self.holes.add(
            Slots {
                first: 0,
                count: slots,
            },
            step as i64 - 1,
        );
        let mut first = 0;
        for one in uses.of_step(step) {
            if self.schedule.reads_in_place(step, one.buffer) {
                continue;
            }
            let count = uses.buffers[one.buffer].slots;
            let freed = self.holes.take(Slots { first, count });
            self.put(step, one, Slots { first, count }, freed);
            first += count;
        }
    }

    fn use_all(&mut self, step: usize) {
        let uses = self.uses;
        for (index, one) in (uses.starts[step]..).zip(uses.of_step(step)) {
            self.used[one.buffer] = step as i64;
            let Some(mut kept) = self.remove(one.buffer) else {
                continue;
            };
            (kept.used, kept.last, kept.next) = (step as i64, index, one.next);
            if one.writes {
                kept.written = step as i64;
            }
            self.insert(one.buffer, kept);
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
        let Some(kept) = self.remove(buffer) else {
            return;
        };
        self.holes.add(kept.slots, kept.used);
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
        let first = self.uses.buffers[buffer].first;
        let mut uses = self.uses.of_step(first).iter();
        let needs = uses.any(|one| one.buffer == buffer && one.needs);
        let kind = match needs {
            true => TransferKind::In,
            false => TransferKind::Claim,
        };
        self.schedule.enter(first, kind, buffer, home, START);
    }

    /// The end of the pass: the buffers that were resident at the beginning and are in the same place are resident.
    fn finish(&mut self) {
        for buffer in 0..self.kept.len() {
            let Some(home) = self.choices.resident[buffer] else {
                self.leave(buffer);
                continue;
            };
            let kept = self.kept[buffer].filter(|kept| kept.slots == home && !self.lost[buffer]);
            let Some(kept) = kept else {
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
        self.schedule.close(&self.holes, self.uses);
    }
}
