//! The greatest value before, after or within a position: trees of maxima, with queries in logarithmic time.

use std::ops::Range;

/// Values at positions. A query returns the nearest position with a value above a limit.
#[derive(Debug)]
pub(crate) struct Maxima {
    /// Number of positions, rounded up to a power of two: leaves begin at this index.
    places: usize,
    /// The root is 1, the children of `n` are `2 n` and `2 n + 1`.
    nodes: Vec<u64>,
}

impl Maxima {
    /// All values are zero.
    pub(crate) fn new(places: usize) -> Self {
        let places = places.next_power_of_two();
        Self {
            places,
            nodes: vec![0; 2 * places],
        }
    }

    pub(crate) fn set(&mut self, place: usize, value: u64) {
        let mut node = self.places + place;
        self.nodes[node] = value;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].max(self.nodes[2 * node + 1]);
        }
    }

    /// The last position before `end` that has a value above a limit.
    pub(crate) fn last_above(&self, end: usize, limit: u64) -> Option<usize> {
        let (mut from, mut until) = (self.places, self.places + end);
        while from < until {
            // The node covers all positions: it is the root.
            if until % 2 == 1 || from == 1 {
                until -= 1;
                if self.nodes[until] > limit {
                    return Some(self.descend(until, limit, [1, 0]));
                }
            }
            from /= 2;
            until /= 2;
        }
        None
    }

    /// The first position from `begin` on that has a value above a limit.
    pub(crate) fn first_above(&self, begin: usize, limit: u64) -> Option<usize> {
        let (mut from, mut until) = (self.places + begin, 2 * self.places);
        while from < until {
            if from % 2 == 1 {
                if self.nodes[from] > limit {
                    return Some(self.descend(from, limit, [0, 1]));
                }
                from += 1;
            }
            from /= 2;
            until /= 2;
        }
        None
    }

    /// A position below a node that has a value above the limit. If both children have one, the first child in `order` counts.
    fn descend(&self, mut node: usize, limit: u64, order: [usize; 2]) -> usize {
        while node < self.places {
            let child = 2 * node + order[0];
            node = match self.nodes[child] > limit {
                true => child,
                false => 2 * node + order[1],
            };
        }
        node - self.places
    }
}

/// Values of ranges of numbers. A later value must be greater than all earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Raised {
    /// The borders of all ranges, in ascending order.
    borders: Vec<u64>,
    leaves: usize,
    /// The value to which the whole range of a node was raised.
    whole: Vec<usize>,
    /// The greatest value in the range of a node, from the node itself or a node below it.
    most: Vec<usize>,
}

impl Raised {
    /// `borders` holds the borders of all later ranges.
    pub(crate) fn new(mut borders: Vec<u64>) -> Self {
        borders.sort_unstable();
        borders.dedup();
        let leaves = borders.len().next_power_of_two();
        Self {
            borders,
            leaves,
            whole: vec![0; 2 * leaves],
            most: vec![0; 2 * leaves],
        }
    }

    /// Raises a whole range to a value. Its start and end must be borders.
    pub(crate) fn raise(&mut self, range: Range<u64>, value: usize) {
        let leaf = |border: u64| self.borders.partition_point(|&other| other < border);
        let (begin, end) = (leaf(range.start), leaf(range.end));
        if begin >= end {
            return;
        }
        let nodes: Vec<usize> = covering(self.leaves, begin..end).collect();
        for node in nodes {
            self.whole[node] = self.whole[node].max(value);
            self.most[node] = self.most[node].max(value);
        }
        for leaf in [begin, end - 1] {
            let mut node = (self.leaves + leaf) / 2;
            while node > 0 {
                self.most[node] = self.most[node].max(value);
                node /= 2;
            }
        }
    }

    /// The greatest value in a range, including the number after it; 0 if there is none.
    pub(crate) fn greatest(&self, first: u64, last: u64) -> usize {
        let leaf = |number: u64| self.borders.partition_point(|&border| border <= number);
        // The range of a number begins with the border before it. There is no value before the first border.
        let (begin, end) = (leaf(first).saturating_sub(1), leaf(last));
        if begin >= end {
            return 0;
        }
        let below = covering(self.leaves, begin..end).map(|node| self.most[node]);
        let mut greatest = below.max().unwrap_or(0);
        for leaf in [begin, end - 1] {
            let mut node = (self.leaves + leaf) / 2;
            while node > 0 {
                greatest = greatest.max(self.whole[node]);
                node /= 2;
            }
        }
        greatest
    }
}

/// The smallest set of nodes of a tree that covers these leaves.
pub(crate) fn covering(leaves: usize, range: Range<usize>) -> impl Iterator<Item = usize> {
    let (mut from, mut until) = (leaves + range.start, leaves + range.end);
    let levels = std::iter::from_fn(move || {
        (from < until).then(|| {
            let left = (from % 2 == 1).then_some(from);
            let right = (until % 2 == 1).then(|| until - 1);
            (from, until) = (from.div_ceil(2), until / 2);
            [left, right]
        })
    });
    levels.flatten().flatten()
}

#[cfg(test)]
mod tests {
    use super::{Maxima, Raised};
    use proptest::prelude::*;

    proptest! {
        /// The nearest position equals the result of a linear search.
        #[test]
        fn nearest_places(
            values in proptest::collection::vec(0_u64..6, 1..40),
            again in proptest::collection::vec((any::<prop::sample::Index>(), 0_u64..6), 0..20),
            limit in 0_u64..6,
        ) {
            let mut values = values;
            let mut tree = Maxima::new(values.len());
            for (place, &value) in values.iter().enumerate() {
                tree.set(place, value);
            }
            for (place, value) in again {
                let place = place.index(values.len());
                values[place] = value;
                tree.set(place, value);
            }
            for border in 0..=values.len() {
                let before = values[..border].iter().rposition(|&value| value > limit);
                let behind = values[border..].iter().position(|&value| value > limit);
                prop_assert_eq!(tree.last_above(border, limit), before);
                prop_assert_eq!(tree.first_above(border, limit), behind.map(|place| border + place));
            }
        }

        /// The greatest value of a range equals the maximum over its parts.
        #[test]
        fn greatest_of_a_range(ranges in proptest::collection::vec((0_u64..30, 1_u64..12), 0..20)) {
            let borders = ranges.iter().flat_map(|&(begin, count)| [begin, begin + count]);
            let mut tree = Raised::new(borders.collect());
            let mut single = [0_usize; 50];
            for (index, &(begin, count)) in ranges.iter().enumerate() {
                tree.raise(begin..begin + count, index + 1);
                single[begin as usize..(begin + count) as usize].fill(index + 1);
                for first in 0..45_usize {
                    for last in first..45 {
                        let greatest = single[first..=last].iter().max().copied();
                        prop_assert_eq!(Some(tree.greatest(first as u64, last as u64)), greatest);
                    }
                }
            }
        }
    }
}
