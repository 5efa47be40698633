//! What a run has seen, as JSON.

use serde::{Deserialize, Serialize};

/// One observation's value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number that must be the same on every machine of a kind.
    Number(u64),
    /// A number that may differ by a factor: `about` between `about / factor` and `about * factor`.
    About {
        /// The number.
        about: u64,
        /// By how much it may differ.
        factor: u64,
    },
    /// A text.
    Text(String),
}

impl Value {
    /// Whether two machines saw the same.
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
                // Beside nothing only nothing.
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

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The rule holds.
    Passed,
    /// It does not: what was seen.
    Failed(String),
    /// The machine lacks what the case declares.
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

/// One case on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The case.
    pub case: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What it has seen, in order.
    pub seen: Vec<(String, Value)>,
}

impl Record {
    /// Nothing was seen.
    pub(crate) fn new(case: &str, outcome: Outcome) -> Self {
        Self {
            case: case.to_owned(),
            outcome,
            seen: Vec::new(),
        }
    }

    /// The names of what it has seen, in order.
    pub fn questions(&self) -> Vec<&str> {
        self.seen.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Whether both looked at the same things, whatever they saw.
    pub fn asks_the_same(&self, other: &Record) -> bool {
        self.questions() == other.questions()
    }
}

/// All cases on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The runtime and the device, in words.
    pub machine: String,
    /// A record a case.
    pub records: Vec<Record>,
}

impl Run {
    /// How many ended so.
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
