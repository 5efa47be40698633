//! Prefetch: migration on a stream, before the first use.

use crate::buffer::unified::UnifiedBuffer;
use crate::buffer::view::{View, ViewMut};
use crate::context::capture;
use crate::context::device::Device;
use crate::context::observer;
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::location::Location;
use crate::error::{Error, Result};
use crate::fork;
use crate::managed::batch::prefetch;
use crate::managed::hint::HintOutcome;
use crate::resource::allocation::Allocation;
use crate::resource::location::Place;

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
    /// If the whole buffer is known to be at the location, the prefetch is elided and makes no CUDA call (see
    /// [`residency`](Self::residency)). For a part of the buffer, prefetch a [`view`](Self::view).
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
        self.prefetch_on(location, self.device().own_stream()?)
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
        HintOutcome::of(migrate(*self, location.into(), stream))
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
}

fn migrate<T>(view: View<'_, T>, location: Location, stream: &Stream) -> Result<()> {
    let raw = view.raw;
    if view.bytes().is_empty() || !raw.migrates() {
        stream.check_runtime(raw.device(), "the stream")?;
        raw.device().runtime().check_location(location)?;
        return check_migrates(view);
    }
    // The same as in `prefetch`, without an operation that nobody hears of: this is what a loop repeats.
    fork::check("prefetch")?;
    if !(capture::is_active() || observer::is_heard()) && is_there(raw, location) {
        return stream.check_runtime(raw.device(), "the stream");
    }
    prefetch(&[view.part(Access::Move)], location, stream, "the stream").map(drop)
}

/// Returns true if all pages of the buffer are known to be at the location.
#[inline]
pub(crate) fn is_there(raw: &Allocation, location: Location) -> bool {
    Place::of(location).is_some_and(|place| raw.is_known_at(place))
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
pub(super) fn check_places(device: &Device, location: Location, stream: &Stream) -> Result<()> {
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
