//! Prefetch, advice and range attributes, in the form that the runtime's version supports.

use crate::driver::api::Api;
use crate::driver::call::calls;
use crate::driver::check::Subject;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use cuda_um_sys::{self as sys, cudaMemRangeAttribute, cudaMemoryAdvise, cudaStream_t};
use std::ops::Range;

calls! {
    /// Reads one range attribute into `values`.
    ///
    /// # Safety: the range lies in one live managed allocation; `values` has the size that the attribute requires.
    unsafe fn range_attribute(
        ordinal,
        range: Range<*mut u8>,
        attribute: cudaMemRangeAttribute,
        values: &mut [i32],
    )
        => runtime.cudaMemRangeGetAttribute(
            values.as_mut_ptr().cast(),
            size_of_val(values),
            attribute,
            range.start.cast(),
            bytes(&range),
        ),
        of ("attribute {} of {} bytes", attribute.0, bytes(&range));

    /// The location of most pages that the driver samples in a range; `None` if they have no location.
    ///
    /// # Safety: the range lies in one live managed allocation.
    unsafe fn location_info(ordinal, range: Range<*mut u8>)
        -> found: sys::cudaMemLocation as Option<Location> = Location::from_sys(found.type_.0, found.id)
        // One summary of the whole range, so one location is written.
        => newer.cudaMemGetLocationInfo(
            range.start.cast(),
            bytes(&range),
            bytes(&range),
            0,
            &mut found,
        ),
        of ("the location of {} bytes", bytes(&range));
}

fn bytes(range: &Range<*mut u8>) -> usize {
    range.end.addr() - range.start.addr()
}

impl Api {
    /// The location as runtimes before CUDA 12.2 have it.
    fn ordinal_of(&self, location: Location) -> Result<i32> {
        location.to_ordinal().ok_or_else(|| Error::NotSupported {
            what: format!("memory at {location}"),
            needs: "CUDA 12.2 or newer".to_owned(),
            have: self.version_text(),
        })
    }

    /// # Safety
    ///
    /// The range lies in one live managed allocation, and the stream is live.
    pub(crate) unsafe fn prefetch(
        &self,
        ordinal: u32,
        range: Range<*mut u8>,
        location: Location,
        stream: cudaStream_t,
    ) -> Result<()> {
        let name = "cudaMemPrefetchAsync";
        let (start, bytes) = (range.start.cast(), bytes(&range));
        let subject = || Subject::new(format_args!("{bytes} bytes to {location}")).bytes(bytes);
        let call = self.begin(name)?;
        if let Some(prefetch) = self.table.cudaMemPrefetchAsync_v13 {
            let to = location.to_sys();
            // SAFETY: guaranteed by the caller.
            return call.on(
                ordinal,
                || unsafe { prefetch(start, bytes, to, 0, stream) },
                subject,
            );
        }
        let prefetch = self.late(name, self.table.cudaMemPrefetchAsync_v11)?;
        let to = self.ordinal_of(location)?;
        // SAFETY: guaranteed by the caller.
        call.on(
            ordinal,
            || unsafe { prefetch(start, bytes, to, stream) },
            subject,
        )
    }

    /// Prefetches several ranges with one call.
    ///
    /// # Safety
    ///
    /// Each range lies in one live managed allocation, and the stream is live.
    pub(crate) unsafe fn prefetch_batch(
        &self,
        ordinal: u32,
        ranges: &[Range<*mut u8>],
        location: Location,
        stream: cudaStream_t,
    ) -> Result<()> {
        let name = "cudaMemPrefetchBatchAsync";
        let call = self.begin(name)?;
        let prefetch = self.late(name, self.table.cudaMemPrefetchBatchAsync)?;
        let mut starts: Vec<_> = ranges.iter().map(|range| range.start.cast()).collect();
        let mut sizes: Vec<_> = ranges.iter().map(bytes).collect();
        let (all, count) = (sizes.iter().sum(), ranges.len());
        let (starts, sizes) = (starts.as_mut_ptr(), sizes.as_mut_ptr());
        // One location, which applies from the first range on.
        let (mut to, mut first) = (location.to_sys(), 0);
        call.on(
            ordinal,
            // SAFETY: the arrays have the lengths given; the rest is guaranteed by the caller.
            || unsafe { prefetch(starts, sizes, count, &mut to, &mut first, 1, 0, stream) },
            || {
                let text = format_args!("{all} bytes in {count} ranges to {location}");
                Subject::new(text).bytes(all)
            },
        )
    }

    pub(crate) fn has_prefetch_batch(&self) -> bool {
        self.table.cudaMemPrefetchBatchAsync.is_some()
    }

    /// # Safety
    ///
    /// The range lies in one live managed allocation.
    pub(crate) unsafe fn advise(
        &self,
        ordinal: u32,
        range: Range<*mut u8>,
        advice: cudaMemoryAdvise,
        location: Location,
    ) -> Result<()> {
        let name = "cudaMemAdvise";
        let (start, bytes, number) = (range.start.cast(), bytes(&range), advice.0);
        let subject = || {
            Subject::new(format_args!(
                "advice {number} with {location} for {bytes} bytes"
            ))
        };
        let call = self.begin(name)?;
        if let Some(advise) = self.table.cudaMemAdvise_v13 {
            let place = location.to_sys();
            // SAFETY: guaranteed by the caller.
            return call.on(
                ordinal,
                || unsafe { advise(start, bytes, advice, place) },
                subject,
            );
        }
        let advise = self.late(name, self.table.cudaMemAdvise_v11)?;
        let place = self.ordinal_of(location)?;
        // SAFETY: guaranteed by the caller.
        call.on(
            ordinal,
            || unsafe { advise(start, bytes, advice, place) },
            subject,
        )
    }

    pub(crate) fn has_location_info(&self) -> bool {
        self.table.cudaMemGetLocationInfo.is_some()
    }
}
