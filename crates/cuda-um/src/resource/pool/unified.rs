//! Pools of managed memory.

use crate::context::device::Device;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::managed::ManagedMemory;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pool::PoolOptions;
use crate::resource::pool::slabs::Slabs;

/// A pool of managed memory. A clone is the same pool.
///
/// Its buffers are ordinary [`UnifiedBuffer`](crate::UnifiedBuffer)s in large slabs. A buffer that is dropped returns to the pool at once, in use or not, and the
/// next buffer of its size class reuses its memory:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{PoolOptions, UnifiedPool};
///
/// let pool = UnifiedPool::new(&device, PoolOptions::default())?;
/// let stream = device.stream()?;
/// let mut first = pool.zeroed::<f32>(1000)?;
/// let address = first.as_ptr();
/// first.fill_on(1.0, &stream)?;
/// drop(first); // the fill may still run
/// let second = pool.from_slice(&[2.0f32; 1000])?; // so this comes after it
/// assert_eq!(second.as_ptr(), address);
/// assert_eq!(second.host()?[999], 2.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Ordering
///
/// A new buffer inherits the uses of its memory's former owner: its first work on another stream is ordered after them, and its first host
/// access waits for them. Work on the same stream needs no order. Before that, no event is recorded and no thread waits. If the former
/// owner's work failed, the wait for it returns its error.
///
/// # Pages
///
/// Sizes are rounded up: to multiples of 256 bytes up to 4 KiB, above to whole pages of 4 KiB, and to multiples of 2 MiB for more than
/// 2 MiB; in all cases to one of four steps between two powers of two. So small buffers share pages, but buffers of more than 3840 bytes do
/// not. Prefetch and advice apply to whole pages: **advice or a prefetch for a small buffer also applies to other buffers on the page**,
/// and an access by the CPU may migrate them. Their contents are never changed. The driver migrates up to 64 KiB or 2 MiB at once.
///
/// Blocks of 2 MiB and more begin at multiples of 2 MiB within their slab, and blocks of 64 KiB and more at multiples of 16 KiB or more.
/// Their addresses are aligned in the same way if CUDA aligns slabs to 2 MiB; it does so on GPUs, but does not promise it.
///
/// A buffer of more than half a slab has a dedicated slab, which is kept for the next buffer of about the same size.
///
/// Advice for a buffer is undone before its memory has a new owner.
///
/// # Lifetime
///
/// The slabs return to CUDA when the last handle and the last buffer are dropped, or by [`trim`](Self::trim). A slab in use is freed when
/// its work is done; no thread waits for it. Free memory of a pool may keep streams live that worked on it.
///
/// All methods may be called from any thread.
#[derive(Clone)]
pub struct UnifiedPool {
    memory: Slabs,
}

pool_methods!(UnifiedPool);

impl UnifiedPool {
    pub(super) fn of_slabs(memory: Slabs) -> Self {
        Self { memory }
    }

    /// Makes a pool without memory.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the slab size is 0 or not a multiple of 2 MiB; [`Error::NotSupported`] on a device without managed
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
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        self.memory.allocate(bytes)
    }
}
