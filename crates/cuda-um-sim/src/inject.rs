//! Failures injected into calls.

use cuda_um_sys::cudaError;

/// A failure to inject: which call, which time, what it returns.
///
/// ```
/// use cuda_um_sim::{Fail, Sim};
/// use cuda_um_sys::cudaError;
///
/// let sim = Sim::builder().build()?;
/// sim.fail(Fail::call("cudaMalloc").nth(2).with(cudaError::cudaErrorMemoryAllocation));
/// # Ok::<(), cuda_um_sim::SimError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "hand it to `Sim::fail`"]
pub struct Fail {
    call: String,
    skip: u64,
    times: Option<u64>,
    pub(crate) code: u32,
    pub(crate) sticky: bool,
    pub(crate) after: bool,
}

impl Fail {
    /// The next call of the C function of this name (the exported name, for example `cudaMemPrefetchAsync_v2`) returns
    /// `cudaErrorUnknown` instead of running.
    pub fn call(name: &str) -> Fail {
        Fail {
            call: name.to_owned(),
            skip: 0,
            times: Some(1),
            code: cudaError::cudaErrorUnknown.0,
            sticky: false,
            after: false,
        }
    }

    /// Not the next but the n-th call from now, counted from 1.
    pub fn nth(self, n: u64) -> Fail {
        Fail {
            skip: n.saturating_sub(1),
            ..self
        }
    }

    /// That call and every later one.
    pub fn from_then_on(self) -> Fail {
        Fail {
            times: None,
            ..self
        }
    }

    /// What the call returns. A sticky error, such as `cudaErrorIllegalAddress`, poisons the context as on hardware. So does the loss of
    /// a device that has streams: `cudaErrorDevicesUnavailable` and `cudaErrorNoDevice`. It is the thread's current device, or any one if
    /// the call is `cudaSetDevice` or `cudaGetDevice`.
    ///
    /// # Panics
    /// The error is `cudaSuccess`: a call that claims to have done its work, and has not, is no failure.
    #[track_caller]
    pub fn with(self, error: cudaError) -> Fail {
        self.with_code(error.0)
    }

    /// The same by its number, for CUPTI: 35 is `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`.
    ///
    /// # Panics
    /// The number is 0, which is success.
    #[track_caller]
    pub fn with_code(self, code: u32) -> Fail {
        assert!(
            code != 0,
            "a call that fails does not return 0, which is success"
        );
        Fail { code, ..self }
    }

    /// Poisons the context, whatever the error is: every later call fails with it.
    pub fn sticky(self) -> Fail {
        Fail {
            sticky: true,
            ..self
        }
    }

    /// The call does its work and then reports the failure, as a call does that returns the error of earlier
    /// asynchronous work.
    pub fn after_the_call(self) -> Fail {
        Fail {
            after: true,
            ..self
        }
    }

    /// Counts one call; returns whether it fails.
    fn strikes(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.times {
            None => true,
            Some(0) => false,
            Some(times) => {
                *times -= 1;
                true
            }
        }
    }
}

/// The failures that are to be injected.
#[derive(Debug, Default)]
pub(crate) struct Failures(Vec<Fail>);

impl Failures {
    pub(crate) fn add(&mut self, failure: Fail) {
        self.0.push(failure);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Counts a call of this name; returns the failure that it gets. If several strike, the one that was added first.
    pub(crate) fn strike(&mut self, call: &str) -> Option<Fail> {
        let mut struck = None;
        for failure in self.0.iter_mut().filter(|failure| failure.call == call) {
            if failure.strikes() && struck.is_none() {
                struck = Some(failure.clone());
            }
        }
        struck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "0, which is success")]
    fn a_failure_does_not_claim_success() {
        let _ = Fail::call("cudaStreamSynchronize").with(cudaError::cudaSuccess);
    }

    #[test]
    #[should_panic(expected = "0, which is success")]
    fn a_failure_does_not_claim_success_by_its_number() {
        let _ = Fail::call("cuptiActivityEnable").with_code(0);
    }
}
