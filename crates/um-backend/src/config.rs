//! What a backend is opened with.

use cuda_um::{Oversubscription, PoolOptions};

use crate::runtime::RuntimeChoice;

/// What a [`CudaBackend`](crate::CudaBackend) is opened with. Every knob has a default.
///
/// # Examples
/// ```
/// use um_backend::{CudaBackend, CudaBackendConfig};
/// use um_backend::sim::{Gpu, Sim};
///
/// let sim = Sim::builder().gpu(Gpu::Maxwell).build()?;
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default().simulator(sim))?;
/// assert!(!backend.supports_unified_memory()?);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CudaBackendConfig {
    /// The device's ordinal; 0 unless set.
    pub device: usize,
    /// Which CUDA runtime; what `CUDA_UM_RUNTIME` says unless set.
    pub runtime: RuntimeChoice,
    /// Whether unified buffers may take more memory than the device has free; refused unless set, since an oversubscribed GPU can
    /// hang for every process on it.
    pub oversubscription: Oversubscription,
    /// The pool of which [`CudaBackend::allocate_unified`](crate::CudaBackend::allocate_unified) takes memory; none unless set. It may
    /// oversubscribe if its options or [`oversubscription`](Self::oversubscription) say so. Where managed memory is poor there is none.
    pub unified_pool: Option<PoolOptions>,
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

    /// Sets which CUDA runtime is used.
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

    /// Sets whether unified buffers may take more memory than the device has free.
    #[must_use]
    pub fn oversubscription(self, oversubscription: Oversubscription) -> Self {
        Self {
            oversubscription,
            ..self
        }
    }

    /// Sets the pool that unified buffers come from: worth it for those who allocate often.
    #[must_use]
    pub fn unified_pool(self, options: impl Into<Option<PoolOptions>>) -> Self {
        Self {
            unified_pool: options.into(),
            ..self
        }
    }
}
