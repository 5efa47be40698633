//! The comparison of rounds with a plan and without.

use std::time::Duration;

/// Rounds of which the median is compared.
const SAMPLES: usize = 3;
/// Rounds after which a plan that passed is compared again.
const AGAIN: u64 = 64;

/// A running plan, by the times of its rounds.
#[derive(Debug)]
pub(crate) struct Rounds {
    without: Duration,
    with: Vec<Duration>,
    /// The times of rounds without moves, while the plan pauses.
    pause: Option<Vec<Duration>>,
    began: Option<Duration>,
    /// Rounds until the next comparison; the first is a transition.
    skip: u64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Continue,
    Slower { with: Duration, without: Duration },
}

impl Rounds {
    /// `without` is the time of a round before the plan.
    pub(crate) fn new(without: Duration, began: Duration) -> Self {
        Self {
            without,
            with: Vec::new(),
            pause: None,
            began: Some(began),
            skip: 1,
        }
    }

    /// Returns true while the plan pauses, so that rounds without it are timed.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause.is_some()
    }

    /// The median times of rounds with the plan and without, if there are any.
    pub(crate) fn medians(&self) -> (Option<Duration>, Duration) {
        let with = (!self.with.is_empty()).then(|| median(&self.with));
        (with, self.without)
    }

    /// A round is over. If rounds with the plan are slower than the one before it, the plan pauses for a few rounds, because a single
    /// round may have been fast by chance; if they are slower than those as well, the plan is not worth its cost.
    pub(crate) fn ended(&mut self, at: Duration) -> Verdict {
        let Some(began) = self.began.replace(at) else {
            return Verdict::Continue;
        };
        if self.skip > 0 {
            self.skip -= 1;
            return Verdict::Continue;
        }
        let time = at.saturating_sub(began);
        if let Some(pause) = &mut self.pause {
            pause.push(time);
            if pause.len() < SAMPLES {
                return Verdict::Continue;
            }
            self.without = median(pause);
            self.pause = None;
            self.skip = AGAIN;
            let with = median(&self.with);
            return match is_slower(with, self.without) {
                true => Verdict::Slower {
                    with,
                    without: self.without,
                },
                false => Verdict::Continue,
            };
        }
        if self.with.len() == SAMPLES {
            self.with.remove(0);
        }
        self.with.push(time);
        if self.with.len() == SAMPLES && is_slower(median(&self.with), self.without) {
            (self.pause, self.skip) = (Some(Vec::new()), 1);
        }
        Verdict::Continue
    }
}

/// Returns true if rounds with a plan take more than 1 % longer.
fn is_slower(with: Duration, without: Duration) -> bool {
    with > without.saturating_add(without / 100)
}

fn median(times: &[Duration]) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests;
