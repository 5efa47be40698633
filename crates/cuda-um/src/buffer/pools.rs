//! The typed constructors of pools.

use crate::Element;
use crate::buffer::device::DeviceBuffer;
use crate::buffer::pinned::PinnedBuffer;
use crate::buffer::unified::UnifiedBuffer;
#[cfg(doc)]
use crate::context::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
#[cfg(doc)]
use crate::resource::kind::Oversubscription;
use crate::resource::pool::{DevicePool, PinnedPool, UnifiedPool};
use std::mem::MaybeUninit;

impl UnifiedPool {
    /// Allocates `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream), after earlier work that still uses the memory;
    /// later uses of the buffer are ordered after them.
    ///
    /// # Errors
    ///
    /// The errors of [`uninit`](Self::uninit).
    #[track_caller]
    pub fn zeroed<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        UnifiedBuffer::zeroed_in(self, len)
    }

    /// Allocates a copy of a slice. The slice may be reused when this returns; later uses of the buffer are ordered after the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice<T: Element>(&self, elements: &[T]) -> Result<UnifiedBuffer<T>> {
        UnifiedBuffer::from_slice_in(self, elements)
    }

    /// Allocates `len` uninitialised elements, for kernels to write. Makes no CUDA call if the pool has a free block.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::{PoolOptions, UnifiedPool};
    ///
    /// let pool = UnifiedPool::new(&device, PoolOptions::default().limit_bytes(64 << 20))?;
    /// let scores = pool.uninit::<f32>(5000)?; // for a kernel to write
    /// assert_eq!((pool.stats().live_buffers, pool.stats().live_bytes), (1, 20480));
    /// # drop(scores);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] above the pool's limit, or if a slab cannot be allocated even after the pool freed its unused slabs (also for
    /// more than the device has free, see [`Oversubscription`]); [`Error::TooLarge`]; and the errors of the CUDA functions.
    #[track_caller]
    pub fn uninit<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<MaybeUninit<T>>> {
        UnifiedBuffer::uninit_in(self, len)
    }
}

impl DevicePool {
    /// Allocates `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream), after earlier work that still uses the memory;
    /// later uses of the buffer are ordered after them.
    ///
    /// # Errors
    ///
    /// The errors of [`uninit`](Self::uninit).
    #[track_caller]
    pub fn zeroed<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::zeroed_in(self, len)
    }

    /// Allocates a copy of a host slice. The slice may be reused when this returns; later uses of the buffer are ordered after the copy.
    ///
    /// # Errors
    ///
    /// The errors of [`uninit`](Self::uninit).
    #[track_caller]
    pub fn from_slice<T: Element>(&self, elements: &[T]) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::from_slice_in(self, elements)
    }

    /// Allocates `len` uninitialised elements, for kernels to write.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] above the pool's limit, or if CUDA has too little memory even after the pool freed its unused memory (it then
    /// waits for the default stream); [`Error::TooLarge`]; and the errors of the CUDA functions.
    #[doc(alias = "cudaMallocFromPoolAsync")]
    #[track_caller]
    pub fn uninit<T: Element>(&self, len: usize) -> Result<DeviceBuffer<MaybeUninit<T>>> {
        DeviceBuffer::uninit_in(self, len)
    }
}

impl PinnedPool {
    /// Allocates `len` zeros. The host writes them.
    ///
    /// # Ordering
    ///
    /// Waits for earlier work that still uses the memory. The zeros are written when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) above the pool's limit, or if a slab cannot be allocated even after the pool freed
    /// its unused slabs; [`Error::TooLarge`](crate::Error::TooLarge); and the errors of the CUDA functions, including a failure of that
    /// work.
    #[track_caller]
    pub fn zeroed<T: Element>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::zeroed_in(self, len)
    }

    /// Allocates a copy of a slice.
    ///
    /// # Ordering
    ///
    /// The same as for [`zeroed`](Self::zeroed).
    ///
    /// # Errors
    ///
    /// The errors of [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice<T: Element>(&self, elements: &[T]) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::from_slice_in(self, elements)
    }
}
