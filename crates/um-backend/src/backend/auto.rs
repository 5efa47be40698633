//! Prefetches without a change of the code.

use um_auto::{AutoPrefetch, AutoPrefetchReport};

use super::CudaBackend;
use crate::error::Result;

impl CudaBackend {
    /// Runs `scope`, and prefetches for its loops: [`AutoPrefetch`] around a closure. Returns the result of the closure, and what was done.
    ///
    /// The first two rounds of a loop are recorded; from the third on, unified buffers migrate ahead of the kernel or the host guard that
    /// uses them. On the simulator, rounds are compared by its clock. See `docs/choosing.md#automatic-prefetch`.
    ///
    /// # Errors
    /// [`Busy`](cuda_um::Error::Busy) inside of another scope on this thread. If a prefetch fails, the scope goes on without:
    /// [`AutoPrefetchReport::stopped`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn auto_prefetch<R>(&self, scope: impl FnOnce() -> R) -> Result<(R, AutoPrefetchReport)> {
        let device = &self.device;
        #[cfg(feature = "sim")]
        if let Some(sim) = self.simulator() {
            let sim = sim.clone();
            let auto = AutoPrefetch::start_with_clock(device, move || sim.now())?;
            return Ok((scope(), auto.stop()));
        }
        let auto = AutoPrefetch::start(device)?;
        Ok((scope(), auto.stop()))
    }
}
