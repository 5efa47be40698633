//! Advice for buffers of managed memory.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::buffer::view::View;
use crate::context::capture;
use crate::context::device::Device;
use crate::context::op::{Op, What};
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::advice::Advice;
use crate::error::{Error, Result};
use crate::managed::batch::not_managed;
use crate::resource::allocation::Allocation;
use std::ops::Range;

/// What CUDA refuses advice for: memory of its managed pools, which is not of `cudaMallocManaged`.
const NEEDS: &str = "memory of cudaMallocManaged, as UnifiedBuffer::new and Pool have it (memory of a DriverPool takes prefetches)";

impl<T> View<'_, T> {
    fn check_advice(&self, advice: Advice) -> Result<()> {
        let raw = self.raw;
        match advice {
            Advice::SetAccessedBy(location) | Advice::UnsetAccessedBy(location)
                if location.is_numa() =>
            {
                Err(Error::InvalidArgument {
                    what: "the location of accessed-by advice",
                    value: location.to_string(),
                    reason: "it is a processor: the host or a device".to_owned(),
                })
            }
            _ if !raw.migrates() && raw.bytes() > 0 => {
                Err(not_managed(*self, format_args!("{advice:?} for")))
            }
            _ => {
                let (_, location) = advice.to_sys();
                let runtime = raw.device().runtime();
                runtime.check_migration_to(location, "advice")
            }
        }
    }

    pub(super) fn advise_or_refuse(&self, advice: Advice) -> Result<()> {
        self.check_advice(advice)?;
        let (raw, bytes) = (self.raw, self.bytes());
        if bytes.is_empty() || capture::advise(&self.part(Access::Move), advice) {
            return Ok(());
        }
        if advice == Advice::SetReadMostly {
            // A write that still runs would end the duplicates, page by page.
            for used in raw.in_flight.before(Access::Read) {
                used.wait()?;
            }
        }
        let (device, addresses) = (raw.device(), raw.address_range(&bytes));
        // Record the advice before the call: a call that fails half-way must be undone as well.
        let (number, location) = advice.to_sys();
        raw.track_advice(&addresses, number, location);
        let part = [self.part(Access::Move)];
        let op = Op::new(What::Advise(advice), device, &part);
        let mut advised = op.run(("cudaMemAdvise", true), |_| {
            // SAFETY: the range was checked, and is within this buffer's live managed memory.
            unsafe { device.advise_addresses(addresses, advice) }
        });
        if let Err(Error::NotSupported { needs, .. }) = &mut advised
            && (raw.traits().can_give || raw.traits().is_imported)
        {
            *needs = NEEDS.to_owned();
        }
        advised?;
        let (pages, is_whole) = (&raw.pages, bytes.len() == raw.bytes());
        match advice {
            Advice::SetReadMostly if is_whole => pages.set_read_mostly(true),
            Advice::SetReadMostly => {}
            Advice::UnsetReadMostly => pages.set_read_mostly(false),
            _ => pages.lost(),
        }
        pages.advised(advice, is_whole);
        Ok(())
    }
}

impl Part<'_> {
    /// Gives advice of an [observer](crate::observe), which does not count as the program's: [`Pages::are_advised`](crate::observe::Pages) does not
    /// tell it, and no observer is told. A pool undoes it before the memory has another owner.
    ///
    /// # Errors
    ///
    /// The errors of `cudaMemAdvise`.
    pub fn advise(&self, advice: Advice) -> Result<()> {
        if let Some(raw) = self.memory.as_any().downcast_ref::<Allocation>() {
            let (number, location) = advice.to_sys();
            raw.track_advice(&self.addresses(), number, location);
            raw.pages.lost();
        }
        // SAFETY: the part borrows the memory, and is within it.
        unsafe { self.device().advise_addresses(self.addresses(), advice) }
    }
}

impl Device {
    /// Gives advice for managed memory by its address, for which no buffer is at hand. No observer is told.
    ///
    /// # Errors
    ///
    /// The errors of `cudaMemAdvise`.
    ///
    /// # Safety
    ///
    /// The range lies in one live allocation.
    pub unsafe fn advise_addresses(&self, addresses: Range<*mut u8>, advice: Advice) -> Result<()> {
        let (number, location) = advice.to_sys();
        // SAFETY: the caller's promise.
        unsafe {
            self.api()
                .advise(self.ordinal(), addresses, number, location)
        }
    }
}
