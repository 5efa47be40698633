//! The configuration of a backend.

use cuda_um::{NonConcurrentAccess, Oversubscription, PoolOptions};

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
}

macro_rules! setters {
    ($($field:ident($name:ident: $kind:ty) = $value:expr;)*) => {
        impl CudaBackendConfig {$(
            #[doc = concat!("Sets [`", stringify!($field), "`](#structfield.", stringify!($field), ").")]
            #[must_use]
            pub fn $field(mut self, $name: $kind) -> Self {
                self.$field = $value;
                self
            }
        )*}
    };
}

setters! {
    device(ordinal: usize) = ordinal;
    runtime(runtime: RuntimeChoice) = runtime;
    oversubscription(oversubscription: Oversubscription) = oversubscription;
    unified_pool(options: impl Into<Option<PoolOptions>>) = options.into();
    device_pool(options: impl Into<Option<PoolOptions>>) = options.into();
    pinned_pool(options: impl Into<Option<PoolOptions>>) = options.into();
    non_concurrent_access(access: NonConcurrentAccess) = Some(access);
}

impl CudaBackendConfig {
    /// Uses this simulator.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn simulator(self, sim: cuda_um_sim::Sim) -> Self {
        self.runtime(RuntimeChoice::Simulator(sim))
    }
}
