//! Pools of slabs.
#![allow(unsafe_code, reason = "takes memory back")]

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::block::Block;
use crate::resource::kind::MemoryKind;
use crate::resource::owner::{Held, Owner, Released, Traits};
use crate::resource::pool::PoolOptions;
use crate::resource::pool::shard::SHARDS;
use crate::resource::pool::shared::Shared;
use crate::resource::separate::Cuda;
use crate::sync::shard;
use std::sync::Arc;

/// A pool of one kind of memory of a device, in large slabs. A clone is the same pool.
///
/// A buffer that is dropped returns to the pool at once, in use or not, and the next buffer of its size class reuses its memory:
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{MemoryKind, Pool, PoolOptions, UnifiedBuffer};
///
/// let pool = Pool::new(&device, MemoryKind::Managed, PoolOptions::default())?;
/// let stream = device.create_stream()?;
/// let mut first = UnifiedBuffer::<f32>::zeroed_in(&pool, 1000)?;
/// let address = first.as_ptr();
/// first.fill_on(1.0, &stream)?;
/// drop(first); // the fill may still run
/// let second = UnifiedBuffer::from_slice_in(&pool, &[2.0f32; 1000])?; // so this comes after it
/// assert_eq!(second.as_ptr(), address);
/// assert_eq!(second.host()?[999], 2.0);
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Ordering
///
/// A new buffer inherits the uses of its memory's former owner: its first work on another stream is ordered after them, and its first host
/// access waits for them, also for the zeros of a new pinned buffer. If the former owner's work failed, the wait for it returns its error.
///
/// # Pages
///
/// Sizes are rounded up to one of four steps between two powers of two: multiples of 256 bytes up to 4 KiB, of 4 KiB up to 2 MiB, and of
/// 2 MiB. So small buffers share pages (on Arm, where hosts have pages of up to 64 KiB, also larger ones): **advice or a prefetch for a small
/// buffer also applies to other buffers on the page**, and an access by the CPU may migrate them. Advice is undone before memory has a new
/// owner. Addresses are multiples of 256 bytes; blocks of 2 MiB and more begin at multiples of 2 MiB if CUDA aligns slabs so, as it does on GPUs.
///
/// A buffer of more than half a slab has a slab of its own, which is kept for the next buffer of about the same size. Slabs return to CUDA when the
/// last handle and the last buffer are dropped, or by [`trim`](Self::trim), and their work is done. If an allocation elsewhere lacks memory, the
/// default pools of the device ([`Device::pool`]) are trimmed; other pools keep theirs.
#[derive(Clone)]
pub struct Pool {
    // Before the device, whose last handle waits for what the slabs leave.
    homes: Homes,
    device: Device,
}

/// One home for each shard, which its buffers hold.
pub(super) type Homes = Arc<[Arc<Home>; SHARDS]>;

/// The reference from the buffers of a shard to the pool. The pool is live as long as one of its homes.
#[repr(align(128))]
pub(crate) struct Home {
    pub(super) pool: Arc<Shared>,
}

impl Owner for Home {
    fn traits(&self) -> &Traits {
        &self.pool.traits
    }

    fn allocate_again(
        self: Arc<Self>,
        device: &Device,
        bytes: usize,
    ) -> Option<Result<Allocation>> {
        Some(self.allocate(device, shard::own::<SHARDS>(), bytes))
    }

    unsafe fn free(&self, block: Box<Block>) -> Result<Held> {
        self.pool.give(shard::own::<SHARDS>(), block);
        Ok(None)
    }

    /// The next owner's work is ordered after the uses.
    unsafe fn release(&self, mut released: Released<'_>) {
        released.block.in_flight.retire();
        self.pool.give(shard::own::<SHARDS>(), released.block);
    }
}

impl Home {
    /// Allocates for a thread of a shard, which may be another home's. What a default pool cannot allocate, because its slabs and blocks are larger
    /// than the buffer, may still fit as a separate allocation.
    pub(super) fn allocate(
        self: &Arc<Self>,
        device: &Device,
        shard: usize,
        bytes: usize,
    ) -> Result<Allocation> {
        match self.pool.take(device, shard, bytes) {
            Ok(block) => {
                let owner = Arc::clone(self) as Arc<dyn Owner>;
                let device = Some(device.for_buffer_of(shard));
                Ok(Allocation::of_block(owner, device, block))
            }
            Err(Error::OutOfMemory { .. }) if self.pool.options.is_default => {
                self.pool.upstream.allocate(device, bytes)
            }
            Err(error) => Err(error),
        }
    }
}

pool_methods!(Pool);

impl Pool {
    /// Makes a pool without memory. [`PoolOptions::oversubscription`] has an effect for managed memory, and for device memory of an integrated
    /// device.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] if the slab size is 0 or not a multiple of 2 MiB; [`Error::NotSupported`] for managed memory on a device
    /// without it, and for system memory.
    pub fn new(device: &Device, kind: MemoryKind, options: PoolOptions) -> Result<Self> {
        if kind == MemoryKind::System {
            return Err(Error::NotSupported {
                what: "a pool of system memory".to_owned(),
                needs: "managed, device or pinned memory".to_owned(),
                have: "system memory, which the operating system keeps".to_owned(),
            });
        }
        if kind == MemoryKind::Managed {
            device.state().check_managed_memory()?;
        }
        options.check()?;
        let upstream = Cuda::new(device.state(), kind, options.oversubscription);
        let pool = Arc::new(Shared::new(Arc::new(upstream), options));
        let home = |_| {
            Arc::new(Home {
                pool: Arc::clone(&pool),
            })
        };
        Ok(Self::of(device, &Arc::new(std::array::from_fn(home))))
    }

    /// The pool of these homes, for its users.
    pub(super) fn of(device: &Device, homes: &Homes) -> Self {
        Self {
            device: device.clone(),
            homes: Arc::clone(homes),
        }
    }

    pub(super) fn into_homes(self) -> Homes {
        self.homes
    }

    fn owner(&self) -> &Device {
        &self.device
    }

    fn memory(&self) -> &Shared {
        &self.homes[0].pool
    }

    fn take(&self, bytes: usize) -> Result<Allocation> {
        let shard = shard::own::<SHARDS>();
        self.homes[shard].allocate(&self.device, shard, bytes)
    }
}
