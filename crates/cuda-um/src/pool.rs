//! A pool of managed memory: buffers from slabs, so that a warm allocation calls nobody.

pub(crate) mod advised;
pub(crate) mod block;
mod class;
mod heap;
mod shared;

use crate::Element;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::memory::raw::RawBuffer;
use crate::memory::unified::{Oversubscription, UnifiedBuffer};
use crate::memory::{element, range};
use class::CHUNK;
use shared::Shared;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

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
    shared: Arc<Shared>,
}

/// How a [`UnifiedPool`] allocates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolOptions {
    slab_bytes: usize,
    limit_bytes: Option<usize>,
    oversubscription: Oversubscription,
}

/// What a [`UnifiedPool`] holds.
///
/// Where threads allocate and free meanwhile, the numbers may be off by what they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Bytes of the blocks that buffers own: their sizes, rounded up.
    pub live_bytes: usize,
    /// The most that `live_bytes` has been. Where several threads allocate it may be up to 8 MiB too high.
    pub peak_bytes: usize,
    /// Bytes of all slabs.
    pub reserved_bytes: usize,
    /// Bytes of slabs that no buffer owns.
    pub free_bytes: usize,
    /// Buffers that are not dropped.
    pub live_buffers: usize,
    /// Allocations from CUDA.
    pub slabs: usize,
    /// The largest block that could be had without a new slab. Small ones that lie side by side are counted apart, though the
    /// pool joins them when it needs to.
    pub largest_free_bytes: usize,
}

impl PoolStats {
    /// How much of the free memory is not in one piece: 0 where all of it is (or none is free), nearly 1 for many small pieces.
    pub fn fragmentation(&self) -> f64 {
        match self.free_bytes {
            0 => 0.0,
            free => 1.0 - self.largest_free_bytes as f64 / free as f64,
        }
    }
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            slab_bytes: 16 * CHUNK,
            limit_bytes: None,
            oversubscription: Oversubscription::default(),
        }
    }
}

impl PoolOptions {
    /// Sets how many bytes are allocated from CUDA at once, a multiple of 2 MiB. The default is 32 MiB.
    #[must_use]
    pub fn slab_bytes(mut self, bytes: usize) -> Self {
        self.slab_bytes = bytes;
        self
    }

    /// Sets how many bytes the slabs may have in all. The default is no limit.
    #[must_use]
    pub fn limit_bytes(mut self, bytes: impl Into<Option<usize>>) -> Self {
        self.limit_bytes = bytes.into();
        self
    }

    /// Sets whether the memory may be more than the device has. The default is [`Oversubscription::Refused`].
    #[must_use]
    pub fn oversubscription(mut self, oversubscription: Oversubscription) -> Self {
        self.oversubscription = oversubscription;
        self
    }

    fn oversubscribes(&self) -> bool {
        self.oversubscription == Oversubscription::Allowed
    }
}

impl UnifiedPool {
    /// A pool that holds nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for slabs that are not a multiple of 2 MiB, or 0; [`Error::NotSupported`] on a device without managed
    /// memory.
    pub fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        let slab_bytes = options.slab_bytes;
        if slab_bytes == 0
            || !slab_bytes.is_multiple_of(CHUNK)
            || isize::try_from(slab_bytes).is_err()
        {
            return Err(Error::InvalidArgument {
                what: "the size of a pool's slabs",
                value: format!("{slab_bytes} bytes"),
                reason: "it is a multiple of 2 MiB".to_owned(),
            });
        }
        if !device.capabilities().managed_memory {
            return Err(Error::NotSupported {
                what: "managed memory".to_owned(),
                needs: "a device with the attribute managedMemory".to_owned(),
                have: format!(
                    "device {} ({}), which has it not",
                    device.ordinal(),
                    device.name()
                ),
            });
        }
        Ok(Self {
            shared: Arc::new(Shared::new(device, options)),
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
    pub fn uninit<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<MaybeUninit<T>>> {
        self.allocate(len)
    }

    /// Gives the slabs back to CUDA that no buffer has a part of, and returns how many bytes they have.
    ///
    /// # Ordering
    ///
    /// It does not wait: slabs that former buffers' work still uses are freed when that is done ([`Runtime::reclaim`](crate::Runtime::reclaim)
    /// waits for it).
    pub fn trim(&self) -> usize {
        self.shared.trim()
    }

    /// What the pool holds now.
    pub fn stats(&self) -> PoolStats {
        self.shared.stats()
    }

    /// The device that it was made for.
    pub fn device(&self) -> &Device {
        self.shared.device()
    }

    fn allocate<T>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        const { element::assert_element::<T>() };
        let raw = match range::size_bytes::<T>(len)? {
            0 => RawBuffer::empty::<T>(self.device()),
            bytes => self.shared.allocate(bytes)?,
        };
        Ok(UnifiedBuffer::from_raw(raw))
    }

    /// Makes the pages resident on the device at once: a memset or copy would fault them in one after the other.
    fn populate<T>(&self, buffer: &UnifiedBuffer<T>) -> Result<()> {
        if self.device().capabilities().concurrent_managed_access {
            buffer.prefetch(self.device(), &self.device().default_stream()?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for UnifiedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnifiedPool")
            .field("device", &self.device().ordinal())
            .field("options", self.shared.options())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
