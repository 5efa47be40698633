//! The log of calls.

use std::time::Duration;

use cuda_um_sys::cudaError;

/// One call into the simulated runtime or driver.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CallRecord {
    /// The C function.
    pub name: &'static str,
    /// What it returned; for driver functions the `CUresult` of the same number.
    pub result: cudaError,
    /// The host's virtual time when it returned.
    pub at: Duration,
}

/// The log keeps this many calls, the latest.
pub(crate) const KEPT: usize = 65_536;
