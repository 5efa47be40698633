//! The order of working sets. An arena whose last sets repeat the sets before them follows this order until a set differs.

use std::collections::HashMap;

use crate::cycle::Cycle;
use crate::error::Result;
use crate::set::List;
use crate::state::{Shared, State};

/// The sets that are remembered. An order with more than half of them is not found.
const REMEMBERED: usize = 1 << 15;
/// The buffers of all different sets that are remembered.
const REMEMBERED_BUFFERS: usize = 1 << 18;
/// The earlier sets, equal to the last one, at which an order may have begun.
const TRIES: usize = 8;
/// An odd factor, for a number of several sets that depends on their order.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Default)]
pub(crate) struct Order {
    past: Past,
    follows: Option<Cycle>,
}

/// The last sets.
#[derive(Default)]
struct Past {
    /// The different sets, with the place of the last one in `sets`.
    known: HashMap<List, Known>,
    /// The buffers of the different sets.
    buffers: usize,
    sets: Vec<Seen>,
}

struct Known {
    index: u64,
    last: usize,
}

struct Seen {
    /// The place of the equal set before this one.
    before: Option<usize>,
    /// A number for all sets up to this one.
    sum: u64,
}

impl Past {
    fn add(&mut self, list: &List) {
        if self.sets.len() == REMEMBERED || self.buffers > REMEMBERED_BUFFERS {
            *self = Self::default();
        }
        let (at, different) = (self.sets.len(), self.known.len() as u64);
        let (index, before) = match self.known.get_mut(list) {
            Some(known) => (known.index, Some(std::mem::replace(&mut known.last, at))),
            None => {
                let (index, last) = (different, at);
                self.buffers += list.len();
                self.known.insert(list.clone(), Known { index, last });
                (index, None)
            }
        };
        let sum = self.sum(at).wrapping_mul(FACTOR).wrapping_add(index + 1);
        self.sets.push(Seen { before, sum });
    }

    /// A number for the first sets.
    fn sum(&self, count: usize) -> u64 {
        count.checked_sub(1).map_or(0, |last| self.sets[last].sum)
    }

    /// A number for a part of the sets: those of equal parts are equal, and others very rarely.
    fn part(&self, first: usize, count: usize) -> u64 {
        let before = self
            .sum(first)
            .wrapping_mul(FACTOR.wrapping_pow(count as u32));
        self.sum(first + count).wrapping_sub(before)
    }

    /// The last sets, if the same ones in the same order are before them. The shortest order counts.
    fn repeated(&self) -> Option<Vec<List>> {
        let count = self.sets.len();
        let earlier = |at: &usize| self.sets[*at].before;
        let tries = std::iter::successors(count.checked_sub(1), earlier);
        let period = tries
            .skip(1)
            .take(TRIES)
            .map(|at| count - 1 - at)
            .find(|&period| {
                let first = count.checked_sub(2 * period);
                first.is_some_and(|first| {
                    self.part(first, period) == self.part(first + period, period)
                })
            })?;
        let mut lists = vec![List::new(); period];
        // A set of the order has its last place in it, and in the order before it an equal one for each other place.
        for (list, known) in &self.known {
            let places = std::iter::successors(Some(known.last), earlier);
            for at in places.take_while(|at| *at >= count - period) {
                lists[at + period - count].clone_from(list);
            }
        }
        Some(lists)
    }
}

impl Order {
    /// Notes that a buffer left the arena that a later set uses.
    pub(crate) fn misses(&mut self, number: u64) {
        if let Some(cycle) = &mut self.follows {
            cycle.misses(number);
        }
    }
}

impl State {
    /// Notes that a set was granted, and expects the next ones if the order repeats.
    pub(crate) fn follow(&mut self, list: &List, slots: usize) {
        let Self { order, entries, .. } = self;
        order.past.add(list);
        if let Some((at, uses)) = order.follows.as_mut().and_then(|cycle| cycle.next(list)) {
            for of in uses {
                if let Some(entry) = entries.get_mut(of.id) {
                    entry.due = Some(of.due(at));
                }
            }
            return;
        }
        self.stop_following();
        let Some(lists) = self.order.past.repeated() else {
            return;
        };
        let lost: usize = self.lost().iter().map(|lost| lost.slots.len()).sum();
        let slots_of = |id| Some(self.entries.get(id)?.slot_count());
        let Some(cycle) = Cycle::new(lists, slots - lost, slots_of) else {
            return;
        };
        // The last use of a buffer counts.
        for (at, set) in cycle.sets().iter().enumerate() {
            for of in &set.uses {
                self.entry(of.id).due = Some(of.due(at as u64));
            }
        }
        self.stats.followed = cycle.sets().len() as u64;
        self.order.follows = Some(cycle);
    }

    /// Forgets which sets are expected: the least recently used buffers leave.
    pub(crate) fn stop_following(&mut self) {
        let Some(cycle) = self.order.follows.take() else {
            return;
        };
        for of in cycle.sets().iter().flat_map(|set| &set.uses) {
            if let Some(entry) = self.entries.get_mut(of.id) {
                entry.due = None;
            }
        }
        self.stats.followed = 0;
    }
}

/// Brings in the buffers of the sets that are expected next.
pub(crate) fn read_ahead(shared: &Shared, state: &mut State) -> Result<()> {
    let Some(mut cycle) = state.order.follows.take() else {
        return Ok(());
    };
    let outcome = cycle.read_ahead(shared, state);
    state.order.follows = Some(cycle);
    outcome
}
