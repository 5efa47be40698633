//! The buffers in the arena, and which of them leaves for another one.

use super::arena::{Arena, Place, START};
use super::candidate::Keep;
use super::order::Order;
use super::uses::Uses;
use crate::Slots;

/// Candidates that are compared when a buffer must leave. If none of them is large enough, more are.
const COMPARED: usize = 16;
const MOST_COMPARED: usize = 256;

/// A buffer in the arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kept {
    pub slots: Slots,
    /// The place in the arena.
    pub place: usize,
    /// It is there since the pass before.
    pub carried: bool,
    /// The last use, and the last write, in this pass.
    pub used: i64,
    pub written: i64,
    /// The last use as an entry of all uses.
    pub last: usize,
    pub next: usize,
    /// The place in the order in which buffers leave.
    pub key: usize,
}

/// A part of the arena that can become free, and the cost of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub slots: Slots,
    pub buffer: Option<usize>,
    pub cost: f64,
}

/// The buffers in the arena.
pub(crate) struct Tenants<'a> {
    uses: &'a Uses,
    keep: Keep,
    out_weight: f64,
    kept: Vec<Option<Kept>>,
    /// Buffers by the order in which they leave.
    order: Order,
    /// The least time to transfer a buffer.
    least: f64,
}

impl<'a> Tenants<'a> {
    pub(crate) fn new(uses: &'a Uses, keep: Keep, out_weight: f64) -> Self {
        let seconds = uses
            .buffers
            .iter()
            .map(|facts| facts.in_seconds.min(facts.out_seconds * out_weight));
        Self {
            uses,
            keep,
            out_weight,
            kept: vec![None; uses.buffers.len()],
            order: Order::new(2 * uses.all.len()),
            least: seconds.fold(f64::MAX, f64::min),
        }
    }

    pub(crate) fn get(&self, buffer: usize) -> Option<&Kept> {
        self.kept[buffer].as_ref()
    }

    /// The buffer of a number in `order`.
    fn owner(&self, key: usize) -> usize {
        let uses = &self.uses.all;
        let one = uses.get(key).unwrap_or_else(|| &uses[key - uses.len()]);
        one.buffer
    }

    /// The buffers that are in a range. `None` if one of them may not leave.
    pub(crate) fn inside(
        &self,
        arena: &Arena,
        range: Slots,
        step: usize,
        before: i64,
    ) -> Option<Vec<usize>> {
        let buffers = arena.inside(range).filter_map(|place| place.buffer);
        let inside = buffers.map(|buffer| {
            let may_leave = |kept: &&Kept| kept.may_leave(step, before);
            self.get(buffer).filter(may_leave).map(|_| buffer)
        });
        inside.collect()
    }

    /// Changes the entry of a buffer.
    pub(crate) fn update(&mut self, buffer: usize, change: impl FnOnce(&mut Kept)) -> Option<Kept> {
        let mut kept = self.leave(buffer)?;
        change(&mut kept);
        self.enter(buffer, kept);
        Some(kept)
    }

    /// Numbers of the two passes follow each other: the last use of a buffer that leaves when it is least recently used, otherwise
    /// the next one.
    fn key(&self, buffer: usize, kept: &Kept) -> usize {
        let facts = &self.uses.buffers[buffer];
        match (self.keep, self.uses.all.get(kept.last)) {
            (Keep::Recent, None) if kept.carried => facts.last_use,
            (Keep::Recent, Some(_)) => self.uses.all.len() + kept.last,
            (_, None) if kept.carried => facts.first_use,
            // It came for this step, and does not leave before.
            (_, None) => usize::MAX,
            (_, Some(last)) => last.next_use,
        }
    }

    pub(crate) fn enter(&mut self, buffer: usize, mut kept: Kept) {
        kept.key = self.key(buffer, &kept);
        if kept.key != usize::MAX {
            self.order.insert(kept.key);
        }
        self.kept[buffer] = Some(kept);
    }

    pub(crate) fn leave(&mut self, buffer: usize) -> Option<Kept> {
        let kept = self.kept[buffer].take()?;
        if kept.key != usize::MAX {
            self.order.remove(kept.key);
        }
        Some(kept)
    }

    /// The buffer that leaves for another one of `count` slots.
    pub(crate) fn victim(&self, count: u64, step: usize, before: i64) -> Option<usize> {
        match self.keep {
            Keep::Recent => self.least_recent(count, step, before),
            _ => self.cheapest(count, step, before),
        }
    }

    fn least_recent(&self, count: u64, step: usize, before: i64) -> Option<usize> {
        let buffers = self.order.up().map(|key| self.owner(key));
        let mut candidates = buffers.take(COMPARED);
        candidates.find(|&buffer| {
            let kept = self.kept[buffer].as_ref();
            kept.is_some_and(|kept| kept.may_leave(step, before) && kept.slots.count >= count)
        })
    }

    /// The buffer that costs least among those that are used last.
    fn cheapest(&self, count: u64, step: usize, before: i64) -> Option<usize> {
        let mut best: Option<(f64, usize)> = None;
        let mut compared = 0;
        for key in self.order.down() {
            let buffer = self.owner(key);
            let Some(kept) = self.kept[buffer].as_ref() else {
                continue;
            };
            // All others are used earlier, so they cost at least this.
            let least = self.least / kept.next.saturating_sub(step).max(1) as f64;
            let enough = if best.is_some() {
                COMPARED
            } else {
                MOST_COMPARED
            };
            if compared >= enough || best.is_some_and(|(cost, _)| cost <= least) {
                break;
            }
            if !kept.may_leave(step, before) {
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

    /// The cost of a buffer that leaves, in proportion to the time until it is used again.
    fn cost(&self, buffer: usize, kept: &Kept, step: usize) -> f64 {
        let facts = &self.uses.buffers[buffer];
        let (returns, lives) = match self.uses.all.get(kept.last) {
            Some(last) => (last.returns, last.lives),
            None => (true, facts.writes),
        };
        let dirty = kept.written > START || (kept.carried && facts.writes);
        let seconds = f64::from(u8::from(returns)) * facts.in_seconds
            + f64::from(u8::from(lives && dirty)) * facts.out_seconds * self.out_weight;
        seconds / (kept.next.saturating_sub(step)).max(1) as f64
    }

    /// The free places, and the buffers that may leave, in the order of their addresses.
    pub(crate) fn parts(&self, arena: &Arena, step: usize, before: i64) -> Vec<Part> {
        let part = |place: &Place| {
            let (slots, buffer) = (place.slots, place.buffer);
            let cost = match buffer {
                Some(buffer) => {
                    let kept = self.get(buffer)?;
                    kept.may_leave(step, before)
                        .then(|| self.cost(buffer, kept, step))?
                }
                None => (place.freed < before).then_some(0.0)?,
            };
            Some(Part {
                slots,
                buffer,
                cost,
            })
        };
        arena.all().filter_map(part).collect()
    }
}

impl Kept {
    /// A buffer without a use in this pass. The step `next` is its next one.
    pub(crate) fn new(slots: Slots, place: usize, carried: bool, next: usize) -> Self {
        Self {
            slots,
            place,
            carried,
            used: START,
            written: START,
            last: usize::MAX,
            next,
            key: usize::MAX,
        }
    }

    /// Whether its last use is before a step, and the current step does not use it.
    pub(crate) fn may_leave(&self, step: usize, before: i64) -> bool {
        self.used < before && self.next != step
    }
}
