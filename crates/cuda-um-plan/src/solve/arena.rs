//! The places of the arena.

use crate::Slots;
use std::collections::{BTreeMap, BTreeSet};

/// Before the first step of the pass.
pub(crate) const START: i64 = -1;

/// Larger places that are compared.
const COMPARED: usize = 16;

/// A free place, or the place of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub slots: Slots,
    pub buffer: Option<usize>,
    /// The step at whose end a free place became free.
    pub freed: i64,
    /// A free place is found by its size. The rest of one that was taken in part is not.
    sized: bool,
    /// The places before and after it, as indexes.
    before: usize,
    after: usize,
}

/// No place.
const NONE: usize = usize::MAX;

/// All places, without gaps. Adjacent free places stay apart, because they became free at different times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Arena {
    places: Vec<Place>,
    /// Entries of `places` without a place.
    unused: Vec<usize>,
    /// The indexes of the places by their first slots.
    index: BTreeMap<u64, usize>,
    /// Free places by size, then by time: a size (0 if it is not found by its size), a time, the first slot and the index.
    free: BTreeSet<(u64, i64, u64, usize)>,
}

impl Arena {
    /// One free place.
    pub(crate) fn new(count: u64, freed: i64) -> Self {
        let mut arena = Self::default();
        if count > 0 {
            arena.index.insert(0, 0);
            arena.places.push(Place {
                slots: Slots { first: 0, count },
                buffer: None,
                freed,
                sized: true,
                before: NONE,
                after: NONE,
            });
            arena.list(0);
        }
        arena
    }

    /// All places, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Place> {
        self.from(self.index.first_key_value().map_or(NONE, |(_, &at)| at))
    }

    /// The places that overlap a range, in order.
    pub(crate) fn inside(&self, range: Slots) -> impl Iterator<Item = &Place> {
        let places = self.from(self.at(range.first));
        places.take_while(move |place| place.slots.first < range.end())
    }

    fn from(&self, at: usize) -> impl Iterator<Item = &Place> {
        let next = |place: &&Place| self.places.get(place.after);
        std::iter::successors(self.places.get(at), next)
    }

    /// The place with this slot.
    fn at(&self, slot: u64) -> usize {
        let at = self.index.get(&slot).or_else(|| {
            let mut before = self.index.range(..slot);
            before.next_back().map(|(_, at)| at)
        });
        at.copied().unwrap_or(NONE)
    }

    /// A free range of `count` slots that became free before the step `before`: one that fits exactly if there is one, otherwise
    /// a part of a larger one, otherwise several that are adjacent. Among equals the one that has been free for the longest time.
    pub(crate) fn find(&self, count: u64, before: i64) -> Option<Slots> {
        let exact = (count, START, 0, 0)..(count, before, 0, 0);
        let whole = self.free.range(exact).next().or_else(|| {
            let mut larger = self.free.range((count + 1, START, 0, 0)..).take(COMPARED);
            larger.find(|place| place.1 < before)
        });
        match whole {
            Some(&(_, _, first, _)) => Some(Slots { first, count }),
            None => self.find_adjacent(count, before),
        }
    }

    /// The first range of adjacent free places that is large enough.
    fn find_adjacent(&self, count: u64, before: i64) -> Option<Slots> {
        let is_free = |place: &&Place| place.buffer.is_none() && place.freed < before;
        let mut best: Option<u64> = None;
        for &(_, freed, first, at) in &self.free {
            if freed >= before || best.is_some_and(|best| best < first) {
                continue;
            }
            let begins = |place: &Place| self.places.get(place.before).filter(is_free).is_none();
            let end = self
                .from(at)
                .take_while(is_free)
                .map(|place| place.slots.end());
            if begins(&self.places[at]) && end.into_iter().any(|end| end - first >= count) {
                best = Some(first);
            }
        }
        best.map(|first| Slots { first, count })
    }

    /// A buffer takes a range, which must be free. Returns the index of the place, and the last time that a part of it became free.
    pub(crate) fn take(&mut self, slots: Slots, buffer: usize) -> (usize, i64) {
        let mut at = self.at(slots.first);
        self.unlist(at);
        if self.places[at].slots.first < slots.first {
            let rest = self.split(at, slots.first);
            self.list(at);
            at = rest;
        }
        let mut freed = self.places[at].freed;
        while self.places[at].slots.end() < slots.end() {
            let next = self.places[at].after;
            self.unlist(next);
            self.places[at].freed = self.places[next].freed;
            freed = freed.max(self.places[next].freed);
            self.join(at);
        }
        if self.places[at].slots.end() > slots.end() {
            let rest = self.split(at, slots.end());
            self.list(rest);
        }
        self.places[at].buffer = Some(buffer);
        (at, freed)
    }

    /// A place becomes free at the end of a step.
    pub(crate) fn leave(&mut self, mut at: usize, freed: i64) {
        let place = &mut self.places[at];
        (place.buffer, place.freed) = (None, freed);
        // A place that is in two pieces with one time is one place again.
        let (before, after) = (place.before, place.after);
        let same = |place: &Place| place.buffer.is_none() && place.freed == freed;
        if self.places.get(after).is_some_and(same) {
            self.unlist(after);
            self.join(at);
        }
        if self.places.get(before).is_some_and(same) {
            self.unlist(before);
            self.join(before);
            at = before;
        }
        self.places[at].sized = true;
        self.list(at);
    }

    fn entry(&self, at: usize) -> (u64, i64, u64, usize) {
        let place = &self.places[at];
        let size = if place.sized { place.slots.count } else { 0 };
        (size, place.freed, place.slots.first, at)
    }

    fn list(&mut self, at: usize) {
        self.free.insert(self.entry(at));
    }

    fn unlist(&mut self, at: usize) {
        self.free.remove(&self.entry(at));
    }

    /// Divides a free place, neither part of which is found by its size, and returns the index of the second part.
    fn split(&mut self, at: usize, first: u64) -> usize {
        let place = self.places[at];
        let (end, after) = (place.slots.end(), place.after);
        let new = self.unused.pop().unwrap_or(self.places.len());
        let count = end - first;
        let rest = Place {
            slots: Slots { first, count },
            before: at,
            sized: false,
            ..place
        };
        match self.places.get_mut(new) {
            Some(unused) => *unused = rest,
            None => self.places.push(rest),
        }
        if let Some(after) = self.places.get_mut(after) {
            after.before = new;
        }
        let place = &mut self.places[at];
        (place.after, place.sized) = (new, false);
        place.slots.count -= count;
        self.index.insert(first, new);
        new
    }

    /// Adds the next place to a place.
    fn join(&mut self, at: usize) {
        let next = self.places[at].after;
        let Place { slots, after, .. } = self.places[next];
        self.index.remove(&slots.first);
        self.unused.push(next);
        let place = &mut self.places[at];
        (place.after, place.slots.count) = (after, place.slots.count + slots.count);
        if let Some(after) = self.places.get_mut(after) {
            after.before = at;
        }
    }

    /// The last time that a part of the range became free. The range may have parts that are in use.
    pub(crate) fn freed(&self, range: Slots) -> i64 {
        let free = self.inside(range).filter(|place| place.buffer.is_none());
        free.map(|place| place.freed).max().unwrap_or(START)
    }
}

#[cfg(test)]
mod tests {
    use super::{Arena, START};
    use crate::Slots;

    const SLOTS: u64 = 64;

    /// The buffer of each slot, or the step at whose end it became free.
    type Model = Vec<Result<usize, i64>>;

    /// Returns true if a range of slots has been free since before a step.
    fn fits(model: &Model, count: u64, before: i64) -> bool {
        let free = |slot: &Result<usize, i64>| slot.is_err_and(|freed| freed < before);
        model
            .windows(count as usize)
            .any(|all| all.iter().all(free))
    }

    #[test]
    fn places_are_those_of_single_slots() {
        let mut arena = Arena::new(SLOTS, START);
        let mut model: Model = vec![Err(START); SLOTS as usize];
        let mut there = Vec::new();
        let mut number = 1_u64;
        let mut random = |end: u64| {
            number = (number * 48_271) % 2_147_483_647;
            number % end
        };
        for step in 0..20_000_i64 {
            let (count, before) = (1 + random(9), (step - random(6) as i64).max(0));
            match arena.find(count, before) {
                Some(slots) if random(5) > 0 => {
                    let range = slots.first as usize..slots.end() as usize;
                    let freed = model[range.clone()].iter().map(|slot| slot.unwrap_err());
                    let freed = freed.max().unwrap();
                    assert!(freed < before);
                    assert_eq!(arena.freed(slots), freed);
                    let buffer = step as usize;
                    let (at, last) = arena.take(slots, buffer);
                    assert_eq!(last, freed);
                    model[range].fill(Ok(buffer));
                    there.push((at, slots));
                }
                found => assert_eq!(found.is_some(), fits(&model, count, before)),
            }
            if there.len() > random(16) as usize {
                let (at, slots): (usize, Slots) =
                    there.swap_remove(random(there.len() as u64) as usize);
                arena.leave(at, step);
                model[slots.first as usize..slots.end() as usize].fill(Err(step));
            }
            let all = arena.all().flat_map(|place| {
                let slot = place.buffer.ok_or(place.freed);
                (0..place.slots.count).map(move |_| slot)
            });
            assert!(all.eq(model.iter().copied()), "{step}");
        }
    }
}
