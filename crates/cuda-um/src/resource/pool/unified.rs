//! Pools of managed memory.

use crate::context::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::resource::allocation::RawBuffer;
use crate::resource::kind::MemoryKind;
use crate::resource::managed::ManagedMemory;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pool::PoolOptions;
use crate::resource::pool::slabs::Slabs;

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
        device.state().check_managed_memory()?;
        let slabs = ManagedMemory::new(device).oversubscription(options.oversubscription);
        Ok(Self {
            memory: Slabs::new(Box::new(slabs), options)?,
        })
    }
}

impl MemoryResource for UnifiedPool {
    fn device(&self) -> &Device {
        self.memory.device()
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Managed
    }
}

impl Allocate for UnifiedPool {
    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.memory.allocate(bytes)
    }
}
