//! Prefetch: migration on a stream, before the first use.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::buffer::unified::UnifiedBuffer;
use crate::buffer::view::{View, ViewMut};
use crate::context::device::Device;
use crate::context::observer::{Started, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::cache::{By, Place};
use smallvec::SmallVec;
use std::ops::{Range, RangeBounds};

impl<T> UnifiedBuffer<T> {
    /// Migrates the whole buffer to a location, on a stream
    /// ([`cudaMemPrefetchAsync`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html)).
    ///
    /// The prefetch leaves out the parts that the residency cache already has at the location; if no part is left, it is elided and makes
    /// no CUDA call (see [`residency`](Self::residency)). Mapped memory does not migrate, so this does nothing for it.
    ///
    /// # Ordering
    ///
    /// The migration is enqueued on the stream when this returns, after earlier writes and migrations of the buffer on any stream; later
    /// work on the buffer, on any stream, and host guards are ordered after it. It does not change the contents.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] if the device (or, for the host, the buffer's device) has no concurrent managed access, or if the runtime is
    /// too old for the location; [`Error::DeviceOutOfRange`]; [`Error::RuntimeMismatch`]; and the errors of `cudaMemPrefetchAsync`.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>, stream: &Stream) -> Result<()> {
        self.as_view().prefetch(location, stream)
    }

    /// Migrates a range of elements to a location, on a stream. CUDA rounds the range outwards to whole pages.
    ///
    /// # Ordering
    ///
    /// The same as for [`prefetch`](Self::prefetch).
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`], and the errors of [`prefetch`](Self::prefetch).
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_range(
        &self,
        range: impl RangeBounds<usize>,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<()> {
        self.view(range)?.prefetch(location, stream)
    }
}

impl<T> View<'_, T> {
    /// Does the same as [`UnifiedBuffer::prefetch`], for the elements of the view. CUDA rounds the range outwards to whole pages. Pinned memory
    /// does not migrate, so this does nothing for it.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] for device memory, and the errors of [`UnifiedBuffer::prefetch`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>, stream: &Stream) -> Result<()> {
        let (location, raw, bytes) = (location.into(), self.raw, self.bytes());
        let device = raw.device();
        // Check before the residency cache is read, which needs a lock but no CUDA call.
        device.api().origin.check("prefetch")?;
        let started = Started::now(device);
        let _span =
            crate::telemetry::span!("prefetch", buffer = raw.id(), bytes = bytes.len(), %location);
        let missing = missing(raw, &bytes, location);
        let part = self.part(Access::Move);
        let what = What::Prefetch {
            to: location,
            elided: missing.is_empty(),
        };
        if missing.is_empty() && stream.runtime().is_same(device.runtime()) {
            // A part in the cache proves that the location exists. Without such a part, check the location.
            if bytes.is_empty() || !raw.is_managed() {
                check_migrates(*self)?;
                device.runtime().check_location(location)?;
            }
            started.done(what, device, Some(stream.inner()), [part]);
            crate::telemetry::debug!(buffer = raw.id(), range = ?self.elements(), %location, "prefetch elided");
            return Ok(());
        }
        check_places(device, location, stream, "the stream")?;
        if missing.is_empty() {
            return Ok(());
        }
        let start = raw.pointer().as_ptr();
        let enqueued = started.enqueue(what, (device, None), stream, &[part], || {
            missing.iter().try_for_each(|part| {
                let addresses = start.with_addr(part.start)..start.with_addr(part.end);
                // SAFETY: the range was checked, and is within this buffer's managed memory; the buffer tracks this use, so the memory
                // lives until it is complete.
                unsafe {
                    device.api().prefetch(
                        stream.inner().ordinal(),
                        addresses,
                        location,
                        stream.as_raw(),
                    )
                }
            })
        });
        record_move(raw, &bytes, location, stream, enqueued.is_ok());
        enqueued?;
        crate::telemetry::debug!(buffer = raw.id(), range = ?self.elements(), parts = missing.len(), %location, "prefetch");
        Ok(())
    }
}

impl<T> ViewMut<'_, T> {
    /// Does the same as [`View::prefetch`].
    ///
    /// # Errors
    ///
    /// The errors of [`View::prefetch`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>, stream: &Stream) -> Result<()> {
        self.as_view().prefetch(location, stream)
    }
}

/// Returns the addresses of the parts of a range that the residency cache does not have at the location; none for memory that does not
/// migrate.
pub(crate) fn missing(
    raw: &Allocation,
    bytes: &Range<usize>,
    location: Location,
) -> SmallVec<[Range<usize>; 1]> {
    if !raw.is_managed() || bytes.is_empty() {
        return SmallVec::new();
    }
    let extent = raw.extent();
    let start = extent.addresses.start;
    let range = start + bytes.start..start + bytes.end;
    match Place::of(location) {
        Some(place) => raw.cache.missing(&extent, range, place),
        None => smallvec::smallvec![range],
    }
}

/// Updates the residency cache after a prefetch. If the call failed (`enqueued` is false), a part may be enqueued, so the locations are
/// unknown.
pub(crate) fn record_move(
    raw: &Allocation,
    bytes: &Range<usize>,
    location: Location,
    stream: &Stream,
    enqueued: bool,
) {
    match Place::of(location).filter(|_| enqueued) {
        Some(place) => raw.moved(bytes, place, stream.inner()),
        None => raw.cache.touched(By::Unknown),
    }
}

/// Refuses a prefetch of device memory. Pinned memory needs none.
pub(crate) fn check_migrates<T>(view: View<'_, T>) -> Result<()> {
    if !view.raw.is_device_memory() {
        return Ok(());
    }
    Err(Error::NotSupported {
        what: format!("a prefetch of buffer {}", view.buffer_id()),
        needs: "managed memory".to_owned(),
        have: view.kind_in_words(),
    })
}

/// Refuses an impossible prefetch of the device's managed memory: to a device that does not exist, or without concurrent managed access.
///
/// `other` is what belongs to another runtime, if the device and the stream do not belong to one.
pub(crate) fn check_places(
    device: &Device,
    location: Location,
    stream: &Stream,
    other: &'static str,
) -> Result<()> {
    stream.check_runtime(device, other)?;
    device
        .runtime()
        .check_migration_to(location, "a prefetch")?;
    for device in [device.state(), stream.inner().device()] {
        let ordinal = device.ordinal;
        let what = || format!("a prefetch to {location} on a stream of device {ordinal}");
        device.check_concurrent_access(what)?;
    }
    Ok(())
}
