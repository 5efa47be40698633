//! The location of managed memory, as the library knows or the driver tells, and the attributes of a range from CUDA: its advice and its last prefetch.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::buffer::unified::UnifiedBuffer;
use crate::buffer::view::View;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::managed::batch::not_managed;
use crate::resource::location::BLOCK;
use cuda_um_sys::cudaMemRangeAttribute as Attribute;
use std::ops::Range;

/// Attributes of a range of managed memory
/// ([`cudaMemRangeGetAttribute`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html)). If the pages differ, CUDA
/// returns the value that they have in common.
#[doc(alias = "cudaMemRangeAttribute")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeAttributes {
    /// True if all pages are read-mostly.
    pub read_mostly: bool,
    /// The preferred location of all pages; `None` if there is none or the pages differ.
    pub preferred_location: Option<Location>,
    /// The processors for which `SetAccessedBy` applies to all pages.
    pub accessed_by: Vec<Location>,
    /// The location to which all pages were last prefetched. The prefetch may still run, and the pages may have moved since.
    pub last_prefetch: Option<Location>,
}

/// The value with which CUDA marks the absence of a further processor.
const NO_DEVICE: i32 = -2;

impl<T> View<'_, T> {
    pub(super) fn location(&self) -> Result<Option<Location>> {
        let raw = self.raw;
        if self.is_empty() {
            return Ok(None);
        }
        if !raw.migrates() {
            return Ok(Some(match raw.is_device_memory() {
                true => self.device().into(),
                false => Location::Host,
            }));
        }
        let (api, ordinal) = (self.device().api(), self.device().ordinal());
        if !api.has_location_info() {
            let place = raw.pages.place().filter(|place| raw.is_known_at(*place));
            return Ok(place);
        }
        for used in raw.in_flight.before(Access::Read) {
            used.wait()?;
        }
        // Pending work of other buffers may still move the blocks that they share with this one.
        let is_sure = raw.is_located || self.device().state().driver.is_known_idle();
        let is_last = !raw.in_flight.is_read_beside(None);
        let before = raw.pages.before();
        // The driver tells where most pages of a range are, so it is asked for each block of 2 MiB.
        let Range { start, end } = raw.address_range(&self.bytes());
        let mut asked = (start.addr() / BLOCK..end.addr().div_ceil(BLOCK)).map(|block| {
            let from = start.with_addr((block * BLOCK).max(start.addr()));
            let to = start.with_addr(((block + 1) * BLOCK).min(end.addr()));
            // SAFETY: the range is a part of this buffer's live managed memory.
            unsafe { api.location_info(ordinal, &(from..to)) }
        });
        let first = asked.next().transpose()?.flatten();
        let is_one = asked.try_fold(true, |is_one, at| Ok::<_, Error>(is_one && at? == first))?;
        let place = first.filter(|_| is_one && is_sure && is_last);
        let place = place.filter(|place| !place.is_numa() && raw.pages.keeps(*place));
        let is_whole = self.size_bytes() == raw.bytes();
        match place {
            Some(place) => raw
                .pages
                .moved(before, place, (is_whole, raw.is_located, is_last)),
            None => raw.pages.lost(),
        }
        Ok(place)
    }
}

impl<T> UnifiedBuffer<T> {
    /// Returns CUDA's attributes of the whole buffer.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a buffer without elements; [`Error::NotSupported`] for memory that is not managed: CUDA has no attributes of
    /// system memory; and the errors of `cudaMemRangeGetAttribute`.
    #[doc(alias = "cudaMemRangeGetAttribute")]
    pub fn range_attributes(&self) -> Result<RangeAttributes> {
        if self.is_empty() {
            return Err(Error::InvalidArgument {
                what: "the length",
                value: "0".to_owned(),
                reason: "no pages hold an empty buffer".to_owned(),
            });
        }
        if !self.raw.is_managed() {
            return Err(not_managed(self.as_view(), "range attributes of"));
        }
        let version = self.device().api().version();
        let tells_nodes = (version.major, version.minor) >= (12, 2);
        let bytes = 0..self.size_bytes();
        let one = |attribute| self.attribute(&bytes, attribute, 1).map(|values| values[0]);
        let location = |[ordinal, kind, id]: [Attribute; 3]| match tells_nodes {
            true => Ok(Location::from_sys(one(kind)? as u32, one(id)?)),
            false => one(ordinal).map(Location::from_ordinal),
        };
        let most = self.device().runtime().device_count()? + 1;
        let accessed_by = Attribute::cudaMemRangeAttributeAccessedBy;
        let accessed_by = self.attribute(&bytes, accessed_by, most)?;
        Ok(RangeAttributes {
            read_mostly: one(Attribute::cudaMemRangeAttributeReadMostly)? != 0,
            preferred_location: location([
                Attribute::cudaMemRangeAttributePreferredLocation,
                Attribute::cudaMemRangeAttributePreferredLocationType,
                Attribute::cudaMemRangeAttributePreferredLocationId,
            ])?,
            accessed_by: (accessed_by.into_iter())
                .filter_map(Location::from_ordinal)
                .collect(),
            last_prefetch: location([
                Attribute::cudaMemRangeAttributeLastPrefetchLocation,
                Attribute::cudaMemRangeAttributeLastPrefetchLocationType,
                Attribute::cudaMemRangeAttributeLastPrefetchLocationId,
            ])?,
        })
    }

    pub(super) fn attribute(
        &self,
        bytes: &Range<usize>,
        attribute: Attribute,
        count: usize,
    ) -> Result<Vec<i32>> {
        let mut values = vec![NO_DEVICE; count];
        let (device, addresses) = (self.device(), self.raw.address_range(bytes));
        // SAFETY: the range is within this buffer's managed memory. Accessed-by takes any number of values, the other attributes take one.
        unsafe {
            device
                .api()
                .range_attribute(device.ordinal(), &addresses, attribute, &mut values)
        }?;
        Ok(values)
    }
}
