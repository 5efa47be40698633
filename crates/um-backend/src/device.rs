//! Devices, and the place of a buffer.

use std::fmt;
use std::sync::Arc;

use cuda_um::{Capabilities, Stream, resource::MemoryInfo};

use crate::error::{CudaError, Result};
use crate::runtime::{self, Opened, RuntimeChoice};

/// A CUDA device, real or simulated. Share it in an [`Arc`].
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use um_backend::{CudaDevice, UnifiedBuffer};
///
/// let device = Arc::new(CudaDevice::new(0)?);
/// if device.capabilities().managed_memory {
///     let buffer = UnifiedBuffer::<f32>::zeroed(device, 1024)?;
///     assert_eq!(buffer.host()?.len(), 1024);
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
    /// Opens the device with this ordinal, of the runtime that `CUDA_UM_RUNTIME` selects ([`RuntimeChoice::Environment`]).
    ///
    /// # Errors
    /// [`CudaError::NoGpu`], [`CudaError::NoSuchDevice`], or another failure to open the runtime.
    #[doc(alias = "cudaGetDevice")]
    pub fn new(ordinal: usize) -> Result<Self> {
        Self::open(runtime::open(RuntimeChoice::Environment)?, ordinal)
    }

    /// Opens another device of the same runtime.
    ///
    /// # Errors
    /// [`CudaError::NoSuchDevice`], or another failure to open the device.
    pub fn sibling(&self, ordinal: usize) -> Result<Self> {
        Self::open(self.opened.clone(), ordinal)
    }

    /// Refuses memory of another device.
    pub(crate) fn check_owns(&self, found: &cuda_um::Device) -> Result<()> {
        let (expected, found) = (self.device.ordinal(), found.ordinal());
        if expected != found {
            let what = "the buffer";
            return Err(cuda_um::Error::DeviceMismatch {
                what,
                expected,
                found,
            }
            .into());
        }
        Ok(())
    }

    pub(crate) fn open(opened: Opened, ordinal: usize) -> Result<Self> {
        let ordinal = checked_ordinal(&opened.runtime, ordinal)?;
        let device = opened.runtime.device(ordinal)?;
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

    /// The device's ordinal.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        self.device.ordinal() as usize
    }

    /// The device's name, from the driver.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// The capabilities and limits of the device.
    #[must_use]
    #[doc(alias = "cudaDeviceGetAttribute")]
    pub fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    /// Free and total memory of the device.
    ///
    /// # Errors
    /// Errors of `cudaMemGetInfo`.
    #[doc(alias = "cudaMemGetInfo")]
    pub fn memory_info(&self) -> Result<MemoryInfo> {
        Ok(self.device.memory_info()?)
    }

    /// Waits for all work on the device.
    ///
    /// # Errors
    /// Errors of `cudaDeviceSynchronize`, also of earlier work.
    #[doc(alias = "cudaDeviceSynchronize")]
    pub fn synchronize(&self) -> Result<()> {
        Ok(self.device.synchronize()?)
    }

    /// The stream that this crate's copies and fills use. Kernels can use this or any other stream: the work on one buffer is ordered
    /// across streams.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The device of the safe layer below, for modules and streams.
    #[must_use]
    pub fn as_cuda_um(&self) -> &cuda_um::Device {
        &self.device
    }

    /// The reason why unified buffers on this device use mapped pinned memory, or `None` if its managed memory is good.
    #[must_use]
    pub fn unified_memory_obstacle(&self) -> Option<String> {
        self.device.managed_memory_obstacle()
    }
}

/// Checks that a runtime has a device with this ordinal.
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

/// The place of a buffer: [`Buffer::device`](crate::Buffer::device).
#[derive(Debug, Clone)]
pub enum BufferDevice {
    /// Plain memory of the CPU.
    Host,
    /// Memory of a CUDA device, or host memory allocated for one.
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
