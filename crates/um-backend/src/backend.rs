//! The way in: a device, and the buffers that it makes.

mod counting;
mod prefetch;

use std::fmt;
use std::sync::Arc;

use cuda_um::{
    AccessPattern, Oversubscription, PoolStats, RegisteredBuffer, UnifiedOptions, UnifiedPool,
};

use crate::buffer::Buffer;
use crate::config::CudaBackendConfig;
use crate::cuda_buffer::CudaBuffer;
use crate::device::CudaDevice;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::host_buffer::HostBuffer;
use crate::pinned_buffer::PinnedBuffer;
use crate::placement::{MemoryAdvice, Placement};
use crate::runtime;
use crate::unified_buffer::{Origin, UnifiedBuffer};

/// A CUDA device, real or simulated, that makes buffers. A clone is the same backend.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig, CudaError};
///
/// async fn sum() -> Result<f32, CudaError> {
///     let backend = CudaBackend::initialize(CudaBackendConfig::default()).await?;
///     let mut buffer = backend.allocate_unified(3)?;
///     buffer.copy_from_host(&[1.0, 2.0, 3.0])?;
///     backend.prefetch_to_device(&buffer, Some(0))?;
///     Ok(buffer.as_slice()?.iter().sum())
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

/// The kinds of buffers, to choose one at run time: [`CudaBackend::create`].
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
    /// Opens the runtime and the device. Works on any executor: the opening is done on a thread of its own.
    ///
    /// # Errors
    /// As for [`initialize_blocking`](Self::initialize_blocking).
    pub async fn initialize(config: CudaBackendConfig) -> Result<Self> {
        // Here: the thread that would find out is not in a child made by `fork`.
        runtime::check_process(&config.runtime)?;
        cuda_um::unblock(move || Ok(Self::initialize_blocking(config))).await?
    }

    /// Opens the runtime and the device.
    ///
    /// # Errors
    /// [`CudaError::NoGpu`](crate::CudaError::NoGpu) with the reason in one line where a GPU is needed and there is none;
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice);
    /// [`CudaError::InvalidSetting`](crate::CudaError::InvalidSetting); [`CudaError::Cuda`](crate::CudaError::Cuda) for a pool's
    /// options that cannot be; and what CUDA reports.
    pub fn initialize_blocking(config: CudaBackendConfig) -> Result<Self> {
        let opened = runtime::open(config.runtime)?;
        let device = Arc::new(CudaDevice::open(opened, config.device)?);
        let oversubscription = config.oversubscription;
        // Where managed memory is poor, unified buffers have mapped memory.
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

    /// One line: which runtime, which device, and, where `auto` chose the simulator, why.
    #[must_use]
    pub fn runtime_description(&self) -> String {
        self.device.opened().describe(self.device.as_cuda_um())
    }

    /// Whether this is the simulator.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.device.opened().is_simulated()
    }

    /// The simulator, where it is one: its clock, its call trace, failures to inject.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn simulator(&self) -> Option<&cuda_um_sim::Sim> {
        self.device.opened().sim.as_ref()
    }

    /// Whether [`allocate_unified`](Self::allocate_unified) gives managed memory. Where not, it gives mapped pinned memory.
    ///
    /// # Errors
    /// None today: what the device can do is read when it is opened.
    pub fn supports_unified_memory(&self) -> Result<bool> {
        Ok(self.device.unified_memory_obstacle().is_none())
    }

    /// A unified buffer of `len` zeros: managed memory, of the pool if there is one ([`CudaBackendConfig::unified_pool`]); or, where that
    /// is poor, mapped pinned memory ([`UnifiedBuffer::placed`] says which).
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also beyond the pool's limit, and for more than the device has free
    /// unless [`CudaBackendConfig::oversubscription`] allows it; and what CUDA reports.
    #[doc(alias = "cudaMallocManaged")]
    #[track_caller]
    pub fn allocate_unified<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        self.allocate_unified_for(len, AccessPattern::General)
    }

    /// A unified buffer of `len` zeros that will be used like this: in managed memory, with or without advice, or in mapped memory,
    /// whichever the pattern, the size and the machine's costs speak for. Memory of the pool is for [`AccessPattern::General`].
    ///
    /// # Examples
    /// ```
    /// use um_backend::{AccessPattern, CudaBackend, CudaBackendConfig};
    ///
    /// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    /// let scores = backend.allocate_unified_for::<f32>(1000, AccessPattern::ReadBack)?;
    /// // mapped pinned memory (ReadBack), since a use takes about … in mapped and … in managed memory (cost model: …)
    /// println!("{}", scores.placed());
    /// # assert!(!scores.placed().reason.is_empty());
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
        let origin = match (&self.pool, pattern) {
            (Some(pool), AccessPattern::General) => Origin::Pool(pool.clone()),
            _ => {
                let options = UnifiedOptions::default().pattern(pattern);
                Origin::Own(options.oversubscription(self.oversubscription))
            }
        };
        UnifiedBuffer::allocate(Arc::clone(&self.device), len, origin)
    }

    /// What the pool of unified buffers holds; `None` where there is none.
    #[must_use]
    pub fn pool_stats(&self) -> Option<PoolStats> {
        self.pool.as_ref().map(UnifiedPool::stats)
    }

    /// Gives the pool's memory back to CUDA that no buffer has a part of, and returns how many bytes that is; 0 without a pool.
    ///
    /// # Ordering
    /// It does not wait: what former work still uses is freed when that is done.
    pub fn trim(&self) -> usize {
        self.pool.as_ref().map_or(0, UnifiedPool::trim)
    }

    /// A buffer of `len` zeros in device memory; `dtype` must be that of `T`.
    ///
    /// # Errors
    /// As for [`CudaBuffer::new`].
    #[doc(alias = "cudaMalloc")]
    #[track_caller]
    pub fn create_buffer<T: Element>(&self, len: usize, dtype: DType) -> Result<CudaBuffer<T>> {
        CudaBuffer::new(Arc::clone(&self.device), len, dtype)
    }

    /// A buffer of `len` zeros in pinned host memory that kernels use in place.
    ///
    /// # Errors
    /// As for [`PinnedBuffer::new`].
    #[doc(alias = "cudaHostAlloc")]
    #[track_caller]
    pub fn create_pinned<T: Element>(&self, len: usize) -> Result<PinnedBuffer<T>> {
        PinnedBuffer::new(Arc::clone(&self.device), len, T::DTYPE)
    }

    /// A buffer of `len` zeros in plain host memory.
    ///
    /// # Errors
    /// As for [`HostBuffer::zeroed`].
    pub fn create_host<T: Element>(&self, len: usize) -> Result<HostBuffer<T>> {
        HostBuffer::zeroed(len)
    }

    /// A buffer of `len` zeros of the kind that is asked for.
    ///
    /// # Errors
    /// As for the function of that kind.
    #[track_caller]
    pub fn create<T: Element>(&self, kind: BufferKind, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(match kind {
            BufferKind::Unified => Box::new(self.allocate_unified(len)?),
            BufferKind::Cuda => Box::new(self.create_buffer(len, T::DTYPE)?),
            BufferKind::Host => Box::new(self.create_host(len)?),
            BufferKind::Pinned => Box::new(self.create_pinned(len)?),
        })
    }

    /// Pins a vector that the caller owns, so that kernels use it in place; [`RegisteredBuffer::into_vec`] gives it back.
    ///
    /// # Errors
    /// [`CudaError::NotSupported`](crate::CudaError::NotSupported) on a device that cannot, and what CUDA reports.
    #[doc(alias = "cudaHostRegister")]
    #[track_caller]
    pub fn register<T: Element>(&self, elements: Vec<T>) -> Result<RegisteredBuffer<'static, T>> {
        Ok(RegisteredBuffer::from_vec(
            self.device.as_cuda_um(),
            elements,
        )?)
    }

    /// Pins memory that the caller borrows, so that kernels use it in place, for the time of `body`.
    ///
    /// # Errors
    /// As for [`register`](Self::register), and what waiting for the work on it reports.
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

    /// [`UnifiedBuffer::set_memory_advice`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "cudaMemAdvise")]
    pub fn set_memory_advice<T: Element>(
        &self,
        buffer: &UnifiedBuffer<T>,
        advice: MemoryAdvice,
        device: Option<usize>,
    ) -> Result<Placement> {
        buffer.set_memory_advice(advice, device)
    }

    /// Waits for everything on the device.
    ///
    /// # Errors
    /// What `cudaDeviceSynchronize` reports: failures of earlier work as well.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        self.device.synchronize()
    }
}
