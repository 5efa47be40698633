//! How long a thread that waits for a device polls before it sleeps.

use crate::context::device::Device;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::time_limit;
use std::time::Duration;

/// The time that the program set for a device, in nanoseconds.
pub(crate) struct Spin(AtomicU64);

const NOT_SET: u64 = u64::MAX;

impl Default for Spin {
    fn default() -> Self {
        Self(AtomicU64::new(NOT_SET))
    }
}

impl Spin {
    /// The time for a wait for an event, if the program set none.
    pub(crate) const OF_EVENTS: Duration = time_limit(Duration::from_micros(50));

    /// Returns true if the program set a time.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed) != NOT_SET
    }

    /// Returns the time for a wait for an event.
    pub(crate) fn time(&self) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            NOT_SET => Self::OF_EVENTS,
            nanoseconds => time_limit(Duration::from_nanos(nanoseconds)),
        }
    }

    fn set(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(NOT_SET);
        self.0
            .store(nanoseconds.min(NOT_SET - 1), Ordering::Relaxed);
    }
}

impl Device {
    /// Sets how long a thread that waits for the device's work polls before it sleeps, for all handles of this device. A short time
    /// leaves the core to other threads; a thread that sleeps wakes up some 10 us late. `Duration::ZERO` sleeps at once, `Duration::MAX`
    /// never.
    ///
    /// It applies to host guards, copies to the host, and waits for memory. If the program sets no time, a wait for the last work of a
    /// stream is a `cudaStreamSynchronize`, which polls unless the program selected another way with `cudaSetDeviceFlags`, and a wait for
    /// earlier work polls for 50 us. [`synchronize`](Self::synchronize) and
    /// [`Stream::synchronize`](crate::Stream::synchronize) are CUDA's own waits in any case.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use std::time::Duration;
    ///
    /// // A server with more requests than cores.
    /// device.set_wait_spin(Duration::from_micros(20));
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    #[doc(alias = "cudaDeviceScheduleBlockingSync")]
    pub fn set_wait_spin(&self, time: Duration) {
        self.state().spin.set(time);
    }
}
