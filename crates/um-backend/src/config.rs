//! The configuration of a backend.

use cuda_um::{NonConcurrentAccess, Oversubscription, PoolOptions};

pub use crate::cost_model::CostModelSource;
use crate::runtime::RuntimeChoice;

/// The configuration of a [`CudaBackend`](crate::CudaBackend).
///
/// # Examples
/// ```
/// use um_backend::{CudaBackend, CudaBackendConfig};
/// use um_backend::sim::{Gpu, Sim};
///
/// let sim = Sim::builder().gpu(Gpu::Maxwell).build().unwrap();
/// let pool = um_backend::cuda_um::PoolOptions::default().keep_bytes(64 << 20);
/// let config = CudaBackendConfig::default().simulator(sim).device_pool(pool).unified_pool(pool).pinned_pool(None);
/// let backend = CudaBackend::initialize_blocking(config)?;
/// assert!(backend.device().managed_memory_obstacle().is_some());
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CudaBackendConfig {
    /// The device's ordinal. Default: 0.
    pub device: usize,
    /// The CUDA runtime. Default: the value of `CUDA_UM_RUNTIME`.
    pub runtime: RuntimeChoice,
    /// Whether unified buffers may use more memory than the device has free. Default: refused, because an oversubscribed GPU can hang for
    /// every process on it.
    pub oversubscription: Oversubscription,
    /// A pool for [`CudaBackend::allocate_unified`](crate::CudaBackend::allocate_unified) alone. Default: none, so the buffers come from the
    /// device's [default pool](cuda_um::Device::pool). The pool may oversubscribe if
    /// its options or [`oversubscription`](Self::oversubscription) allow it. On a device whose managed memory is poor there is no pool.
    pub unified_pool: Option<PoolOptions>,
    /// How the host shares managed memory with a device without concurrent managed access (Windows, WSL, most Jetsons), for all users of
    /// the device. Default: the choice that the device has, which is [`NonConcurrentAccess::Refuse`] unless it was changed.
    pub non_concurrent_access: Option<NonConcurrentAccess>,
    /// A pool for the backend's [`CudaBuffer`](crate::CudaBuffer)s alone. Default: none, so they come from the device's
    /// [default pool](cuda_um::Device::pool).
    pub device_pool: Option<PoolOptions>,
    /// A pool for the backend's [`PinnedBuffer`](crate::PinnedBuffer)s alone. Default: none, so they come from the device's
    /// [default pool](cuda_um::Device::pool).
    pub pinned_pool: Option<PoolOptions>,
    /// The cost model of the device. Default: the model that the device has.
    pub cost_model: CostModelSource,
}

impl CudaBackendConfig {
    /// Sets the device's ordinal.
    #[must_use]
    pub fn device(self, ordinal: usize) -> Self {
        Self {
            device: ordinal,
            ..self
        }
    }

    /// Sets the CUDA runtime.
    #[must_use]
    pub fn runtime(self, runtime: RuntimeChoice) -> Self {
        Self { runtime, ..self }
    }

    /// Uses this simulator.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn simulator(self, sim: cuda_um_sim::Sim) -> Self {
        self.runtime(RuntimeChoice::Simulator(sim))
    }

    /// Sets whether unified buffers may use more memory than the device has free.
    #[must_use]
    pub fn oversubscription(self, oversubscription: Oversubscription) -> Self {
        Self {
            oversubscription,
            ..self
        }
    }

    /// Sets the pool for unified buffers, which makes frequent allocations faster.
    #[must_use]
    pub fn unified_pool(self, options: impl Into<Option<PoolOptions>>) -> Self {
        Self {
            unified_pool: options.into(),
            ..self
        }
    }

    /// Sets how the host shares managed memory with a device without concurrent managed access.
    ///
    /// ```
    /// use um_backend::{CudaBackend, CudaBackendConfig, cuda_um::{NonConcurrentAccess, Placement}};
    /// use um_backend::sim::{Gpu, Sim};
    ///
    /// let sim = Sim::builder().gpu(Gpu::NoConcurrentAccess).build().unwrap();
    /// let config = CudaBackendConfig::default().simulator(sim).non_concurrent_access(NonConcurrentAccess::Mapped);
    /// let backend = CudaBackend::initialize_blocking(config)?;
    /// assert_eq!(backend.allocate_unified::<f32>(1000)?.placement().placement, Placement::Mapped);
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    #[must_use]
    pub fn non_concurrent_access(self, access: NonConcurrentAccess) -> Self {
        Self {
            non_concurrent_access: Some(access),
            ..self
        }
    }

    /// Sets the pool for buffers in device memory.
    #[must_use]
    pub fn device_pool(self, options: impl Into<Option<PoolOptions>>) -> Self {
        Self {
            device_pool: options.into(),
            ..self
        }
    }

    /// Sets the pool for pinned buffers.
    #[must_use]
    pub fn pinned_pool(self, options: impl Into<Option<PoolOptions>>) -> Self {
        Self {
            pinned_pool: options.into(),
            ..self
        }
    }

    /// Sets the cost model of the device.
    #[must_use]
    pub fn cost_model(self, source: impl Into<CostModelSource>) -> Self {
        Self {
            cost_model: source.into(),
            ..self
        }
    }
}
