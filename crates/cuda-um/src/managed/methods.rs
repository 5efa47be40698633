//! The hints that unified buffers share with views.

use crate::buffer::unified::UnifiedBuffer;
use crate::buffer::view::{View, ViewMut};
use crate::context::stream::Stream;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::managed::batch::migrate;
use crate::managed::hint::HintOutcome;

macro_rules! hints {
    ([$($generics:tt)*] $memory:ty) => {
        impl<$($generics)*> $memory {
            /// Does the same as [`prefetch_on`](Self::prefetch_on), on the library's stream of the device.
            ///
            /// # Errors
            ///
            /// The errors of [`prefetch_on`](Self::prefetch_on).
            #[doc(alias = "cudaMemPrefetchAsync")]
            pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
                self.prefetch_on(location, self.device().own_stream()?)
            }

            /// Migrates the elements to a location, on a stream
            /// ([`cudaMemPrefetchAsync`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html)). CUDA rounds the range
            /// outwards to whole pages.
            ///
            /// If the whole buffer is [known](Self::residency) to be there, the prefetch is elided and makes no CUDA call.
            ///
            /// # Ordering
            ///
            /// The migration is enqueued when this returns, after earlier writes and migrations of the buffer on any stream; later work on the
            /// buffer, on any stream, and host guards are ordered after it.
            ///
            /// # Errors
            ///
            /// [`Error::NoSuchDevice`], [`Error::RuntimeMismatch`], and the errors of `cudaMemPrefetchAsync`. The outcome is
            /// [`HintOutcome::NotApplied`] for memory that does not migrate, without concurrent managed access of the devices of the stream, the
            /// buffer and the location, or if the runtime is too old for the location.
            pub fn prefetch_on(
                &self,
                location: impl Into<Location>,
                stream: &Stream,
            ) -> Result<HintOutcome> {
                HintOutcome::of(migrate(self.as_view(), location.into(), stream))
            }

            /// Sets or unsets advice for the elements
            /// ([`cudaMemAdvise`](https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__UNIFIED.html)). CUDA rounds the range
            /// outwards to whole pages.
            ///
            /// # Ordering
            ///
            /// Takes effect before this returns, on no stream: work that runs meanwhile may or may not see it. [`Advice::SetReadMostly`] first
            /// waits for work that writes or moves the buffer, because a write would end the duplicates.
            ///
            /// # Errors
            ///
            /// [`Error::NoSuchDevice`], [`Error::InvalidArgument`] for NUMA nodes with `SetAccessedBy`, and the errors of `cudaMemAdvise`.
            /// The outcome is [`HintOutcome::NotApplied`] for memory that is not managed or that a
            /// [`DriverPool`](crate::resource::DriverPool) has, for a device without concurrent managed access, or if the runtime is too old
            /// for the location.
            #[doc(alias = "cudaMemAdvise")]
            pub fn advise(&self, advice: Advice) -> Result<HintOutcome> {
                HintOutcome::of(self.as_view().advise_or_refuse(advice))
            }

            /// Returns the location of all pages after all enqueued work, if it is known, and is one. Memory that does not migrate has one.
            ///
            /// The library knows it from its own calls, but not of buffers that share a block of 2 MiB, nor once
            /// [`Oversubscription::Allowed`](crate::Oversubscription::Allowed) was used on the device. From CUDA 13.4 on this waits for the work
            /// that moves the buffer, then asks the driver, which checks some pages of each block of 2 MiB.
            ///
            /// # Errors
            ///
            /// The errors of `cudaMemGetLocationInfo`.
            #[doc(alias = "cudaMemGetLocationInfo")]
            pub fn residency(&self) -> Result<Option<Location>> {
                self.as_view().location()
            }
        }
    };
}
hints!([T] UnifiedBuffer<T>);
hints!([T] View<'_, T>);
hints!([T] ViewMut<'_, T>);
