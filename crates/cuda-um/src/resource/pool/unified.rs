//! Pools of managed memory.

use crate::Element;
#[cfg(doc)]
use crate::buffer::unified::Oversubscription;
use crate::buffer::unified::UnifiedBuffer;
use crate::context::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::resource::pool::PoolOptions;
use crate::resource::pool::kind::Kind;
use crate::resource::pool::slabs::Slabs;
use std::mem::MaybeUninit;
use std::panic::Location;

/// A pool of managed memory. A clone is the same pool.
///
/// Its buffers are ordinary [`UnifiedBuffer`]s, cut out of large slabs. A buffer that is dropped goes back to the pool at once, in
/// use or not, and the next one of its size takes its place:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{PoolOptions, UnifiedPool};
///
/// let pool = UnifiedPool::new(&device, PoolOptions::default())?;
/// let stream = device.stream()?;
/// let mut first = pool.zeroed::<f32>(1000)?;
/// let address = first.as_ptr();
/// first.fill(1.0, &stream)?;
/// drop(first); // the fill may still run
/// let second = pool.from_slice(&[2.0f32; 1000])?; // so this comes after it
/// assert_eq!(second.as_ptr(), address);
/// assert_eq!(second.host()?[999], 2.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Ordering
///
/// A buffer begins with the uses that its memory's former owner left: its first work on another stream is enqueued after them, and
/// its first host access waits for them; on the same stream nothing needs to be done. No event is recorded, and nobody waits,
/// before that. If former work failed, who waits for it gets its error.
///
/// # Pages
///
/// Sizes are rounded up: to multiples of 256 bytes up to 4 KiB, and of whole 4 KiB pages from there on (of 2 MiB for more than
/// 2 MiB); in any case to one of four steps between two powers of two. So small buffers share pages, but those of more than
/// 3840 bytes do not. Prefetch and advice work on whole pages: **advice or a prefetch for a small buffer also concerns its neighbours
/// on the page**, and what the CPU touches may take a neighbour along. Contents are never concerned. The driver itself migrates
/// up to 64 KiB or 2 MiB together.
///
/// Blocks of 2 MiB and more begin at multiples of 2 MiB within their slab, those of 64 KiB and more at multiples of 16 KiB or more; so
/// they are aligned where CUDA aligns slabs to 2 MiB, which GPUs do but CUDA does not promise.
///
/// Buffers of more than half a slab have a slab of their own, which is kept for the next buffer about as large.
///
/// Advice for a buffer is undone before its memory has a new owner.
///
/// # Life
///
/// The slabs go back to CUDA when the last handle and the last buffer are gone, or [trimmed](Self::trim), as any buffer does: when
/// their work is done, without anybody waiting. Free memory of a pool may keep streams from being destroyed that worked on it.
///
/// All methods may be called from any number of threads.
#[derive(Clone)]
pub struct UnifiedPool {
    memory: Slabs,
}

pool_methods!(UnifiedPool);

impl UnifiedPool {
    /// A pool that holds nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for slabs that are not a multiple of 2 MiB, or 0; [`Error::NotSupported`] on a device without managed
    /// memory.
    pub fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        device.check_managed_memory()?;
        Ok(Self {
            memory: Slabs::new(device, Kind::Managed, options)?,
        })
    }

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
        let mut buffer = self.allocate::<T>(len)?;
        self.populate(&buffer)?;
        buffer.set_zero(&self.device().default_stream()?)?;
        Ok(buffer)
    }

    /// A copy of a slice, which may be used again when it returns; whatever uses the buffer comes after the copy.
    ///
    /// # Errors
    ///
    /// As for [`zeroed`](Self::zeroed).
    #[track_caller]
    pub fn from_slice<T: Element>(&self, elements: &[T]) -> Result<UnifiedBuffer<T>> {
        let mut buffer = self.allocate::<T>(elements.len())?;
        self.populate(&buffer)?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
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
        self.allocate(len)
    }

    #[track_caller]
    fn allocate<T>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        let allocate = |bytes| self.memory.allocate(bytes);
        let site = Location::caller();
        crate::resource::pool::raw::<T>(self.device(), len, allocate)
            .map(|raw| UnifiedBuffer::from_raw(raw, site))
    }

    /// Makes the pages resident on the device at once: a memset or copy would fault them in one after the other.
    fn populate<T>(&self, buffer: &UnifiedBuffer<T>) -> Result<()> {
        if self.device().capabilities().concurrent_managed_access {
            buffer.prefetch(self.device(), &self.device().default_stream()?)?;
        }
        Ok(())
    }
}
