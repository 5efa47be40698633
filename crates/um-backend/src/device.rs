//! A device, and where a buffer lives.

use std::fmt;
use std::sync::Arc;

use cuda_um::{Capabilities, MemoryInfo, Stream};

use crate::error::{CudaError, Result};
use crate::feature::CudaFeature;
use crate::runtime::{self, Opened, RuntimeChoice};

/// Managed memory migrates on access from this compute capability on (Pascal).
const FIRST_WITH_PAGE_FAULTS: (u32, u32) = (6, 0);

/// A CUDA device, real or simulated. Put it in an [`Arc`] and share it.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use um_backend::{CudaDevice, CudaFeature, DType, UnifiedBuffer};
///
/// let device = Arc::new(CudaDevice::new(0)?);
/// if device.supports_feature(CudaFeature::ManagedMemory)? {
///     let buffer = UnifiedBuffer::<f32>::new(device, 1024, DType::F32)?;
///     assert_eq!(buffer.as_slice()?.len(), 1024);
/// }
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Clone)]
pub struct CudaDevice {
    device: cuda_um::Device,
    stream: Stream,
    opened: Opened,
}

impl CudaDevice {
    /// The device with this ordinal, of the runtime that `CUDA_UM_RUNTIME` chooses ([`RuntimeChoice::Environment`]).
    ///
    /// # Errors
    /// [`CudaError::NoGpu`], [`CudaError::NoSuchDevice`], or another failure to open the runtime.
    #[doc(alias = "cudaGetDevice")]
    pub fn new(ordinal: usize) -> Result<Self> {
        Self::open(runtime::open(RuntimeChoice::Environment)?, ordinal)
    }

    /// Another device of the same runtime.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`], or another failure to open the device.
    pub fn sibling(&self, ordinal: usize) -> Result<Self> {
        Self::open(self.opened.clone(), ordinal)
    }

    pub(crate) fn open(opened: Opened, ordinal: usize) -> Result<Self> {
        let count = opened.runtime.device_count()?;
        let within = u32::try_from(ordinal).ok().filter(|_| ordinal < count);
        let device = opened
            .runtime
            .device(within.ok_or(CudaError::NoSuchDevice { ordinal, count })?)?;
        let stream = device.default_stream()?;
        Ok(Self {
            device,
            stream,
            opened,
        })
    }

    pub(crate) fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The device's number.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.device.ordinal() as usize
    }

    /// The device's name, as the driver gives it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// Whether the device has this capability.
    ///
    /// # Errors
    /// None today: what the device can do is read when it is opened.
    #[doc(alias = "cudaDeviceGetAttribute")]
    pub fn supports_feature(&self, feature: CudaFeature) -> Result<bool> {
        Ok(feature.is_among(self.capabilities()))
    }

    /// Everything the device can do, and its limits.
    #[must_use]
    pub fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    /// Free and total memory of the device.
    ///
    /// # Errors
    /// What `cudaMemGetInfo` reports.
    #[doc(alias = "cudaMemGetInfo")]
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        Ok(self.device.memory_info()?)
    }

    /// Waits for everything on the device.
    ///
    /// # Errors
    /// What `cudaDeviceSynchronize` reports: failures of earlier work as well.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.device.synchronize()?)
    }

    /// The stream that this crate's copies, fills and prefetches use. Launch on it or on a stream of your own: work on one
    /// buffer is ordered either way.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The device of the safe layer below: to load kernels and to make streams.
    #[must_use]
    pub fn as_cuda_um(&self) -> &cuda_um::Device {
        &self.device
    }

    /// Why unified memory on this device is better served by pinned memory; `None` where managed memory is good.
    #[must_use]
    pub fn unified_memory_obstacle(&self) -> Option<String> {
        let capabilities = self.capabilities();
        let (major, minor) = capabilities.compute_capability;
        if !capabilities.managed_memory {
            Some(format!("{} has no managed memory", self.name()))
        } else if capabilities.compute_capability < FIRST_WITH_PAGE_FAULTS {
            let reason = "managed memory cannot migrate on access before compute capability 6.0";
            Some(format!(
                "{} has compute capability {major}.{minor}: {reason}",
                self.name()
            ))
        } else {
            None
        }
    }

    /// Checks the ordinal of a device of the same runtime.
    pub(crate) fn checked_ordinal(&self, ordinal: usize) -> Result<u32> {
        checked_ordinal(&self.opened.runtime, ordinal)
    }
}

/// Checks the ordinal of a device of a runtime.
pub(crate) fn checked_ordinal(runtime: &cuda_um::Runtime, ordinal: usize) -> Result<u32> {
    let count = runtime.device_count()?;
    let within = u32::try_from(ordinal).ok().filter(|_| ordinal < count);
    within.ok_or(CudaError::NoSuchDevice { ordinal, count })
}

impl fmt::Debug for CudaDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CudaDevice")
            .field("ordinal", &self.ordinal())
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Where a buffer lives: [`Buffer::device`](crate::Buffer::device).
#[derive(Debug, Clone)]
pub enum BufferDevice {
    /// Plain memory of the CPU.
    Host,
    /// Memory of, or for, a CUDA device.
    Cuda(Arc<CudaDevice>),
}

impl BufferDevice {
    /// The CUDA device's ordinal; `None` for the host.
    #[must_use]
    pub fn ordinal(&self) -> Option<usize> {
        self.cuda().map(|device| device.ordinal())
    }

    /// The CUDA device; `None` for the host.
    #[must_use]
    pub fn cuda(&self) -> Option<&Arc<CudaDevice>> {
        match self {
            Self::Host => None,
            Self::Cuda(device) => Some(device),
        }
    }
}

impl fmt::Display for BufferDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => f.write_str("host"),
            Self::Cuda(device) => write!(f, "cuda:{}", device.ordinal()),
        }
    }
}
