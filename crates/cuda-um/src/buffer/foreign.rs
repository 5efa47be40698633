//! Buffers in memory of other libraries.
#![allow(unsafe_code, reason = "the caller's promise is required")]

use crate::DeviceCopy;
use crate::buffer::kind::Owned;
use crate::buffer::memory::Memory;
use crate::context::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::resource::foreign::Foreign;
use std::ptr::NonNull;

impl<T: DeviceCopy, K: Owned> Memory<T, K> {
    /// Makes a buffer of memory that another library owns: `len` elements from `pointer` on.
    ///
    /// `owner` keeps the memory. It is dropped with the buffer (or after an error), if no tracked work uses the memory; otherwise in a later drop of
    /// an import, [`Runtime::reclaim`](crate::Runtime::reclaim), [`Device::synchronize`], [`Device::trim`], or the drop of the runtime's last
    /// handle, where a panic is caught. If a wait for the work fails, it is leaked.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::DeviceBuffer;
    /// use std::ptr::NonNull;
    ///
    /// // Stands for memory of another library.
    /// let theirs = DeviceBuffer::from_slice(&device, &[1u32, 2, 3])?;
    /// device.synchronize()?; // their work on it is complete, or ordered before ours
    /// let pointer = NonNull::new(theirs.as_ptr().cast_mut()).unwrap();
    /// // SAFETY: the memory has 3 elements, and nothing else uses it while its owner, `theirs`, lives in the buffer.
    /// let buffer = unsafe { DeviceBuffer::from_foreign(&device, pointer, 3, theirs)? };
    /// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// The library does not know of earlier work on the memory: order it before the first use, with [`Device::adopt_stream`] and
    /// [`Stream::wait`](crate::Stream::wait), or wait for it.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] if CUDA reports memory of another kind, a shorter allocation, or if the pointer is not aligned for `T`;
    /// [`Error::DeviceMismatch`] for memory of another device; [`Error::TooLarge`]; and the errors of `cudaPointerGetAttributes`.
    ///
    /// # Safety
    ///
    /// Until the owner is dropped,
    ///
    /// - the memory is valid for `len` initialised elements, and is not freed;
    /// - only this buffer uses it: neither the host nor a device does so through another address or handle, except in work that is
    ///   ordered with the buffer's ([`Stream::enqueue_foreign`](crate::Stream::enqueue_foreign), `export`). If the buffer is made
    ///   [read-only](Self::read_only) at once, others may read the memory, too, and nothing writes it, also not through the buffer's addresses.
    ///
    /// The drop of the owner does not wait for a thread that waits for this library.
    #[doc(alias = "cudaPointerGetAttributes")]
    #[doc(alias = "from_raw")]
    #[track_caller]
    pub unsafe fn from_foreign(
        device: &Device,
        pointer: NonNull<T>,
        len: usize,
        owner: impl Send + 'static,
    ) -> Result<Self> {
        Self::made(device, len, |bytes| {
            let foreign = Foreign {
                pointer: pointer.cast(),
                bytes,
                alignment: align_of::<T>(),
                kind: K::KIND,
            };
            // SAFETY: guaranteed by the caller.
            unsafe { foreign.import(device, owner) }
        })
    }

    /// From now on each write is [`Error::ReadOnly`], before any CUDA call. Prefetches and advice are not writes.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.raw.refuse_writes();
        self
    }
}
