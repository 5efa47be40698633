//! Pools of pinned host memory.

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pinned::PinnedMemory;
use crate::resource::pool::PoolOptions;
use crate::resource::pool::slabs::Slabs;

/// A pool of pinned host memory. A clone is the same pool.
///
/// Its buffers are ordinary [`PinnedBuffer`](crate::PinnedBuffer)s in large slabs (`cudaHostAlloc`), because page-locking is slow: 77 ms for 256 MiB, measured
/// on a machine with an H200. A buffer that is dropped returns to the pool at once, in use or not:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DeviceBuffer, PinnedPool, PoolOptions};
///
/// let pool = PinnedPool::new(&device, PoolOptions::default())?;
/// let stream = device.stream()?;
/// let mut on_device = DeviceBuffer::<f32>::zeroed(&device, 1000)?;
/// for batch in [[1.0f32; 1000], [2.0; 1000]] {
///     let staged = pool.from_slice(&batch)?; // waits until the copy of the batch before has read the same memory
///     stream.copy(&staged, &mut on_device)?;
/// }
/// let mut back = [0.0; 1000];
/// on_device.copy_to_host(&mut back)?;
/// assert_eq!((back[999], pool.stats().slabs), (2.0, 1));
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Ordering
///
/// A new buffer inherits the uses of its memory's former owner. The host writes only when they are done, so [`zeroed`](Self::zeroed) and
/// [`from_slice`](Self::from_slice) may wait for a device, which a new allocation would not.
///
/// # Sizes
///
/// Sizes are rounded up as by [`UnifiedPool`](crate::UnifiedPool), and small buffers share pages, which has no effect for pinned memory.
/// Blocks begin at multiples of 256 bytes. A buffer of more than half a slab has a dedicated slab, which is kept for the next buffer of
/// about the same size.
///
/// # Lifetime
///
/// The slabs return to CUDA when the last handle and the last buffer are dropped, or by [`trim`](Self::trim), when their work is done.
///
/// All methods may be called from any thread.
#[derive(Clone)]
pub struct PinnedPool {
    memory: Slabs,
}

pool_methods!(PinnedPool);

impl PinnedPool {
    pub(super) fn of_slabs(memory: Slabs) -> Self {
        Self { memory }
    }

    /// Makes a pool without memory. [`PoolOptions::oversubscription`] has no effect.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) if the slab size is 0 or not a multiple of 2 MiB.
    pub fn new(device: &Device, options: PoolOptions) -> Result<Self> {
        Ok(Self {
            memory: Slabs::new(Box::new(PinnedMemory::new(device)), options)?,
        })
    }
}

impl MemoryResource for PinnedPool {
    fn device(&self) -> &Device {
        self.memory.device()
    }

    fn kind(&self) -> MemoryKind {
        MemoryKind::Pinned
    }
}

impl Allocate for PinnedPool {
    fn allocate(&self, bytes: usize) -> Result<Allocation> {
        self.memory.allocate(bytes)
    }
}
