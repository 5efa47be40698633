//! The kinds of memory that slabs are made of.

use crate::buffer::{device, pinned};
use crate::context::device::Device;
use crate::error::Result;
use crate::resource::allocation::RawBuffer;
use crate::resource::backing;
use crate::resource::pool::PoolOptions;

/// What a pool's slabs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// For a `UnifiedPool`.
    Managed,
    /// For a `PinnedPool`.
    Pinned,
    /// For a `DevicePool`, where the driver has no pools.
    Device,
}

impl Kind {
    /// A slab, from CUDA.
    pub(crate) fn slab(
        self,
        device: &Device,
        bytes: usize,
        options: &PoolOptions,
    ) -> Result<RawBuffer> {
        match self {
            Self::Managed => {
                let memory = backing::managed(device, bytes, options.oversubscribes())?;
                let pointer = memory.0;
                Ok(RawBuffer::new(device, memory, Some(pointer), bytes))
            }
            Self::Pinned => pinned::allocate_bytes(device, bytes),
            Self::Device => device::allocate_bytes(device, bytes),
        }
    }

    /// CUDA's function that makes slabs.
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::Managed => "cudaMallocManaged",
            Self::Pinned => "cudaHostAlloc",
            Self::Device => "cudaMalloc",
        }
    }

    /// Its name in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed memory",
            Self::Pinned => "pinned memory",
            Self::Device => "device memory",
        }
    }
}
