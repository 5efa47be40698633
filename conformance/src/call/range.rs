//! Ranges of addresses: prefetch, advice and attributes.

use super::{At, Called, Calls, Cuda, Memory, Place, Stream, ok};
use cuda_um_sys as sys;
use std::ops::Range;

/// A range of addresses.
pub(crate) trait Span {
    fn span(self) -> Range<usize>;
}

macro_rules! spans {
    ($($kind:ty: |$it:ident| $start:expr, $bytes:expr;)*) => { $(
        impl Span for $kind {
            fn span(self) -> Range<usize> {
                let $it = self;
                let bytes = $bytes;
                $start..$start + bytes
            }
        }
    )* };
}

spans! {
    Range<usize>: |it| it.start, it.len();
    &Memory<'_>: |it| it.at(), it.bytes();
    &[u32]: |it| it.as_ptr() as usize, size_of_val(it);
    &Vec<u32>: |it| it.as_ptr() as usize, 4 * it.len();
    &mut Vec<u32>: |it| it.as_mut_ptr() as usize, 4 * it.len();
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
    /// `cudaMemPrefetchAsync`
    pub(crate) fn prefetch(&self, range: impl Span, to: Place, stream: &Stream<'_>) -> Called {
        self.prefetch_range(range.span(), to, stream)
    }

    /// `cudaMemAdvise`
    pub(crate) fn advise(&self, range: impl Span, advice: u32, place: Place) -> Called {
        self.advise_range(range.span(), advice, place)
    }

    /// `cudaMemRangeGetAttribute` into `values`.
    pub(crate) fn range_attribute(
        &self,
        range: impl Span,
        which: Attribute,
        values: &mut [i32],
    ) -> Called {
        let (to, bytes) = (values.as_mut_ptr().cast(), size_of_val(values));
        self.range_attribute_at(to, bytes, which as u32, range.span())
    }

    /// One number for a range.
    pub(crate) fn told(&self, range: impl Span, which: Attribute) -> i32 {
        let mut value = [i32::MIN];
        ok(self.range_attribute(range, which, &mut value));
        value[0]
    }

    /// The processors that are set as accessed-by, in order, without the filling.
    pub(crate) fn accessed_by(&self, range: impl Span) -> Vec<i32> {
        let mut values = vec![i32::MIN; 4];
        ok(self.range_attribute(range, Attribute::AccessedBy, &mut values));
        values.retain(|value| *value != sys::cudaInvalidDeviceId);
        values.sort_unstable();
        values
    }

    /// `cudaMemRangeGetAttributes`: one number for each attribute.
    pub(crate) fn range_attributes(
        &self,
        memory: &Memory<'_>,
        which: &[Attribute],
    ) -> Called<Vec<i32>> {
        let count = which.len();
        let (mut values, mut sizes) = (vec![i32::MIN; count], vec![4usize; count]);
        let mut places: Vec<_> = values
            .iter_mut()
            .map(|value| (&raw mut *value).cast())
            .collect();
        let which = which
            .iter()
            .map(|it| sys::cudaMemRangeAttribute(*it as u32));
        let mut which: Vec<_> = which.collect();
        self.range_attributes_at(&mut places, &mut sizes, &mut which, memory.span())?;
        Ok(values)
    }
}
