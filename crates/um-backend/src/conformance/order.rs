//! A sequence of calls without waits in between.

use super::Make;
use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample, samples};
use crate::dtype::Element;

const LEN: usize = 257;
const STEPS: usize = 200;

/// [`Rule::InOrder`]: random calls have the same effect on a buffer as on a `Vec`.
pub fn in_order<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::InOrder;
    let (mut buffer, mut model) = made_with(rule, make, 1, LEN)?;
    let (mut other, mut other_model) = made_with(rule, make, 600, LEN)?;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for step in 0..STEPS {
        let (start, end) = dice.range();
        let when = |call: &str| format!("step {step}, {call} with {start}..{end}");
        match dice.below(6) {
            0 => {
                rule.works(&when("fill"), buffer.fill(sample(step)))?;
                model.fill(sample(step));
            }
            1 => {
                rule.works(&when("set_zero"), other.set_zero())?;
                other_model.fill(T::zeroed());
            }
            2 => {
                let new = samples(step, end - start);
                let written = buffer.copy_from_host_at(start, &new);
                rule.works(&when("copy_from_host_at"), written)?;
                model[start..end].copy_from_slice(&new);
            }
            3 => {
                let to = LEN - end;
                let copied = buffer.copy_from_buffer_at(to, &*other, start..end);
                rule.works(&when("copy_from_buffer_at"), copied)?;
                model[to..to + end - start].copy_from_slice(&other_model[start..end]);
            }
            4 => {
                rule.works(&when("copy_from_buffer"), other.copy_from_buffer(&*buffer))?;
                other_model.copy_from_slice(&model);
            }
            _ => {
                let mut found = samples(900, end - start);
                let read = buffer.copy_to_host_at(start, &mut found);
                rule.works(&when("copy_to_host_at"), read)?;
                rule.equal(&found, &model[start..end], &when("read"))?;
            }
        }
    }
    rule.has(&*buffer, &model, "at the end")?;
    rule.has(&*other, &other_model, "at the end, in the other buffer")
}

/// A xorshift generator with a fixed seed, so that each run makes the same calls.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn range(&mut self) -> (usize, usize) {
        let (a, b) = (self.below(LEN + 1), self.below(LEN + 1));
        (a.min(b), a.max(b))
    }
}
