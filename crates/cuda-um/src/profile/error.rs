//! Why there is no profile.

use cuda_um_sys::CuptiError;

/// Why nothing is collected here; the program runs on without.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No CUPTI was found.
    #[error("no CUPTI: {0}")]
    Missing(CuptiError),
    /// There is a CUPTI from before CUDA 11.8, or one that lacks a function.
    #[error("CUPTI is too old: {0}")]
    TooOld(CuptiError),
    /// CUPTI is there and said no.
    #[error("CUPTI: {call} was refused: {message} (result {code}){}", advice(*.code))]
    Refused {
        /// The CUPTI function.
        call: &'static str,
        /// Its result code.
        code: u32,
        /// CUPTI's own name for the code.
        message: String,
    },
    /// CUPTI has one set of callbacks a process, and somebody is using it.
    #[error("a Profiler or MigrationCounter is running in this process already: stop it first")]
    AlreadyRunning,
    /// There is no device to profile.
    #[error("no device to profile: {0}")]
    NoDevice(#[from] Box<crate::Error>),
}

/// What helps.
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
