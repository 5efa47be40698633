//! Errors of opening NCCL.

use crate::Attempt;
use crate::optional::write_attempts;
use std::fmt;

/// The reason why NCCL cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NcclError {
    /// No library could be opened. The list has every attempt; it is empty if the table was filled without NCCL.
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
        /// The version that it reports: 21605 is 2.16.5, and 2805 is 2.8.5.
        found: i32,
        /// The oldest supported version.
        oldest: i32,
    },
}

impl fmt::Display for NcclError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { attempts } if attempts.is_empty() => {
                f.write_str("the CUDA runtime in use has no NCCL")
            }
            Self::NotFound { attempts } => {
                f.write_str("no NCCL found (set CUDA_UM_NCCL to its path); tried")?;
                write_attempts(f, attempts)
            }
            Self::MissingSymbol { symbol } => write!(
                f,
                "NCCL lacks {symbol}, which every version from 2.17 on has"
            ),
            Self::UnsupportedVersion { found, oldest } => write!(
                f,
                "NCCL has the version {found}; {oldest} (2.17.0) is the oldest supported version"
            ),
        }
    }
}

impl std::error::Error for NcclError {}
