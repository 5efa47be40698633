//! The outcome of advice and prefetches.

use std::fmt;

use crate::error::Result;

/// The outcome of advice or of a prefetch.
///
/// Neither changes the results of a program, so code that is tuned for a new GPU also runs on an old one. If the memory cannot migrate,
/// the outcome is [`HintOutcome::NotApplied`] with the reason, and not an error. [`HintOutcome::require`] makes it an error.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Whether CUDA accepted the call.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied)
    }

    /// Turns [`HintOutcome::NotApplied`] into an error, for callers that depend on the call.
    ///
    /// # Errors
    /// [`NotSupported`](cuda_um::Error::NotSupported) if the call was not applied.
    pub fn require(self) -> Result<()> {
        match self {
            Self::Applied => Ok(()),
            Self::NotApplied { what, needs, have } => {
                Err(cuda_um::Error::NotSupported { what, needs, have }.into())
            }
        }
    }

    /// A call for memory that cannot migrate.
    pub(crate) fn not_managed(what: impl fmt::Display, have: impl fmt::Display) -> Self {
        Self::NotApplied {
            what: what.to_string(),
            needs: "managed memory".to_owned(),
            have: have.to_string(),
        }
    }

    /// Takes "not supported" as an outcome; every other error remains an error.
    pub(crate) fn from_result(result: cuda_um::Result<()>) -> Result<Self> {
        match result {
            Ok(()) => Ok(Self::Applied),
            Err(cuda_um::Error::NotSupported { what, needs, have }) => {
                Ok(Self::NotApplied { what, needs, have })
            }
            Err(error) => Err(error.into()),
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
