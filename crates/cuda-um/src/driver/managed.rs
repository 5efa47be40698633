//! Prefetch, advice and range attributes, in the form that the runtime's version supports.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use cuda_um_sys as sys;
use std::ops::Range;

impl Api {
    /// The error for a location that this version does not support.
    fn missing_location(&self, location: Location) -> Error {
        Error::NotSupported {
            what: format!("memory at {location}"),
            needs: "CUDA 12.2 or newer".to_owned(),
            have: self.version_text(),
        }
    }

    pub(super) fn missing_function(&self, what: &str) -> Error {
        let needs = match sys::Table::available_since(what) {
            Some(version) => format!("CUDA {version}"),
            None => "a runtime that exports it".to_owned(),
        };
        Error::NotSupported {
            what: what.to_owned(),
            needs,
            have: self.version_text(),
        }
    }

    /// # Safety
    ///
    /// The range lies in one live managed allocation, and the stream is live.
    pub(crate) unsafe fn prefetch(
        &self,
        ordinal: u32,
        range: Range<*mut u8>,
        location: Location,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        let bytes = range.end as usize - range.start as usize;
        let subject = || Subject::new(format_args!("{bytes} bytes to {location}")).bytes(bytes);
        let start = range.start.cast();
        if let Some(prefetch) = self.table.cudaMemPrefetchAsync_v13 {
            return self.on(ordinal, "cudaMemPrefetchAsync", subject, |_| {
                // SAFETY: guaranteed by the caller.
                unsafe { prefetch(start, bytes, location.to_sys(), 0, stream) }
            });
        }
        let prefetch = self
            .table
            .cudaMemPrefetchAsync_v11
            .ok_or_else(|| self.missing_function("cudaMemPrefetchAsync"))?;
        let destination = location
            .to_ordinal()
            .ok_or_else(|| self.missing_location(location))?;
        self.on(ordinal, "cudaMemPrefetchAsync", subject, |_| {
            // SAFETY: guaranteed by the caller.
            unsafe { prefetch(start, bytes, destination, stream) }
        })
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
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        let call = "cudaMemPrefetchBatchAsync";
        let prefetch = self.table.cudaMemPrefetchBatchAsync;
        let prefetch = prefetch.ok_or_else(|| self.missing_function(call))?;
        let mut starts: Vec<_> = ranges.iter().map(|range| range.start.cast()).collect();
        let sizes: Vec<_> = ranges
            .iter()
            .map(|range| range.end as usize - range.start as usize)
            .collect();
        let subject = || {
            let bytes = sizes.iter().sum();
            Subject::new(format_args!(
                "{bytes} bytes in {} ranges to {location}",
                ranges.len()
            ))
            .bytes(bytes)
        };
        // One location, which applies from the first range on.
        let (mut place, mut first) = (location.to_sys(), 0);
        let (starts, count) = (starts.as_mut_ptr(), ranges.len());
        let sizes_at = sizes.as_ptr().cast_mut();
        self.on(ordinal, call, subject, |_| {
            // SAFETY: the arrays have the lengths given, and CUDA only reads them; the rest is guaranteed by the caller.
            unsafe {
                prefetch(
                    starts, sizes_at, count, &mut place, &mut first, 1, 0, stream,
                )
            }
        })
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
        advice: sys::cudaMemoryAdvise,
        location: Location,
    ) -> Result<()> {
        let bytes = range.end as usize - range.start as usize;
        let subject = || {
            Subject::new(format_args!(
                "advice {} with {location} for {bytes} bytes",
                advice.0
            ))
        };
        let start = range.start.cast();
        if let Some(advise) = self.table.cudaMemAdvise_v13 {
            return self.on(ordinal, "cudaMemAdvise", subject, |_| {
                // SAFETY: guaranteed by the caller.
                unsafe { advise(start, bytes, advice, location.to_sys()) }
            });
        }
        let advise = self
            .table
            .cudaMemAdvise_v11
            .ok_or_else(|| self.missing_function("cudaMemAdvise"))?;
        let place = location
            .to_ordinal()
            .ok_or_else(|| self.missing_location(location))?;
        self.on(ordinal, "cudaMemAdvise", subject, |_| {
            // SAFETY: guaranteed by the caller.
            unsafe { advise(start, bytes, advice, place) }
        })
    }

    /// Reads one range attribute into `values`.
    ///
    /// # Safety
    ///
    /// The range lies in one live managed allocation; `values` has the size that the attribute requires.
    pub(crate) unsafe fn range_attribute(
        &self,
        ordinal: u32,
        range: Range<*mut u8>,
        attribute: sys::cudaMemRangeAttribute,
        values: &mut [i32],
    ) -> Result<()> {
        let bytes = range.end as usize - range.start as usize;
        let subject = || Subject::new(format_args!("attribute {} of {bytes} bytes", attribute.0));
        self.on(ordinal, "cudaMemRangeGetAttribute", subject, |table| {
            // SAFETY: `values` is valid for the size given; the rest is guaranteed by the caller.
            unsafe {
                (table.cudaMemRangeGetAttribute)(
                    values.as_mut_ptr().cast(),
                    size_of_val(values),
                    attribute,
                    range.start.cast(),
                    bytes,
                )
            }
        })
    }

    pub(crate) fn has_location_info(&self) -> bool {
        self.table.cudaMemGetLocationInfo.is_some()
    }

    /// The location of most pages that the driver samples in a range; `None` if they have no location.
    ///
    /// # Safety
    ///
    /// The range lies in one live managed allocation.
    pub(crate) unsafe fn location_info(
        &self,
        ordinal: u32,
        range: Range<*mut u8>,
    ) -> Result<Option<Location>> {
        let call = "cudaMemGetLocationInfo";
        let bytes = range.end as usize - range.start as usize;
        let ask = self.table.cudaMemGetLocationInfo;
        let ask = ask.ok_or_else(|| self.missing_function(call))?;
        let mut location = Location::Host.to_sys();
        let subject = || Subject::new(format_args!("the location of {bytes} bytes"));
        self.on(ordinal, call, subject, |_| {
            // SAFETY: one summary of the whole range, so one location is written; the rest is guaranteed by the caller.
            unsafe { ask(range.start.cast(), bytes, bytes, 0, &mut location) }
        })?;
        Ok(Location::from_sys(location.type_.0, location.id))
    }
}
