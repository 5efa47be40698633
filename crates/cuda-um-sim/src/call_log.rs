//! The log of calls.

use std::collections::VecDeque;
use std::time::Duration;

use cuda_um_sys::cudaError;

/// One call into the simulated runtime or driver.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CallRecord {
    /// The C function.
    pub name: &'static str,
    /// The result; for driver functions the `CUresult` of the same number.
    pub result: cudaError,
    /// The host's virtual time when it returned.
    pub at: Duration,
}

/// The log keeps this many calls, the latest.
const KEPT: usize = 65_536;

/// The log of calls.
#[derive(Debug, Default)]
pub(crate) struct CallLog(VecDeque<CallRecord>);

impl CallLog {
    pub(crate) fn add(&mut self, record: CallRecord) {
        self.0.push_back(record);
        if self.0.len() > KEPT {
            self.0.pop_front();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn to_vec(&self) -> Vec<CallRecord> {
        self.0.iter().cloned().collect()
    }
}
