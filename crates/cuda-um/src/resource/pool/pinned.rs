//! Pools of pinned host memory.

use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::RawBuffer;
use crate::resource::kind::MemoryKind;
use crate::resource::memory_resource::{Allocate, MemoryResource};
use crate::resource::pinned::PinnedMemory;
use crate::resource::pool::PoolOptions;
use crate::resource::pool::slabs::Slabs;

/// A pool of pinned memory of the host. A clone is the same pool.
///
/// Its buffers are ordinary [`PinnedBuffer`]s, cut out of large slabs (`cudaHostAlloc`), for page-locking is slow: 77 ms for 256 MiB,
/// measured on a machine with an H200. A buffer that is dropped goes back to the pool at once, in use or not:
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
/// A buffer begins with the uses that its memory's former owner left: the host writes it only once they are done, so
/// [`zeroed`](Self::zeroed) and [`from_slice`](Self::from_slice) may wait for a device where a fresh buffer would not.
///
/// # Sizes
///
/// Sizes are rounded up as by [`UnifiedPool`](crate::UnifiedPool), and small buffers share pages; for pinned memory that has no effect on
/// anybody. Blocks begin at multiples of 256 bytes. Buffers of more than half a slab have a slab of their own, which is kept for the
/// next buffer about as large.
///
/// # Life
///
/// The slabs go back to CUDA when the last handle and the last buffer are gone, or [trimmed](Self::trim), when their work is done.
///
/// All methods may be called from any number of threads.
#[derive(Clone)]
pub struct PinnedPool {
    memory: Slabs,
}

pool_methods!(PinnedPool);

impl PinnedPool {
    /// A pool that holds nothing yet. [`PoolOptions::oversubscription`] has no meaning for it.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`](crate::Error::InvalidArgument) for slabs that are not a multiple of 2 MiB, or 0.
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
    fn allocate(&self, bytes: usize) -> Result<RawBuffer> {
        self.memory.allocate(bytes)
    }
}
