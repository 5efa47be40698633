//! Functions of the driver: modules, kernel launches.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::driver::current::Current;
use crate::error::{Error, Result};
use crate::process_end::Calls;
use cuda_um_sys as sys;
use smallvec::SmallVec;
use std::ffi::{CStr, c_void};

/// The bytes for the log of the driver's compiler.
const LOG_BYTES: usize = 8192;

/// The most parameters of a kernel: each has at least a byte.
const MOST_PARAMETERS: usize = 32_764;

impl Api {
    /// The table of the driver's functions.
    pub(super) fn driver(&self) -> Result<&sys::DriverTable> {
        // Check before the look-up: during the fork, another thread of the parent may have been in it.
        let _calls = Calls::of("a function of the driver")?;
        Ok(self.table.driver()?)
    }

    /// Calls a function of the driver while device `ordinal` is current.
    ///
    /// A thread without a context (it has made no runtime call that needs one) gets one, and the call is repeated, launches included. The
    /// repetition is safe: the driver returns "invalid context" for its arguments before it does anything, and failed work does not leave
    /// this error for a later call (a corrupted context reports the cause, a destroyed one 709).
    #[inline]
    pub(super) fn on_driver(
        &self,
        ordinal: u32,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        call: impl FnMut(&sys::DriverTable) -> sys::CUresult,
    ) -> Result<()> {
        let current = Current::set(self, ordinal, name)?;
        self.on_driver_current(current, ordinal, name, subject, call)
    }

    #[inline]
    fn on_driver_current(
        &self,
        _current: Current<'_>,
        ordinal: u32,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        mut call: impl FnMut(&sys::DriverTable) -> sys::CUresult,
    ) -> Result<()> {
        let driver = self.table.driver()?;
        let mut code = call(driver);
        // Only for this code: any other may come from earlier work, although the call succeeded.
        if code == sys::CUresult::CUDA_ERROR_INVALID_CONTEXT {
            self.bind(ordinal)?;
            code = call(driver);
        }
        self.check_driver(name, code, Some(ordinal), subject)
    }

    /// Loads a module. The error has the log of the driver's compiler, and the text that `explain` returns; its argument is true if there
    /// is a log.
    ///
    /// # Safety
    ///
    /// `image` points to an image that the driver's loader may read: PTX text with a NUL at its end, or the first byte of a complete
    /// binary image.
    pub(crate) unsafe fn module_load(
        &self,
        ordinal: u32,
        image: *const c_void,
        explain: impl FnOnce(bool) -> Option<String>,
    ) -> Result<sys::CUmodule> {
        use sys::CUjit_option_enum as Jit;
        let mut module = std::ptr::null_mut();
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            Jit::CU_JIT_ERROR_LOG_BUFFER,
            Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        self.on_driver(
            ordinal,
            "cuModuleLoadDataEx",
            || Subject::new(format_args!("module on device {ordinal}")),
            |driver| {
                let bytes = std::ptr::without_provenance_mut(LOG_BYTES);
                let mut values = [log.as_mut_ptr().cast(), bytes];
                let (count, options) = (values.len() as u32, options.as_mut_ptr());
                // SAFETY: the first pointer is valid for one write; the log has the bytes that its option says, and both arrays have
                // `count` elements; the image is guaranteed by the caller.
                unsafe {
                    (driver.cuModuleLoadDataEx)(
                        &mut module,
                        image,
                        count,
                        options,
                        values.as_mut_ptr(),
                    )
                }
            },
        )
        .map_err(|error| {
            let log = one_line(&log);
            let explained = explain(!log.is_empty());
            error.with_details([log, explained.unwrap_or_default()])
        })?;
        Ok(module)
    }

    /// # Safety
    ///
    /// The module is from `module_load` and is unloaded once. None of its kernels runs or will be launched.
    pub(crate) unsafe fn module_unload(&self, ordinal: u32, module: sys::CUmodule) -> Result<()> {
        let current = Current::set_for_release(self, ordinal, "cuModuleUnload")?;
        self.on_driver_current(
            current,
            ordinal,
            "cuModuleUnload",
            || Subject::device(ordinal),
            // SAFETY: guaranteed by the caller.
            |driver| unsafe { (driver.cuModuleUnload)(module) },
        )
    }

    /// # Safety
    ///
    /// The module is loaded.
    pub(crate) unsafe fn module_function(
        &self,
        ordinal: u32,
        module: sys::CUmodule,
        name: &CStr,
    ) -> Result<sys::CUfunction> {
        let mut function = std::ptr::null_mut();
        self.on_driver(
            ordinal,
            "cuModuleGetFunction",
            || Subject::new(format_args!("kernel {}", name.to_string_lossy())),
            // SAFETY: the first pointer is valid for one write, the name is NUL-terminated, the module is guaranteed by the caller.
            |driver| unsafe { (driver.cuModuleGetFunction)(&mut function, module, name.as_ptr()) },
        )?;
        Ok(function)
    }

    /// Returns the sizes of the kernel's parameters in bytes, or `None` if the driver or the runtime is older than CUDA 12.4.
    ///
    /// # Safety
    ///
    /// The function's module is loaded.
    pub(crate) unsafe fn function_parameters(
        &self,
        ordinal: u32,
        function: sys::CUfunction,
        name: &CStr,
    ) -> Result<Option<Vec<u32>>> {
        let Some(get) = self.driver()?.cuFuncGetParamInfo else {
            return Ok(None);
        };
        let mut sizes = Vec::new();
        self.on_driver(
            ordinal,
            "cuFuncGetParamInfo",
            || Subject::new(format_args!("kernel {}", name.to_string_lossy())),
            |_| {
                sizes.clear();
                let (mut offset, mut bytes) = (0, 0);
                while sizes.len() < MOST_PARAMETERS {
                    // SAFETY: both pointers are valid for one write; the function is guaranteed by the caller.
                    match unsafe { get(function, sizes.len(), &mut offset, &mut bytes) } {
                        sys::CUresult::CUDA_SUCCESS => sizes.push(bytes as u32),
                        // There is no such parameter.
                        sys::CUresult::CUDA_ERROR_INVALID_VALUE => break,
                        code => return code,
                    }
                }
                sys::CUresult::CUDA_SUCCESS
            },
        )?;
        Ok(Some(sizes))
    }

    /// # Safety
    ///
    /// The function's module is loaded.
    pub(crate) unsafe fn function_attribute(
        &self,
        ordinal: u32,
        function: sys::CUfunction,
        attribute: sys::CUfunction_attribute,
    ) -> Result<i32> {
        let mut value = 0;
        self.on_driver(
            ordinal,
            "cuFuncGetAttribute",
            || Subject::new(format_args!("attribute {}", attribute.0)),
            // SAFETY: the first pointer is valid for one write; the function is guaranteed by the caller.
            |driver| unsafe { (driver.cuFuncGetAttribute)(&mut value, attribute, function) },
        )?;
        Ok(value)
    }

    /// # Safety
    ///
    /// The function's module is loaded.
    pub(crate) unsafe fn set_function_attribute(
        &self,
        ordinal: u32,
        function: sys::CUfunction,
        attribute: sys::CUfunction_attribute,
        value: i32,
    ) -> Result<()> {
        self.on_driver(
            ordinal,
            "cuFuncSetAttribute",
            || Subject::new(format_args!("attribute {} = {value}", attribute.0)),
            // SAFETY: guaranteed by the caller.
            |driver| unsafe { (driver.cuFuncSetAttribute)(function, attribute, value) },
        )
    }

    /// The number of blocks of the kernel that one multiprocessor can run at once.
    ///
    /// # Safety
    ///
    /// The function's module is loaded.
    pub(crate) unsafe fn occupancy(
        &self,
        ordinal: u32,
        function: sys::CUfunction,
        block: i32,
        shared_bytes: usize,
    ) -> Result<i32> {
        let mut blocks = 0;
        self.on_driver(
            ordinal,
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            || Subject::new(format_args!("blocks of {block} threads")),
            // SAFETY: the first pointer is valid for one write; the function is guaranteed by the caller.
            |driver| unsafe {
                (driver.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                    &mut blocks,
                    function,
                    block,
                    shared_bytes,
                )
            },
        )?;
        Ok(blocks)
    }

    /// # Safety
    ///
    /// The function's module is loaded and the stream is live. The number, sizes and values of `parameters` match the kernel's. The
    /// memory that they point to stays valid until the kernel is done, and no other code uses it in a data race until then. `declare`
    /// returns as many arguments; it is called only for a simulator.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "what the C function takes")]
    pub(crate) unsafe fn launch(
        &self,
        ordinal: u32,
        function: sys::CUfunction,
        name: &str,
        (grid, block, shared_bytes): (&[u32; 3], &[u32; 3], u32),
        stream: sys::cudaStream_t,
        parameters: &mut [*mut c_void],
        declare: impl FnOnce() -> SmallVec<[sys::DeclaredArgument; 16]>,
    ) -> Result<()> {
        let simulated = self.table.declared_launch();
        let declared;
        let mut extra = std::ptr::null_mut();
        if simulated.is_some() {
            declared = declare();
            extra = declared.as_ptr().cast_mut().cast();
        }
        self.on_driver(
            ordinal,
            "cuLaunchKernel",
            || {
                Subject::new(format_args!(
                    "kernel {name}, grid {grid:?}, block {block:?}"
                ))
            },
            // SAFETY: guaranteed by the caller; no extra options are passed, or the arguments are declared, as `declared_launch` asks.
            |driver| unsafe {
                simulated.unwrap_or(driver.cuLaunchKernel)(
                    function,
                    grid[0],
                    grid[1],
                    grid[2],
                    block[0],
                    block[1],
                    block[2],
                    shared_bytes,
                    stream.cast(),
                    parameters.as_mut_ptr(),
                    extra,
                )
            },
        )
        .map_err(too_large)
    }
}

/// Adds the reason to the error "out of resources": the launch is too large, not the memory.
#[cold]
fn too_large(mut error: Error) -> Error {
    if let Error::Call {
        code: 701, subject, ..
    } = &mut error
    {
        subject.push_str(": too many registers or threads");
    }
    error
}

/// The text before the first NUL, in one line.
fn one_line(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}
