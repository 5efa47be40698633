//! The backend: a device, and functions that allocate buffers for it.

mod allocate;
mod erased;
mod pools;

use std::fmt;
use std::sync::Arc;

#[cfg(doc)]
use cuda_um::{DeviceBuffer, PinnedBuffer, UnifiedBuffer};
use cuda_um::{MemoryKind, Pool, fork, resource::PoolStats};

use crate::config::CudaBackendConfig;
use crate::device::CudaDevice;
use crate::error::Result;
#[cfg(doc)]
use crate::host_buffer::HostBuffer;
use crate::runtime;
use pools::Pools;

/// A CUDA device, real or simulated, that allocates buffers. A clone is the same backend.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig, CudaError, Location};
///
/// async fn sum() -> Result<f32, CudaError> {
///     let backend = CudaBackend::initialize(CudaBackendConfig::default()).await?;
///     let mut buffer = backend.allocate_unified(3)?;
///     buffer.copy_from_host(&[1.0, 2.0, 3.0])?;
///     buffer.prefetch(Location::Device(0))?;
///     Ok(buffer.host()?.iter().sum())
/// }
///
/// assert_eq!(pollster::block_on(sum())?, 6.0);
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CudaBackend {
    device: CudaDevice,
    /// The configuration, of which a sibling takes all but the device and the runtime.
    config: Arc<CudaBackendConfig>,
    pools: Pools,
}

/// The kinds of buffers, for [`CudaBackend::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BufferKind {
    /// [`UnifiedBuffer`].
    Unified,
    /// [`DeviceBuffer`], with the name `CudaBuffer` in this crate.
    Cuda,
    /// [`HostBuffer`].
    Host,
    /// [`PinnedBuffer`].
    Pinned,
}

impl BufferKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Unified, Self::Cuda, Self::Host, Self::Pinned];
}

impl fmt::Display for BufferKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unified => "unified",
            Self::Cuda => "cuda",
            Self::Host => "host",
            Self::Pinned => "pinned",
        })
    }
}

impl CudaBackend {
    /// Opens the runtime and the device. Works on any executor: a separate thread opens them.
    ///
    /// # Errors
    /// As for [`initialize_blocking`](Self::initialize_blocking).
    pub async fn initialize(config: CudaBackendConfig) -> Result<Self> {
        // Checked here, because a child made by `fork` does not have the thread that opens the runtime.
        fork::check("opening a runtime")?;
        cuda_um::unblock(move || Ok(Self::initialize_blocking(config))).await?
    }

    /// Opens the runtime and the device.
    ///
    /// # Errors
    /// Errors of the kind [`NoGpu`](cuda_um::ErrorKind::NoGpu) if a GPU is required and there is none;
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice); [`CudaError::InvalidArgument`](crate::CudaError::InvalidArgument) for an
    /// environment variable or options of a pool that are not valid; and errors of CUDA.
    pub fn initialize_blocking(config: CudaBackendConfig) -> Result<Self> {
        let opened = runtime::open(config.runtime.clone())?;
        let device = CudaDevice::open(opened, config.device)?;
        Self::on(device, Arc::new(config))
    }

    fn on(device: CudaDevice, config: Arc<CudaBackendConfig>) -> Result<Self> {
        if let Some(access) = config.non_concurrent_access {
            device.set_non_concurrent_access(access);
        }
        Ok(Self {
            pools: Pools::new(&device, &config)?,
            device,
            config,
        })
    }

    /// Opens a backend on another device of the same runtime, with the options of this one: a copy between buffers of the two is one call of
    /// CUDA. The other device keeps its own cost model.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice), and as for [`initialize_blocking`](Self::initialize_blocking).
    pub fn sibling(&self, ordinal: usize) -> Result<Self> {
        Self::on(self.device.sibling(ordinal)?, Arc::clone(&self.config))
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &CudaDevice {
        &self.device
    }

    /// One line with the runtime, the device and, if `auto` selected the simulator, the reason.
    #[must_use]
    pub fn runtime_description(&self) -> String {
        self.device.opened().describe(&self.device)
    }

    /// Whether the runtime is the simulator.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.device.opened().sim.is_some()
    }

    /// The simulator, if the runtime is one: its clock, its call log, failures to inject.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn simulator(&self) -> Option<&cuda_um_sim::Sim> {
        Some(&self.device.opened().sim.as_ref()?.sim)
    }

    /// The contents of the pool of a kind of memory: the backend's own pool if the configuration has one, otherwise the device's default
    /// pool; `None` if there is none, or it was not used.
    #[must_use]
    pub fn pool_stats_of(&self, kind: MemoryKind) -> Option<PoolStats> {
        let own = self.pools.of(kind).map(Pool::stats);
        own.or_else(|| self.device.pool_stats(kind))
    }

    /// Returns the memory that the library keeps for the device to CUDA, and returns the bytes that the pools kept: the backend's own pools,
    /// and what [`Device::trim`](cuda_um::Device::trim) names.
    ///
    /// # Ordering
    /// Waits until memory that was dropped in use is free, and for copies to the device that have not arrived.
    pub fn trim(&self) -> usize {
        self.pools.trim() + self.device.trim()
    }

    /// Runs `work` and returns its result with a trace of the migrations meanwhile: see [`um_profile`], which can also count them. Both work on
    /// the simulator too.
    ///
    /// # Errors
    /// As for [`um_profile::profile`].
    #[cfg(feature = "profile")]
    pub fn profile<R>(&self, work: impl FnOnce() -> R) -> Result<(R, um_profile::Trace)> {
        Ok(um_profile::profile(self.device.runtime(), work)?)
    }

    /// Waits for all work on the device.
    ///
    /// # Errors
    /// Errors of `cudaDeviceSynchronize`, also of earlier work.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }
}
