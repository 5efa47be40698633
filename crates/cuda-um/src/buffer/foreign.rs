//! Buffers in memory of other libraries.
#![allow(unsafe_code, reason = "the caller's promise is required")]

use crate::DeviceCopy;
use crate::buffer::device::DeviceBuffer;
use crate::buffer::pinned::PinnedBuffer;
use crate::buffer::unified::UnifiedBuffer;
use crate::context::device::Device;
use crate::error::Result;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::foreign::Foreign;
use crate::resource::kind::MemoryKind;
use crate::{element, range};
use std::panic::Location;
use std::ptr::NonNull;

/// Constructors of a buffer type in memory of other libraries: `from_foreign!(UnifiedBuffer, Managed)`.
macro_rules! from_foreign {
    ($buffer:ident, $kind:ident) => {
        impl<T: DeviceCopy> $buffer<T> {
            /// Makes a buffer of memory that another library owns: `len` elements from `pointer` on.
            ///
            /// `owner` keeps the memory. It is dropped when the buffer is dropped and no tracked work uses the memory: at once, if none
            /// does, or on a thread of the library, without a lock held. A panic of its drop is caught. It is also dropped after an error,
            /// and at once for a buffer without elements. If a wait for the work fails, it is leaked.
            ///
            /// ```
            /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
            #[doc = concat!("use cuda_um::", stringify!($buffer), ";")]
            /// use std::ptr::NonNull;
            ///
            /// // Stands for memory of another library.
            #[doc = concat!("let theirs = ", stringify!($buffer), "::from_slice(&device, &[1u32, 2, 3])?;")]
            #[doc = concat!("# if theirs.as_view().kind() != cuda_um::MemoryKind::", stringify!($kind), " { return Ok(()) }")]
            /// device.synchronize()?; // their work on it is complete, or ordered before ours
            /// let pointer = NonNull::new(theirs.as_view().as_ptr().cast_mut()).unwrap();
            /// // SAFETY: the memory has 3 elements, and nothing else uses it while its owner, `theirs`, lives in the buffer.
            #[doc = concat!("let buffer = unsafe { ", stringify!($buffer), "::from_foreign(&device, pointer, 3, theirs)? };")]
            /// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
            /// # Ok::<(), cuda_um::Error>(())
            /// ```
            ///
            /// # Ordering
            ///
            /// The library does not know of earlier work on the memory: order it before the first use, with
            /// [`Device::adopt_stream`] and [`Stream::wait`](crate::Stream::wait), or wait for it.
            ///
            /// # Errors
            ///
            /// [`Error::Foreign`](crate::Error::Foreign) if CUDA reports memory of another kind, a shorter allocation, or if the pointer is
            /// not aligned for `T`; [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) for memory of another device;
            /// [`Error::TooLarge`](crate::Error::TooLarge); and the errors of `cudaPointerGetAttributes`.
            ///
            /// # Safety
            ///
            /// Until the owner is dropped,
            ///
            /// - the memory is valid for `len` initialised elements, and is not freed;
            /// - only this buffer uses it: neither the host nor a device does so through another address or handle, except in work that is
            ///   ordered with the buffer's ([`Stream::enqueue_foreign`](crate::Stream::enqueue_foreign), `export`).
            ///
            /// The drop of the owner does not wait for a thread that waits for this library. It runs in the drop of this buffer or, if work still
            /// uses the memory, in a later drop of an import, [`Runtime::reclaim`](crate::Runtime::reclaim), [`Device::synchronize`],
            /// [`Device::trim`], or the drop of the runtime's last handle.
            #[doc(alias = "cudaPointerGetAttributes")]
            #[doc(alias = "from_raw")]
            #[track_caller]
            pub unsafe fn from_foreign(
                device: &Device,
                pointer: NonNull<T>,
                len: usize,
                owner: impl Send + 'static,
            ) -> Result<Self> {
                // SAFETY: guaranteed by the caller.
                let mut raw = unsafe { import(device, pointer, len, MemoryKind::$kind, false, owner) }?;
                raw.set_label(Label::of::<T>(stringify!($buffer), Location::caller()));
                Ok(Self::of_raw(raw))
            }

            /// Does the same as [`from_foreign`](Self::from_foreign), for memory that nothing may write: each write is
            /// [`Error::ReadOnly`](crate::Error::ReadOnly), before any CUDA call. Prefetches and advice are not writes.
            ///
            /// # Errors
            ///
            /// The errors of [`from_foreign`](Self::from_foreign).
            ///
            /// # Safety
            ///
            /// As for [`from_foreign`](Self::from_foreign); but others may read the memory, and nothing writes it until the owner is dropped.
            /// The addresses that the buffer returns are only read through.
            #[track_caller]
            pub unsafe fn from_foreign_read_only(
                device: &Device,
                pointer: NonNull<T>,
                len: usize,
                owner: impl Send + 'static,
            ) -> Result<Self> {
                // SAFETY: guaranteed by the caller.
                let mut raw = unsafe { import(device, pointer, len, MemoryKind::$kind, true, owner) }?;
                raw.set_label(Label::of::<T>(stringify!($buffer), Location::caller()));
                Ok(Self::of_raw(raw))
            }

            /// Returns true for a read-only import.
            pub fn is_read_only(&self) -> bool {
                self.raw.check_write().is_err()
            }
        }
    };
}
from_foreign!(UnifiedBuffer, Managed);
from_foreign!(DeviceBuffer, Device);
from_foreign!(PinnedBuffer, Pinned);

/// # Safety
///
/// As for `from_foreign`.
unsafe fn import<T: DeviceCopy>(
    device: &Device,
    pointer: NonNull<T>,
    len: usize,
    kind: MemoryKind,
    is_read_only: bool,
    owner: impl Send + 'static,
) -> Result<Allocation> {
    const { element::assert_element::<T>() };
    let bytes = range::size_bytes::<T>(len)?;
    if bytes == 0 {
        return Ok(Allocation::empty::<T>(device));
    }
    let foreign = Foreign {
        pointer: pointer.cast(),
        bytes,
        alignment: align_of::<T>(),
        kind,
        is_read_only,
    };
    // SAFETY: guaranteed by the caller.
    unsafe { foreign.import(device, owner) }
}
