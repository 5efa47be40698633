//! Where managed memory is, as far as is known, and what CUDA says of a range: the advice that holds, and where it was last prefetched to.
#![allow(unsafe_code, reason = "gives CUDA the addresses of buffers")]

use crate::buffer::unified::UnifiedBuffer;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::range;
use crate::resource::cache::extent::Extent;
use crate::resource::cache::{By, Place};
use cuda_um_sys::cudaMemRangeAttribute as Attribute;
use std::ops::{Range, RangeBounds};

/// What CUDA says of a range of managed memory. Where the pages of a range differ, CUDA answers for what they have in common.
#[doc(alias = "cudaMemRangeAttribute")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeAttributes {
    /// All pages are read-mostly.
    pub read_mostly: bool,
    /// The preferred location of all pages.
    pub preferred_location: Option<Location>,
    /// The processors that all pages are accessed by.
    pub accessed_by: Vec<Location>,
    /// The location that all pages were last prefetched to. It does not say that the prefetch is done, or that they are still there.
    pub last_prefetch: Option<Location>,
}

/// Where a part of a buffer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Residency {
    /// The part, in bytes from the buffer's beginning.
    pub bytes: Range<usize>,
    /// The location after all work that is enqueued. `None` if it is not known: the block is shared with other buffers, its pages are in
    /// different places, or pending work or a host guard may still move it.
    pub location: Option<Location>,
}

/// CUDA's mark for "no further processor".
const NO_DEVICE: i32 = -2;

impl<T> UnifiedBuffer<T> {
    /// Where the pages are, as far as is known: parts of one location, in order.
    ///
    /// The library remembers the effect of its own calls for the blocks of 2 MiB that belong wholly to the buffer, and elides prefetches
    /// that would move nothing. The location of a block that buffers share is not remembered. From CUDA 13.4 on this asks the driver
    /// (`cudaMemGetLocationInfo`, which looks at some pages of each block), after the work that moves the buffer is done, and corrects
    /// the remembered locations.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{Location, UnifiedBuffer};
    ///
    /// let data = UnifiedBuffer::<f32>::zeroed(&device, 1 << 20)?;
    /// let parts = data.residency()?;
    /// assert_eq!((parts.len(), parts[0].location), (1, Some(Location::Device(0))));
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// What `cudaMemGetLocationInfo` reports.
    #[doc(alias = "cudaMemGetLocationInfo")]
    pub fn residency(&self) -> Result<Vec<Residency>> {
        self.device().api().origin.check("residency")?;
        if !self.raw.is_managed() {
            let all = 0..self.size_bytes();
            let location = Some(Location::Host);
            let part = Residency {
                bytes: all.clone(),
                location,
            };
            return Ok(if all.is_empty() {
                Vec::new()
            } else {
                vec![part]
            });
        }
        let extent = self.raw.extent();
        let cache = &self.raw.cache;
        let mut of_driver = None;
        if self.device().api().has_location_info() {
            for used in self.raw.in_flight.before(Access::Read) {
                used.wait()?;
            }
            // Pending work of other buffers may still move the blocks that they share with this one.
            let is_idle = self.device().state().driver.is_known_idle();
            let asked = cache.ask(!self.raw.in_flight.is_read_beside(None));
            let places = self.ask(&extent)?;
            cache.correct(&extent, &asked, &places);
            of_driver = is_idle.then_some(places);
        }
        let start = extent.addresses.start;
        let mut parts: Vec<Residency> = Vec::new();
        for (index, block) in extent.blocks().enumerate() {
            let shared = || of_driver.as_ref()?[index];
            let place = match extent.tracks(&(block..block + 1)) {
                true => cache.location(&extent, block),
                false => shared(),
            };
            let location = place.map(|place| match place {
                Place::Host => Location::Host,
                Place::Device(ordinal) => Location::Device(ordinal),
            });
            let part = extent.part(block);
            match parts.last_mut() {
                Some(last) if last.location == location => last.bytes.end = part.end - start,
                _ => parts.push(Residency {
                    bytes: part.start - start..part.end - start,
                    location,
                }),
            }
        }
        Ok(parts)
    }

    /// Forgets what is known of where the pages are, so that the next prefetch asks the driver: after the buffer was used past the
    /// library, by its address. Does nothing in a child made by `fork`, where nothing is prefetched.
    pub fn forget_residency(&self) {
        if self.raw.is_managed() && !self.device().api().origin.is_inherited() {
            self.raw.cache.touched(By::Unknown);
        }
    }

    /// Where the driver says that each block is.
    fn ask(&self, extent: &Extent) -> Result<Vec<Option<Place>>> {
        let (device, start) = (self.device(), self.raw.pointer().as_ptr());
        let mut places = Vec::with_capacity(extent.blocks().len());
        for part in extent.blocks().map(|block| extent.part(block)) {
            let range = start.with_addr(part.start)..start.with_addr(part.end);
            // SAFETY: a part of this buffer's live managed memory.
            let location = unsafe { device.api().location_info(device.ordinal(), range) }?;
            places.push(location.and_then(Place::of));
        }
        Ok(places)
    }

    /// What CUDA says of the whole buffer.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{Location, UnifiedBuffer};
    ///
    /// let stream = device.stream()?;
    /// let data = UnifiedBuffer::<f32>::zeroed(&device, 1024)?;
    /// data.prefetch(Location::Host, &stream)?;
    /// assert_eq!(data.range_attributes()?.last_prefetch, Some(Location::Host));
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a buffer without elements, and what `cudaMemRangeGetAttribute` reports.
    #[doc(alias = "cudaMemRangeGetAttribute")]
    pub fn range_attributes(&self) -> Result<RangeAttributes> {
        self.range_attributes_of(..)
    }

    /// What CUDA says of a range of elements, rounded outwards to whole pages.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`], [`Error::InvalidArgument`] for an empty range, and what `cudaMemRangeGetAttribute` reports.
    #[doc(alias = "cudaMemRangeGetAttribute")]
    pub fn range_attributes_of(&self, range: impl RangeBounds<usize>) -> Result<RangeAttributes> {
        let range = range::check(range, self.len())?;
        if !self.raw.is_managed() && !self.is_empty() {
            return Err(Error::NotSupported {
                what: format!("range attributes of buffer {}", self.id()),
                needs: "managed memory".to_owned(),
                have: self.placement().to_string(),
            });
        }
        if range.is_empty() {
            return Err(Error::InvalidArgument {
                what: "the range",
                value: format!("{range:?}"),
                reason: "no pages hold an empty range".to_owned(),
            });
        }
        let bytes = range::to_bytes::<T>(&range);
        let one = |attribute| self.attribute(&bytes, attribute, 1).map(|values| values[0]);
        let devices = self.device().runtime().device_count()?;
        let accessed_by = self.attribute(
            &bytes,
            Attribute::cudaMemRangeAttributeAccessedBy,
            devices + 1,
        )?;
        // Since 12.2 there are attributes that tell NUMA nodes apart.
        let location = |ordinal, kind, id| match self.device().api().version() {
            version if (version.major, version.minor) < (12, 2) => {
                Ok(Location::from_ordinal(one(ordinal)?))
            }
            _ => Ok::<_, Error>(Location::from_sys(one(kind)? as u32, one(id)?)),
        };
        Ok(RangeAttributes {
            read_mostly: one(Attribute::cudaMemRangeAttributeReadMostly)? != 0,
            preferred_location: location(
                Attribute::cudaMemRangeAttributePreferredLocation,
                Attribute::cudaMemRangeAttributePreferredLocationType,
                Attribute::cudaMemRangeAttributePreferredLocationId,
            )?,
            accessed_by: accessed_by
                .into_iter()
                .filter(|&ordinal| ordinal != NO_DEVICE)
                .filter_map(Location::from_ordinal)
                .collect(),
            last_prefetch: location(
                Attribute::cudaMemRangeAttributeLastPrefetchLocation,
                Attribute::cudaMemRangeAttributeLastPrefetchLocationType,
                Attribute::cudaMemRangeAttributeLastPrefetchLocationId,
            )?,
        })
    }

    fn attribute(
        &self,
        bytes: &Range<usize>,
        attribute: Attribute,
        count: usize,
    ) -> Result<Vec<i32>> {
        let mut values = vec![NO_DEVICE; count];
        let (device, addresses) = (self.device(), self.raw.address_range(bytes));
        // SAFETY: the range was checked, and lies in this buffer's managed memory. Accessed-by takes any number of values, the
        // other attributes take one.
        unsafe {
            device
                .api()
                .range_attribute(device.ordinal(), addresses, attribute, &mut values)
        }?;
        Ok(values)
    }
}
