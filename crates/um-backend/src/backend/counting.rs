//! Counting what managed memory costs.

use super::CudaBackend;
use crate::counters::MigrationCounters;
use crate::error::Result;
#[cfg(feature = "profile")]
use std::sync::Arc;

impl CudaBackend {
    /// Starts counting what managed memory costs, for [`migration_counters`](Self::migration_counters). The simulator always counts; on
    /// a GPU this needs the feature `profile` and CUPTI, of which a process has one, and which overlooks managed memory that was
    /// allocated before its first start (seen with CUDA 13.0 on an H200).
    ///
    /// # Errors
    /// [`CudaError::NotSupported`](crate::CudaError::NotSupported) without the feature, and why CUPTI does not count. The backend goes
    /// on without.
    #[doc(alias = "cuptiActivityConfigureUnifiedMemoryCounter")]
    pub fn start_counting(&self) -> Result<()> {
        if self.is_inherited() {
            let call = "start_counting";
            return Err(cuda_um::Error::Forked { call }.into());
        }
        if self.is_simulated() {
            return Ok(());
        }
        #[cfg(feature = "profile")]
        {
            // It starts, counts and ends without the lock: a subscriber of `tracing` may ask for the counts meanwhile.
            if self.counter.lock().is_some() {
                return Ok(());
            }
            let runtime = self.device.as_cuda_um().runtime();
            match cuda_um::profile::MigrationCounter::start(runtime) {
                Ok(started) => *self.counter.lock() = Some(Arc::new(started)),
                // One at a time a process: another thread was faster.
                Err(_) if self.counter.lock().is_some() => {}
                Err(error) => return Err(error.into()),
            }
            Ok(())
        }
        #[cfg(not(feature = "profile"))]
        Err(crate::CudaError::NotSupported {
            what: "counting migrations on a GPU".into(),
            needs: "um-backend with the feature `profile`".into(),
            have: "a build without it".into(),
        })
    }

    /// Ends what [`start_counting`](Self::start_counting) began on a GPU: collecting costs a little time. Does nothing in a child made by
    /// `fork`: it is the parent that counts.
    pub fn stop_counting(&self) {
        #[cfg(feature = "profile")]
        if !self.is_inherited() {
            let counter = self.counter.lock().take();
            drop(counter);
        }
    }

    /// Whether this process is a child made by `fork`, where locks of its parent may stay locked.
    fn is_inherited(&self) -> bool {
        self.device.as_cuda_um().runtime().is_inherited()
    }

    /// What managed memory cost so far, on all devices of the runtime. `None` on a GPU where nothing counts
    /// ([`start_counting`](Self::start_counting)), and in a child made by `fork`.
    ///
    /// # Ordering
    /// Work that the device has not done yet is not counted yet: [`synchronize`](Self::synchronize) first.
    #[must_use]
    pub fn migration_counters(&self) -> Option<MigrationCounters> {
        if self.is_inherited() {
            return None;
        }
        #[cfg(feature = "profile")]
        {
            let counter = self.counter.lock().clone();
            if let Some(counter) = counter {
                return counter.read().ok().map(Into::into);
            }
        }
        #[cfg(feature = "sim")]
        return self.simulator().map(|sim| sim.counters().into());
        #[cfg(not(feature = "sim"))]
        return None;
    }

    /// Does `work` and gives what it gave, with a trace of what migrated meanwhile, when and why: see [`cuda_um::profile`]. It works on the
    /// simulator too. Not while [`start_counting`](Self::start_counting) counts on a GPU: CUPTI serves one at a time.
    ///
    /// # Errors
    /// As for [`cuda_um::Runtime::profile`].
    #[cfg(feature = "profile")]
    pub fn profile<R>(&self, work: impl FnOnce() -> R) -> Result<(R, cuda_um::profile::Trace)> {
        Ok(self.device.as_cuda_um().runtime().profile(work)?)
    }
}
