//! What a check says.

use std::fmt;

/// What a case says: the rule holds, or what was seen instead.
pub type Verdict = Result<(), Failure>;

/// What was seen, and what CUDA's rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
