//! The way in: a device, and the buffers that it makes.

use std::fmt;
use std::sync::Arc;

use cuda_um::{Oversubscription, RegisteredBuffer};

use crate::buffer::Buffer;
use crate::config::CudaBackendConfig;
use crate::counters::MigrationCounters;
use crate::cuda_buffer::CudaBuffer;
use crate::device::CudaDevice;
use crate::dtype::{DType, Element};
use crate::error::Result;
use crate::host_buffer::HostBuffer;
use crate::pinned_buffer::PinnedBuffer;
use crate::placement::{MemoryAdvice, Placement};
use crate::runtime;
use crate::unified_buffer::UnifiedBuffer;

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
    #[cfg(feature = "profile")]
    counter: Arc<parking_lot::Mutex<Option<cuda_um::profile::MigrationCounter>>>,
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
        blocking::unblock(move || Self::initialize_blocking(config)).await
    }

    /// Opens the runtime and the device.
    ///
    /// # Errors
    /// [`CudaError::NoGpu`](crate::CudaError::NoGpu) with the reason in one line where a GPU is needed and there is none;
    /// [`CudaError::NoSuchDevice`](crate::CudaError::NoSuchDevice);
    /// [`CudaError::InvalidSetting`](crate::CudaError::InvalidSetting); and what CUDA reports.
    pub fn initialize_blocking(config: CudaBackendConfig) -> Result<Self> {
        let opened = runtime::open(config.runtime)?;
        let device = Arc::new(CudaDevice::open(opened, config.device)?);
        Ok(Self {
            device,
            oversubscription: config.oversubscription,
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

    /// Whether [`allocate_unified`](Self::allocate_unified) gives managed memory. Where not, it gives pinned memory.
    ///
    /// # Errors
    /// None today: what the device can do is read when it is opened.
    pub fn supports_unified_memory(&self) -> Result<bool> {
        Ok(self.device.unified_memory_obstacle().is_none())
    }

    /// A unified buffer of `len` zeros: managed memory, or, where that is poor, pinned memory
    /// ([`UnifiedBuffer::backing`] says which).
    ///
    /// # Errors
    /// [`CudaError::OutOfMemory`](crate::CudaError::OutOfMemory), also for more than the device has free unless
    /// [`CudaBackendConfig::oversubscription`] allows it; and what CUDA reports.
    #[doc(alias = "cudaMallocManaged")]
    pub fn allocate_unified<T: Element>(&self, len: usize) -> Result<UnifiedBuffer<T>> {
        UnifiedBuffer::allocate(Arc::clone(&self.device), len, self.oversubscription)
    }

    /// A buffer of `len` zeros in device memory; `dtype` must be that of `T`.
    ///
    /// # Errors
    /// As for [`CudaBuffer::new`].
    #[doc(alias = "cudaMalloc")]
    pub fn create_buffer<T: Element>(&self, len: usize, dtype: DType) -> Result<CudaBuffer<T>> {
        CudaBuffer::new(Arc::clone(&self.device), len, dtype)
    }

    /// A buffer of `len` zeros in pinned host memory that kernels use in place.
    ///
    /// # Errors
    /// As for [`PinnedBuffer::new`].
    #[doc(alias = "cudaHostAlloc")]
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

    /// [`UnifiedBuffer::prefetch_to_device`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_device<T: Element>(
        &self,
        buffer: &UnifiedBuffer<T>,
        device: Option<usize>,
    ) -> Result<Placement> {
        buffer.prefetch_to_device(device)
    }

    /// [`UnifiedBuffer::prefetch_to_host`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_host<T: Element>(&self, buffer: &UnifiedBuffer<T>) -> Result<Placement> {
        buffer.prefetch_to_host()
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

    /// Starts counting what managed memory costs, for [`migration_counters`](Self::migration_counters). The simulator always counts; on
    /// a GPU this needs the feature `profile` and CUPTI, of which a process has one, and which overlooks managed memory that was
    /// allocated before its first start (seen with CUDA 13.0 on an H200).
    ///
    /// # Errors
    /// [`CudaError::NotSupported`](crate::CudaError::NotSupported) without the feature, and why CUPTI does not count. The backend goes
    /// on without.
    #[doc(alias = "cuptiActivityConfigureUnifiedMemoryCounter")]
    pub fn start_counting(&self) -> Result<()> {
        if self.is_simulated() {
            return Ok(());
        }
        #[cfg(feature = "profile")]
        {
            let mut counter = self.counter.lock();
            if counter.is_none() {
                let runtime = self.device.as_cuda_um().runtime();
                *counter = Some(cuda_um::profile::MigrationCounter::start(runtime)?);
            }
            Ok(())
        }
        #[cfg(not(feature = "profile"))]
        Err(crate::CudaError::NotSupported {
            what: "counting migrations on a GPU".into(),
            needs: "um-backend with the feature `profile`".into(),
            have: "a build without it".into(),
        })
    }

    /// Ends what [`start_counting`](Self::start_counting) began on a GPU: collecting costs a little time.
    pub fn stop_counting(&self) {
        #[cfg(feature = "profile")]
        drop(self.counter.lock().take());
    }

    /// What managed memory cost so far, on all devices of the runtime. `None` on a GPU where nothing counts
    /// ([`start_counting`](Self::start_counting)).
    ///
    /// # Ordering
    /// Work that the device has not done yet is not counted yet: [`synchronize`](Self::synchronize) first.
    #[must_use]
    pub fn migration_counters(&self) -> Option<MigrationCounters> {
        #[cfg(feature = "profile")]
        if let Some(counter) = &*self.counter.lock() {
            return counter.read().ok().map(Into::into);
        }
        #[cfg(feature = "sim")]
        return self.simulator().map(|sim| sim.counters().into());
        #[cfg(not(feature = "sim"))]
        return None;
    }
}
