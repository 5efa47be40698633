//! The buffers that stay in the arena from one pass to the next.

use super::uses::{InPlace, Uses};
use crate::Slots;

/// Which buffers stay if not all can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Buffers at equal distances, so that transfers are spread over the pass.
    Spread,
    /// The shortest time from the last use to the next one first (Belady's rule).
    Nearest,
    /// In order of the first use.
    First,
    /// The latest used ones.
    Latest,
    Nothing,
}

/// The places of the buffers that stay, side by side from the first slot on. `ahead` transfers have a place of their own.
pub(crate) fn choose(
    uses: &Uses,
    stay: Stay,
    slots: u64,
    ahead: usize,
    in_place: InPlace,
) -> Vec<Option<Slots>> {
    let mut chosen = vec![false; uses.buffers.len()];
    if !uses.cyclic || stay == Stay::Nothing {
        return vec![None; chosen.len()];
    }
    let order = candidates(uses, stay);
    // The space for the others depends on which stay: the second round knows it better.
    for _ in 0..2 {
        let others = demand(uses, &chosen, ahead, in_place);
        let capacity = slots.saturating_sub(others);
        chosen.fill(false);
        match stay {
            Stay::Spread => spread(uses, &order, capacity, &mut chosen),
            _ => {
                fill(uses, &order, capacity, &mut chosen);
            }
        }
    }
    let mut first = 0;
    let mut places = vec![None; chosen.len()];
    for (buffer, _) in chosen.iter().enumerate().filter(|(_, chosen)| **chosen) {
        let count = uses.buffers[buffer].slots;
        places[buffer] = Some(Slots { first, count });
        first += count;
    }
    places
}

fn candidates(uses: &Uses, stay: Stay) -> Vec<usize> {
    let buffers = &uses.buffers;
    let mut order: Vec<usize> = (0..buffers.len())
        .filter(|&buffer| buffers[buffer].wrap_cost > 0.0)
        .collect();
    let away = |buffer: usize| uses.steps() - buffers[buffer].last + buffers[buffer].first;
    match stay {
        Stay::Nearest => order.sort_by(|&one, &other| {
            let price = |buffer: usize| {
                let facts = &buffers[buffer];
                (away(buffer) * facts.slots as usize) as f64 / facts.wrap_cost
            };
            price(one).total_cmp(&price(other))
        }),
        Stay::Latest => order.sort_by_key(|&buffer| std::cmp::Reverse(buffers[buffer].last)),
        _ => order.sort_by_key(|&buffer| buffers[buffer].first),
    }
    order
}

/// Slots for the buffers that do not stay: the largest need of a step, and the largest transfer for each one ahead.
fn demand(uses: &Uses, chosen: &[bool], ahead: usize, in_place: InPlace) -> u64 {
    let (mut step_needs, mut transfer) = (0, 0);
    for step in 0..uses.steps() {
        let (mut needs, mut transfers) = (0, 0);
        for one in uses.of_step(step) {
            let facts = &uses.buffers[one.buffer];
            if chosen[one.buffer] || in_place.applies(facts) {
                continue;
            }
            needs += facts.slots;
            if one.needs {
                transfers += facts.slots;
            }
        }
        step_needs = step_needs.max(needs);
        transfer = transfer.max(transfers);
    }
    step_needs + ahead as u64 * transfer
}

/// Takes what fits, in order, and returns the rest of the capacity.
fn fill(uses: &Uses, order: &[usize], mut capacity: u64, chosen: &mut [bool]) -> u64 {
    for &buffer in order {
        let slots = uses.buffers[buffer].slots;
        if !chosen[buffer] && slots <= capacity {
            capacity -= slots;
            chosen[buffer] = true;
        }
    }
    capacity
}

/// Takes buffers that cost two transfers first, then an equal share along the pass.
fn spread(uses: &Uses, order: &[usize], capacity: u64, chosen: &mut [bool]) {
    let (both, one): (Vec<usize>, Vec<usize>) = order
        .iter()
        .partition(|&&buffer| uses.buffers[buffer].writes);
    let mut rest = capacity;
    for group in [both, one] {
        let all: u64 = group.iter().map(|&buffer| uses.buffers[buffer].slots).sum();
        if all <= rest {
            rest = fill(uses, &group, rest, chosen);
            continue;
        }
        // A share of each buffer is due; a buffer stays when its slots are due.
        let share = rest as f64 / all as f64;
        let (mut due, mut left) = (0.0, rest);
        for &buffer in &group {
            let slots = uses.buffers[buffer].slots;
            due += slots as f64 * share;
            if due + 1e-6 >= slots as f64 && slots <= left {
                due -= slots as f64;
                left -= slots;
                chosen[buffer] = true;
            }
        }
        rest = fill(uses, &group, left, chosen);
    }
}
