//! The outcome of advice and prefetches.

use crate::error::{Error, Result};
use std::fmt;

/// The outcome of advice or of a prefetch.
///
/// Neither changes the results of a program, so memory that cannot migrate is no error: [`HintOutcome::require`] makes it one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HintOutcome {
    /// CUDA accepted the call.
    Applied,
    /// The call was not made, or CUDA does not support it here.
    NotApplied {
        /// The call.
        what: String,
        /// The requirement that is not met.
        needs: String,
        /// The memory, version or device that was found.
        have: String,
    },
}

impl HintOutcome {
    /// Returns true if CUDA accepted the call.
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied)
    }

    /// Turns [`HintOutcome::NotApplied`] into an error, for callers that depend on the call.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if the call was not applied.
    pub fn require(self) -> Result<()> {
        match self {
            Self::Applied => Ok(()),
            Self::NotApplied { what, needs, have } => {
                Err(Error::NotSupported { what, needs, have })
            }
        }
    }

    /// Takes "not supported" as an outcome; every other error remains an error.
    #[inline]
    pub(crate) fn of(result: Result<()>) -> Result<Self> {
        match result {
            Ok(()) => Ok(Self::Applied),
            Err(Error::NotSupported { what, needs, have }) => {
                Ok(Self::NotApplied { what, needs, have })
            }
            Err(error) => Err(error),
        }
    }
}

impl fmt::Display for HintOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::NotApplied { what, needs, have } => {
                write!(f, "not applied: {what} needs {needs}, found {have}")
            }
        }
    }
}
