//! Kinds of memory, and oversubscription.

use crate::context::device::DeviceState;
use crate::driver::MemoryInfo;
use crate::error::{Error, Result};

/// The kind of memory of a buffer or a [`MemoryResource`](crate::resource::MemoryResource).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[doc(alias = "cudaMemoryType")]
pub enum MemoryKind {
    /// Managed memory (`cudaMallocManaged`): the CPU and all GPUs use one pointer, and pages migrate.
    Managed,
    /// Memory of one GPU (`cudaMalloc`).
    Device,
    /// Page-locked memory of the host (`cudaHostAlloc`).
    Pinned,
    /// Memory of the operating system, not allocated by CUDA (`malloc`, `mmap`), which kernels of devices with pageable memory access use at
    /// the host's address: [`SystemMemory`](crate::resource::SystemMemory), adopted vectors, mapped files.
    System,
}

impl MemoryKind {
    pub(crate) fn call(self) -> &'static str {
        match self {
            Self::Managed => "cudaMallocManaged",
            Self::Device => "cudaMalloc",
            Self::Pinned => "cudaHostAlloc",
            Self::System => "mmap",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Managed => "managed memory",
            Self::Device => "device memory",
            Self::Pinned => "pinned memory",
            Self::System => "system memory",
        }
    }
}

impl std::fmt::Display for MemoryKind {
    /// `managed memory`, `device memory`, `pinned memory`, `system memory`
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Determines if managed memory may exceed the memory of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Oversubscription {
    /// An allocation is refused as out of memory if it exceeds the free memory (on an integrated device also one of device memory), or if all live managed memory of the device would exceed
    /// the device. An oversubscribed device can hang for every process that uses it.
    #[default]
    Refused,
    /// The allocation succeeds, and the driver evicts pages to the host as needed.
    Allowed,
}

/// Allocates memory, and counts managed bytes of a device, which occupy it until a free succeeds. Refuses more of them in total than `limit`.
pub(crate) fn counted<R>(
    kind: MemoryKind,
    device: &DeviceState,
    (bytes, limit): (usize, Option<usize>),
    allocate: impl FnOnce() -> Result<R>,
) -> Result<R> {
    if kind != MemoryKind::Managed {
        return allocate();
    }
    let reserved = device.driver.reserve(device.ordinal, bytes, limit);
    reserved.map_err(|live| {
        let used = format!("{live} bytes of managed memory live there");
        let info = device.memory_info().unwrap_or_default();
        would_oversubscribe((kind, device.ordinal), bytes, &used, info)
    })?;
    allocate().inspect_err(|_| device.driver.discharge(device.ordinal, bytes))
}

/// Refuses more than the free memory of the device.
pub(crate) fn check_room(memory: (MemoryKind, u32), bytes: usize, info: MemoryInfo) -> Result<()> {
    if bytes <= info.free_bytes {
        return Ok(());
    }
    let used = info.total_bytes.saturating_sub(info.free_bytes);
    let used = format!("{used} bytes of it are in use");
    Err(would_oversubscribe(memory, bytes, &used, info))
}

fn would_oversubscribe(
    (kind, ordinal): (MemoryKind, u32),
    requested_bytes: usize,
    used: &str,
    info: MemoryInfo,
) -> Error {
    Error::OutOfMemory {
        call: kind.call(),
        subject: format!(
            "{kind} on device {ordinal}, not allocated: it would oversubscribe the device ({used}), which needs \
             oversubscription(Oversubscription::Allowed), of the options or of CudaBackendConfig"
        ),
        requested_bytes,
        free_bytes: info.free_bytes,
        total_bytes: info.total_bytes,
    }
}
