//! Failures that tests inject into calls.

use cuda_um_sys::cudaError;

/// A failure to inject into a call of one C function.
///
/// ```
/// use cuda_um_sim::{Fail, Sim};
/// use cuda_um_sys::cudaError;
///
/// let sim = Sim::builder().build()?;
/// sim.fail(Fail::call("cudaMalloc").nth(2).with(cudaError::cudaErrorMemoryAllocation));
/// sim.fail(Fail::call("cudaFree").after_the_call().from_then_on());
/// sim.fail(Fail::call("cuLaunchKernel").with_code(719).sticky()); // a code of the driver
/// sim.clear_failures();
/// # Ok::<(), cuda_um_sim::SimError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "pass it to `Sim::fail`"]
pub struct Fail {
    call: &'static str,
    skip: u64,
    times: Option<u64>,
    pub(crate) device: Option<u32>,
    pub(crate) code: u32,
    pub(crate) sticky: bool,
    pub(crate) after: bool,
}

impl Fail {
    /// The next call of this name fails. [`Fail::call`] checks the name.
    pub(crate) fn of(call: &'static str) -> Fail {
        Fail {
            call,
            skip: 0,
            times: Some(1),
            device: None,
            code: cudaError::cudaErrorUnknown.0,
            sticky: false,
            after: false,
        }
    }

    /// The n-th call from now fails, counted from 1, instead of the next one.
    ///
    /// # Panics
    /// The number is 0.
    #[track_caller]
    pub fn nth(self, n: u64) -> Fail {
        assert!(n > 0, "calls are counted from 1, and there is no call 0");
        Fail {
            skip: n - 1,
            ..self
        }
    }

    /// Every later call fails, too.
    pub fn from_then_on(self) -> Fail {
        Fail {
            times: None,
            ..self
        }
    }

    /// Counts the calls that are made while this device is the thread's current one. A failure that would poison the context then is the loss
    /// of this device: later calls while it is current return the error, and calls for other devices work. Work that was enqueued before
    /// still runs, and memory of the lost device can be freed.
    pub fn on_device(self, ordinal: u32) -> Fail {
        Fail {
            device: Some(ordinal),
            ..self
        }
    }

    /// Sets the error that the call returns. A sticky error, such as `cudaErrorIllegalAddress`, poisons the context, as on hardware. So
    /// does the loss of a device that has streams: `cudaErrorDevicesUnavailable` and `cudaErrorNoDevice`. The lost device is the thread's
    /// current one, or any device if the call is `cudaSetDevice` or `cudaGetDevice`.
    ///
    /// # Panics
    /// The error is `cudaSuccess`: a call that returns success without its work is not a failure that CUDA has.
    #[track_caller]
    pub fn with(self, error: cudaError) -> Fail {
        self.with_code(error.0)
    }

    /// Sets the number that the call returns, for CUPTI: 35 is `CUPTI_ERROR_INSUFFICIENT_PRIVILEGES`.
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

    /// The failure poisons the context, also with an error that is not sticky: every later call returns the error.
    ///
    /// CUDA loses a device only with some errors, as `cudaErrorIllegalAddress`: name one by [`with`](Self::with). With another code the
    /// library takes the device for live, so a failed wait for work on the caller's memory aborts the process.
    pub fn sticky(self) -> Fail {
        Fail {
            sticky: true,
            ..self
        }
    }

    /// The call runs and then returns the error, as a call that returns the error of earlier asynchronous work.
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

    /// Counts a call of this name, with this current device; returns its failure. If several failures apply, it is the one that was added
    /// first.
    pub(crate) fn strike(&mut self, call: &str, device: usize) -> Option<Fail> {
        let mut struck = None;
        let is_here = |failure: &Fail| failure.device.is_none_or(|only| only as usize == device);
        let of_call = |failure: &&mut Fail| failure.call == call && is_here(failure);
        for failure in self.0.iter_mut().filter(of_call) {
            if failure.strikes() && struck.is_none() {
                struck = Some(failure.clone());
            }
        }
        struck
    }
}
