//! Advice for buffers of managed memory.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::buffer::unified::UnifiedBuffer;
use crate::context::observer::{Started, What};
use crate::context::tracker::Access;
use crate::driver::advice::Advice;
use crate::error::{Error, Result};
use crate::range;
use crate::resource::cache::By;
use std::ops::RangeBounds;

impl<T> UnifiedBuffer<T> {
    /// Sets or unsets advice for the whole buffer
    /// ([`cudaMemAdvise`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html)).
    ///
    /// # Ordering
    ///
    /// Takes effect before this returns, on no stream: work that runs meanwhile may or may not see it. It does not change the contents.
    /// [`Advice::SetReadMostly`] first waits for work that writes or moves the buffer, because a write would end the duplicates.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] for mapped memory, for a device without concurrent managed access, or if the runtime is too old for the
    /// location; [`Error::DeviceOutOfRange`]; [`Error::InvalidArgument`] for NUMA nodes with `SetAccessedBy`; and the errors of
    /// `cudaMemAdvise`.
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise(&self, advice: Advice) -> Result<()> {
        self.advise_range(.., advice)
    }

    /// Sets or unsets advice for a range of elements. CUDA rounds the range outwards to whole pages.
    ///
    /// # Ordering
    ///
    /// The same as for [`advise`](Self::advise).
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`], and the errors of [`advise`](Self::advise).
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise_range(&self, range: impl RangeBounds<usize>, advice: Advice) -> Result<()> {
        let range = range::check(range, self.len())?;
        self.device().api().origin.check("advise")?;
        if let Advice::SetAccessedBy(location) | Advice::UnsetAccessedBy(location) = advice
            && location.is_numa()
        {
            return Err(Error::InvalidArgument {
                what: "the location of accessed-by advice",
                value: location.to_string(),
                reason: "it is a processor: the host or a device".to_owned(),
            });
        }
        if !self.raw.is_managed() && !self.is_empty() {
            return Err(Error::NotSupported {
                what: format!("{advice:?} for buffer {}", self.id()),
                needs: "managed memory".to_owned(),
                have: self.placement().to_string(),
            });
        }
        let (number, location) = advice.to_sys();
        self.device()
            .runtime()
            .check_migration_to(location, "advice")?;
        if range.is_empty() {
            return Ok(());
        }
        let started = Started::now(self.device());
        let _span = crate::telemetry::span!("advise", buffer = self.id(), ?advice);
        if advice == Advice::SetReadMostly {
            // A write that still runs would end the duplicates, page by page.
            for used in self.raw.in_flight.before(Access::Read) {
                used.wait()?;
            }
        }
        let device = self.device();
        let addresses = self.raw.address_range(&range::to_bytes::<T>(&range));
        // Record the advice before the call: a call that fails half-way must be undone as well.
        self.raw.track_advice(&addresses, number, location);
        // SAFETY: the range was checked, and is within this buffer's live managed memory.
        unsafe {
            device
                .api()
                .advise(device.ordinal(), addresses, number, location)
        }?;
        let cache = &self.raw.cache;
        match advice {
            Advice::SetReadMostly if range.len() == self.len() => cache.set_read_mostly(),
            Advice::SetReadMostly => {}
            Advice::UnsetReadMostly => cache.unset_read_mostly(),
            _ => cache.touched(By::Unknown),
        }
        let (name, at) = advice.in_cudas_words();
        let part = self.raw.part_of(range::to_bytes::<T>(&range), Access::Move);
        started.done(What::Advise(name, at), device, None, [part]);
        crate::telemetry::debug!(buffer = self.id(), ?range, ?advice, "advise");
        Ok(())
    }
}
