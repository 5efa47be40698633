//! Advice and prefetch: what is asked, and what came of it.

use std::fmt;

/// What memory a unified buffer is to have.
pub use cuda_um::Placement as MemoryPlacement;
use cuda_um::{Advice, Location};

use crate::error::{CudaError, Result};

/// Advice for unified memory. The location that some of it needs is given beside it, as in
/// [`UnifiedBuffer::set_memory_advice`](crate::UnifiedBuffer::set_memory_advice).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[doc(alias = "cudaMemoryAdvise")]
#[non_exhaustive]
pub enum MemoryAdvice {
    /// Mostly read: processors that read it get copies, and a write ends them.
    #[doc(alias = "cudaMemAdviseSetReadMostly")]
    SetReadMostly,
    /// Undoes [`SetReadMostly`](Self::SetReadMostly).
    #[doc(alias = "cudaMemAdviseUnsetReadMostly")]
    UnsetReadMostly,
    /// It should live at the location.
    #[doc(alias = "cudaMemAdviseSetPreferredLocation")]
    SetPreferredLocation,
    /// Undoes [`SetPreferredLocation`](Self::SetPreferredLocation).
    #[doc(alias = "cudaMemAdviseUnsetPreferredLocation")]
    UnsetPreferredLocation,
    /// The location's processor will use it: keep it mapped there instead of faulting.
    #[doc(alias = "cudaMemAdviseSetAccessedBy")]
    SetAccessedBy,
    /// Undoes [`SetAccessedBy`](Self::SetAccessedBy).
    #[doc(alias = "cudaMemAdviseUnsetAccessedBy")]
    UnsetAccessedBy,
}

impl MemoryAdvice {
    /// Whether the location beside the advice has a meaning.
    #[must_use]
    pub fn uses_location(self) -> bool {
        matches!(
            self,
            Self::SetPreferredLocation | Self::SetAccessedBy | Self::UnsetAccessedBy
        )
    }

    pub(crate) fn at(self, location: Location) -> Advice {
        match self {
            Self::SetReadMostly => Advice::SetReadMostly,
            Self::UnsetReadMostly => Advice::UnsetReadMostly,
            Self::SetPreferredLocation => Advice::SetPreferredLocation(location),
            Self::UnsetPreferredLocation => Advice::UnsetPreferredLocation,
            Self::SetAccessedBy => Advice::SetAccessedBy(location),
            Self::UnsetAccessedBy => Advice::UnsetAccessedBy(location),
        }
    }
}

/// What came of advice or of a prefetch.
///
/// Neither changes what a program computes, so code tuned for a new GPU runs on an old one, where there may be nothing to
/// advise: then the answer is [`Placement::NotApplied`] with the reason, not an error. [`Placement::require`] makes it one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// CUDA took it.
    Applied,
    /// CUDA was not asked, or said that it cannot.
    NotApplied {
        /// What was asked for.
        what: String,
        /// What that needs.
        needs: String,
        /// What there is instead.
        have: String,
    },
}

impl Placement {
    /// Whether CUDA took it.
    #[must_use]
    pub fn is_applied(&self) -> bool {
        matches!(self, Self::Applied)
    }

    /// For callers to whom it is essential.
    ///
    /// # Errors
    /// [`CudaError::NotSupported`] where it was not applied.
    pub fn require(self) -> Result<()> {
        match self {
            Self::Applied => Ok(()),
            Self::NotApplied { what, needs, have } => {
                Err(CudaError::NotSupported { what, needs, have })
            }
        }
    }

    /// To memory of which nothing migrates.
    pub(crate) fn not_managed(what: &str, have: &dyn fmt::Display) -> Self {
        Self::NotApplied {
            what: what.to_owned(),
            needs: "managed memory".to_owned(),
            have: have.to_string(),
        }
    }

    /// "Not supported" is an answer here; every other error stays one.
    pub(crate) fn from_outcome(outcome: cuda_um::Result<()>) -> Result<Self> {
        match outcome {
            Ok(()) => Ok(Self::Applied),
            Err(cuda_um::Error::NotSupported { what, needs, have }) => {
                Ok(Self::NotApplied { what, needs, have })
            }
            Err(error) => Err(error.into()),
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied => f.write_str("applied"),
            Self::NotApplied { what, needs, have } => {
                write!(f, "not applied: {what} needs {needs}, and there is {have}")
            }
        }
    }
}
