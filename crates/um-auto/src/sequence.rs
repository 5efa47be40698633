//! The sequence of operations, and its period.

use crate::state::Place;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// The longest period, in events.
pub(crate) const LONGEST: usize = 4096;
/// Earlier events with the same key that are tried as the end of a period.
const CANDIDATES: usize = 32;

/// An event's use of managed memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Use {
    /// The number of uses since the previous use of the same buffer, plus one; 0 if there is none. So a buffer that each round allocates
    /// anew looks the same in each round.
    pub(crate) since: u64,
    pub(crate) place: Place,
    pub(crate) writes: bool,
    pub(crate) bytes: u64,
    /// The bytes that are elsewhere, if nothing is prefetched.
    pub(crate) missing: u64,
    /// True if the host used a few pages only, which is known when its guard is over.
    pub(crate) is_partial: bool,
    /// True if the previous use of the buffer has the same range.
    pub(crate) same_range: bool,
    /// True if a plan may advise the buffer: this is all of it, and it is not small.
    pub(crate) may_advise: bool,
}

/// A launch, a fill, or a host guard.
#[derive(Debug)]
pub(crate) struct Event {
    /// A hash of its kind, its kernel and the accesses.
    pub(crate) key: u64,
    pub(crate) at: Duration,
    /// True if it may wait for the device.
    pub(crate) waits: bool,
    pub(crate) uses: SmallVec<[Use; 4]>,
    /// The number of uses before it.
    first_use: u64,
    /// The previous event with the same key.
    same: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Sequence {
    events: VecDeque<Event>,
    /// The number of the first of `events`.
    start: u64,
    uses: u64,
    last: HashMap<u64, u64>,
    /// The last event of which bytes were elsewhere.
    last_missing: Option<u64>,
}

impl Sequence {
    pub(crate) fn next(&self) -> u64 {
        self.start + self.events.len() as u64
    }

    pub(crate) fn uses(&self) -> u64 {
        self.uses
    }

    /// The number of events since bytes of one were elsewhere.
    pub(crate) fn since_missing(&self) -> u64 {
        self.next() - self.last_missing.unwrap_or_default()
    }

    pub(crate) fn push(
        &mut self,
        (key, at, waits): (u64, Duration, bool),
        uses: SmallVec<[Use; 4]>,
    ) {
        if self.events.len() > 2 * LONGEST {
            self.events.drain(..LONGEST);
            self.start += LONGEST as u64;
            self.last.retain(|_, last| *last >= self.start);
        }
        let number = self.next();
        if uses.iter().any(|used| used.missing > 0) {
            self.last_missing = Some(number);
        }
        let (first_use, same) = (self.uses, self.last.insert(key, number));
        self.uses += uses.len() as u64;
        self.events.push_back(Event {
            key,
            at,
            waits,
            uses,
            first_use,
            same,
        });
    }

    pub(crate) fn event_mut(&mut self, number: u64) -> Option<&mut Event> {
        let at = number.checked_sub(self.start)?;
        self.events.get_mut(at as usize)
    }

    pub(crate) fn last(&self) -> Option<&Event> {
        self.events.back()
    }

    /// The shortest period of more than `above` events that the last events went through twice, and in which bytes were elsewhere.
    pub(crate) fn period(&self, above: usize) -> Option<usize> {
        let last = self.next().checked_sub(1)?;
        let mut earlier = self.last()?.same;
        for _ in 0..CANDIDATES {
            let end = earlier.filter(|end| *end >= self.start)?;
            let period = (last - end) as usize;
            if period > LONGEST || 2 * period > self.events.len() {
                return None;
            }
            let gains = self.last_missing.is_some_and(|missing| missing > end);
            if period > above && gains && self.repeats(period) {
                return Some(period);
            }
            earlier = self.events[(end - self.start) as usize].same;
        }
        None
    }

    /// Returns true if the last `period` events are those before them, and use the same buffers, or new ones.
    fn repeats(&self, period: usize) -> bool {
        let (newer, older) = (self.events.len() - period, self.events.len() - 2 * period);
        let first = |at: usize| self.events[at].first_use;
        let (of_newer, of_older) = (first(newer), first(older));
        (0..period).rev().all(|at| {
            let (newer, older) = (&self.events[newer + at], &self.events[older + at]);
            // Buffers of which the use before the window does not count, because the first round has none.
            newer.key == older.key
                && newer.uses.len() == older.uses.len()
                && (0..newer.uses.len()).all(|n| {
                    newer.within(n, of_newer) == older.within(n, of_older)
                        && (newer.uses[n].since == 0 || newer.within(n, of_older) > 0)
                })
        })
    }

    /// Expects of the last event, of which a guard is not over, what the event one period before it did.
    pub(crate) fn expect_as_before(&mut self, period: usize) {
        let last = self.events.len() - 1;
        for at in 0..self.events[last].uses.len() {
            if self.events[last - period].uses[at].is_partial {
                let used = &mut self.events[last].uses[at];
                (used.missing, used.is_partial) = (0, true);
            }
        }
    }

    pub(crate) fn tail(&self, count: usize) -> impl ExactSizeIterator<Item = &Event> + Clone {
        self.events.range(self.events.len() - count..)
    }

    /// The time of the last `period` events, if there are earlier ones.
    pub(crate) fn round_time(&self, period: usize) -> Option<Duration> {
        let before = self.events.len().checked_sub(period + 1)?;
        Some(self.last()?.at.saturating_sub(self.events[before].at))
    }
}

impl Event {
    /// The distance to the previous use of a buffer, if that is not before use number `first`.
    fn within(&self, at: usize, first: u64) -> u64 {
        let (since, number) = (self.uses[at].since, self.first_use + at as u64);
        match number - first >= since {
            true => since,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests;
