//! Contexts and streams of both libraries.
#![allow(
    unsafe_code,
    reason = "adopts streams, and asks the driver for the primary context"
)]

use crate::error::{Error, Result};
use cuda_core::{Context, DriverError, IntoResult, Stream, sys};
use cuda_um::{Device, Runtime, kernel::KernelArg};
use std::sync::Arc;

/// A context of cuda-core and the device of cuda-um on the same GPU. A clone is the same pair.
#[derive(Clone, Debug)]
pub struct SharedContext {
    context: Arc<Context>,
    device: Device,
    /// No work is on it: accesses on it conflict with those on all other streams.
    exclusive: Arc<Stream>,
}

impl SharedContext {
    /// Joins a context of cuda-core with the runtime's device of the same ordinal.
    ///
    /// # Errors
    ///
    /// [`Error::NotPrimary`]; [`Error::OtherDriver`] if the device has another name or another size for the other library; `NotSupported` of
    /// cuda-um without concurrent managed access, because the kernels of cuda-core are not known; and the errors of [`Runtime::device`].
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn new(context: &Arc<Context>, runtime: &Runtime) -> Result<Self> {
        let ordinal = context.ordinal();
        if primary(context)? != context.cu_ctx() {
            return Err(Error::NotPrimary { ordinal });
        }
        let device = runtime.device(u32::try_from(ordinal).unwrap_or(u32::MAX))?;
        let words = |name: &str, bytes: usize| format!("{name} with {bytes} bytes");
        let cuda_core = words(&context.name()?, total_bytes(context)?);
        let cuda_um = words(device.name(), device.memory_info()?.total_bytes);
        if cuda_core != cuda_um {
            return Err(Error::OtherDriver {
                ordinal,
                cuda_core,
                cuda_um,
            });
        }
        if !device.capabilities().concurrent_managed_access {
            return Err(Error::Um(cuda_um::Error::NotSupported {
                what: "unified memory for cuda-core".to_owned(),
                needs: "concurrent managed access, because the kernels of cuda-core are not known"
                    .to_owned(),
                have: format!(
                    "device {ordinal} ({}), which does not have it",
                    device.name()
                ),
            }));
        }
        Ok(Self {
            exclusive: context.new_stream()?,
            context: Arc::clone(context),
            device,
        })
    }

    /// The device of cuda-um.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The context of cuda-core.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Makes a stream of cuda-core a stream of both libraries. The result keeps it alive.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`], and the errors of [`Device::adopt_stream`].
    pub fn adopt(&self, stream: &Arc<Stream>) -> Result<SharedStream> {
        self.check("the stream", stream.context())?;
        // SAFETY: the stream lives as long as its `Arc`, and this crate documents that streams are not captured.
        let ours = unsafe {
            self.device
                .adopt_stream(stream.cu_stream().cast(), Arc::clone(stream))
        }?;
        Ok(SharedStream {
            shared: self.clone(),
            ours,
            theirs: Arc::clone(stream),
        })
    }

    pub(crate) fn exclusive(&self) -> &Stream {
        &self.exclusive
    }

    pub(crate) fn check(&self, what: &'static str, context: &Context) -> Result<()> {
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

/// The primary context of the context's device.
fn primary(context: &Context) -> Result<sys::CUcontext, DriverError> {
    let mut primary = std::ptr::null_mut();
    // SAFETY: a live device; the context is released at once, and its address is only compared.
    unsafe {
        sys::cuDevicePrimaryCtxRetain(&mut primary, context.cu_device()).result()?;
        sys::cuDevicePrimaryCtxRelease_v2(context.cu_device()).result()?;
    }
    Ok(primary)
}

fn total_bytes(context: &Context) -> Result<usize, DriverError> {
    let mut bytes = 0;
    // SAFETY: a live device, and a place for the result.
    unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, context.cu_device()) }.result()?;
    Ok(bytes)
}

/// A stream of cuda-core on which cuda-um works, too: [`SharedContext::adopt`]. A clone is the same stream.
#[derive(Clone, Debug)]
pub struct SharedStream {
    shared: SharedContext,
    ours: cuda_um::Stream,
    theirs: Arc<Stream>,
}

impl SharedStream {
    /// The context and the device.
    pub fn shared(&self) -> &SharedContext {
        &self.shared
    }

    /// The stream for functions of cuda-um.
    pub fn ours(&self) -> &cuda_um::Stream {
        &self.ours
    }

    /// The stream for functions of cuda-core.
    pub fn theirs(&self) -> &Arc<Stream> {
        &self.theirs
    }

    /// Orders the stream after the buffer's uses, and the buffer's later uses after the stream. Returns the buffer's address.
    ///
    /// A capture of this thread does not record it, as it records no work of cuda-core.
    pub(crate) fn join(&self, buffer: impl KernelArg) -> cuda_um::Result<u64> {
        cuda_um::graph::outside(|| {
            // SAFETY: no work uses the buffer.
            unsafe {
                self.ours
                    .enqueue_foreign((buffer,), |work| work.pointer::<u8>(0) as u64)
            }
        })
    }
}
