//! The choice of places: which slots a working set takes, and so which buffers leave the arena.

use std::cmp::Reverse;
use std::ops::Range;

/// How soon a buffer is needed: a buffer with a smaller urgency leaves first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// No use is expected. The number of the last use: the least recently used one leaves first.
    Used(u64),
    /// The number of the next use, for which it comes back: the farthest one leaves first.
    Leaves(Reverse<u64>),
    /// The number of the next use, until which it stays if it can.
    Stays(Reverse<u64>),
}

/// The slots of an arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots {
    pub(crate) total: usize,
    /// Those of its largest buffer.
    pub(crate) largest: usize,
}

/// Slots that are not free.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    pub(crate) slots: Range<usize>,
    /// `None` if the buffer cannot leave.
    pub(crate) urgency: Option<Urgency>,
}

/// Chooses a place for each need, a number of slots; `regions` are in order. Returns the first slots, in the order of the needs; `None` if
/// there is not enough room between the buffers that cannot leave.
pub(crate) fn choose(slots: Slots, regions: &[Region], needs: &[usize]) -> Option<Vec<usize>> {
    places(slots, regions, needs, cheapest).or_else(|| places(slots, regions, needs, first))
}

type Chooser = fn(Slots, &[Region], usize) -> Option<usize>;

/// Places the largest need first.
fn places(
    slots: Slots,
    regions: &[Region],
    needs: &[usize],
    choose: Chooser,
) -> Option<Vec<usize>> {
    if let &[need] = needs {
        return choose(slots, regions, need).map(|start| vec![start]);
    }
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(needs[at]));
    let mut regions = regions.to_vec();
    let mut starts = vec![0; needs.len()];
    for at in order {
        let start = choose(slots, &regions, needs[at])?;
        let place = start..start + needs[at];
        starts[at] = start;
        regions.retain(|region| !overlap(&region.slots, &place));
        let behind = regions.partition_point(|region| region.slots.start < start);
        let (slots, urgency) = (place, None);
        regions.insert(behind, Region { slots, urgency });
    }
    Some(starts)
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The place with the least cost. Of several, the last one for a small buffer, and the first one for others: so small buffers become neighbours,
/// and a larger one finds their place when they leave.
fn cheapest(Slots { total, largest }: Slots, regions: &[Region], need: usize) -> Option<usize> {
    let order = |start: usize| match 2 * need <= largest {
        true => total - start,
        false => start,
    };
    let mut best = None;
    // `near` is the first region behind the place's begin, or a later one.
    let mut consider = |start: usize, near: usize| {
        if start + need <= total
            && let Some(cost) = cost(total, regions, near, &(start..start + need))
            && best.is_none_or(|(other, at)| (cost, order(start)) < (other, order(at)))
        {
            best = Some((cost, start));
        }
    };
    consider(0, 0);
    consider(total.saturating_sub(need), regions.len());
    // Each place that begins or ends with a region, in most cases only once: neighbours have equal bounds.
    for (at, region) in regions.iter().enumerate() {
        let Range { start, end } = region.slots;
        consider(start, at);
        if regions
            .get(at + 1)
            .is_none_or(|next| next.slots.start != end)
        {
            consider(end, at + 1);
        }
        let before = |end: usize| end.checked_sub(need).filter(|first| *first != start);
        if let Some(first) = before(end) {
            consider(first, at);
        }
        let last = at.checked_sub(1).map(|last| regions[last].slots.start);
        if let Some(first) = before(start).filter(|first| last != Some(*first)) {
            consider(first, at);
        }
    }
    best.map(|(_, start)| start)
}

/// What a place costs: the place with the least cost is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cost {
    /// The slots that stay free beside it.
    Free(usize),
    /// The most urgent buffer, and the slots that are not free.
    Used(u64, usize),
    /// The slots that become free beside it, and the most urgent buffer.
    Leaves(usize, Reverse<u64>),
    Stays(Reverse<u64>, usize),
}

/// The cost of a place; `None` if a buffer there cannot leave.
fn cost(total: usize, regions: &[Region], near: usize, place: &Range<usize>) -> Option<Cost> {
    let mut first = near;
    while first > 0 && regions[first - 1].slots.end > place.start {
        first -= 1;
    }
    let (mut urgency, mut used) = (None, 0);
    let mut last = first;
    while let Some(region) = regions
        .get(last)
        .filter(|region| region.slots.start < place.end)
    {
        urgency = urgency.max(Some(region.urgency?));
        used += region.slots.len();
        last += 1;
    }
    let free_from = first
        .checked_sub(1)
        .map_or(0, |before| regions[before].slots.end);
    let free_to = regions.get(last).map_or(total, |next| next.slots.start);
    let beside = free_to - free_from - place.len();
    Some(match urgency {
        None => Cost::Free(beside),
        Some(Urgency::Used(number)) => Cost::Used(number, used),
        Some(Urgency::Leaves(next)) => Cost::Leaves(beside, next),
        Some(Urgency::Stays(next)) => Cost::Stays(next, used),
    })
}

/// The first place between the buffers that cannot leave.
fn first(Slots { total, .. }: Slots, regions: &[Region], need: usize) -> Option<usize> {
    let stay = regions.iter().filter(|region| region.urgency.is_none());
    let mut start = 0;
    for region in stay {
        if start + need <= region.slots.start {
            break;
        }
        start = region.slots.end;
    }
    (start + need <= total).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::Urgency::{Leaves, Stays, Used};
    use super::*;
    use proptest::prelude::*;

    fn of(total: usize) -> Slots {
        let largest = 2;
        Slots { total, largest }
    }

    fn region(slots: Range<usize>, urgency: Option<Urgency>) -> Region {
        Region { slots, urgency }
    }

    #[test]
    fn free_slots_come_first_then_old_buffers_then_late_uses() {
        let old = region(0..2, Some(Used(3)));
        let recent = region(2..4, Some(Used(9)));
        let late = region(4..6, Some(Leaves(Reverse(8))));
        let soon = region(6..8, Some(Stays(Reverse(9))));
        let regions = [old, recent, late, soon];
        assert_eq!(choose(of(10), &regions, &[2]), Some(vec![8]));
        assert_eq!(choose(of(8), &regions, &[2]), Some(vec![0]));
        assert_eq!(choose(of(8), &regions[1..], &[4]), Some(vec![0]));
        assert_eq!(choose(of(8), &regions, &[2, 4]), Some(vec![4, 0]));
        assert_eq!(choose(of(8), &regions, &[8]), Some(vec![0]));
        assert_eq!(choose(of(8), &regions, &[9]), None);
    }

    #[test]
    fn buffers_that_cannot_leave_stay() {
        let regions = [region(3..4, None), region(6..8, Some(Used(1)))];
        assert_eq!(choose(of(8), &regions, &[4]), Some(vec![4]));
        assert_eq!(choose(of(8), &regions, &[4, 3]), Some(vec![4, 0]));
        assert_eq!(choose(of(8), &regions, &[5]), None);
    }

    proptest! {
        /// Places are within the arena, apart, and on no buffer that cannot leave; everything fits an arena from which all can leave.
        #[test]
        fn places_are_apart(
            parts in prop::collection::vec((1..5usize, 0..4u64), 0..12),
            needs in prop::collection::vec(1..6usize, 1..6),
        ) {
            let mut at = 0;
            let mut regions = Vec::new();
            for (slots, kind) in parts {
                let urgency = (kind != 1).then_some(if kind == 2 { Stays(Reverse(at as u64)) } else { Used(kind) });
                if kind != 0 {
                    regions.push(region(at..at + slots, urgency));
                }
                at += slots;
            }
            let total = at.max(needs.iter().sum());
            let chosen = choose(of(total), &regions, &needs);
            if let Some(starts) = &chosen {
                let mut placed: Vec<_> = starts.iter().zip(&needs).map(|(start, need)| *start..start + need).collect();
                placed.extend(regions.iter().filter(|region| region.urgency.is_none()).map(|region| region.slots.clone()));
                placed.sort_by_key(|range| range.start);
                prop_assert!(placed.windows(2).all(|pair| pair[0].end <= pair[1].start));
                prop_assert!(placed.last().is_some_and(|last| last.end <= total));
            }
            let all_leave = regions.iter().all(|region| region.urgency.is_some());
            prop_assert!(chosen.is_some() || !all_leave);
        }
    }
}
