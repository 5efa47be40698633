//! The result of a check.

use std::fmt;

/// The result of a case: the rule holds, or a description of the failure.
pub type Verdict = Result<(), Failure>;

/// The observation, and the expected value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
