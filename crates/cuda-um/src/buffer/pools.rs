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
    /// `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream), after what uses the memory still; whatever
    /// uses the buffer comes after.
    ///
    /// # Errors
    ///
    /// As for [`uninit`](Self::uninit); [`Error::Busy`] on a device without concurrent managed access while host guards live; and
    /// what the CUDA functions report.
    #[track_caller]
    pub fn zeroed<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        UnifiedBuffer::zeroed_in(self, len)
    }

    /// A copy of a slice, which may be used again when it returns; whatever uses the buffer comes after the copy.
    ///
    /// # Errors
    ///
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice<T: Element>(&self, elements: &[T]) -> Result<UnifiedBuffer<T>> {
        UnifiedBuffer::from_slice_in(self, elements)
    }

    /// `len` elements that are not initialised: for kernels to write. Warm, it calls no function of CUDA.
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
    /// [`Error::OutOfMemory`] beyond the pool's limit, or where a slab cannot be allocated even after the pool gave back what it
    /// does not use (also for more than the device has free, see [`Oversubscription`]); [`Error::TooLarge`]; and what the CUDA
    /// functions report.
    #[track_caller]
    pub fn uninit<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<MaybeUninit<T>>> {
        UnifiedBuffer::uninit_in(self, len)
    }
}

impl DevicePool {
    /// `len` zeros.
    ///
    /// # Ordering
    ///
    /// The zeros are enqueued on the device's [default stream](Device::default_stream), after what uses the memory still; whatever
    /// uses the buffer comes after.
    ///
    /// # Errors
    ///
    /// As for [`uninit`](Self::uninit).
    #[track_caller]
    pub fn zeroed<T: Element>(&self, len: usize) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::zeroed_in(self, len)
    }

    /// A copy of a slice of the host, which may be used again when it returns; whatever uses the buffer comes after the copy.
    ///
    /// # Errors
    ///
    /// As for [`uninit`](Self::uninit).
    #[track_caller]
    pub fn from_slice<T: Element>(&self, elements: &[T]) -> Result<DeviceBuffer<T>> {
        DeviceBuffer::from_slice_in(self, elements)
    }

    /// `len` elements that are not initialised: for kernels to write.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`] beyond the pool's limit, or where CUDA has not enough memory even after the pool gave back what it
    /// does not use (it waits for the default stream then); [`Error::Busy`] on a device without concurrent managed access while host
    /// guards live; [`Error::TooLarge`]; and what the CUDA functions report.
    #[doc(alias = "cudaMallocFromPoolAsync")]
    #[track_caller]
    pub fn uninit<T: Element>(&self, len: usize) -> Result<DeviceBuffer<MaybeUninit<T>>> {
        DeviceBuffer::uninit_in(self, len)
    }
}

impl PinnedPool {
    /// `len` zeros, written by the host.
    ///
    /// # Ordering
    ///
    /// Waits for the work that uses the memory still.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) beyond the pool's limit, or where a slab cannot be allocated even after the
    /// pool gave back what it does not use; [`Error::TooLarge`](crate::Error::TooLarge); and what the CUDA functions report: a
    /// failure of that work as well.
    #[track_caller]
    pub fn zeroed<T: Element>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::zeroed_in(self, len)
    }

    /// A copy of a slice.
    ///
    /// # Ordering
    ///
    /// As for [`zeroed`](Self::zeroed).
    ///
    /// # Errors
    ///
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice<T: Element>(&self, elements: &[T]) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::from_slice_in(self, elements)
    }
}
