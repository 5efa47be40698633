//! Prefetch, discard, advice and range attributes, with the signatures of the version.

use super::{Code, Cuda, Memory, Stream};
use crate::Failure;
use cuda_um_sys as sys;
use cuda_um_testkit::call::{self, Place};
use std::ffi::c_void;
use std::ops::Range;

/// `cudaMemoryAdvise`
pub(crate) mod advice {
    pub(crate) const SET_READ_MOSTLY: u32 = 1;
    pub(crate) const UNSET_READ_MOSTLY: u32 = 2;
    pub(crate) const SET_PREFERRED: u32 = 3;
    pub(crate) const UNSET_PREFERRED: u32 = 4;
    pub(crate) const SET_ACCESSED_BY: u32 = 5;
    pub(crate) const UNSET_ACCESSED_BY: u32 = 6;
}

/// `cudaMemRangeAttribute`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attribute {
    ReadMostly = 1,
    Preferred = 2,
    AccessedBy = 3,
    LastPrefetch = 4,
    PreferredType = 5,
    PreferredId = 6,
    LastPrefetchType = 7,
    LastPrefetchId = 8,
}

impl Cuda<'_> {
    /// `cudaMemPrefetchAsync` of an address range.
    pub(crate) fn prefetch_range(
        &self,
        range: Range<usize>,
        to: Place,
        stream: &Stream<'_>,
    ) -> Code {
        Code(call::prefetch(self.table(), range, to, stream.raw() as _).0)
    }

    /// `cudaMemPrefetchAsync` of a whole allocation.
    pub(crate) fn prefetch(&self, memory: &Memory<'_>, to: Place, stream: &Stream<'_>) -> Code {
        self.prefetch_range(whole(memory), to, stream)
    }

    /// `cudaMemPrefetchAsync` in its newer form, with flags.
    pub(crate) fn prefetch_with_flags(
        &self,
        memory: &Memory<'_>,
        flags: u32,
        stream: &Stream<'_>,
    ) -> Option<Code> {
        let prefetch = self.table().cudaMemPrefetchAsync_v13?;
        let place = Place::device(0).to_sys();
        Some(call!(prefetch(
            memory.address() as *const c_void,
            memory.bytes(),
            place,
            flags,
            stream.raw() as _
        )))
    }

    /// `cudaMemAdvise` of an address range.
    pub(crate) fn advise_range(&self, range: Range<usize>, advice: u32, place: Place) -> Code {
        Code(call::advise(self.table(), range, sys::cudaMemoryAdvise(advice), place).0)
    }

    /// `cudaMemAdvise` of a whole allocation.
    pub(crate) fn advise(&self, memory: &Memory<'_>, advice: u32, place: Place) -> Code {
        self.advise_range(whole(memory), advice, place)
    }

    /// `cudaMemRangeGetAttribute` into `values`.
    pub(crate) fn range_attribute(
        &self,
        range: Range<usize>,
        attribute: Attribute,
        values: &mut [i32],
    ) -> Code {
        call!(
            self.table(),
            cudaMemRangeGetAttribute(
                values.as_mut_ptr().cast(),
                size_of_val(values),
                sys::cudaMemRangeAttribute(attribute as u32),
                range.start as *const c_void,
                range.len()
            )
        )
    }

    /// The same with a wrong size.
    pub(crate) fn range_attribute_of_size(
        &self,
        memory: &Memory<'_>,
        attribute: Attribute,
        bytes: usize,
    ) -> Code {
        let mut room = [0u64; 8];
        assert!(bytes <= size_of_val(&room));
        call!(
            self.table(),
            cudaMemRangeGetAttribute(
                room.as_mut_ptr().cast(),
                bytes,
                sys::cudaMemRangeAttribute(attribute as u32),
                memory.address() as *const c_void,
                memory.bytes()
            )
        )
    }

    /// One number for a whole allocation.
    pub(crate) fn attribute_of(
        &self,
        memory: &Memory<'_>,
        attribute: Attribute,
    ) -> Result<i32, Failure> {
        self.attribute_in(whole(memory), attribute)
    }

    /// One number for a range.
    pub(crate) fn attribute_in(
        &self,
        range: Range<usize>,
        attribute: Attribute,
    ) -> Result<i32, Failure> {
        let mut value = [i32::MIN];
        let code = self.range_attribute(range, attribute, &mut value);
        self.ok(&format!("cudaMemRangeGetAttribute {attribute:?}"), code)?;
        Ok(value[0])
    }

    /// The processors that are set as accessed-by, in order, without the filling.
    pub(crate) fn accessed_by(
        &self,
        range: Range<usize>,
        room: usize,
    ) -> Result<Vec<i32>, Failure> {
        let mut values = vec![i32::MIN; room];
        let code = self.range_attribute(range, Attribute::AccessedBy, &mut values);
        self.ok("cudaMemRangeGetAttribute AccessedBy", code)?;
        values.retain(|value| *value != sys::cudaInvalidDeviceId);
        values.sort_unstable();
        Ok(values)
    }

    /// `cudaMemRangeGetAttributes`: the code, and one number for each attribute.
    pub(crate) fn range_attributes(
        &self,
        memory: &Memory<'_>,
        attributes: &[Attribute],
    ) -> (Code, Vec<i32>) {
        let mut values = vec![i32::MIN; attributes.len()];
        let base = values.as_mut_ptr();
        let mut places: Vec<*mut c_void> = (0..attributes.len())
            .map(|index| base.wrapping_add(index).cast())
            .collect();
        let mut sizes = vec![4usize; attributes.len()];
        let mut which: Vec<_> = attributes
            .iter()
            .map(|attribute| sys::cudaMemRangeAttribute(*attribute as u32))
            .collect();
        // The arrays have the stated length, and each place is valid for its 4 bytes.
        let code = call!(
            self.table(),
            cudaMemRangeGetAttributes(
                places.as_mut_ptr(),
                sizes.as_mut_ptr(),
                which.as_mut_ptr(),
                attributes.len(),
                memory.address() as *const c_void,
                memory.bytes()
            )
        );
        (code, values)
    }

    /// `cudaMemPrefetchBatchAsync`, or with `discard` the discarding variant. Each place is valid from its index on.
    pub(crate) fn prefetch_batch(
        &self,
        ranges: &[Range<usize>],
        places: &[(Place, usize)],
        discard: bool,
        flags: u64,
        stream: &Stream<'_>,
    ) -> Option<Code> {
        let table = self.table();
        let call = match discard {
            false => table.cudaMemPrefetchBatchAsync?,
            true => table.cudaMemDiscardAndPrefetchBatchAsync?,
        };
        let (mut starts, mut sizes) = arrays(ranges);
        let mut locations: Vec<_> = places.iter().map(|(place, _)| place.to_sys()).collect();
        let mut indices: Vec<_> = places.iter().map(|(_, index)| *index).collect();
        // The arrays have the stated lengths; the stream is alive; ranges that are not managed are refused.
        Some(call!(call(
            starts.as_mut_ptr(),
            sizes.as_mut_ptr(),
            ranges.len(),
            locations.as_mut_ptr(),
            indices.as_mut_ptr(),
            places.len(),
            flags,
            stream.raw() as _
        )))
    }

    /// `cudaMemDiscardBatchAsync`
    pub(crate) fn discard_batch(
        &self,
        ranges: &[Range<usize>],
        flags: u64,
        stream: &Stream<'_>,
    ) -> Option<Code> {
        let discard = self.table().cudaMemDiscardBatchAsync?;
        let (mut starts, mut sizes) = arrays(ranges);
        // The arrays have the stated length; the stream is alive; ranges that are not managed are refused.
        Some(call!(discard(
            starts.as_mut_ptr(),
            sizes.as_mut_ptr(),
            ranges.len(),
            flags,
            stream.raw() as _
        )))
    }

    /// `cudaMemGetLocationInfo` of a whole allocation, as one place.
    pub(crate) fn location_info(&self, memory: &Memory<'_>) -> Option<(Code, Place)> {
        let ask = self.table().cudaMemGetLocationInfo?;
        let mut found = Place { kind: 99, id: 99 }.to_sys();
        let (start, bytes) = (memory.address() as *mut c_void, memory.bytes());
        let code = call!(ask(start, bytes, bytes, 0, &mut found));
        let place = Place {
            kind: found.type_.0,
            id: found.id,
        };
        Some((code, place))
    }
}

/// The addresses of a whole allocation.
pub(crate) fn whole(memory: &Memory<'_>) -> Range<usize> {
    memory.address()..memory.address() + memory.bytes()
}

fn arrays(ranges: &[Range<usize>]) -> (Vec<*mut c_void>, Vec<usize>) {
    let starts = ranges
        .iter()
        .map(|range| range.start as *mut c_void)
        .collect();
    (starts, ranges.iter().map(Range::len).collect())
}
