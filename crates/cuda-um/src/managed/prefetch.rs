//! Prefetch: migration on a stream, before the first use.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::DeviceCopy;
use crate::buffer::unified::UnifiedBuffer;
use crate::buffer::view::{View, ViewMut};
use crate::context::capture;
use crate::context::device::Device;
use crate::context::enqueue::enqueue_op;
use crate::context::observer::{self, Op, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::fork;
use crate::managed::hint::HintOutcome;
use crate::resource::allocation::Allocation;
use crate::resource::cache::{By, Place};
use smallvec::SmallVec;
use std::ops::Range;

impl<T> UnifiedBuffer<T> {
    /// Migrates the whole buffer to a location, on the library's stream of the device.
    ///
    /// # Ordering
    ///
    /// The same as for [`prefetch_on`](Self::prefetch_on).
    ///
    /// # Errors
    ///
    /// The errors of [`prefetch_on`](Self::prefetch_on).
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
        self.as_view().prefetch(location)
    }

    /// Migrates the whole buffer to a location, on a stream
    /// ([`cudaMemPrefetchAsync`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html)).
    ///
    /// The prefetch leaves out the parts that the residency cache already has at the location; if no part is left, it is elided and makes
    /// no CUDA call (see [`residency`](Self::residency)). For a part of the buffer, prefetch a [`view`](Self::view).
    ///
    /// # Ordering
    ///
    /// The migration is enqueued on the stream when this returns, after earlier writes and migrations of the buffer on any stream; later
    /// work on the buffer, on any stream, and host guards are ordered after it. It does not change the contents.
    ///
    /// # Errors
    ///
    /// [`Error::NoSuchDevice`], [`Error::RuntimeMismatch`], and the errors of `cudaMemPrefetchAsync`. The outcome is
    /// [`HintOutcome::NotApplied`], which is no error, for memory that does not migrate, if a device of the stream, the buffer or the
    /// location has no concurrent managed access, or if the runtime is too old for the location.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_on(
        &self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<HintOutcome> {
        self.as_view().prefetch_on(location, stream)
    }
}

impl<T> View<'_, T> {
    /// Does the same as [`UnifiedBuffer::prefetch`], for the elements of the view. CUDA rounds the range outwards to whole pages.
    ///
    /// # Errors
    ///
    /// The errors of [`UnifiedBuffer::prefetch_on`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
        self.prefetch_on(location, &self.device().default_stream()?)
    }

    /// Does the same as [`UnifiedBuffer::prefetch_on`], for the elements of the view. CUDA rounds the range outwards to whole pages.
    ///
    /// # Errors
    ///
    /// The errors of [`UnifiedBuffer::prefetch_on`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_on(
        &self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<HintOutcome> {
        HintOutcome::of(migrate(*self, Migration::Shared, location.into(), stream))
    }
}

impl<T> ViewMut<'_, T> {
    /// Does the same as [`View::prefetch`].
    ///
    /// # Errors
    ///
    /// The errors of [`View::prefetch`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
        self.as_view().prefetch(location)
    }

    /// Does the same as [`View::prefetch_on`].
    ///
    /// # Errors
    ///
    /// The errors of [`View::prefetch_on`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_on(
        &self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<HintOutcome> {
        self.as_view().prefetch_on(location, stream)
    }

    /// Does the same as [`View::prefetch_on`], also after earlier reads: a kernel that still reads does not take the pages back.
    ///
    /// # Errors
    ///
    /// The errors of [`View::prefetch_on`], [`Error::NotSupported`] where that has the outcome [`HintOutcome::NotApplied`], and
    /// [`Error::ReadOnly`] for a read-only import.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_after_reads_on(
        &mut self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<()> {
        migrate(
            self.as_view(),
            Migration::Exclusive,
            location.into(),
            stream,
        )
    }
}

impl<T: DeviceCopy> ViewMut<'_, T> {
    /// Migrates pages whose contents are not needed to a location, on a stream, without transferring them
    /// ([`cudaMemDiscardAndPrefetchBatchAsync`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__MEMORY.html), CUDA 13.0 and newer).
    /// The elements have unspecified values from then on, until they are written. Units of 64 KiB that the view does not have whole are
    /// transferred nevertheless.
    ///
    /// Returns false if all contents are transferred: by older runtimes, if a device in the system has no concurrent managed access, on the legacy
    /// default stream of another library, and in memory of pools of the driver.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{Location, UnifiedBuffer};
    ///
    /// let stream = device.create_stream()?;
    /// let mut results = UnifiedBuffer::<f32>::zeroed(&device, 1 << 20)?;
    /// results.as_view_mut().discard_and_prefetch_on(Location::Host, &stream)?;
    /// results.fill_on(1.0, &stream)?;
    /// assert_eq!(results.read_one(7)?, 1.0);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// That of a write on the stream: after all earlier work that uses the buffer, and before later work.
    ///
    /// # Errors
    ///
    /// The errors of [`prefetch_after_reads_on`](Self::prefetch_after_reads_on) and of `cudaMemDiscardAndPrefetchBatchAsync`; [`Error::ReadOnly`] for a read-only import.
    #[doc(alias = "cudaMemDiscardAndPrefetchBatchAsync")]
    #[doc(alias = "cudaMemDiscardBatchAsync")]
    pub fn discard_and_prefetch_on(
        &mut self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<bool> {
        migrate(self.as_view(), Migration::Discard, location.into(), stream)?;
        Ok(can_discard(self.raw, stream))
    }
}

/// What a migration may do to other uses, and to the contents.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Migration {
    /// Reads may run at the same time.
    Shared,
    /// As a read of read-mostly memory: duplicates of several devices may be made at the same time.
    Duplicate,
    /// After reads, too.
    Exclusive,
    /// After reads, and without the contents.
    Discard,
}

/// The unit in which contents are discarded: the largest page of a host, because CUDA does not say which pages a range has that ends within one.
const DISCARDED: usize = 64 << 10;

pub(super) fn migrate<T>(
    view: View<'_, T>,
    how: Migration,
    location: Location,
    stream: &Stream,
) -> Result<()> {
    let (raw, bytes) = (view.raw, view.bytes());
    let device = raw.device();
    // Check before the residency cache is read, which needs a lock but no CUDA call.
    fork::check("prefetch")?;
    let access = match how {
        Migration::Shared => Access::Move,
        Migration::Duplicate => Access::Read,
        Migration::Exclusive | Migration::Discard => Access::Write,
    };
    let part = [view.part(access)];
    part[0].check_write()?;
    if capture::is_active() && is_captured(view, location, stream)? {
        return Ok(());
    }
    let missing = missing(raw, &bytes, location);
    let to = location;
    if missing.is_empty() && stream.runtime().is_same(device.runtime()) {
        // A part in the cache proves that the location exists. Without such a part, check the location.
        if bytes.is_empty() || !raw.migrates() {
            device.runtime().check_location(location)?;
            check_migrates(view)?;
        }
        observer::elided(|| Op::new(What::Prefetch { to }, device, &part).on(stream));
        return Ok(());
    }
    check_places(device, location, stream, "the stream")?;
    if missing.is_empty() {
        return Ok(());
    }
    let discards = how == Migration::Discard && can_discard(raw, stream);
    let what = match discards {
        true => What::Discard { to },
        false => What::Prefetch { to },
    };
    let enqueued = enqueue_op(what, (device, None), stream, &part, |_| {
        missing.iter().try_for_each(|part| match discards {
            true => discard_part(raw, part, location, stream),
            false => prefetch_part(raw, part, location, stream),
        })
    });
    // A duplicate leaves the pages where they are, too.
    if how != Migration::Duplicate {
        record_move(raw, &bytes, location, stream, enqueued.is_ok());
    }
    enqueued
}

/// Returns true if this thread captures the stream: the prefetch becomes a step before each launch of the graph.
#[cold]
fn is_captured<T>(view: View<'_, T>, location: Location, stream: &Stream) -> Result<bool> {
    let (part, inner) = (view.part(Access::Move), stream.inner());
    if capture::of(inner, std::slice::from_ref(&part))?.is_some() {
        // Before the graph takes it: otherwise no launch of the graph would succeed.
        check_migrates(view)?;
        check_places(view.raw.device(), location, stream, "the stream")?;
    }
    capture::prefetch(inner, &part, location)
}

/// Whether CUDA discards such memory on the stream. Without it, the contents migrate.
pub(super) fn can_discard(raw: &Allocation, stream: &Stream) -> bool {
    let inner = stream.inner();
    let is_legacy = stream.as_raw().addr() <= LEGACY_STREAM;
    let has_discard = inner.api().has_discard() && raw.is_managed();
    has_discard && !inner.device().is_gated && !raw.can_give() && !is_legacy
}

/// The handle of the legacy default stream, which 0 stands for as well. It takes no batches.
const LEGACY_STREAM: usize = 1;

/// Prefetches a part of an allocation, which tracks this use.
fn prefetch_part(
    raw: &Allocation,
    part: &Range<usize>,
    to: Location,
    stream: &Stream,
) -> Result<()> {
    if part.is_empty() {
        return Ok(());
    }
    let addresses = raw.pointers(part);
    let (api, ordinal) = (raw.device().api(), stream.inner().ordinal());
    // SAFETY: the range was checked, and is within this buffer's managed memory; the buffer tracks this use, so the memory lives until it
    // is complete.
    unsafe { api.prefetch(ordinal, addresses, to, stream.as_raw()) }
}

/// Discards and prefetches a part of an allocation, of which the caller has exclusive access.
fn discard_part(
    raw: &Allocation,
    part: &Range<usize>,
    to: Location,
    stream: &Stream,
) -> Result<()> {
    let first = part.start.next_multiple_of(DISCARDED).min(part.end);
    let last = (part.end / DISCARDED * DISCARDED).max(first);
    prefetch_part(raw, &(part.start..first), to, stream)?;
    prefetch_part(raw, &(last..part.end), to, stream)?;
    if first == last {
        return Ok(());
    }
    let whole = raw.pointers(&(first..last));
    let (api, ordinal) = (raw.device().api(), stream.inner().ordinal());
    // SAFETY: as for `prefetch_part`. No other work uses the range meanwhile, because this is tracked as a write, and its pages have no
    // bytes of other buffers.
    unsafe { api.prefetch_batch(ordinal, true, &[whole], to, stream.as_raw()) }
}

/// Returns the addresses of the parts of a range that the residency cache does not have at the location; none for memory that does not
/// migrate.
pub(crate) fn missing(
    raw: &Allocation,
    bytes: &Range<usize>,
    location: Location,
) -> SmallVec<[Range<usize>; 1]> {
    if !raw.migrates() || bytes.is_empty() {
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

/// Refuses a prefetch of memory that does not migrate.
pub(crate) fn check_migrates<T>(view: View<'_, T>) -> Result<()> {
    if view.raw.migrates() || view.raw.bytes() == 0 {
        return Ok(());
    }
    Err(Error::NotSupported {
        what: format!("a prefetch of {}", view.raw.title()),
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
