//! Why no CUDA runtime could be loaded; apart from what the runtime itself reports.

use crate::RuntimeVersion;
use std::fmt;

/// One library that was tried, and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name or path given to the system's loader.
    pub library: String,
    /// Why it does not serve, in the loader's words or ours.
    pub reason: String,
}

/// Why there is no function table.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// No library could be opened. Every one that was tried is listed.
    NotFound {
        /// In the order of trying.
        attempts: Vec<Attempt>,
    },
    /// A library was opened that lacks a function which every supported version has.
    MissingSymbol {
        /// The C name.
        symbol: String,
        /// The version that the library tells, if it does.
        version: Option<RuntimeVersion>,
    },
    /// The library is of a version that is not supported.
    UnsupportedVersion {
        /// The version it tells.
        version: RuntimeVersion,
    },
    /// Neither the library nor its name nor its symbols tell a version: hardly a CUDA runtime.
    UnknownVersion,
    /// `cudaGetDriverEntryPoint` did not give a function of the driver.
    DriverFunction {
        /// The C name.
        symbol: String,
        /// The runtime's error code; 0 if it reported success and gave nothing.
        code: u32,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { attempts } => {
                write!(
                    f,
                    "no CUDA runtime library found (CUDA_UM_CUDART names one); tried"
                )?;
                for (index, attempt) in attempts.iter().enumerate() {
                    write!(
                        f,
                        "{} {}: {}",
                        if index == 0 { "" } else { ";" },
                        attempt.library,
                        attempt.reason
                    )?;
                }
                Ok(())
            }
            Self::MissingSymbol { symbol, version } => {
                write!(
                    f,
                    "the CUDA runtime library lacks {symbol}, which every version from 11.8 on has"
                )?;
                version.map_or(Ok(()), |version| write!(f, " (it says it is {version})"))
            }
            Self::UnsupportedVersion { version } => {
                write!(
                    f,
                    "the CUDA runtime library is version {version}; 11.8 to 13.x are supported"
                )
            }
            Self::UnknownVersion => {
                f.write_str("the library does not tell a CUDA version: is it a CUDA runtime?")
            }
            Self::DriverFunction { symbol, code: 0 } => {
                write!(f, "the CUDA driver has no {symbol}")
            }
            Self::DriverFunction { symbol, code } => {
                write!(
                    f,
                    "the CUDA driver gave no {symbol}: cudaGetDriverEntryPoint returned {code}"
                )
            }
        }
    }
}

impl std::error::Error for LoadError {}
