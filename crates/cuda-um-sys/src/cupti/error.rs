//! Why there is no CUPTI.

use crate::Attempt;
use std::fmt;

/// Why there is no CUPTI to collect records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CuptiError {
    /// No library could be opened. Every one that was tried is listed; none where the table's maker has no CUPTI.
    NotFound {
        /// In the order of trying.
        attempts: Vec<Attempt>,
    },
    /// There is one that lacks a function.
    MissingSymbol {
        /// The C name.
        symbol: String,
    },
    /// There is one that is too old.
    UnsupportedVersion {
        /// The API version that it tells.
        found: u32,
        /// The oldest that serves.
        oldest: u32,
    },
}

impl fmt::Display for CuptiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { attempts } if attempts.is_empty() => {
                f.write_str("the CUDA runtime in use comes without CUPTI")
            }
            Self::NotFound { attempts } => {
                f.write_str("no CUPTI found (CUDA_UM_CUPTI names one); tried")?;
                for (index, attempt) in attempts.iter().enumerate() {
                    let separator = if index == 0 { "" } else { ";" };
                    write!(f, "{separator} {}: {}", attempt.library, attempt.reason)?;
                }
                Ok(())
            }
            Self::MissingSymbol { symbol } => {
                write!(
                    f,
                    "CUPTI lacks {symbol}, which every version from CUDA 11.8 on has"
                )
            }
            Self::UnsupportedVersion { found, oldest } => write!(
                f,
                "CUPTI has the API version {found}; {oldest} (CUDA 11.8) is the oldest that serves"
            ),
        }
    }
}

impl std::error::Error for CuptiError {}
