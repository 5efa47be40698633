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

/// The outcome of a comparison.
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
mod tests {
    use super::*;

    /// Runs rounds: each takes the time that the closure returns for a round with the plan (true) or without.
    fn run(without: u64, count: usize, time: impl Fn(bool) -> u64) -> (Rounds, Verdict, usize) {
        let us = Duration::from_micros;
        let mut now = us(1000);
        let mut rounds = Rounds::new(us(without), now);
        for at in 0..count {
            now += us(time(!rounds.is_paused()));
            match rounds.ended(now) {
                Verdict::Continue => {}
                slower @ Verdict::Slower { .. } => return (rounds, slower, at),
            }
        }
        (rounds, Verdict::Continue, count)
    }

    #[test]
    fn a_faster_plan_never_pauses() {
        let (rounds, verdict, _) =
            run(100, 1000, |with| if with { 101 } else { panic!("a pause") });
        assert_eq!(verdict, Verdict::Continue, "1 % is allowed");
        assert_eq!(
            rounds.medians(),
            (Some(Duration::from_micros(101)), Duration::from_micros(100))
        );
    }

    #[test]
    fn a_slower_plan_ends_after_a_few_rounds() {
        let (_, verdict, at) = run(100, 1000, |with| if with { 102 } else { 100 });
        let us = Duration::from_micros;
        assert_eq!(
            verdict,
            Verdict::Slower {
                with: us(102),
                without: us(100)
            }
        );
        assert!(at < 10, "{at}");
    }

    #[test]
    fn a_round_that_was_fast_by_chance_does_not_end_the_plan() {
        let (rounds, verdict, _) = run(50, 1000, |with| if with { 100 } else { 200 });
        assert_eq!(verdict, Verdict::Continue);
        assert_eq!(rounds.medians().1, Duration::from_micros(200));
    }
}
