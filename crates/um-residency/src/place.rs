//! The choice of places: which slots a working set takes, and so which buffers leave the arena.

use std::ops::Range;

/// How soon a buffer is needed: a buffer with a smaller urgency leaves first. Buffers without an announced use leave first, the least
/// recently used one of them before the others; then those whose next use is last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// No use is announced. The number of the last use.
    Used(u64),
    /// The number of the next use, reversed.
    Next(std::cmp::Reverse<u64>),
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
pub(crate) fn choose(total: usize, regions: &[Region], needs: &[usize]) -> Option<Vec<usize>> {
    places(total, regions, needs, cheapest).or_else(|| places(total, regions, needs, first))
}

type Chooser = fn(usize, &[Region], usize) -> Option<usize>;

/// Places the largest need first.
fn places(
    total: usize,
    regions: &[Region],
    needs: &[usize],
    choose: Chooser,
) -> Option<Vec<usize>> {
    if let &[need] = needs {
        return choose(total, regions, need).map(|start| vec![start]);
    }
    let mut order: Vec<usize> = (0..needs.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(needs[at]));
    let mut regions = regions.to_vec();
    let mut starts = vec![0; needs.len()];
    for at in order {
        let start = choose(total, &regions, needs[at])?;
        let slots = start..start + needs[at];
        starts[at] = start;
        regions.retain(|region| !overlap(&region.slots, &slots));
        let behind = regions.partition_point(|region| region.slots.start < start);
        let urgency = None;
        regions.insert(behind, Region { slots, urgency });
    }
    Some(starts)
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The place whose most urgent buffer is the least urgent one; of several, the one with the fewest slots in use.
fn cheapest(total: usize, regions: &[Region], need: usize) -> Option<usize> {
    let mut best = None;
    // `near` is the first region behind the place's begin, or a later one.
    let mut consider = |start: usize, near: usize| {
        if start + need <= total
            && let Some(cost) = cost(regions, near, &(start..start + need))
            && best.is_none_or(|best| (cost, start) < best)
        {
            best = Some((cost, start));
        }
    };
    consider(0, 0);
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

/// The urgency of the most urgent buffer in a place, and the slots that are not free; `None` if a buffer there cannot leave.
fn cost(regions: &[Region], near: usize, place: &Range<usize>) -> Option<(Option<Urgency>, usize)> {
    let mut first = near;
    while first > 0 && regions[first - 1].slots.end > place.start {
        first -= 1;
    }
    let mut cost = (None, 0);
    for region in regions[first..]
        .iter()
        .take_while(|region| region.slots.start < place.end)
        .filter(|region| region.slots.end > place.start)
    {
        cost.0 = cost.0.max(Some(region.urgency?));
        cost.1 += region.slots.len();
    }
    Some(cost)
}

/// The first place between the buffers that cannot leave.
fn first(total: usize, regions: &[Region], need: usize) -> Option<usize> {
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
    use super::Urgency::{Next, Used};
    use super::*;
    use proptest::prelude::*;
    use std::cmp::Reverse;

    fn region(slots: Range<usize>, urgency: Option<Urgency>) -> Region {
        Region { slots, urgency }
    }

    #[test]
    fn free_slots_come_first_then_old_buffers_then_late_uses() {
        let old = region(0..2, Some(Used(3)));
        let recent = region(2..4, Some(Used(9)));
        let late = region(4..6, Some(Next(Reverse(8))));
        let soon = region(6..8, Some(Next(Reverse(1))));
        let regions = [old, recent, late, soon];
        assert_eq!(choose(10, &regions, &[2]), Some(vec![8]));
        assert_eq!(choose(8, &regions, &[2]), Some(vec![0]));
        assert_eq!(choose(8, &regions[1..], &[4]), Some(vec![0]));
        assert_eq!(choose(8, &regions, &[2, 4]), Some(vec![4, 0]));
        assert_eq!(choose(8, &regions, &[8]), Some(vec![0]));
        assert_eq!(choose(8, &regions, &[9]), None);
    }

    #[test]
    fn buffers_that_cannot_leave_stay() {
        let regions = [region(3..4, None), region(6..8, Some(Used(1)))];
        assert_eq!(choose(8, &regions, &[4]), Some(vec![4]));
        assert_eq!(choose(8, &regions, &[4, 3]), Some(vec![4, 0]));
        assert_eq!(choose(8, &regions, &[5]), None);
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
                let urgency = (kind != 1).then_some(if kind == 2 { Next(Reverse(at as u64)) } else { Used(kind) });
                if kind != 0 {
                    regions.push(region(at..at + slots, urgency));
                }
                at += slots;
            }
            let total = at.max(needs.iter().sum());
            let chosen = choose(total, &regions, &needs);
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
