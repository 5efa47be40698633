//! The buffers that stay in the arena from one pass to the next.

use super::candidate::{Candidate, Stay};
use super::uses::{InPlace, Uses};
use crate::Slots;

/// The places of the buffers that stay, side by side from the first slot on. `ahead` transfers have a place of their own.
pub(crate) fn choose(uses: &Uses, slots: u64, one: Candidate) -> Vec<Option<Slots>> {
    let Candidate {
        stay,
        ahead,
        in_place,
        out_weight,
        ..
    } = one;
    let mut chosen = vec![false; uses.buffers.len()];
    if !uses.cyclic || stay == Stay::Nothing {
        return vec![None; chosen.len()];
    }
    let order = candidates(uses, stay, out_weight);
    // The space for the others depends on which stay: the second round knows it better.
    for _ in 0..2 {
        let others = match stay {
            Stay::Full => 0,
            _ => demand(uses, &chosen, ahead, in_place),
        };
        let capacity = slots.saturating_sub(others);
        chosen.fill(false);
        match stay {
            Stay::Spread => spread(uses, &order, capacity, one, &mut chosen),
            _ => {
                fill(uses, &order, capacity, &mut chosen);
            }
        }
    }
    let all = (0..chosen.len()).filter(|&buffer| chosen[buffer]);
    side_by_side(uses, all)
}

/// The places of these buffers, from the first slot on.
pub(crate) fn side_by_side(
    uses: &Uses,
    buffers: impl Iterator<Item = usize>,
) -> Vec<Option<Slots>> {
    let mut first = 0;
    let mut places = vec![None; uses.buffers.len()];
    for buffer in buffers {
        let count = uses.buffers[buffer].slots;
        places[buffer] = Some(Slots { first, count });
        first += count;
    }
    places
}

fn candidates(uses: &Uses, stay: Stay, out_weight: f64) -> Vec<usize> {
    let buffers = &uses.buffers;
    let mut order: Vec<usize> = (0..buffers.len())
        .filter(|&buffer| buffers[buffer].wrap_cost(out_weight) > 0.0)
        .collect();
    match stay {
        Stay::Nearest | Stay::Full => order.sort_by(|&one, &other| {
            let price = |buffer| price(uses, buffer, out_weight);
            price(one).total_cmp(&price(other))
        }),
        Stay::Latest => order.sort_by_key(|&buffer| std::cmp::Reverse(buffers[buffer].last)),
        _ => order.sort_by_key(|&buffer| buffers[buffer].first),
    }
    order
}

/// The slots and the time that a buffer takes if it stays, in relation to the transfers that it saves.
fn price(uses: &Uses, buffer: usize, out_weight: f64) -> f64 {
    let facts = &uses.buffers[buffer];
    let away = uses.steps() - facts.last + facts.first;
    away as f64 * facts.slots as f64 / facts.wrap_cost(out_weight)
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

/// Takes the cheaper ones of written and read-only buffers first, but only a part of them, then the others.
fn spread(uses: &Uses, order: &[usize], capacity: u64, one: Candidate, chosen: &mut [bool]) {
    let (written, read): (Vec<usize>, Vec<usize>) = order
        .iter()
        .partition(|&&buffer| uses.buffers[buffer].writes);
    let mean = |group: &[usize]| {
        let prices = group.iter();
        let prices = prices.map(|&buffer| price(uses, buffer, one.out_weight));
        prices.sum::<f64>() / group.len() as f64
    };
    let mut groups = [(written, 1.0), (read, 1.0)];
    if mean(&groups[1].0) < mean(&groups[0].0) {
        groups.reverse();
    }
    groups[0].1 = one.part;
    let mut rest = capacity;
    for (group, part) in groups {
        let all: u64 = group.iter().map(|&buffer| uses.buffers[buffer].slots).sum();
        let most = rest.min((all as f64 * part) as u64);
        rest -= most;
        let left = equally(uses, &group, all, most, chosen);
        rest += match part < 1.0 {
            true => left,
            false => fill(uses, &group, left, chosen),
        };
    }
}

/// Takes an equal share along the pass of a group of buffers with `all` slots, and returns the rest of the capacity.
fn equally(uses: &Uses, group: &[usize], all: u64, capacity: u64, chosen: &mut [bool]) -> u64 {
    // A share of each buffer is due; a buffer stays when its slots are due.
    let share = capacity as f64 / all as f64;
    let (mut due, mut left) = (0.0, capacity);
    for &buffer in group {
        let slots = uses.buffers[buffer].slots;
        due += slots as f64 * share;
        if due + 1e-6 >= slots as f64 && slots <= left {
            due -= slots as f64;
            left -= slots;
            chosen[buffer] = true;
        }
    }
    left
}
