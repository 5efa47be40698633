//! Searches for the prices at which the least time of a pass is longest.
//!
//! # Proof that each price gives a lower bound
//! A plan divides a pass into periods, one for each step: the wait for it, and its computation. Averages over the passes of a plan in
//! its steady state satisfy these conditions; the buffers of the plan are whole, but the proof does not need that.
//!
//! 1. At the end of the computation of each step, the bytes in device memory are within the budget: those of the step, those that stay
//!    from a use before it to one after it, and those that came during the period for a later step.
//! 2. A period lasts at least as long as its computation.
//! 3. With `a` seconds of transfers to the device and `b` seconds from it (both at full speed) in a period, and the factor `f` of
//!    [`Link::both_ways`], the period lasts at least `a + k b` and at least `b + k a` for `k = min(1 / f - 1, 1)`: if both directions work
//!    for `x` seconds and one of them alone for `y` and `z` seconds, then `a = f x + y`, `b = f x + z`, and
//!    `a + k b <= (f + 1 - f) x + y + z`. If `f` is below 1/2, both at once are slower than one after the other, and `k` is 1.
//!
//! Multiply each condition with a price that is not negative (for 1 one of memory, for 3 two of the link, which are at most 1 together;
//! what is left to 1 is the price of 2), and add them. The time of a pass is then at least: the computation at its price, less the budget at
//! the price of memory, and what the contents of the buffers cost at these prices. Each byte costs at least its cheapest way through
//! the pass: between two uses it stays, or it leaves and comes back at the best moments; if it was written, it must be written
//! back once before it can leave without a transfer. [`Pricing`] adds up the cheapest ways. So each choice of prices gives a lower
//! bound, also one that a search has not finished.

use super::gaps::Gaps;
use super::prices::{Prices, Pricing, Spans, Value};
use crate::{Link, PlanBudget, Program};

/// The spans of the first search and of the last one: prices of few spans are the beginning for twice as many.
const SPANS: [usize; 2] = [6, 48];
/// The rounds of each search: for each span, and at most.
const ROUNDS_OF_A_SPAN: usize = 16;
const ROUNDS: usize = 400;
/// The same for programs with many gaps, which are to be planned in milliseconds.
const MANY_GAPS: usize = 2000;
const QUICK: (usize, usize) = (24, 40);
/// The chains that a round looks at.
const CHAINS: usize = 100;

/// The first step of the search, in relation to the target; its growth and its decrease.
const STEP: f64 = 0.1;
const LONGER: f64 = 1.1;
const SHORTER: f64 = 0.66;
/// Rounds without a better value until steps are shorter.
const PATIENCE: usize = 5;
/// The part that a round has in the direction of the next one.
const SHARE: f64 = 0.1;

/// A lower bound of the time of a pass. Zero if there is nothing to transfer.
pub(super) fn least_seconds(program: &Program, budget: PlanBudget, link: &Link) -> f64 {
    let gaps = Gaps::of(program, link);
    if gaps.chains.is_empty() {
        return 0.0;
    }
    let (last, rounds) = match gaps.all.len() {
        ..MANY_GAPS => (SPANS[1], ROUNDS),
        _ => QUICK,
    };
    let mut count = SPANS[0];
    let mut spans = Spans::of(program, budget, link, count);
    let mut prices = Prices::new(spans.count());
    loop {
        let rounds = rounds.min(ROUNDS_OF_A_SPAN * spans.count());
        prices = Search::new(&gaps, &spans).run(prices, rounds);
        if count >= last || spans.count() < count {
            break;
        }
        count *= 2;
        spans = Spans::of(program, budget, link, count);
        prices = prices.spread(spans.count());
    }
    let mut pricing = Pricing::new(&spans, &prices);
    pricing.add(&gaps, gaps.chains.iter(), 1.0);
    pricing.value().seconds
}

/// Changes of the prices of each span, in units in which they have about the same size.
type Direction = Vec<[f64; 3]>;

/// The volume algorithm (Barahona and Anbil, *The volume algorithm: producing primal solutions with a subgradient method*, 2000): the
/// direction is an average of the slopes so far, and a round begins at the best prices so far.
struct Search<'a> {
    gaps: &'a Gaps,
    spans: &'a Spans,
    /// One of this many chains is looked at.
    every: usize,
    /// The units of the prices of memory and of the link.
    memory: Vec<f64>,
    link: f64,
}

impl<'a> Search<'a> {
    fn new(gaps: &'a Gaps, spans: &'a Spans) -> Self {
        let count = spans.count();
        let ins: f64 = gaps.chains.iter().map(|chain| chain.in_seconds).sum();
        Self {
            gaps,
            spans,
            every: gaps.chains.len().div_ceil(CHAINS),
            memory: (0..count)
                .map(|span| spans.capacity(span).max(1.0))
                .collect(),
            link: ins.max(spans.compute_seconds()) / count as f64,
        }
    }

    fn run(&self, first: Prices, rounds: usize) -> Prices {
        let value = self.value(&first);
        let (mut best, mut prices) = (value.seconds, first);
        let mut direction = self.scaled(&value);
        let mut target = self.link * self.spans.count() as f64;
        let (mut length, mut worse) = (STEP, 0);
        for _ in 0..rounds {
            if best >= 0.95 * target {
                target = 1.05 * best;
            }
            let square = dot(&direction, &direction);
            if square == 0.0 {
                break;
            }
            let next = self.step(&prices, &direction, length * (target - best) / square);
            let value = self.value(&next);
            let slope = self.scaled(&value);
            let along = dot(&slope, &direction);
            // The shortest direction between the old one and the slope.
            let between = dot(&slope, &slope) - 2.0 * along + square;
            if between > 0.0 {
                let share = (square - along) / between;
                mix(&mut direction, &slope, share.clamp(SHARE / 10.0, SHARE));
            }
            if value.seconds > best {
                (best, prices, worse) = (value.seconds, next, 0);
                if along > 0.0 {
                    length = (length * LONGER).min(2.0);
                }
            } else {
                worse += 1;
            }
            if worse == PATIENCE {
                (length, worse) = (length * SHORTER, 0);
            }
        }
        prices
    }

    fn value(&self, prices: &Prices) -> Value {
        let mut pricing = Pricing::new(self.spans, prices);
        let some = self.gaps.chains.iter().step_by(self.every);
        pricing.add(self.gaps, some, self.every as f64);
        pricing.value()
    }

    fn scaled(&self, value: &Value) -> Direction {
        let slopes = value.slope.iter().zip(&self.memory);
        let scaled = slopes.map(|(&[memory, one, other], unit)| {
            [memory / unit, one / self.link, other / self.link]
        });
        scaled.collect()
    }

    fn step(&self, from: &Prices, direction: &Direction, length: f64) -> Prices {
        let mut next = from.clone();
        for (span, &[memory, one, other]) in direction.iter().enumerate() {
            let price = from.memory[span] + length * memory / self.memory[span];
            next.memory[span] = price.max(0.0);
            let one = from.link[0][span] + length * one / self.link;
            let other = from.link[1][span] + length * other / self.link;
            (next.link[0][span], next.link[1][span]) = allowed(one, other);
        }
        next
    }
}

fn dot(one: &Direction, other: &Direction) -> f64 {
    let pairs = one.iter().flatten().zip(other.iter().flatten());
    pairs.map(|(one, other)| one * other).sum()
}

/// Moves a direction towards another one.
fn mix(direction: &mut Direction, other: &Direction, share: f64) {
    let pairs = direction.iter_mut().flatten().zip(other.iter().flatten());
    pairs.for_each(|(one, other)| *one += share * (other - *one));
}

/// The nearest pair that is not negative, and not above 1 together.
fn allowed(one: f64, other: f64) -> (f64, f64) {
    let both = (one.max(0.0), other.max(0.0));
    if both.0 + both.1 <= 1.0 {
        return both;
    }
    let one = f64::midpoint(one - other, 1.0).clamp(0.0, 1.0);
    (one, 1.0 - one)
}
