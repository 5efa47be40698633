//! Devices of the runtime that is configured.

use std::ops::Deref;

use cuda_um::{Device, Location, Stream};

#[cfg(doc)]
use crate::error::CudaError;
use crate::error::Result;
use crate::runtime::{self, Opened, RuntimeChoice};

/// A CUDA device, real or simulated, of the runtime that `CUDA_UM_RUNTIME` selects. It derefs to a [`Device`], which functions of `cuda_um` take.
///
/// # Examples
/// ```
/// use std::sync::Arc;
/// use um_backend::{CudaDevice, UnifiedBuffer};
///
/// let device = Arc::new(CudaDevice::new(0)?);
/// if device.capabilities().managed_memory {
///     let buffer = UnifiedBuffer::<f32>::zeroed(&device, 1024)?;
///     assert_eq!(buffer.host()?.len(), 1024);
/// }
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug, Clone)]
pub struct CudaDevice {
    device: Device,
    stream: Stream,
    opened: Opened,
}

impl CudaDevice {
    /// Opens the device with this ordinal, of the runtime that `CUDA_UM_RUNTIME` selects ([`RuntimeChoice::Environment`]).
    ///
    /// # Errors
    /// Errors of the kind [`NoGpu`](cuda_um::ErrorKind::NoGpu), [`CudaError::NoSuchDevice`], or another failure to open the runtime.
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

    pub(crate) fn open(opened: Opened, ordinal: usize) -> Result<Self> {
        let ordinal = opened.runtime.checked_ordinal(ordinal)?;
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

    /// The stream that this crate's copies and fills use. Kernels can use this or any other stream: the work on one buffer is ordered
    /// across streams.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

impl Deref for CudaDevice {
    type Target = Device;

    fn deref(&self) -> &Device {
        &self.device
    }
}

impl AsRef<Device> for CudaDevice {
    fn as_ref(&self) -> &Device {
        &self.device
    }
}

impl From<&CudaDevice> for Location {
    fn from(device: &CudaDevice) -> Self {
        (&device.device).into()
    }
}
