//! Runs contenders in turn.

use crate::clock::Clock;
use crate::data;
use crate::peer::{self, Peer};
use crate::report::{CaseReport, ContenderReport, Kind, Outcome};
use crate::stats::Stats;
use crate::{Bench, Settings};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Rounds that are not counted: they load modules, fill pools and touch pages.
const WARM_UP: usize = 2;

/// Rounds of a case that has no time left.
const LEAST: usize = 5;

/// The time of a measurement, which its cases share: each gets an equal part of what the earlier ones have left.
#[derive(Debug)]
pub struct Budget {
    end: Instant,
    cases: u32,
}

impl Budget {
    /// This time, from now on, for one case.
    pub fn new(time: Duration) -> Self {
        Self {
            end: Instant::now() + time,
            cases: 1,
        }
    }

    /// Shares the time among this number of cases.
    pub fn split(&mut self, cases: usize) {
        self.cases = cases as u32;
    }

    /// The end of the next case.
    fn next(&mut self) -> Instant {
        let now = Instant::now();
        let share = self.end.saturating_duration_since(now) / self.cases.max(1);
        self.cases = self.cases.saturating_sub(1);
        now + share
    }
}

/// The input of a contender for one sample.
pub struct Round<'a> {
    /// The number of the round.
    pub number: u64,
    /// The clock for the sample.
    pub clock: &'a Clock,
    /// This round's data, the same for all contenders.
    pub source: &'a [f32],
    /// Memory for a result, with the length of the data; filled with NaN before each sample.
    pub back: &'a mut [f32],
    checks: usize,
}

impl Round<'_> {
    /// Fails unless `found` is `factor` times this round's data.
    pub fn verify(&mut self, found: &[f32], factor: f32) -> Result<()> {
        self.checks += 1;
        verify(found, self.source, factor)
    }

    /// Fails unless the result is `factor` times this round's data.
    pub fn verify_back(&mut self, factor: f32) -> Result<()> {
        self.checks += 1;
        verify(self.back, self.source, factor)
    }

    /// Returns the time if the result is `factor` times this round's data.
    pub fn verified(&mut self, time: Duration, factor: f32) -> Result<Duration> {
        self.verify_back(factor)?;
        Ok(time)
    }

    /// Fails unless another condition is true.
    pub fn verify_that(&mut self, holds: bool, what: &str) -> Result<()> {
        self.checks += 1;
        ensure!(holds, "WRONG RESULT: {what}");
        Ok(())
    }
}

fn verify(found: &[f32], source: &[f32], factor: f32) -> Result<()> {
    ensure!(found.len() == source.len(), "WRONG RESULT: another length");
    let wrong = data::differences(found, source, factor);
    ensure!(
        wrong == 0,
        "WRONG RESULT: {wrong} of {} elements",
        found.len()
    );
    Ok(())
}

/// Takes one sample: prepares, times one operation, and verifies the result. Only the returned time counts.
pub type Sample<'a> = Box<dyn FnMut(&mut Round<'_>) -> Result<Duration> + 'a>;

struct Contender<'a> {
    name: String,
    kind: Kind,
    sample: Result<Sample<'a>, String>,
    seconds: Vec<f64>,
    failed: Option<String>,
}

/// For work below this size each sample is taken twice on a GPU, and only the second counts.
const TWICE_BELOW: usize = 64 << 20;

/// One measurement at one size: contenders that take turns.
pub struct Case<'a> {
    label: String,
    bytes: usize,
    elements: usize,
    rounds: usize,
    contenders: Vec<Contender<'a>>,
}

impl<'a> Case<'a> {
    /// A case with this number of bytes of data.
    pub fn of_bytes(bytes: usize) -> Self {
        Self::new(size_text(bytes), bytes, bytes / size_of::<f32>())
    }

    /// A case with its own label; each round has `elements` numbers of data.
    pub fn new(label: impl Into<String>, bytes: usize, elements: usize) -> Self {
        Self {
            label: label.into(),
            bytes,
            elements,
            // Fewer for sizes that take long.
            rounds: match bytes {
                0..=0xF_FFFF => 31,
                0x10_0000..=0x3FF_FFFF => 21,
                _ => 11,
            },
            contenders: Vec::new(),
        }
    }

    /// Adds a contender of cuda-um. The first one is the reference for comparisons.
    pub fn ours(
        &mut self,
        name: &str,
        sample: impl FnMut(&mut Round<'_>) -> Result<Duration> + 'a,
    ) {
        self.add(name, Kind::Ours, Ok(Box::new(sample)));
    }

    /// Adds raw CUDA.
    pub fn raw(&mut self, name: &str, sample: impl FnMut(&mut Round<'_>) -> Result<Duration> + 'a) {
        self.add(name, Kind::Raw, Ok(Box::new(sample)));
    }

    /// Adds another library. Its process does `request`, times it with its own clock and verifies it. If the peer cannot run,
    /// the reason is recorded.
    pub fn peer(&mut self, bench: &Bench, peer: &str, name: &str, request: Value) {
        let ask = |peer: Rc<RefCell<Peer>>| -> Sample<'a> {
            Box::new(move |round| {
                let mut request = request.clone();
                request["round"] = round.number.into();
                let answer = peer.borrow_mut().ask(&request)?;
                round.verify_that(answer["verified"] == true, "the peer's own check")?;
                peer::seconds(&answer)
            })
        };
        let sample = bench.peers.get(peer).map(ask);
        self.add(name, Kind::Peer, sample);
    }

    /// Adds a contender that cannot run here, with the reason.
    pub fn skipped(&mut self, kind: Kind, name: &str, why: &str) {
        self.add(name, kind, Err(why.to_owned()));
    }

    fn add(&mut self, name: &str, kind: Kind, sample: Result<Sample<'a>, String>) {
        self.contenders.push(Contender {
            name: name.to_owned(),
            kind,
            sample,
            seconds: Vec::new(),
            failed: None,
        });
    }

    /// Sets the number of rounds, instead of the usual one for the size.
    pub fn rounds(&mut self, rounds: usize) {
        self.rounds = rounds;
    }

    /// Runs the contenders in turn; each round begins with another one. A contender that fails stops, and the others continue. The rounds
    /// end when the case has had its share of the time, but not before the least number.
    pub fn run(mut self, clock: &Clock, settings: &Settings, budget: &mut Budget) -> CaseReport {
        let (most, end, mut rounds) = (settings.rounds(self.rounds), budget.next(), 0);
        let (mut source, mut back) = (vec![0.0; self.elements], vec![0.0; self.elements]);
        let count = self.contenders.len();
        eprint!("  {:<24}", self.label);
        for number in 0..WARM_UP + most {
            let is_late = settings.rounds.is_none() && Instant::now() >= end;
            if is_late && number >= WARM_UP + LEAST {
                break;
            }
            rounds += usize::from(number >= WARM_UP);
            data::fill(&mut source, number as u64);
            for turn in 0..count {
                let contender = &mut self.contenders[(number + turn) % count];
                let (Ok(sample), None) = (&mut contender.sample, &contender.failed) else {
                    continue;
                };
                let mut take = || {
                    back.fill(f32::NAN);
                    let mut round = Round {
                        number: number as u64,
                        clock,
                        source: &source,
                        back: &mut back,
                        checks: 0,
                    };
                    let time = sample(&mut round)?;
                    ensure!(round.checks > 0, "NOT VERIFIED");
                    Ok(time)
                };
                // At the first sample the GPU is still switching from another process, and helper threads sleep, which would distort small
                // work. A virtual clock does not know this.
                let taken = match self.bytes < TWICE_BELOW && !clock.is_simulated() {
                    true => take().and_then(|_| take()),
                    false => take(),
                };
                match taken {
                    Ok(time) if number >= WARM_UP => contender.seconds.push(time.as_secs_f64()),
                    Ok(_) => {}
                    Err(error) => {
                        eprint!("[{}: {error:#}] ", contender.name);
                        contender.failed = Some(format!("{error:#}"));
                    }
                }
            }
        }
        eprintln!("{rounds} rounds");
        let contenders = self.contenders.into_iter().map(report).collect();
        CaseReport::new(self.label, self.bytes, rounds, contenders)
    }
}

fn report(contender: Contender<'_>) -> ContenderReport {
    let outcome = match (contender.sample, contender.failed) {
        (Err(reason), _) => Outcome::Skipped { reason },
        (_, Some(reason)) => Outcome::Failed { reason },
        _ => match Stats::of(&contender.seconds) {
            Some(seconds) => Outcome::Measured {
                verified: true,
                seconds,
                samples: contender.seconds,
            },
            None => Outcome::Failed {
                reason: "no rounds".to_owned(),
            },
        },
    };
    ContenderReport {
        name: contender.name,
        kind: contender.kind,
        outcome,
    }
}

/// Number of repetitions in one sample for repeatable work of this size: otherwise the cost of reading the clock would dominate
/// short work.
pub fn repeats(bytes: usize) -> usize {
    match bytes {
        0..=0x3_FFFF => 16,
        _ => 1,
    }
}

/// `64 KiB`
pub fn size_text(bytes: usize) -> String {
    match bytes {
        0..=1023 => format!("{bytes} B"),
        1024..=0xF_FFFF => format!("{} KiB", bytes >> 10),
        0x10_0000..=0x3FFF_FFFF => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contender_that_errs_stops_and_the_others_go_on() {
        let mut case = Case::of_bytes(4096);
        case.ours("right", |round| {
            let source = round.source.to_vec();
            round.verify(&source, 1.0)?;
            Ok(Duration::from_micros(3))
        });
        case.raw("wrong", |round| {
            round.verify_back(1.0)?;
            Ok(Duration::ZERO)
        });
        case.raw("unverified", |_| Ok(Duration::ZERO));
        case.skipped(Kind::Peer, "absent", "not here");
        let settings = Settings {
            quick: true,
            rounds: Some(3),
        };
        let mut budget = Budget::new(Duration::ZERO);
        let report = case.run(&Clock::wall(), &settings, &mut budget);
        let Outcome::Measured { seconds, .. } = &report.contenders[0].outcome else {
            panic!("{report:?}");
        };
        assert_eq!((seconds.count, seconds.median), (3, 3e-6));
        for wrong in [1, 2] {
            assert!(matches!(
                report.contenders[wrong].outcome,
                Outcome::Failed { .. }
            ));
        }
        assert!(matches!(
            report.contenders[3].outcome,
            Outcome::Skipped { .. }
        ));
    }

    #[test]
    fn a_case_without_time_has_the_least_rounds() {
        let rounds = |settings: &Settings, time| {
            let mut case = Case::of_bytes(4096);
            case.ours("ours", |round| {
                round.back.copy_from_slice(round.source);
                round.verified(Duration::ZERO, 1.0)
            });
            let mut budget = Budget::new(time);
            case.run(&Clock::wall(), settings, &mut budget).rounds
        };
        let (usual, hour) = (Settings::default(), Duration::from_secs(3600));
        assert_eq!(rounds(&usual, Duration::ZERO), LEAST);
        assert_eq!(rounds(&usual, hour), 31);
        let given = Settings {
            rounds: Some(7),
            ..usual
        };
        assert_eq!(rounds(&given, Duration::ZERO), 7);
    }

    #[test]
    fn later_cases_get_what_earlier_ones_leave() {
        let mut budget = Budget::new(Duration::from_secs(40));
        budget.split(4);
        let shares = [(); 5].map(|()| budget.next().saturating_duration_since(Instant::now()));
        let seconds = shares.map(|share| share.as_secs_f64().round());
        assert_eq!(seconds, [10.0, 13.0, 20.0, 40.0, 40.0]);
    }

    #[test]
    fn sizes_in_words() {
        assert_eq!(
            [4, 4096, 256 << 20, 1 << 30].map(size_text),
            ["4 B", "4 KiB", "256 MiB", "1 GiB"]
        );
    }
}
