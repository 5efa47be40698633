//! Modules: compiled kernels, loaded on a device.
#![allow(unsafe_code, reason = "gives the driver images and handles")]

use crate::context::device::Device;
use crate::context::reclaim::Deferred;
use crate::context::tracker::{Access, InFlight};
use crate::error::{Error, Result};
use cuda_um_sys as sys;
use std::ffi::{CString, c_void};
use std::fmt;
use std::sync::Arc;

/// Kernels loaded on a device. A clone is the same module; it stays loaded while a clone, a [`Kernel`] of it, or a launch of one
/// lives.
///
/// ```no_run
/// # let device = cuda_um::Runtime::open()?.device(0)?;
/// use cuda_um::Module;
///
/// let module = Module::load(&device, include_str!("../tests/support/add.ptx"))?;
/// let kernel = module.kernel("add")?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "CUmodule")]
#[derive(Clone)]
pub struct Module {
    pub(crate) inner: Arc<Loaded>,
}

/// A kernel of a [`Module`], to be launched. A clone is the same kernel.
#[doc(alias = "CUfunction")]
#[derive(Clone)]
pub struct Kernel {
    pub(crate) module: Arc<Loaded>,
    pub(crate) function: Function,
    pub(crate) name: Arc<str>,
}

/// The module itself, and the launches that still use it.
pub(crate) struct Loaded {
    pub(crate) device: Device,
    raw: sys::CUmodule,
    pub(crate) in_flight: InFlight,
}

#[derive(Clone, Copy)]
pub(crate) struct Function(pub(crate) sys::CUfunction);

// SAFETY: the driver's handles may be used from any thread; they are only ever passed to the driver.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}
// SAFETY: as above.
unsafe impl Send for Loaded {}
// SAFETY: as above.
unsafe impl Sync for Loaded {}

/// What a kernel needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelAttributes {
    /// Most threads of a block, given the registers that it uses.
    pub max_threads_per_block: u32,
    /// Shared memory that the source declares, in bytes.
    pub static_shared_bytes: u32,
    /// Memory of each thread's own, in bytes.
    pub local_bytes: u32,
    /// Registers of each thread.
    pub registers: u32,
}

impl Module {
    /// Loads PTX, which the driver compiles for the device.
    ///
    /// The text is trusted: what its kernels do is promised at each launch, but the driver's compiler reads it here. It is written for
    /// what nvcc and other compilers write; load no text of strangers.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for text with a NUL in it, and what `cuModuleLoadData` reports: PTX that is newer than the
    /// driver or the device, or is not PTX.
    #[doc(alias = "cuModuleLoadData")]
    pub fn load(device: &Device, ptx: &str) -> Result<Self> {
        let text = CString::new(ptx).map_err(|error| Error::InvalidArgument {
            what: "PTX",
            value: format!("a text with a NUL at byte {}", error.nul_position()),
            reason: "the driver would read it to there alone".to_owned(),
        })?;
        if ptx.starts_with('\u{7f}') {
            return Err(Error::InvalidArgument {
                what: "PTX",
                value: "a binary image".to_owned(),
                reason: "the driver would believe the sizes in it: that is Module::load_image"
                    .to_owned(),
            });
        }
        // SAFETY: the text ends with a NUL, and the driver reads it during the call alone; it does not begin like an image, so it is
        // compiled as PTX.
        unsafe { Self::load_at(device, text.as_ptr().cast()) }
    }

    /// Loads a binary image: a cubin or a fat binary.
    ///
    /// # Safety
    ///
    /// The bytes are a whole image, as nvcc or ptxas wrote it: the driver believes the sizes in it.
    ///
    /// # Errors
    ///
    /// What `cuModuleLoadData` reports: no code for the device, or not an image.
    #[doc(alias = "cuModuleLoadData")]
    pub unsafe fn load_image(device: &Device, image: &[u8]) -> Result<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::load_at(device, image.as_ptr().cast()) }
    }

    /// # Safety
    ///
    /// A text with a NUL at its end, or a whole image.
    unsafe fn load_at(device: &Device, image: *const c_void) -> Result<Self> {
        // SAFETY: the caller's promise.
        let raw = unsafe { device.api().module_load(device.ordinal(), image) }?;
        Ok(Self {
            inner: Arc::new(Loaded {
                device: device.clone(),
                raw,
                in_flight: InFlight::default(),
            }),
        })
    }

    /// The kernel with this name: the name after `.entry` in the PTX (with C++ linkage, the mangled one).
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a name with a NUL in it, and what `cuModuleGetFunction` reports, for a name that the module
    /// has not.
    #[doc(alias = "cuModuleGetFunction")]
    pub fn kernel(&self, name: &str) -> Result<Kernel> {
        let text = CString::new(name).map_err(|_| Error::InvalidArgument {
            what: "the name of a kernel",
            value: format!("{name:?}"),
            reason: "it has a NUL in it".to_owned(),
        })?;
        let device = &self.inner.device;
        // SAFETY: the module is loaded.
        let function = unsafe {
            device
                .api()
                .module_function(device.ordinal(), self.inner.raw, &text)
        }?;
        Ok(Kernel {
            module: Arc::clone(&self.inner),
            function: Function(function),
            name: name.into(),
        })
    }

    /// The device that it is loaded on.
    pub fn device(&self) -> &Device {
        &self.inner.device
    }
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device that it is loaded on.
    pub fn device(&self) -> &Device {
        &self.module.device
    }

    /// What it needs.
    ///
    /// # Errors
    ///
    /// What `cuFuncGetAttribute` reports.
    #[doc(alias = "cuFuncGetAttribute")]
    pub fn attributes(&self) -> Result<KernelAttributes> {
        use sys::CUfunction_attribute_enum as Attribute;
        let device = self.device();
        let get = |attribute| {
            // SAFETY: the function's module is loaded.
            let value = unsafe {
                device
                    .api()
                    .function_attribute(device.ordinal(), self.function.0, attribute)
            }?;
            Ok::<_, Error>(u32::try_from(value).unwrap_or(0))
        };
        Ok(KernelAttributes {
            max_threads_per_block: get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            static_shared_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            registers: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
        })
    }

    /// Lets launches ask for more shared memory than every kernel may have.
    ///
    /// # Errors
    ///
    /// [`Error::LimitExceeded`] beyond what the device has, and what `cuFuncSetAttribute` reports.
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

    /// How many blocks of this size run on one multiprocessor at once.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] and [`Error::LimitExceeded`] for a block that the device cannot have, and what
    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor` reports.
    #[doc(alias = "cuOccupancyMaxActiveBlocksPerMultiprocessor")]
    pub fn resident_blocks(&self, threads_per_block: u32, shared_bytes: usize) -> Result<u32> {
        let device = self.device();
        device
            .capabilities()
            .check_block(u64::from(threads_per_block), shared_bytes as u64)?;
        let threads = i32::try_from(threads_per_block).unwrap_or(i32::MAX);
        // SAFETY: the function's module is loaded.
        let blocks = unsafe {
            device
                .api()
                .occupancy(device.ordinal(), self.function.0, threads, shared_bytes)
        }?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }
}

impl Drop for Loaded {
    fn drop(&mut self) {
        if self.device.api().origin.is_inherited() {
            return;
        }
        let uses = self.in_flight.before(Access::Write);
        let (api, ordinal, raw) = (
            Arc::clone(self.device.api()),
            self.device.ordinal(),
            Function(self.raw.cast()),
        );
        let release = move || {
            let raw = { raw };
            // SAFETY: the launches of its kernels were waited for, and nobody has the module any more.
            unsafe { api.module_unload(ordinal, raw.0.cast()) }
        };
        if uses.iter().all(|used| used.is_done().unwrap_or(false)) {
            if let Err(error) = release() {
                crate::telemetry::warn!(device = ordinal, %error, "a module could not be unloaded");
            }
            return;
        }
        let what = format!("a module on device {ordinal}");
        self.device.reclaim().defer(Deferred {
            uses,
            what,
            release: Box::new(release),
        });
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Module")
            .field("device", &self.device().ordinal())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.name)
            .field("device", &self.device().ordinal())
            .finish_non_exhaustive()
    }
}
