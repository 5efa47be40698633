//! The observations of a run, as JSON.

use serde::{Deserialize, Serialize};

/// The value of one observation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number that must be the same on every machine of a kind.
    Number(u64),
    /// A number that may differ by a factor: `about` between `about / factor` and `about * factor`.
    About {
        /// The number.
        about: u64,
        /// The allowed factor.
        factor: u64,
    },
    /// A text.
    Text(String),
}

impl Value {
    /// True if the values of two machines agree.
    pub fn agrees(&self, other: &Value) -> bool {
        match (self, other) {
            (
                Value::About { about: a, factor },
                Value::About {
                    about: b,
                    factor: other,
                },
            ) => {
                let factor = *factor.max(other);
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The case.
    pub case: String,
    /// The outcome.
    pub outcome: Outcome,
    /// The observations, in order.
    pub seen: Vec<(String, Value)>,
}

impl Record {
    /// A record without observations.
    pub(crate) fn new(case: &str, outcome: Outcome) -> Self {
        Self {
            case: case.to_owned(),
            outcome,
            seen: Vec::new(),
        }
    }

    /// The names of the observations, in order.
    pub fn questions(&self) -> Vec<&str> {
        self.seen.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// True if both have the same observations, with any values.
    pub fn asks_the_same(&self, other: &Record) -> bool {
        self.questions() == other.questions()
    }
}

/// The results of all cases on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// A description of the runtime and the device.
    pub machine: String,
    /// One record for each case.
    pub records: Vec<Record>,
}

impl Run {
    /// The number of cases with this outcome.
    pub fn count(&self, word: &str) -> usize {
        self.records
            .iter()
            .filter(|record| record.outcome.word() == word)
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_may_differ_by_their_factor_and_bytes_not_at_all() {
        let about = |about| Value::About { about, factor: 4 };
        assert!(about(10).agrees(&about(40)) && about(40).agrees(&about(10)));
        assert!(!about(10).agrees(&about(41)) && !about(0).agrees(&about(1)));
        assert!(!Value::Number(4096).agrees(&Value::Number(4097)));
    }
}
