//! The observations of a run, as lines of JSON: the machine, then one line for each case.

use anyhow::{Context, Error, Result};
use cuda_um_testkit::Output;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The value of one observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number that must be the same on every machine of a kind.
    Number(u64),
    /// A number that may differ by a factor: `about` between `about / factor` and `about * factor`.
    About {
        about: u64,
        factor: u64,
    },
    Text(String),
}

impl Value {
    /// True if the values of two machines agree.
    pub fn agrees(&self, other: &Value) -> bool {
        match (self, other) {
            (
                Value::About {
                    about: a,
                    factor: one,
                },
                Value::About {
                    about: b,
                    factor: two,
                },
            ) => {
                let factor = *one.max(two);
                // A zero count matches only a zero count.
                (*a == 0) == (*b == 0)
                    && a.saturating_mul(factor) >= *b
                    && b.saturating_mul(factor) >= *a
            }
            _ => self == other,
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Value::Number(number) => write!(f, "{number}"),
            Value::About { about, .. } => write!(f, "~{about}"),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// The outcome of a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The rule holds.
    Passed,
    /// The rule does not hold; with a description of the failure.
    Failed(String),
    /// The machine lacks a requirement of the case.
    Skipped(String),
}

impl Outcome {
    /// `passed`, `failed` or `skipped`.
    pub fn word(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "failed",
            Outcome::Skipped(_) => "skipped",
        }
    }
}

/// The result of one case on one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub case: String,
    pub outcome: Outcome,
    pub seen: Vec<(String, Value)>,
}

impl Record {
    /// The record as one line: `["case","passed",[["observation",value],…]]`.
    pub fn to_line(&self) -> Result<String> {
        Ok(serde_json::to_string(&(
            &self.case,
            &self.outcome,
            &self.seen,
        ))?)
    }

    pub fn from_line(line: &str) -> Result<Self> {
        let (case, outcome, seen) = serde_json::from_str(line)?;
        Ok(Self {
            case,
            outcome,
            seen,
        })
    }

    /// The names of the observations, in order.
    pub fn questions(&self) -> Vec<&str> {
        self.seen.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// The results of all cases on one machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    pub machine: String,
    pub records: Vec<Record>,
}

impl Run {
    pub fn write(&self, file: Output) -> Result<()> {
        let mut text = serde_json::to_string(&self.machine)? + "\n";
        for record in &self.records {
            text += &(record.to_line()? + "\n");
        }
        file.write(&text).map_err(Error::msg)
    }

    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        let parse = || {
            let mut lines = text.lines();
            let machine = serde_json::from_str(lines.next().context("it is empty")?)?;
            let records = lines.map(Record::from_line).collect::<Result<_>>()?;
            anyhow::Ok(Self { machine, records })
        };
        parse().with_context(|| format!("{} is not the output of a run", path.display()))
    }

    /// The number of cases with this outcome.
    pub fn count(&self, word: &str) -> usize {
        let outcomes = self.records.iter().map(|record| record.outcome.word());
        outcomes.filter(|outcome| *outcome == word).count()
    }

    /// The record of a case.
    pub fn find(&self, case: &str) -> Option<&Record> {
        self.records.iter().find(|record| record.case == case)
    }
}
