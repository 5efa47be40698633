//! Events of equal parts of memory, stored for runs of parts with equal events: a record changes few runs, however large it is.

use crate::maxima::covering;
use std::collections::BTreeMap;
use std::ops::Range;

/// Values of numbered parts; the newest value counts.
#[derive(Debug)]
pub(crate) struct Runs<T> {
    /// By the first part of a run: the part after its last one, and the value of each part.
    runs: BTreeMap<u64, (u64, T)>,
}

impl<T: Clone> Runs<T> {
    pub(crate) fn new() -> Self {
        Self {
            runs: BTreeMap::new(),
        }
    }

    /// Gives each part of a range this value.
    pub(crate) fn set(&mut self, range: Range<u64>, value: T) {
        if !range.is_empty() {
            self.take(range.clone());
            self.runs.insert(range.start, (range.end, value));
        }
    }

    /// Removes the values of a range and returns them in ascending order. Each run can be removed only once, so this costs no
    /// more than setting it.
    pub(crate) fn take(&mut self, range: Range<u64>) -> Vec<(Range<u64>, T)> {
        if range.is_empty() {
            return Vec::new();
        }
        self.cut(range.start);
        self.cut(range.end);
        let inside: Vec<u64> = self.runs.range(range).map(|(&begin, _)| begin).collect();
        let runs = inside.into_iter().filter_map(|begin| {
            let (end, value) = self.runs.remove(&begin)?;
            Some((begin..end, value))
        });
        runs.collect()
    }

    /// Splits the run that contains this position, if there is one.
    fn cut(&mut self, at: u64) {
        let Some((_, (end, value))) = self.runs.range_mut(..at).next_back() else {
            return;
        };
        if *end > at {
            let rest = (*end, value.clone());
            *end = at;
            self.runs.insert(at, rest);
        }
    }
}

/// An event of parts; events can follow each other.
pub(crate) trait Event: Clone {
    /// Combines this event with a later one.
    fn then(&mut self, later: &Self);
}

/// Events of numbered parts, in order. It is a tree over the borders of all ranges. An event is stored at the nodes that it
/// covers until a later event needs their parts.
#[derive(Debug)]
pub(crate) struct Overlaid<T> {
    /// The borders of all ranges, in ascending order.
    borders: Vec<u64>,
    leaves: usize,
    nodes: Vec<Option<T>>,
}

impl<T: Event> Overlaid<T> {
    /// `borders` holds the borders of all later ranges.
    pub(crate) fn new(mut borders: Vec<u64>) -> Self {
        borders.sort_unstable();
        borders.dedup();
        let leaves = borders.len().next_power_of_two();
        Self {
            borders,
            leaves,
            nodes: vec![None; 2 * leaves],
        }
    }

    /// Adds an event to each part of a range. The start and the end of the range must be borders.
    pub(crate) fn add(&mut self, range: Range<u64>, event: &T) {
        let leaf = |border: u64| self.borders.partition_point(|&other| other < border);
        let (begin, end) = (leaf(range.start), leaf(range.end));
        if begin >= end {
            return;
        }
        // Events that are stored above the borders of the range come first.
        for leaf in [begin, end - 1] {
            for level in (1..=self.leaves.ilog2()).rev() {
                self.push_down((self.leaves + leaf) >> level);
            }
        }
        for node in covering(self.leaves, begin..end) {
            self.happens(node, event);
        }
    }

    /// All runs that have events, in ascending order.
    pub(crate) fn into_runs(mut self) -> impl Iterator<Item = (Range<u64>, T)> {
        (1..self.leaves).for_each(|node| self.push_down(node));
        let values = self.nodes.into_iter().skip(self.leaves);
        let ends = self.borders.clone().into_iter().skip(1);
        let ranges = self.borders.into_iter().zip(ends);
        ranges
            .zip(values)
            .filter_map(|((begin, end), value)| Some((begin..end, value?)))
    }

    fn push_down(&mut self, node: usize) {
        if let Some(event) = self.nodes[node].take() {
            self.happens(2 * node, &event);
            self.happens(2 * node + 1, &event);
        }
    }

    fn happens(&mut self, node: usize, event: &T) {
        match &mut self.nodes[node] {
            Some(before) => before.then(event),
            none => *none = Some(event.clone()),
        }
    }
}

/// The parts of a given size that a range of bytes touches, and the number of bytes in each: at most three runs.
pub(crate) fn parts(bytes: Range<u64>, size: u64) -> impl Iterator<Item = (Range<u64>, u64)> {
    let (first, behind) = (bytes.start / size, bytes.end.div_ceil(size));
    let in_part = |part: u64| {
        let end = bytes.end.min((part + 1).saturating_mul(size));
        end.saturating_sub(bytes.start.max(part * size))
    };
    let last = behind.saturating_sub(1).max(first);
    let runs = [
        (first..first + 1, in_part(first)),
        (first + 1..last, size),
        (last.max(first + 1)..behind, in_part(last)),
    ];
    runs.into_iter()
        .filter(|(parts, bytes)| !parts.is_empty() && *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::{Event, Overlaid, Runs, parts};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    impl Event for Vec<u8> {
        fn then(&mut self, later: &Self) {
            self.extend(later);
        }
    }

    proptest! {
        /// Runs give the same result as a map of every single part.
        #[test]
        fn like_single_parts(changes in proptest::collection::vec((0_u64..40, 0_u64..12, 0_u8..4), 0..30)) {
            let mut runs = Runs::new();
            let mut single: BTreeMap<u64, u8> = BTreeMap::new();
            for (begin, count, what) in changes {
                let range = begin..begin + count;
                let before: BTreeMap<u64, u8> = range.clone().filter_map(|part| Some((part, single.remove(&part)?))).collect();
                if what == 0 {
                    let taken = runs.take(range);
                    let taken = taken.into_iter().flat_map(|(parts, value)| parts.map(move |part| (part, value)));
                    prop_assert_eq!(taken.collect::<BTreeMap<_, _>>(), before);
                } else {
                    single.extend(range.clone().map(|part| (part, what)));
                    runs.set(range, what);
                }
            }
            let all = runs.take(0..100).into_iter();
            let all: BTreeMap<u64, u8> = all.flat_map(|(parts, value)| parts.map(move |part| (part, value))).collect();
            prop_assert_eq!(all, single);
        }

        /// Every part has its events, in order.
        #[test]
        fn events_of_single_parts(changes in proptest::collection::vec((0_u64..40, 0_u64..12), 0..30)) {
            let borders = changes.iter().flat_map(|&(begin, count)| [begin, begin + count]);
            let mut overlaid = Overlaid::new(borders.collect());
            let mut single: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
            for (index, (begin, count)) in changes.into_iter().enumerate() {
                let event = vec![index as u8];
                overlaid.add(begin..begin + count, &event);
                for part in begin..begin + count {
                    single.entry(part).or_default().then(&event);
                }
            }
            let all: BTreeMap<u64, Vec<u8>> = overlaid
                .into_runs()
                .flat_map(|(parts, value)| parts.map(move |part| (part, value.clone())))
                .collect();
            prop_assert_eq!(all, single);
        }

        /// Every byte is counted in its part, and in no other part.
        #[test]
        fn every_byte_has_its_part(begin in 0_u64..50, count in 0_u64..50, size in 1_u64..12) {
            let mut single: BTreeMap<u64, u64> = BTreeMap::new();
            for byte in begin..begin + count {
                *single.entry(byte / size).or_default() += 1;
            }
            let runs: Vec<_> = parts(begin..begin + count, size).collect();
            prop_assert!(runs.len() <= 3);
            let all = runs.into_iter().flat_map(|(parts, bytes)| parts.map(move |part| (part, bytes)));
            prop_assert_eq!(all.collect::<Vec<_>>(), single.into_iter().collect::<Vec<_>>());
        }
    }
}
