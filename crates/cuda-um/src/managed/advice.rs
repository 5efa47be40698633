//! Advice for buffers of managed memory.
#![allow(unsafe_code, reason = "gives CUDA the addresses of buffers")]

use crate::buffer::unified::UnifiedBuffer;
use crate::context::observer::{Started, What};
use crate::context::tracker::Access;
use crate::driver::advice::Advice;
use crate::error::{Error, Result};
use crate::range;
use crate::resource::cache::By;
use std::ops::RangeBounds;

impl<T> UnifiedBuffer<T> {
    /// Gives advice for the whole buffer.
    ///
    /// # Ordering
    ///
    /// At once, on no stream: work that runs now may see it or not. It changes no contents. [`Advice::SetReadMostly`] first waits for what
    /// writes or moves the buffer, since a write would end the duplicates.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] for mapped memory, a device without concurrent managed access, or a location that the runtime is too old for;
    /// [`Error::DeviceOutOfRange`]; [`Error::InvalidArgument`] for NUMA nodes with `SetAccessedBy`; and what `cudaMemAdvise`
    /// reports.
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise(&self, advice: Advice) -> Result<()> {
        self.advise_range(.., advice)
    }

    /// Gives advice for a range of elements. CUDA rounds it outwards to whole pages.
    ///
    /// # Ordering
    ///
    /// As for [`advise`](Self::advise).
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`], and as for [`advise`](Self::advise).
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
            // A write that is under way would end the duplicates, fault by fault.
            for used in self.raw.in_flight.before(Access::Read) {
                used.wait()?;
            }
        }
        let device = self.device();
        let addresses = self.raw.address_range(&range::to_bytes::<T>(&range));
        // Before the call: what fails half-way must be undone as well.
        self.raw.note_advice(&addresses, number, location);
        // SAFETY: the range was checked, and lies in this buffer's live managed memory.
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
