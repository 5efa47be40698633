//! Prefetch, advice and range attributes, in the form that the runtime's version supports.

use crate::driver::api::Api;
use crate::driver::call::How::On;
use crate::driver::call::calls;
use crate::driver::check::Subject;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use cuda_um_sys::{self as sys, cudaMemRangeAttribute, cudaMemoryAdvise, cudaStream_t as Stream};
use std::ops::Range;

calls! {
    /// Reads one range attribute into `values`.
    /// # Safety: the range lies in one live managed allocation; `values` has the size that the attribute requires.
    unsafe fn range_attribute(
        ordinal,
        range: &Range<*mut u8>,
        attribute: cudaMemRangeAttribute,
        values: &mut [i32],
    )
        => runtime.cudaMemRangeGetAttribute(
            values.as_mut_ptr().cast(),
            size_of_val(values),
            attribute,
            range.start.cast(),
            bytes(range),
        ),
        of ("attribute {} of {} bytes", attribute.0, bytes(range));

    /// The location of most pages that the driver samples in a range; `None` if they have no location.
    /// # Safety: the range lies in one live managed allocation.
    unsafe fn location_info(ordinal, range: &Range<*mut u8>)
        -> at: sys::cudaMemLocation as Option<Location> = Ok(Location::from_sys(at.type_.0, at.id))
        // One summary of the whole range, so one location is written.
        => newer.cudaMemGetLocationInfo(
            range.start.cast(),
            bytes(range),
            bytes(range),
            0,
            &mut at,
        ),
        of ("the location of {} bytes", bytes(range));
}

fn bytes(range: &Range<*mut u8>) -> usize {
    range.end.addr() - range.start.addr()
}

/// A function: from CUDA 12.2 on, or before, with the location in its form.
enum Form<New, Old> {
    New(New),
    Old(Old, i32),
}

impl Api {
    fn form<New, Old>(
        &self,
        name: &'static str,
        (new, old): (Option<New>, Option<Old>),
        location: Location,
    ) -> Result<Form<New, Old>> {
        if let Some(new) = new {
            return Ok(Form::New(new));
        }
        let old = self.late(name, old)?;
        let ordinal = location.to_ordinal().ok_or_else(|| Error::NotSupported {
            what: format!("memory at {location}"),
            needs: "CUDA 12.2 or newer".to_owned(),
            have: self.version_text(),
        })?;
        Ok(Form::Old(old, ordinal))
    }

    /// # Safety: the range lies in one live managed allocation, and the stream is live.
    pub(crate) unsafe fn prefetch(
        &self,
        ordinal: u32,
        range: Range<*mut u8>,
        location: Location,
        stream: Stream,
    ) -> Result<()> {
        let name = "cudaMemPrefetchAsync";
        let (start, bytes) = (range.start.cast(), bytes(&range));
        let (call, table) = (self.begin(name)?, &self.table);
        let (new, old) = (
            table.cudaMemPrefetchAsync_v13,
            table.cudaMemPrefetchAsync_v11,
        );
        let form = self.form(name, (new, old), location)?;
        // SAFETY: guaranteed by the caller.
        let prefetch = || unsafe {
            match form {
                Form::New(prefetch) => prefetch(start, bytes, location.to_sys(), 0, stream),
                Form::Old(prefetch, to) => prefetch(start, bytes, to, stream),
            }
        };
        let subject = || Subject::new(format_args!("{bytes} bytes to {location}")).bytes(bytes);
        call.run(On(ordinal), prefetch, subject)
    }

    /// Prefetches several ranges with one call.
    /// # Safety: each range lies in one live managed allocation, and the stream is live.
    pub(crate) unsafe fn prefetch_batch(
        &self,
        ordinal: u32,
        ranges: &[Range<*mut u8>],
        location: Location,
        stream: Stream,
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
        call.run(
            On(ordinal),
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

    /// # Safety: the range lies in one live managed allocation.
    pub(crate) unsafe fn advise(
        &self,
        ordinal: u32,
        range: Range<*mut u8>,
        advice: cudaMemoryAdvise,
        location: Location,
    ) -> Result<()> {
        let (name, number) = ("cudaMemAdvise", advice.0);
        let (start, bytes) = (range.start.cast(), bytes(&range));
        let call = self.begin(name)?;
        let forms = (self.table.cudaMemAdvise_v13, self.table.cudaMemAdvise_v11);
        let form = self.form(name, forms, location)?;
        // SAFETY: guaranteed by the caller.
        let advise = || unsafe {
            match form {
                Form::New(advise) => advise(start, bytes, advice, location.to_sys()),
                Form::Old(advise, place) => advise(start, bytes, advice, place),
            }
        };
        let subject = || {
            Subject::new(format_args!(
                "advice {number} with {location} for {bytes} bytes"
            ))
        };
        call.run(On(ordinal), advise, subject)
    }

    pub(crate) fn has_location_info(&self) -> bool {
        self.table.cudaMemGetLocationInfo.is_some()
    }
}
