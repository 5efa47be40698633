//! The reasons why CUPTI cannot be used.

use crate::error::{Attempt, write_attempts};
use std::fmt;

/// The reason why CUPTI cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CuptiError {
    /// No library could be opened. The list has every attempt; it is empty if the table was filled without the library.
    NotFound {
        /// The attempts, in order.
        attempts: Vec<Attempt>,
    },
    /// The library lacks a function.
    MissingSymbol {
        /// The C name.
        symbol: String,
    },
    /// The library is too old.
    UnsupportedVersion {
        /// The API version that it reports.
        found: u32,
        /// The oldest supported version.
        oldest: u32,
    },
}

impl fmt::Display for CuptiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { attempts } if attempts.is_empty() => {
                f.write_str("the CUDA runtime in use has no CUPTI")
            }
            Self::NotFound { attempts } => {
                f.write_str("no CUPTI found (set CUDA_UM_CUPTI to its path); tried")?;
                write_attempts(f, attempts)
            }
            Self::MissingSymbol { symbol } => write!(
                f,
                "CUPTI lacks {symbol}, which every version from CUDA 11.8 on has"
            ),
            Self::UnsupportedVersion { found, oldest } => write!(
                f,
                "CUPTI reports version {found}; {oldest} (CUDA 11.8) is the oldest supported version"
            ),
        }
    }
}

impl std::error::Error for CuptiError {}
