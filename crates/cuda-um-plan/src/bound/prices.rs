//! The least time of a pass at prices for memory and for the link.

use super::gaps::{Chain, Gap, Gaps, Kind};
use crate::{Link, PlanBudget, Program, Repeat, SLOT_BYTES};

/// The steps of a pass in spans, each with prices of its own.
pub(super) struct Spans {
    /// The first step of each span, and of each span of the next pass.
    starts: Vec<usize>,
    /// The span of each step, and of each step of the next pass.
    of: Vec<u32>,
    /// The time of the steps of each span.
    compute: Vec<f64>,
    /// The bytes that steps use, less the budget, summed over the steps of each span.
    excess: Vec<f64>,
    /// The budget.
    bytes: f64,
    /// A second of one direction costs the other one this part of a second: see [`Link::both_ways`].
    slower: f64,
}

/// Prices for each span. None is negative.
#[derive(Clone, Debug)]
pub(super) struct Prices {
    /// Of a byte in device memory during a step, in seconds.
    pub memory: Vec<f64>,
    /// Of a second of the link: one price for its two conditions each. Together they are at most 1.
    pub link: [Vec<f64>; 2],
}

impl Prices {
    /// The link has a price, and memory has none.
    pub(super) fn new(count: usize) -> Self {
        Self {
            memory: vec![0.0; count],
            link: [vec![0.9; count], vec![0.1; count]],
        }
    }

    /// The same prices for other spans.
    pub(super) fn spread(&self, count: usize) -> Self {
        let had = self.memory.len();
        let wide = |all: &[f64]| (0..count).map(|span| all[span * had / count]).collect();
        let [one, other] = &self.link;
        Self {
            memory: wide(&self.memory),
            link: [wide(one), wide(other)],
        }
    }
}

/// The least time at some prices, and for each span how it changes with the price of memory and with both prices of the link.
#[derive(Debug, Default)]
pub(super) struct Value {
    pub seconds: f64,
    pub slope: Vec<[f64; 3]>,
}

/// The cheapest moment for one direction of a transfer in a gap.
#[derive(Clone, Copy, Debug)]
struct Way {
    price: f64,
    span: usize,
    /// The bytes are in device memory until this step, or from it on.
    at: usize,
}

/// What happens in a gap.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Stay,
    StayAndWrite(Way),
    Come(Way),
    Leave(Way),
    LeaveAndCome(Way, Way),
    Nothing,
}

impl Spans {
    pub(super) fn of(program: &Program, budget: PlanBudget, link: &Link, most: usize) -> Self {
        // Results are written back after the last step.
        let end = usize::from(program.repeat == Repeat::Once);
        let steps = program.steps.len() + end;
        let count = steps.min(most);
        let start = |span: usize| (span * steps).div_ceil(count);
        let starts: Vec<usize> = (0..=2 * count).map(start).collect();
        let mut spans = Self {
            of: Vec::with_capacity(2 * steps + 1),
            compute: vec![0.0; count],
            excess: vec![0.0; count],
            slower: (1.0 / link.both_ways - 1.0).min(1.0),
            starts,
            bytes: (budget.slots() * SLOT_BYTES) as f64,
        };
        for span in 0..2 * count {
            let steps = spans.starts[span]..spans.starts[span + 1];
            spans.of.extend(steps.map(|_| span as u32));
        }
        let bytes = spans.bytes;
        for step in 0..steps {
            let span = spans.span(step);
            spans.excess[span] -= bytes;
            let Some(planned) = program.steps.get(step) else {
                continue;
            };
            spans.compute[span] += planned.compute_seconds;
            for one in &planned.uses {
                let spec = &program.buffers[one.buffer];
                if !spec.in_place {
                    spans.excess[span] += spec.bytes as f64;
                }
            }
        }
        spans
    }

    pub(super) fn count(&self) -> usize {
        self.compute.len()
    }

    pub(super) fn compute_seconds(&self) -> f64 {
        self.compute.iter().sum()
    }

    /// The budget, summed over the steps of a span.
    pub(super) fn capacity(&self, span: usize) -> f64 {
        self.bytes * self.steps(span) as f64
    }

    fn span(&self, step: usize) -> usize {
        self.of[step] as usize
    }

    pub(super) fn steps(&self, span: usize) -> usize {
        self.starts[span + 1] - self.starts[span]
    }
}

/// The evaluation of some prices.
pub(super) struct Pricing<'a> {
    spans: &'a Spans,
    prices: &'a Prices,
    /// The price of a byte from the first step to the beginning of each span.
    sums: Vec<f64>,
    /// The price of a second of a transfer in each span, to the device and from it.
    ways: [Vec<f64>; 2],
    /// For the prices of bytes that were added: how often each sum, and the price of a step of each span, counts.
    held: Vec<[f64; 2]>,
    /// The seconds of transfers in each span.
    moved: Vec<[f64; 2]>,
    seconds: f64,
}

impl<'a> Pricing<'a> {
    pub(super) fn new(spans: &'a Spans, prices: &'a Prices) -> Self {
        let count = spans.count();
        let mut sums = vec![0.0; 2 * count];
        for span in 1..2 * count {
            let before = span - 1;
            let steps = spans.steps(before) as f64;
            sums[span] = sums[before] + prices.memory[before % count] * steps;
        }
        let price = |one: usize, other: usize| -> Vec<f64> {
            let both = (0..2 * count).map(|span| {
                (
                    prices.link[one][span % count],
                    prices.link[other][span % count],
                )
            });
            both.map(|(one, other)| one + spans.slower * other)
                .collect()
        };
        Self {
            spans,
            prices,
            sums,
            ways: [price(0, 1), price(1, 0)],
            held: vec![[0.0; 2]; 2 * count],
            moved: vec![[0.0; 2]; count],
            seconds: 0.0,
        }
    }

    /// Adds the chains, each of them `weight` times, at their least prices.
    pub(super) fn add<'b>(
        &mut self,
        gaps: &Gaps,
        chains: impl Iterator<Item = &'b Chain>,
        weight: f64,
    ) {
        for chain in chains {
            let all = &gaps.all[chain.gaps.clone()];
            let write = if chain.dirty {
                self.best_write(chain, all)
            } else {
                Some(usize::MAX)
            };
            for (index, gap) in all.iter().enumerate() {
                let (price, choice) = match write {
                    // A chain with a current home has no gap with this number.
                    Some(at) if at == index => self.write(chain, gap),
                    Some(at) if at > index && chain.dirty => self.stay(chain, gap),
                    None => self.stay(chain, gap),
                    Some(_) => self.clean(chain, gap),
                };
                self.seconds += weight * price;
                self.count(chain, gap, choice, weight);
            }
        }
    }

    /// The value with everything that was added.
    pub(super) fn value(&self) -> Value {
        let count = self.spans.count();
        let mut seconds = self.seconds;
        let mut slope = vec![[0.0; 3]; count];
        let mut later = 0.0;
        for span in (0..2 * count).rev() {
            let [sum, within] = self.held[span];
            slope[span % count][0] += later * self.spans.steps(span) as f64 + within;
            later += sum;
        }
        for (span, slope) in slope.iter_mut().enumerate() {
            let compute = self.spans.compute[span];
            let [one, other] = [0, 1].map(|way: usize| self.prices.link[way][span]);
            seconds +=
                (1.0 - one - other) * compute + self.prices.memory[span] * self.spans.excess[span];
            let [ins, outs] = self.moved[span];
            slope[0] += self.spans.excess[span];
            slope[1] = ins + self.spans.slower * outs - compute;
            slope[2] = outs + self.spans.slower * ins - compute;
        }
        Value { seconds, slope }
    }

    /// The gap in which a chain is written back, if it is.
    fn best_write(&self, chain: &Chain, gaps: &[Gap]) -> Option<usize> {
        let (mut stale, mut current, mut at) = (0.0, f64::INFINITY, None);
        for (index, gap) in gaps.iter().enumerate() {
            let written = stale + self.write(chain, gap).0;
            current += self.clean(chain, gap).0;
            if written < current {
                (current, at) = (written, Some(index));
            }
            stale += self.stay(chain, gap).0;
        }
        at.filter(|_| current < stale)
    }

    /// The contents stay, and their home is stale afterwards.
    fn stay(&self, chain: &Chain, gap: &Gap) -> (f64, Choice) {
        match gap.kind {
            Kind::Last => (f64::INFINITY, Choice::Nothing),
            _ => (self.held(chain, gap.begin, gap.until), Choice::Stay),
        }
    }

    /// The home is current.
    fn clean(&self, chain: &Chain, gap: &Gap) -> (f64, Choice) {
        if gap.kind == Kind::Last {
            return (0.0, Choice::Nothing);
        }
        let (stays, comes) = (
            self.held(chain, gap.begin, gap.until),
            self.come(chain, gap),
        );
        match stays <= comes.price && gap.kind == Kind::Between {
            true => (stays, Choice::Stay),
            false => (comes.price, Choice::Come(comes)),
        }
    }

    /// The home becomes current in this gap.
    fn write(&self, chain: &Chain, gap: &Gap) -> (f64, Choice) {
        let leaves = self.leave(chain, gap);
        if gap.kind == Kind::Last {
            return (leaves.price, Choice::Leave(leaves));
        }
        let comes = self.come(chain, gap);
        let both = leaves.price + comes.price;
        let spans = self.spans.span(gap.begin)..=self.spans.span(gap.until);
        let prices = spans.map(|span| (self.ways[1][span] * chain.out_seconds, span));
        let least = prices.reduce(|one, other| if other.0 < one.0 { other } else { one });
        let (price, span) = least.unwrap_or_default();
        let price = price + self.held(chain, gap.begin, gap.until);
        match price < both {
            true => (
                price,
                Choice::StayAndWrite(Way {
                    price,
                    span,
                    at: gap.until,
                }),
            ),
            false => (both, Choice::LeaveAndCome(leaves, comes)),
        }
    }

    /// The bytes are in device memory from the beginning of the gap until they leave.
    fn leave(&self, chain: &Chain, gap: &Gap) -> Way {
        let (first, last) = (self.spans.span(gap.begin), self.spans.span(gap.until));
        let price = self.ways[1][first] * chain.out_seconds;
        let mut best = Way {
            price,
            span: first,
            at: gap.begin,
        };
        let begin = self.until(gap.begin);
        for span in first + 1..=last {
            let held = chain.bytes * (self.sums[span] - begin);
            if held >= best.price {
                break;
            }
            let price = self.ways[1][span] * chain.out_seconds + held;
            if price < best.price {
                let at = self.spans.starts[span];
                best = Way { price, span, at };
            }
        }
        best
    }

    /// The bytes are in device memory from when they come until the end of the gap.
    fn come(&self, chain: &Chain, gap: &Gap) -> Way {
        let last = self.spans.span(gap.until);
        let price = self.ways[0][last] * chain.in_seconds;
        let mut best = Way {
            price,
            span: last,
            at: gap.until,
        };
        let end = self.until(gap.until);
        for span in (self.spans.span(gap.begin)..last).rev() {
            // What comes during a step needs memory beside the step's buffers.
            let step = self.prices.memory[span % self.spans.count()];
            let held = chain.bytes * (end - self.sums[span + 1] + step);
            if held >= best.price {
                break;
            }
            let price = self.ways[0][span] * chain.in_seconds + held;
            if price < best.price {
                let at = self.spans.starts[span + 1] - 1;
                best = Way { price, span, at };
            }
        }
        best
    }

    /// The price of a chain's bytes in device memory from a step until another one.
    fn held(&self, chain: &Chain, from: usize, until: usize) -> f64 {
        chain.bytes * (self.until(until) - self.until(from))
    }

    /// The price of a byte from the first step to this one.
    fn until(&self, step: usize) -> f64 {
        let span = self.spans.span(step);
        let within = step - self.spans.starts[span];
        self.sums[span] + self.prices.memory[span % self.spans.count()] * within as f64
    }

    /// Counts what is held and moved.
    fn count(&mut self, chain: &Chain, gap: &Gap, choice: Choice, weight: f64) {
        let count = self.spans.count();
        let mut hold = |from: usize, until: usize| {
            for (step, bytes) in [(from, -chain.bytes), (until, chain.bytes)] {
                let span = self.spans.span(step);
                let within = step - self.spans.starts[span];
                self.held[span][0] += weight * bytes;
                self.held[span][1] += weight * bytes * within as f64;
            }
        };
        let mut pay = |way: usize, at: Way, seconds: f64| {
            self.moved[at.span % count][way] += weight * seconds
        };
        match choice {
            Choice::Nothing => {}
            Choice::Stay => hold(gap.begin, gap.until),
            Choice::StayAndWrite(out) => {
                hold(gap.begin, gap.until);
                pay(1, out, chain.out_seconds);
            }
            Choice::Come(comes) => {
                hold(comes.at, gap.until);
                pay(0, comes, chain.in_seconds);
            }
            Choice::Leave(leaves) => {
                hold(gap.begin, leaves.at);
                pay(1, leaves, chain.out_seconds);
            }
            Choice::LeaveAndCome(leaves, comes) => {
                hold(gap.begin, leaves.at);
                pay(1, leaves, chain.out_seconds);
                hold(comes.at, gap.until);
                pay(0, comes, chain.in_seconds);
            }
        }
    }
}
