//! The results: JSON and Markdown.

mod markdown;

pub use markdown::time_text;

use crate::stats::Stats;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    /// The GPU, or the simulated one.
    pub gpu: String,
    /// Version of the CUDA runtime.
    pub cuda: String,
    /// Newest CUDA version that the driver supports.
    pub driver: String,
    /// Processors of the host.
    pub cores: usize,
    /// True if times are predictions of the simulator's cost model.
    pub predicted: bool,
    /// A quick run.
    pub quick: bool,
    /// Peers by script or program: the version, or the reason why it cannot run.
    pub peers: BTreeMap<String, String>,
    /// The measurements.
    pub measurements: Vec<MeasurementReport>,
}

/// One measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct MeasurementReport {
    /// The name for `--only`.
    pub name: String,
    /// The timed part, and the parts that are not timed.
    pub what: String,
    /// Sizes, or other cases.
    pub cases: Vec<CaseReport>,
    /// Conclusions from the numbers, as text.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The reason why it ended early, if it did.
    pub failed: Option<String>,
}

/// One size of a measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct CaseReport {
    /// The label.
    pub label: String,
    /// Bytes of data.
    pub bytes: usize,
    /// Rounds that count.
    pub rounds: usize,
    /// The contenders, in order.
    pub contenders: Vec<ContenderReport>,
    /// The ratio of each of ours to each other contender: below 1, ours is faster.
    pub ratios: Vec<Ratio>,
}

/// The kind of contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// cuda-um.
    Ours,
    /// Raw CUDA.
    Raw,
    /// Another library.
    Peer,
}

/// One contender.
#[derive(Debug, Serialize, Deserialize)]
pub struct ContenderReport {
    /// The name.
    pub name: String,
    /// The kind.
    pub kind: Kind,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// The result of one contender.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// Every result was verified.
    Measured {
        /// Always true: one wrong result is a failure.
        verified: bool,
        /// Seconds for a sample.
        seconds: Stats,
        /// In the order of the rounds.
        samples: Vec<f64>,
    },
    /// The contender cannot run here.
    Skipped {
        /// The reason.
        reason: String,
    },
    /// The contender failed, or its result was wrong.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// One of ours divided by another contender.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ratio {
    /// Our contender.
    pub ours: String,
    /// The other contender.
    pub other: String,
    /// Median over median.
    pub ratio: f64,
    /// Ratios of single rounds: both had the same data, and the machine was in the same state.
    pub by_round: Stats,
    /// True for the fastest raw contender.
    pub best_raw: bool,
}

impl ContenderReport {
    /// Seconds, if it was measured.
    pub fn seconds(&self) -> Option<&Stats> {
        match &self.outcome {
            Outcome::Measured { seconds, .. } => Some(seconds),
            _ => None,
        }
    }

    fn samples(&self) -> &[f64] {
        match &self.outcome {
            Outcome::Measured { samples, .. } => samples,
            _ => &[],
        }
    }
}

impl CaseReport {
    /// Median seconds of a measured contender.
    pub fn median(&self, name: &str) -> Option<f64> {
        let contender = self.contenders.iter().find(|one| one.name == name)?;
        Some(contender.seconds()?.median)
    }

    /// Computes the ratios of the measured contenders.
    pub fn new(
        label: String,
        bytes: usize,
        rounds: usize,
        contenders: Vec<ContenderReport>,
    ) -> Self {
        let best_raw = contenders
            .iter()
            .filter(|contender| contender.kind == Kind::Raw)
            .filter_map(|contender| Some((contender.seconds()?.median, &contender.name)))
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(_, name)| name.clone());
        let mut ratios = Vec::new();
        for ours in contenders.iter().filter(|c| c.kind == Kind::Ours) {
            for other in contenders.iter().filter(|c| c.kind != Kind::Ours) {
                let (Some(a), Some(b)) = (ours.seconds(), other.seconds()) else {
                    continue;
                };
                let pairs = ours.samples().iter().zip(other.samples());
                let by_round: Vec<f64> = pairs.map(|(a, b)| quotient(*a, *b)).collect();
                let Some(by_round) = Stats::of(&by_round) else {
                    continue;
                };
                ratios.push(Ratio {
                    ours: ours.name.clone(),
                    other: other.name.clone(),
                    ratio: quotient(a.median, b.median),
                    by_round,
                    best_raw: best_raw.as_ref() == Some(&other.name),
                });
            }
        }
        Self {
            label,
            bytes,
            rounds,
            contenders,
            ratios,
        }
    }
}

/// JSON has no infinity. Two zeros count as equal, because the simulator's clock may stand still.
fn quotient(a: f64, b: f64) -> f64 {
    match (a == 0.0, b == 0.0) {
        (true, true) => 1.0,
        (_, true) => f64::MAX,
        _ => a / b,
    }
}

impl Report {
    /// Contenders and measurements that failed, as text.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for measurement in &self.measurements {
            if let Some(reason) = &measurement.failed {
                failures.push(format!("{}: {reason}", measurement.name));
            }
            for case in &measurement.cases {
                for contender in &case.contenders {
                    if let Outcome::Failed { reason } = &contender.outcome {
                        let (name, label) = (&measurement.name, &case.label);
                        failures.push(format!("{name}, {label}, {}: {reason}", contender.name));
                    }
                }
            }
        }
        failures
    }
}

impl MeasurementReport {
    /// All contenders, in the order of their first appearance.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for contender in self.cases.iter().flat_map(|case| &case.contenders) {
            if !names.contains(&contender.name.as_str()) {
                names.push(&contender.name);
            }
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(name: &str, kind: Kind, samples: &[f64]) -> ContenderReport {
        ContenderReport {
            name: name.to_owned(),
            kind,
            outcome: Outcome::Measured {
                verified: true,
                seconds: Stats::of(samples).unwrap(),
                samples: samples.to_vec(),
            },
        }
    }

    fn sample() -> Report {
        let skipped = ContenderReport {
            name: "absent".to_owned(),
            kind: Kind::Peer,
            outcome: Outcome::Skipped {
                reason: "not here".to_owned(),
            },
        };
        let case = CaseReport::new(
            "4 KiB".to_owned(),
            4096,
            3,
            vec![
                measured("ours", Kind::Ours, &[1e-6, 2e-6, 3e-6]),
                measured("slow", Kind::Raw, &[4e-6, 8e-6, 12e-6]),
                measured("fast", Kind::Raw, &[2e-6, 4e-6, 6e-6]),
                skipped,
            ],
        );
        Report {
            gpu: "a GPU".to_owned(),
            cuda: "13.0".to_owned(),
            driver: "13.0".to_owned(),
            cores: 2,
            predicted: false,
            quick: false,
            peers: BTreeMap::new(),
            measurements: vec![MeasurementReport {
                name: "copy".to_owned(),
                what: "A copy.".to_owned(),
                cases: vec![case],
                notes: vec!["fast is fast".to_owned()],
                failed: None,
            }],
        }
    }

    #[test]
    fn ratios_of_ours_over_all_others() {
        let report = sample();
        let ratios = &report.measurements[0].cases[0].ratios;
        let told: Vec<_> = ratios
            .iter()
            .map(|r| (r.other.as_str(), r.ratio, r.by_round.median, r.best_raw))
            .collect();
        assert_eq!(
            told,
            [("slow", 0.25, 0.25, false), ("fast", 0.5, 0.5, true)]
        );
    }

    #[test]
    fn markdown_has_all_contenders() {
        let text = sample().markdown();
        assert!(text.contains("| | rounds | ours | slow | fast | absent |"));
        assert!(text.contains(
            "| 4 KiB | 3 | 2.0 us ± 25 % | 8.0 us ± 25 % (× 0.25) | 4.0 us ± 25 % (× 0.50, best raw) | skipped |"
        ), "{text}");
        assert!(
            text.contains("\n\n- fast is fast\n- skipped: absent (not here)\n"),
            "{text}"
        );
        assert!(!text.contains("Predictions") && !text.contains("Failed"));
    }

    #[test]
    fn predictions_say_so() {
        let report = Report {
            predicted: true,
            ..sample()
        };
        assert!(report.markdown().contains("Predictions of the simulator"));
    }

    #[test]
    fn json_comes_back() {
        let text = serde_json::to_string(&sample()).unwrap();
        let back: Report = serde_json::from_str(&text).unwrap();
        // The last digit of a number may change.
        assert_eq!(back.markdown(), sample().markdown());
        assert_eq!(back.measurements[0].cases[0].ratios.len(), 2);
    }

    #[test]
    fn failures_are_named() {
        let mut report = sample();
        report.measurements[0].cases[0].contenders[1].outcome = Outcome::Failed {
            reason: "wrong".to_owned(),
        };
        assert_eq!(report.failures(), ["copy, 4 KiB, slow: wrong"]);
        assert!(report.markdown().contains("FAILED"));
    }

    #[test]
    fn times_in_words() {
        assert_eq!(
            [5e-7, 1.5e-5, 0.0021, 2.0].map(time_text),
            ["500 ns", "15.0 us", "2.10 ms", "2.00 s"]
        );
    }
}
