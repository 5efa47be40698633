//! Goes through a pass, and decides which buffer leaves the arena for which other one.

use super::arena::{Holes, START};
use super::candidate::Keep;
use super::order::Order;
use super::schedule::Schedule;
use super::uses::{InPlace, OneUse, Uses};
use crate::{Slots, TransferKind};
use std::collections::BTreeMap;

/// Candidates that are compared when a buffer must leave.
const COMPARED: usize = 16;

/// Transfers that have a place ahead of their step.
const MOST_AHEAD: usize = 3;

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
    /// The place in the order in which buffers leave.
    key: usize,
}

/// A part of the arena that can become free, and the cost of it.
#[derive(Clone, Copy, Debug)]
struct Part {
    slots: Slots,
    buffer: Option<usize>,
    cost: f64,
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
    order: Order,
    /// The buffer of each number in `order`.
    owners: Vec<usize>,
    /// Buffers by their first slot.
    places: BTreeMap<u64, usize>,
    /// The least time to transfer a buffer.
    least: f64,
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
            kept: vec![None; buffers],
            holes: Holes::default(),
            used: vec![START; buffers],
            order: Order::new(2 * uses.all.len()),
            owners: (0..2)
                .flat_map(|_| uses.all.iter().map(|one| one.buffer))
                .collect(),
            places: BTreeMap::new(),
            least: uses
                .buffers
                .iter()
                .map(|facts| facts.in_seconds)
                .fold(f64::MAX, f64::min),
            missing: Vec::new(),
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
                sweep.places.insert(slots.first, buffer);
                sweep.insert(
                    buffer,
                    Kept {
                        slots,
                        carried: true,
                        used: START,
                        written: START,
                        last: usize::MAX,
                        next: uses.buffers[buffer].first,
                        key: usize::MAX,
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

    /// Numbers of the two passes follow each other: the last use of a buffer that leaves when it is least recently used, otherwise
    /// the next one.
    fn key(&self, buffer: usize, kept: &Kept) -> usize {
        let facts = &self.uses.buffers[buffer];
        match (self.choices.keep, self.uses.all.get(kept.last)) {
            (Keep::Recent, None) if kept.carried => facts.last_use,
            (Keep::Recent, Some(_)) => self.uses.all.len() + kept.last,
            (_, None) if kept.carried => facts.first_use,
            // It came for this step, and does not leave before.
            (_, None) => usize::MAX,
            (_, Some(last)) => last.next_use,
        }
    }

    fn insert(&mut self, buffer: usize, mut kept: Kept) {
        kept.key = self.key(buffer, &kept);
        if kept.key != usize::MAX {
            self.order.insert(kept.key);
        }
        self.kept[buffer] = Some(kept);
    }

    fn remove(&mut self, buffer: usize) -> Option<Kept> {
        let kept = self.kept[buffer].take()?;
        if kept.key != usize::MAX {
            self.order.remove(kept.key);
        }
        Some(kept)
    }

    fn take_away(&mut self, buffer: usize) -> Option<Kept> {
        let kept = self.remove(buffer)?;
        self.places.remove(&kept.slots.first);
        Some(kept)
    }

    /// Makes all buffers of a step resident.
    fn load(&mut self, step: usize) {
        let uses = self.uses;
        let mut missing = std::mem::take(&mut self.missing);
        missing.clear();
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
        self.places.insert(slots.first, one.buffer);
        self.insert(
            one.buffer,
            Kept {
                slots,
                carried: false,
                used: START,
                written: START,
                last: usize::MAX,
                next: step,
                key: usize::MAX,
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
        let best = match self.choices.keep {
            Keep::Recent => self.least_recent(count, step, before),
            _ => self.cheapest(count, step, before),
        };
        match best {
            Some(leaves) => {
                let first = self.kept[leaves].map_or(0, |kept| kept.slots.first);
                self.leave(leaves);
                Some(Slots { first, count })
            }
            None => self.window(count, step, before),
        }
    }

    fn least_recent(&self, count: u64, step: usize, before: i64) -> Option<usize> {
        let buffers = self.order.up().map(|key| self.owners[key]);
        let mut candidates = buffers.take(COMPARED);
        candidates.find(|&buffer| {
            let kept = self.kept[buffer].as_ref();
            kept.is_some_and(|kept| {
                Self::may_leave(kept, step, before) && kept.slots.count >= count
            })
        })
    }

    /// The buffer that costs least among those that are used last.
    fn cheapest(&self, count: u64, step: usize, before: i64) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        let mut compared = 0;
        for key in self.order.down() {
            let buffer = self.owners[key];
            let Some(kept) = self.kept[buffer].as_ref() else {
                continue;
            };
            // All others are used earlier, so they cost at least this.
            let least = self.least / kept.next.saturating_sub(step).max(1) as f64;
            if compared == COMPARED || best.is_some_and(|(cost, _)| cost <= least) {
                break;
            }
            if !Self::may_leave(kept, step, before) {
                continue;
            }
            compared += 1;
            let cost = self.cost(buffer, kept, step);
            if kept.slots.count >= count && best.is_none_or(|(least, _)| cost < least) {
                best = Some((cost, buffer));
            }
        }
        best.map(|(_, buffer)| buffer)
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
            + f64::from(u8::from(lives && dirty)) * facts.out_seconds * self.choices.out_weight;
        seconds / (kept.next.saturating_sub(step)).max(1) as f64
    }

    /// Empties a given range if no buffer prevents it.
    fn free_range(&mut self, range: Slots, step: usize, before: i64) -> bool {
        if self.holes.freed(range) >= before {
            return false;
        }
        let mut leave = Vec::new();
        for (_, &buffer) in self.places.range(..range.end()).rev() {
            let Some(kept) = self.kept[buffer].as_ref() else {
                continue;
            };
            if kept.slots.end() <= range.first {
                break;
            }
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
        let parts = self.parts(step, before);
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

    /// The free places, and the buffers that may leave, in the order of their addresses.
    fn parts(&self, step: usize, before: i64) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut buffers = self.places.values().peekable();
        let mut add = |until: u64, parts: &mut Vec<Part>| {
            while let Some(&buffer) = buffers.next_if(|&&buffer| {
                let kept = self.kept[buffer].as_ref();
                kept.is_some_and(|kept| kept.slots.first < until)
            }) {
                let kept = self.kept[buffer].as_ref();
                if let Some(kept) = kept.filter(|kept| Self::may_leave(kept, step, before)) {
                    parts.push(Part {
                        slots: kept.slots,
                        buffer: Some(buffer),
                        cost: self.cost(buffer, kept, step),
                    });
                }
            }
        };
        for hole in self.holes.all() {
            add(hole.first, &mut parts);
            if hole.freed < before {
                let (first, count) = (hole.first, hole.count);
                parts.push(Part {
                    slots: Slots { first, count },
                    buffer: None,
                    cost: 0.0,
                });
            }
        }
        add(u64::MAX, &mut parts);
        parts
    }

    /// Empties the arena, and puts the buffers of one step side by side.
    fn compact(&mut self, step: usize) {
        self.schedule.undo(step);
        let uses = self.uses;
        for one in uses.of_step(step) {
            // Nothing has happened yet with a buffer that came for this step.
            let new = |kept: &Kept| !kept.carried && kept.used == START;
            if self.kept[one.buffer].as_ref().is_some_and(new) {
                self.take_away(one.buffer);
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
        let Some(kept) = self.take_away(buffer) else {
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
