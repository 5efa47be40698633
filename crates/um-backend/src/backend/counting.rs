//! Counts and traces of migrations.

use std::sync::Arc;

use cuda_um::fork;
use um_profile::{MigrationCounter, MigrationCounts, Trace};

use super::CudaBackend;
use crate::error::Result;

impl CudaBackend {
    /// Starts counting migrations and page faults, for [`migration_counts`](Self::migration_counts). The simulator always counts. On a
    /// GPU this uses CUPTI, which serves one collector per process and misses managed memory that was allocated before its first start
    /// (seen with CUDA 13.0 on an H200).
    ///
    /// # Errors
    /// [`CudaError::Other`](crate::CudaError::Other) with a [`ProfileError`](um_profile::ProfileError) if CUPTI does not count. The
    /// backend still works.
    #[doc(alias = "cuptiActivityConfigureUnifiedMemoryCounter")]
    pub fn start_counting(&self) -> Result<()> {
        fork::check("start_counting")?;
        // The counter starts, counts and stops without the lock, because a subscriber of `tracing` may read the counts meanwhile.
        if self.is_simulated() || self.counter.lock().is_some() {
            return Ok(());
        }
        match MigrationCounter::start(self.device.runtime()) {
            Ok(started) => *self.counter.lock() = Some(Arc::new(started)),
            // A process has one counter at a time: another thread started it first.
            Err(_) if self.counter.lock().is_some() => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Stops the counting that [`start_counting`](Self::start_counting) started on a GPU, which costs a little time. Does nothing in a
    /// child made by `fork`: the parent counts.
    pub fn stop_counting(&self) {
        if !fork::is_inherited() {
            let counter = self.counter.lock().take();
            drop(counter);
        }
    }

    /// Migrations and page faults of all devices of the runtime: on a GPU since [`start_counting`](Self::start_counting), on the
    /// simulator since it was built. `None` on a GPU that does not count, and in a child made by `fork`.
    ///
    /// # Ordering
    /// Work that the device has not done yet is not counted yet: call [`synchronize`](Self::synchronize) first.
    #[must_use]
    pub fn migration_counts(&self) -> Option<MigrationCounts> {
        if fork::is_inherited() {
            return None;
        }
        let counter = self.counter.lock().clone();
        if let Some(counter) = counter {
            return counter.read().ok();
        }
        #[cfg(feature = "sim")]
        return self.simulator().map(|sim| {
            let counters = sim.counters();
            let mut counts = MigrationCounts::default();
            counts.bytes_to_device = counters.bytes_to_device;
            counts.bytes_to_host = counters.bytes_to_host;
            counts.bytes_device_to_device = counters.bytes_device_to_device;
            counts.gpu_faults = counters.gpu_faults;
            counts.gpu_fault_groups = counters.gpu_fault_groups;
            counts.cpu_faults = counters.cpu_faults;
            counts
        });
        #[cfg(not(feature = "sim"))]
        None
    }

    /// Runs `work` and returns its result with a trace of the migrations meanwhile: see [`um_profile`]. It works on the simulator
    /// too. CUPTI serves one collector at a time: on a GPU, call [`stop_counting`](Self::stop_counting) first.
    ///
    /// # Errors
    /// As for [`um_profile::profile`].
    pub fn profile<R>(&self, work: impl FnOnce() -> R) -> Result<(R, Trace)> {
        Ok(um_profile::profile(self.device.runtime(), work)?)
    }
}
