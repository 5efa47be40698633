//! Modules: compiled kernels, loaded on a device.
#![allow(unsafe_code, reason = "passes images and handles to the driver")]

use crate::context::device::Device;
use crate::context::tracker::{Access, InFlight};
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use cuda_um_sys as sys;
use std::ffi::{CString, c_void};
use std::sync::Arc;

/// Kernels that are loaded on a device. It stays loaded while a clone, a [`Kernel`] of it, or a launch of such a kernel lives.
///
/// ```no_run
/// # let device = cuda_um::Runtime::open()?.device(0)?;
/// use cuda_um::Module;
///
/// let kernel = Module::load(&device, include_str!("../../tests/support/add.ptx"))?.kernel("add")?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "CUmodule")]
#[derive(Clone)]
pub struct Module {
    pub(crate) inner: Arc<Loaded>,
}

/// A kernel of a [`Module`].
#[doc(alias = "CUfunction")]
#[derive(Clone)]
pub struct Kernel {
    pub(crate) module: Arc<Loaded>,
    pub(crate) function: Function,
    pub(crate) name: Arc<str>,
    /// The sizes of its parameters, if they are known.
    pub(crate) parameters: Option<Arc<[u32]>>,
}

pub(crate) struct Loaded {
    pub(crate) device: Device,
    raw: Owned<sys::CUmodule>,
    pub(crate) in_flight: InFlight,
}

#[derive(Clone, Copy)]
pub(crate) struct Function(pub(crate) sys::CUfunction);

// SAFETY: the driver's handles may be used from any thread; they are only passed to the driver.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

impl Module {
    /// Loads PTX, which the driver compiles for the device
    /// ([`cuModuleLoadDataEx`](https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MODULE.html)). The call uses no stream.
    ///
    /// The text must be trusted: the driver's compiler reads it, and expects the output of compilers.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for text that contains a NUL, and the errors of `cuModuleLoadDataEx`: for PTX that is newer than the
    /// driver or the device, and for text that is not PTX. The error has the log of the driver's compiler.
    #[doc(alias = "cuModuleLoadData")]
    #[doc(alias = "cuModuleLoadDataEx")]
    pub fn load(device: &Device, ptx: &str) -> Result<Self> {
        let text = CString::new(ptx).map_err(|error| Error::InvalidArgument {
            what: "PTX",
            value: format!("a text with a NUL at byte {}", error.nul_position()),
            reason: "the driver would read only the part before the NUL".to_owned(),
        })?;
        if ptx.starts_with('\u{7f}') {
            return Err(Error::InvalidArgument {
                what: "PTX",
                value: "a binary image".to_owned(),
                reason: "the driver would believe the sizes in it: that is Module::load_image"
                    .to_owned(),
            });
        }
        // SAFETY: the text ends with a NUL, and the driver reads it only during the call; it does not begin like an image, so the driver
        // compiles it as PTX.
        unsafe { Self::load_at(device, text.as_ptr().cast()) }
    }

    /// Loads a binary image: a cubin or a fat binary. The call uses no stream.
    ///
    /// # Safety
    ///
    /// The bytes are a complete image from nvcc or ptxas: the driver does not check the sizes in it.
    ///
    /// # Errors
    ///
    /// The errors of `cuModuleLoadDataEx`: for an image without code for the device, and for bytes that are not an image.
    pub unsafe fn load_image(device: &Device, image: &[u8]) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::load_at(device, image.as_ptr().cast()) }
    }

    /// # Safety
    ///
    /// `image` is a text with a NUL at its end, or a complete image.
    unsafe fn load_at(device: &Device, image: *const c_void) -> Result<Self> {
        // SAFETY: the caller's promise.
        let raw = unsafe { device.api().module_load(device.ordinal(), image) }?;
        // SAFETY: the module is new, and `Loaded` waits for the launches of its kernels.
        let raw = unsafe { Owned::new(device.api(), device.ordinal(), raw) };
        Ok(Self {
            inner: Arc::new(Loaded {
                device: device.clone(),
                raw,
                in_flight: InFlight::default(),
            }),
        })
    }

    /// Returns the kernel with this name: the name after `.entry` in the PTX (with C++ linkage, the mangled one).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a name that contains a NUL, and the errors of `cuModuleGetFunction` for a name that the module does
    /// not have, or, on a simulator, for a kernel with an instruction that it lacks.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let text = CString::new(name).map_err(|_| Error::InvalidArgument {
            what: "the name of a kernel",
            value: format!("{name:?}"),
            reason: "it has a NUL in it".to_owned(),
        })?;
        let (api, ordinal) = (self.device().api(), self.device().ordinal());
        // SAFETY: the module is loaded.
        let function = unsafe { api.module_function(ordinal, self.inner.raw.raw(), &text) }?;
        // SAFETY: as above.
        let parameters = unsafe { api.function_parameters(ordinal, function, &text) }?;
        Ok(Kernel {
            module: Arc::clone(&self.inner),
            function: Function(function),
            name: name.into(),
            parameters: parameters.map(Arc::from),
        })
    }

    /// Returns the device on which the module is loaded.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl Kernel {
    /// Returns the kernel's name, as in [`Module::kernel`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the device on which the kernel is loaded.
    pub fn device(&self) -> &Device {
        &self.module.device
    }

    /// Returns the driver's handle, which is valid while a clone of the kernel or its module lives.
    pub fn as_raw(&self) -> sys::CUfunction {
        self.function.0
    }

    /// Allows launches with more dynamic shared memory than the default limit, up to `bytes` bytes.
    ///
    /// # Errors
    ///
    /// [`Error::LimitExceeded`] if the device has less, and the errors of `cuFuncSetAttribute`.
    #[doc(alias = "cuFuncSetAttribute")]
    pub fn allow_shared_bytes(&self, bytes: u32) -> Result<()> {
        let device = self.device();
        let limit = device.capabilities().shared_bytes_per_block_optin;
        if bytes > limit {
            let (value, limit) = (u64::from(bytes), u64::from(limit));
            return Err(Error::LimitExceeded {
                what: "shared memory of a block in bytes",
                value,
                limit,
            });
        }
        let attribute =
            sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        unsafe {
            device.api().set_function_attribute(
                device.ordinal(),
                self.function.0,
                attribute,
                bytes as i32,
            )
        }
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        let raw = self.raw.take();
        self.device
            .destroy_after(raw, || self.in_flight.before(Access::Write));
    }
}

debug!([] Module, "Module", |it| device: it.device().ordinal());

debug!([] Kernel, "Kernel", |it| name: it.name, device: it.device().ordinal());
