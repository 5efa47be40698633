//! The backend: a device, and functions that allocate buffers for it.

#[cfg(feature = "profile")]
mod counting;

use std::fmt;
use std::sync::Arc;

use cuda_um::{
    AccessPattern, MemoryKind, Oversubscription, PoolStats, RegisteredBuffer, UnifiedOptions,
    UnifiedPool,
};

use crate::buffer::Buffer;
use crate::config::CudaBackendConfig;
use crate::cuda_buffer::CudaBuffer;
use crate::device::CudaDevice;
use crate::dtype::Element;
use crate::error::Result;
use crate::host_buffer::HostBuffer;
use crate::pinned_buffer::PinnedBuffer;
use crate::runtime;
use crate::unified_buffer::{Origin, UnifiedBuffer};

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
///     buffer.prefetch(Location::Device(0), backend.device().stream())?;
///     Ok(buffer.host()?.iter().sum())
/// }
///
/// assert_eq!(pollster::block_on(sum())?, 6.0);
/// # Ok::<(), CudaError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CudaBackend {
    device: Arc<CudaDevice>,
    oversubscription: Oversubscription,
    pool: Option<UnifiedPool>,
    #[cfg(feature = "profile")]
    counter: Arc<parking_lot::Mutex<Option<Arc<cuda_um::profile::MigrationCounter>>>>,
}

/// The kinds of buffers, for [`CudaBackend::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// [`UnifiedBuffer`].
    Unified,
    /// [`CudaBuffer`].
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
        runtime::check_process(&config.runtime)?;
        cuda_um::unblock(move || Ok(Self::initialize_blocking(config))).await?
    }

    /// Opens the runtime and the device.
    ///
    /// # Errors
    /// [`CudaError::NoGpu`](crate::CudaError::NoGpu) if a GPU is required and there is none;
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice);
    /// [`CudaError::InvalidSetting`](crate::CudaError::InvalidSetting); [`CudaError::Cuda`](crate::CudaError::Cuda) for invalid options
    /// of the pool or an invalid cost model; with the feature `calibrate`, `CudaError::Calibrate`; and errors of CUDA.
    pub fn initialize_blocking(config: CudaBackendConfig) -> Result<Self> {
        let opened = runtime::open(config.runtime)?;
        let device = Arc::new(CudaDevice::open(opened, config.device)?);
        config.cost_model.set(device.as_cuda_um())?;
        if let Some(access) = config.non_concurrent_access {
            device.as_cuda_um().set_non_concurrent_access(access);
        }
        let oversubscription = config.oversubscription;
        // If managed memory is poor, unified buffers have mapped memory, which the pool does not have.
        let options = config
            .unified_pool
            .filter(|_| device.unified_memory_obstacle().is_none())
            .map(|options| match oversubscription {
                Oversubscription::Allowed => options.oversubscription(oversubscription),
                Oversubscription::Refused => options,
            });
        let pool = options.map(|options| UnifiedPool::new(device.as_cuda_um(), options));
        Ok(Self {
            pool: pool.transpose()?,
            device,
            oversubscription,
            #[cfg(feature = "profile")]
            counter: Arc::default(),
        })
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Arc<CudaDevice> {
        &self.device
    }

    /// One line with the runtime, the device and, if `auto` selected the simulator, the reason.
    #[must_use]
    pub fn runtime_description(&self) -> String {
        self.device.opened().describe(self.device.as_cuda_um())
    }

    /// Whether the runtime is the simulator.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.device.opened().is_simulated()
    }

    /// The simulator, if the runtime is one: its clock, its call log, failures to inject.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn simulator(&self) -> Option<&cuda_um_sim::Sim> {
        self.device.opened().sim.as_ref()
    }

    /// Allocates a unified buffer of `len` zeros: managed memory, from the pool if there is one ([`CudaBackendConfig::unified_pool`]); or
    /// mapped pinned memory if managed memory is poor. [`UnifiedBuffer::placement`] tells which.
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also beyond the pool's limit, and for more than the device has free
    /// unless [`CudaBackendConfig::oversubscription`] allows it; and errors of CUDA.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn allocate_unified<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        self.allocate_unified_for(len, AccessPattern::General)
    }

    /// Allocates a unified buffer of `len` zeros for an access pattern. The pattern, the size and the machine's cost model select
    /// managed memory, with or without advice, or mapped memory. Only [`AccessPattern::General`] uses the pool.
    ///
    /// # Examples
    /// ```
    /// use um_backend::{AccessPattern, CudaBackend, CudaBackendConfig};
    ///
    /// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    /// let scores = backend.allocate_unified_for::<f32>(1000, AccessPattern::ReadBack)?;
    /// // mapped pinned memory (ReadBack), since a use takes about … in mapped and … in managed memory (cost model: …)
    /// println!("{}", scores.placement());
    /// # assert!(!scores.placement().reason.is_empty());
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`allocate_unified`](Self::allocate_unified).
    #[doc(alias = "cudaMallocManaged")]
    #[doc(alias = "cudaHostAlloc")]
    #[track_caller]
    pub fn allocate_unified_for<T: Element>(
        &self,
        len: usize,
        pattern: AccessPattern,
    ) -> Result<UnifiedBuffer<T>> {
        UnifiedBuffer::allocate(Arc::clone(&self.device), len, self.origin(pattern))
    }

    fn origin(&self, pattern: AccessPattern) -> Origin {
        match (&self.pool, pattern) {
            (Some(pool), AccessPattern::General) => Origin::Pool(pool.clone()),
            _ => {
                let options = UnifiedOptions::default().pattern(pattern);
                Origin::Own(options.oversubscription(self.oversubscription))
            }
        }
    }

    /// The contents of the pool of unified buffers: the backend's own pool if the configuration has one, otherwise the device's
    /// [default pool](cuda_um::Device::unified_pool); `None` if there is none, or it was not used.
    #[must_use]
    pub fn pool_stats(&self) -> Option<PoolStats> {
        match &self.pool {
            Some(pool) => Some(pool.stats()),
            None => self.device.as_cuda_um().pool_stats(MemoryKind::Managed),
        }
    }

    /// Returns the memory that the library keeps for the device to CUDA, and returns the bytes that the pools kept: the backend's own pool,
    /// and what [`Device::trim`](cuda_um::Device::trim) names.
    ///
    /// # Ordering
    /// Waits until memory that was dropped in use is free, and for copies to the device that have not arrived.
    pub fn trim(&self) -> usize {
        self.pool.as_ref().map_or(0, UnifiedPool::trim) + self.device.as_cuda_um().trim()
    }

    /// Allocates a buffer of `len` zeros in pinned host memory, which kernels access in place.
    ///
    /// # Errors
    /// As for [`PinnedBuffer::zeroed`].
    #[doc(alias = "cudaHostAlloc")]
    #[track_caller]
    pub fn create_pinned<T: Element>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::zeroed(Arc::clone(&self.device), len)
    }

    /// Allocates a buffer of `len` zeros in plain host memory.
    ///
    /// # Errors
    /// As for [`HostBuffer::zeroed`].
    pub fn create_host<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        HostBuffer::zeroed(len)
    }

    /// Allocates a buffer of `len` zeros of the given kind.
    ///
    /// # Errors
    /// As for the constructor of that kind.
    #[track_caller]
    pub fn create<T: Element>(&self, kind: BufferKind, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(match kind {
            BufferKind::Unified => Box::new(self.allocate_unified(len)?),
            BufferKind::Cuda => Box::new(CudaBuffer::zeroed(Arc::clone(&self.device), len)?),
            BufferKind::Host => Box::new(self.create_host(len)?),
            BufferKind::Pinned => Box::new(self.create_pinned(len)?),
        })
    }

    /// Allocates a buffer of the given kind, with the contents of a slice.
    ///
    /// # Ordering
    /// As for [`Buffer::copy_from_host`]: the slice may be used again when this returns.
    ///
    /// # Errors
    /// As for the constructor of that kind, and for [`Buffer::copy_from_host`].
    #[allow(unsafe_code, reason = "the copy writes each element")]
    #[track_caller]
    pub fn create_from<T: Element>(
        &self,
        kind: BufferKind,
        elements: &[T],
    ) -> Result<Box<dyn Buffer<T>>> {
        // SAFETY: the buffer is returned only after the copy of all elements.
        let mut buffer = unsafe { self.create_uninit(kind, elements.len()) }?;
        buffer.copy_from_host(elements)?;
        Ok(buffer)
    }

    /// Allocates a buffer of `len` elements of the given kind, with arbitrary contents: the temporaries of a framework, which a kernel or a
    /// copy writes. Memory of the device comes from a warm pool without a CUDA call; memory of the host is zeroed.
    ///
    /// # Examples
    /// ```
    /// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig};
    ///
    /// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    /// // SAFETY: `fill` writes each element before the read.
    /// let mut scratch = unsafe { backend.create_uninit::<f32>(BufferKind::Unified, 2) }?;
    /// scratch.fill(0.5)?;
    /// let mut back = [0.0; 2];
    /// scratch.copy_to_host(&mut back)?;
    /// assert_eq!(back, [0.5, 0.5]);
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Safety
    /// Neither the host nor a kernel reads an element before it is written.
    ///
    /// # Errors
    /// As for the constructor of that kind.
    #[allow(unsafe_code, reason = "the caller's promise is required")]
    #[doc(alias = "empty")]
    #[track_caller]
    pub unsafe fn create_uninit<T: Element>(
        &self,
        kind: BufferKind,
        len: usize,
    ) -> Result<Box<dyn Buffer<T>>> {
        let device = || Arc::clone(&self.device);
        let origin = || self.origin(AccessPattern::General);
        Ok(match kind {
            // SAFETY: guaranteed by the caller.
            BufferKind::Unified => unsafe {
                Box::new(UnifiedBuffer::allocate_uninit(device(), len, origin())?)
            },
            // SAFETY: as above.
            BufferKind::Cuda => unsafe { Box::new(CudaBuffer::uninit(device(), len)?) },
            BufferKind::Host | BufferKind::Pinned => self.create(kind, len)?,
        })
    }

    /// Pins a vector, so that kernels access it in place; [`RegisteredBuffer::into_vec`] returns it.
    ///
    /// # Errors
    /// [`NotSupported`](cuda_um::Error::NotSupported) if the device cannot register host memory, and errors of CUDA.
    #[doc(alias = "cudaHostRegister")]
    #[track_caller]
    pub fn register<T: Element>(&self, elements: Vec<T>) -> Result<RegisteredBuffer<'static, T>> {
        Ok(RegisteredBuffer::from_vec(
            self.device.as_cuda_um(),
            elements,
        )?)
    }

    /// Pins a slice while `body` runs, so that kernels access it in place.
    ///
    /// # Errors
    /// As for [`register`](Self::register), and errors of the work on the slice.
    #[doc(alias = "cudaHostRegister")]
    pub fn with_registered<T: Element, R>(
        &self,
        memory: &mut [T],
        body: impl for<'s> FnOnce(&mut RegisteredBuffer<'s, T>) -> R,
    ) -> Result<R> {
        Ok(RegisteredBuffer::scope(
            self.device.as_cuda_um(),
            memory,
            body,
        )?)
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
