//! Where the pages of a buffer are, and where they would be without a planner.

use crate::plan::Kept;
use crate::state::Place;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// Pieces of a buffer above which it counts as one.
const MOST: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    Only(Place),
    /// The host and the device have a copy each.
    Both,
}

/// The locations of all pieces of a buffer: the end of each, in bytes, and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pieces(SmallVec<[(usize, At); 2]>);

impl Pieces {
    fn new(bytes: usize, place: Place) -> Self {
        Self(smallvec![(bytes, At::Only(place))])
    }

    /// The bytes of a range that are not at a place.
    pub(crate) fn missing(&self, range: &Range<usize>, place: Place) -> u64 {
        let mut start = 0;
        let mut missing = 0;
        for (end, at) in &self.0 {
            let part = start.max(range.start)..(*end).min(range.end);
            if *at != At::Both && *at != At::Only(place) {
                missing += part.len() as u64;
            }
            start = *end;
        }
        missing
    }

    /// Ends all copies but those at a place.
    fn merge(&mut self, place: Place) {
        for (_, at) in self.0.iter_mut().filter(|(_, at)| *at == At::Both) {
            *at = At::Only(place);
        }
    }

    pub(crate) fn set(&mut self, range: &Range<usize>, at: At) {
        if range.is_empty() {
            return;
        }
        let mut next: SmallVec<[(usize, At); 2]> = SmallVec::new();
        let mut add = |end: usize, at: At| match next.last_mut() {
            Some((before, _)) if *before >= end => {}
            Some((before, same)) if *same == at => *before = end,
            _ => next.push((end, at)),
        };
        for (end, old) in &self.0 {
            add((*end).min(range.start), *old);
            if *end > range.start {
                add((*end).min(range.end), at);
                if *end > range.end {
                    add(*end, *old);
                }
            }
        }
        let end = next.last().map_or(range.end, |(end, _)| *end);
        self.0 = match next.len() > MOST {
            true => smallvec![(end, at)],
            false => next,
        };
        self.0.retain(|(end, _)| *end > 0);
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pages {
    pub(crate) real: Pieces,
    /// Where they would be if nothing was prefetched for a plan.
    pub(crate) base: Pieces,
    /// The number of the last use, from 1; 0 if there is none.
    pub(crate) last_use: u64,
    pub(crate) last_range: Range<usize>,
    /// The advice of a plan.
    pub(crate) kept: Option<Kept>,
}

impl Pages {
    pub(crate) fn new(bytes: usize, place: Place) -> Self {
        let pieces = Pieces::new(bytes, place);
        Self {
            real: pieces.clone(),
            base: pieces,
            last_use: 0,
            last_range: 0..0,
            kept: None,
        }
    }

    pub(crate) fn used(&mut self, range: &Range<usize>, place: Place) {
        self.base.set(range, At::Only(place));
        match self.kept {
            Some(Kept::OnHost) => {}
            Some(Kept::Both) if self.real.missing(range, place) == 0 => {}
            Some(Kept::Both) => self.real.set(range, At::Both),
            None => self.real.set(range, At::Only(place)),
        }
    }

    /// The advice of a plan ended. Of two copies, one stays: that of the device, on the simulator.
    pub(crate) fn released(&mut self, device: Place) {
        if self.kept.take() == Some(Kept::Both) {
            self.real.merge(device);
        }
    }

    pub(crate) fn moved(&mut self, range: &Range<usize>, place: Place) {
        let at = match self.kept {
            Some(Kept::Both) => At::Both,
            _ => At::Only(place),
        };
        self.real.set(range, at);
    }
}

#[cfg(test)]
mod tests;
