//! Reasons for which a profile is not possible.

use cuda_um::sys::CuptiError;

/// The reason for which the library collects nothing; the program can continue without a profile.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No CUPTI was found.
    #[error("no CUPTI: {0}")]
    Missing(CuptiError),
    /// The CUPTI library is older than CUDA 11.8, or lacks a function.
    #[error("CUPTI is too old: {0}")]
    TooOld(CuptiError),
    /// CUPTI refused a call.
    #[error("CUPTI: {call} was refused: {message} (result {code}){}", advice(*.code))]
    Refused {
        /// The CUPTI function.
        call: &'static str,
        /// The function's result code.
        code: u32,
        /// CUPTI's name for the code.
        message: String,
    },
    /// The process already has a profiler or counter: CUPTI has one set of callbacks in a process.
    #[error("a Profiler or MigrationCounter is running in this process already: stop it first")]
    AlreadyRunning,
    /// There is no device to profile.
    #[error("no device to profile: {0}")]
    NoDevice(#[from] Box<cuda_um::Error>),
}

impl From<ProfileError> for cuda_um::Error {
    fn from(error: ProfileError) -> Self {
        Self::Other(Box::new(error))
    }
}

fn advice(code: u32) -> &'static str {
    match code {
        35 => "; an administrator allows it with NVreg_RestrictProfilingToAdminUsers=0",
        39 => "; another profiler has it: end that first",
        _ => "",
    }
}

impl From<CuptiError> for ProfileError {
    fn from(error: CuptiError) -> Self {
        match error {
            CuptiError::NotFound { .. } => Self::Missing(error),
            error => Self::TooOld(error),
        }
    }
}
