//! Functions of the driver: modules, kernel launches.

use crate::driver::api::Api;
use crate::driver::call::How::On;
use crate::driver::call::{OnStream, calls};
use crate::driver::check::Subject;
use crate::error::{Error, Result};
use cuda_um_sys::{self as sys, CUfunction, CUfunction_attribute, CUmodule, CUresult};
use smallvec::SmallVec;
use std::ffi::{CStr, c_void};

const LOG_BYTES: usize = 8192;

/// The most parameters of a kernel: each has at least a byte.
const MOST_PARAMETERS: usize = 32_764;

calls! {
    /// # Safety: the module is from `module_load` and is unloaded once. None of its kernels runs or will be launched.
    unsafe fn module_unload(ordinal, module: CUmodule)
        => [Releases] driver.cuModuleUnload(module);

    /// # Safety: the module is loaded.
    unsafe fn module_function(ordinal, module: CUmodule, name: &CStr) -> function: CUfunction
        => driver.cuModuleGetFunction(&mut function, module, name.as_ptr()),
        of ("kernel {}", name.to_string_lossy());

    /// # Safety: the function's module is loaded.
    unsafe fn set_function_attribute(
        ordinal,
        function: CUfunction,
        attribute: CUfunction_attribute,
        value: i32,
    )
        => driver.cuFuncSetAttribute(function, attribute, value),
        of ("attribute {} = {value}", attribute.0);
}

impl Api {
    /// Loads a module. The error has the log of the driver's compiler.
    /// # Safety: `image` points to an image that the driver's loader may read: PTX text with a NUL at its end, or the first byte of a complete
    /// binary image.
    pub(crate) unsafe fn module_load(
        &self,
        ordinal: u32,
        image: *const c_void,
    ) -> Result<sys::CUmodule> {
        use sys::CUjit_option_enum as Jit;
        let mut module = std::ptr::null_mut();
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [
            Jit::CU_JIT_ERROR_LOG_BUFFER,
            Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let call = self.begin("cuModuleLoadDataEx")?;
        let load = self.table.driver()?.cuModuleLoadDataEx;
        let load = || {
            let bytes = std::ptr::without_provenance_mut(LOG_BYTES);
            let mut values = [log.as_mut_ptr().cast(), bytes];
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            // SAFETY: the first pointer is valid for one write; the log has the bytes that its option says, and both arrays have two
            // elements; the image is guaranteed by the caller.
            unsafe { load(&mut module, image, 2, options, values) }
        };
        let subject = || Subject::new(format_args!("module on device {ordinal}"));
        call.run(On(ordinal), load, subject)
            .map_err(|error| error.with_details([one_line(&log)]))?;
        Ok(module)
    }

    /// Returns the sizes of the kernel's parameters in bytes, or `None` if the driver or the runtime is older than CUDA 12.4.
    /// # Safety: the function's module is loaded.
    pub(crate) unsafe fn function_parameters(
        &self,
        ordinal: u32,
        function: sys::CUfunction,
        name: &CStr,
    ) -> Result<Option<Vec<u32>>> {
        let call = self.begin("cuFuncGetParamInfo")?;
        let Some(get) = self.table.driver()?.cuFuncGetParamInfo else {
            return Ok(None);
        };
        let mut sizes = Vec::new();
        let get = || {
            sizes.clear();
            let (mut offset, mut bytes) = (0, 0);
            while sizes.len() < MOST_PARAMETERS {
                // SAFETY: both pointers are valid for one write; the function is guaranteed by the caller.
                let mut ask = || unsafe { get(function, sizes.len(), &mut offset, &mut bytes) };
                let code = match ask() {
                    // There is no such parameter, or the call failed: then the next one tells.
                    CUresult::CUDA_ERROR_INVALID_VALUE => ask(),
                    code => code,
                };
                match code {
                    CUresult::CUDA_SUCCESS => sizes.push(bytes as u32),
                    CUresult::CUDA_ERROR_INVALID_VALUE => break,
                    code => return code,
                }
            }
            CUresult::CUDA_SUCCESS
        };
        let name = || Subject::new(format_args!("kernel {}", name.to_string_lossy()));
        call.run(On(ordinal), get, name)?;
        Ok(Some(sizes))
    }

    /// # Safety: the function's module is loaded and the stream is live. The number, sizes and values of `parameters` match the kernel's. The
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
        stream: OnStream<'_>,
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
        let call = self.within(stream, "cuLaunchKernel");
        let launch = simulated.unwrap_or(self.table.driver()?.cuLaunchKernel);
        let ([x, y, z], [block_x, block_y, block_z]) = (*grid, *block);
        let launch = || {
            let (stream, parameters) = (stream.raw.cast(), parameters.as_mut_ptr());
            // SAFETY: guaranteed by the caller; no extra options are passed, or the arguments are declared, as `declared_launch` asks.
            unsafe {
                launch(
                    function,
                    x,
                    y,
                    z,
                    block_x,
                    block_y,
                    block_z,
                    shared_bytes,
                    stream,
                    parameters,
                    extra,
                )
            }
        };
        let kernel = move || {
            let text = format_args!("kernel {name}, grid {grid:?}, block {block:?}");
            Subject::new(text)
        };
        call.run(On(ordinal), launch, kernel).map_err(too_large)
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
pub(crate) fn one_line(log: &[u8]) -> String {
    let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join("; ")
}
