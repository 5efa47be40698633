//! Errors of loading a CUDA runtime. They are separate from the errors that the runtime reports.

use crate::RuntimeVersion;
use std::fmt;

/// A library that was tried, and the reason why it cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name or path that was passed to the system's loader.
    pub library: String,
    /// The reason, as reported by the loader or by this crate.
    pub reason: String,
}

/// The text of a list of attempts, after what was looked for.
pub(crate) fn write_attempts(f: &mut fmt::Formatter<'_>, attempts: &[Attempt]) -> fmt::Result {
    for (index, attempt) in attempts.iter().enumerate() {
        let separator = if index == 0 { "" } else { ";" };
        write!(f, "{separator} {}: {}", attempt.library, attempt.reason)?;
    }
    Ok(())
}

/// The reason why there is no function table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// No library could be opened. The list has every attempt.
    NotFound {
        /// The attempts, in order.
        attempts: Vec<Attempt>,
    },
    /// The library lacks a function that every supported version has.
    MissingSymbol {
        /// The C name.
        symbol: String,
        /// The version that the library reports, if it does.
        version: Option<RuntimeVersion>,
    },
    /// The library is of a version that is not supported.
    UnsupportedVersion {
        /// The version that it reports.
        version: RuntimeVersion,
    },
    /// Neither the library nor its name nor its symbols show a version: it is probably not a CUDA runtime.
    UnknownVersion,
    /// `cudaGetDriverEntryPoint` did not return a function of the driver.
    DriverFunction {
        /// The C name.
        symbol: String,
        /// The runtime's error code; 0 if it reported success but returned no function.
        code: u32,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { attempts } => {
                f.write_str(
                    "no CUDA runtime library found (set CUDA_UM_CUDART to its path); tried",
                )?;
                write_attempts(f, attempts)
            }
            Self::MissingSymbol { symbol, version } => {
                write!(
                    f,
                    "the CUDA runtime library lacks {symbol}, which every version from 11.8 on has"
                )?;
                version.map_or(Ok(()), |version| {
                    write!(f, " (it reports version {version})")
                })
            }
            Self::UnsupportedVersion { version } => {
                write!(
                    f,
                    "the CUDA runtime library is version {version}; 11.8 to 13.x are supported"
                )
            }
            Self::UnknownVersion => {
                f.write_str("the library does not report a CUDA version: is it a CUDA runtime?")
            }
            Self::DriverFunction { symbol, code: 0 } => {
                write!(f, "the CUDA driver has no {symbol}")
            }
            Self::DriverFunction { symbol, code } => {
                write!(
                    f,
                    "the CUDA driver did not provide {symbol}: cudaGetDriverEntryPoint returned {code}"
                )
            }
        }
    }
}

impl std::error::Error for LoadError {}
