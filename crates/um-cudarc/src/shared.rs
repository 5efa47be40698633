//! Devices and streams of both libraries.
#![allow(unsafe_code, reason = "adopts streams of cudarc, and makes slices")]

use crate::error::{Error, Result};
use cuda_um::{Device, Runtime, Stream};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream};
use std::sync::Arc;

/// A context of cudarc and the device of cuda-um on the same GPU. A clone is the same pair.
#[derive(Clone, Debug)]
pub struct SharedDevice {
    context: Arc<CudaContext>,
    device: Device,
}

impl SharedDevice {
    /// Joins a context of cudarc with the runtime's device of the same ordinal.
    ///
    /// # Errors
    ///
    /// [`Error::NotPrimary`]; [`Error::OtherDriver`] if the device has another name or another size for the other library; and the errors of
    /// [`Runtime::device`].
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn new(context: &Arc<CudaContext>, runtime: &Runtime) -> Result<Self> {
        let ordinal = context.ordinal();
        if !context.is_primary() {
            return Err(Error::NotPrimary { ordinal });
        }
        let device = runtime.device(u32::try_from(ordinal).unwrap_or(u32::MAX))?;
        let cudarc = (context.name()?, context.total_mem()?);
        let cuda_um = (device.name().to_owned(), device.memory_info()?.total_bytes);
        if cudarc != cuda_um {
            let words = |(name, bytes)| format!("{name} with {bytes} bytes");
            return Err(Error::OtherDriver {
                ordinal,
                cudarc: words(cudarc),
                cuda_um: words(cuda_um),
            });
        }
        Ok(Self {
            context: Arc::clone(context),
            device,
        })
    }

    /// The device of cuda-um.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The context of cudarc.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Makes a stream of cudarc a stream of both libraries. The result keeps it alive.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`], and the errors of [`Device::adopt_stream`], which refuses [`CudaContext::per_thread_stream`].
    pub fn adopt(&self, stream: &Arc<CudaStream>) -> Result<SharedStream> {
        self.check("the stream", stream.context())?;
        // SAFETY: the stream lives as long as its `Arc`, and this crate documents that streams are not captured.
        let ours = unsafe {
            self.device
                .adopt_stream(stream.cu_stream().cast(), Arc::clone(stream))
        }?;
        Ok(SharedStream {
            device: self.clone(),
            ours,
            theirs: Arc::clone(stream),
        })
    }

    /// Refuses a device on which the host must not touch managed memory while cudarc works.
    pub(crate) fn check_concurrent(&self) -> Result<()> {
        if self.device.capabilities().concurrent_managed_access {
            return Ok(());
        }
        Err(Error::Um(cuda_um::Error::NotSupported {
            what: "managed memory that cudarc uses".to_owned(),
            needs: "concurrent managed access, because the kernels of cudarc are not known"
                .to_owned(),
            have: format!(
                "device {} ({}), which does not have it",
                self.device.ordinal(),
                self.device.name()
            ),
        }))
    }

    pub(crate) fn check(&self, what: &'static str, context: &CudaContext) -> Result<()> {
        if *context == *self.context {
            return Ok(());
        }
        Err(Error::OtherContext {
            what,
            expected: self.context.ordinal(),
            found: context.ordinal(),
        })
    }
}

/// A stream of cudarc on which cuda-um works, too: [`SharedDevice::adopt`]. A clone is the same stream.
#[derive(Clone, Debug)]
pub struct SharedStream {
    device: SharedDevice,
    ours: Stream,
    theirs: Arc<CudaStream>,
}

impl SharedStream {
    /// The device.
    pub fn device(&self) -> &SharedDevice {
        &self.device
    }

    /// The stream for functions of cuda-um.
    pub fn ours(&self) -> &Stream {
        &self.ours
    }

    /// The stream for functions of cudarc.
    pub fn theirs(&self) -> &Arc<CudaStream> {
        &self.theirs
    }

    /// Returns the error that would be a panic of cudarc in [`slice_at`](Self::slice_at).
    pub(crate) fn can_make_slices(&self) -> Result<()> {
        let context = self.theirs.context();
        Ok(context.new_event(None).map(drop)?)
    }

    /// # Safety
    ///
    /// As for `CudaStream::upgrade_device_ptr`.
    pub(crate) unsafe fn slice_at<T>(&self, address: u64, len: usize) -> CudaSlice<T> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.theirs.upgrade_device_ptr(address, len) }
    }
}
