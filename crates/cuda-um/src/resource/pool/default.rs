//! The pools of a device from which buffers are made by default.

use crate::context::device::Device;
use crate::error::{Error, Result};
use crate::resource::allocation::Allocation;
use crate::resource::kind::{MemoryKind, Oversubscription};
use crate::resource::pool::class::CHUNK;
use crate::resource::pool::shard::SHARDS;
use crate::resource::pool::slabs::Homes;
use crate::resource::pool::{Pool, PoolOptions, PoolStats};
use crate::resource::separate::Cuda;
use crate::resource::system;
use crate::sync::shard;
use std::sync::{Arc, OnceLock};

/// The default pools of a device by [`MemoryKind`], in its slot in the runtime. System memory has none.
#[derive(Default)]
struct DefaultPools([Choice; MemoryKind::System as usize]);

/// The pool of one kind of memory; `None` if each buffer is a separate allocation. Chosen once, so that allocations read it without a lock.
type Choice = OnceLock<Option<Homes>>;

/// Turns the default pools off, for tools that find accesses outside of allocations.
const POOLS: &str = "CUDA_UM_POOLS";

/// Pinned memory is locked when a slab is made, so slabs are small, and little is kept.
const PINNED_SLAB: usize = CHUNK;
const PINNED_KEEP: usize = 256 << 20;

impl DefaultPools {
    fn get(&self, device: &Device, kind: MemoryKind) -> Result<Option<&Homes>> {
        let Some(choice) = self.0.get(kind as usize) else {
            return Ok(None);
        };
        if let Some(chosen) = choice.get() {
            return Ok(chosen.as_ref());
        }
        let made = match are_on()? {
            true => Some(default_pool(device, kind, default_options(device, kind)?)?),
            false => None,
        };
        Ok(choice.get_or_init(|| made).as_ref())
    }
}

fn default_pool(device: &Device, kind: MemoryKind, options: PoolOptions) -> Result<Homes> {
    let is_default = true;
    let options = PoolOptions {
        is_default,
        ..options
    };
    Pool::new(device, kind, options).map(Pool::into_homes)
}

fn are_on() -> Result<bool> {
    match cuda_um_sys::variable(POOLS) {
        None => Ok(true),
        Some(value) if value == "1" || value == "on" => Ok(true),
        Some(value) if value == "0" || value == "off" => Ok(false),
        Some(value) => Err(Error::InvalidArgument {
            what: POOLS,
            value: value.to_string_lossy().into_owned(),
            reason: "it is 1 or on (the default), or 0 or off".to_owned(),
        }),
    }
}

fn default_options(device: &Device, kind: MemoryKind) -> Result<PoolOptions> {
    let options = PoolOptions::default();
    if kind == MemoryKind::Pinned {
        return Ok(options.slab_bytes(PINNED_SLAB).keep_bytes(PINNED_KEEP));
    }
    let total = device.memory_info()?.total_bytes;
    // A 512th of the device's memory, from 2 MiB to 32 MiB.
    let slab = (total / 512 / CHUNK * CHUNK).clamp(CHUNK, options.slab_bytes);
    Ok(options.slab_bytes(slab).keep_bytes(total / 4))
}

/// Allocates the memory that a buffer has by default: from the default pool, if there is one.
pub(crate) fn allocate(device: &Device, kind: MemoryKind, bytes: usize) -> Result<Allocation> {
    // The allocation is large: each step that converts its result copies it.
    match device.default_pools().get(device, kind)? {
        Some(homes) => {
            let shard = shard::own::<SHARDS>();
            homes[shard].allocate(device, shard, bytes)
        }
        None if kind == MemoryKind::System => system::allocate(device, None, bytes),
        None => {
            let memory = Cuda::new(device.state(), kind, Oversubscription::default());
            Arc::new(memory).allocate(device, bytes)
        }
    }
}

impl Device {
    /// The pool from which buffers of a kind of memory are made on this device, unless their constructor names another resource; `None` if
    /// there is none (see [`set_pool_options`](Self::set_pool_options)). It is of slabs also for device memory, so that other devices can access
    /// the memory, and no buffer waits for a stream.
    ///
    /// It keeps the memory of dropped buffers until it is [trimmed](Pool::trim), or an allocation of this library finds no memory: blocks above
    /// 16 MiB (half a slab) together at most [`PoolOptions::keep_bytes`], by default a quarter of the device's memory and 256 MiB of pinned
    /// memory, and as many slabs of 32 MiB (2 MiB of pinned memory, less on small devices) with smaller blocks as were in use at one time.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] without managed memory, and the errors of `cudaMemGetInfo`; [`Error::InvalidArgument`] if the environment
    /// variable `CUDA_UM_POOLS` is neither `on` nor `off`.
    pub fn pool(&self, kind: MemoryKind) -> Result<Option<Pool>> {
        let homes = self.default_pools().get(self, kind)?;
        Ok(homes.map(|homes| Pool::of(self, homes)))
    }

    fn default_pools(&self) -> &DefaultPools {
        self.runtime().pools(self.state()).get()
    }

    /// Sets the options of the default pool of a kind of memory. `None` turns the pool off: each buffer of the kind is a separate allocation,
    /// which CUDA frees when the buffer is dropped. A limit applies to the pool only: beyond it, a buffer is a separate allocation.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] for options of system memory, which has no pool; [`Error::InvalidArgument`] if the pool was used before (call this before the first buffer of the kind is made), or if the
    /// slab size is 0 or not a multiple of 2 MiB.
    pub fn set_pool_options(
        &self,
        kind: MemoryKind,
        options: impl Into<Option<PoolOptions>>,
    ) -> Result<()> {
        let options = options.into();
        let made = options.map(|options| default_pool(self, kind, options));
        let made = made.transpose()?;
        // Without options, system memory needs no change.
        let choice = self.default_pools().0.get(kind as usize);
        match choice.is_none_or(|choice| choice.set(made).is_ok()) {
            true => Ok(()),
            false => Err(Error::InvalidArgument {
                what: "the options of a default pool",
                value: format!("{options:?}"),
                reason: format!(
                    "they are set before the first use of {} on device {}",
                    kind.name(),
                    self.ordinal()
                ),
            }),
        }
    }

    /// The statistics of the default pool of a kind of memory; `None` if there is no pool, or it was not used.
    pub fn pool_stats(&self, kind: MemoryKind) -> Option<PoolStats> {
        let homes = self.default_pools().0.get(kind as usize)?.get()?.as_ref()?;
        Some(Pool::of(self, homes).stats())
    }

    /// Returns the free memory of the default pools to CUDA, and returns its size in bytes.
    pub(crate) fn trim_pools(&self) -> usize {
        let made = self.default_pools().0.iter();
        let made = made.filter_map(|choice| choice.get()?.as_ref());
        made.map(|homes| Pool::of(self, homes).trim()).sum()
    }
}
