//! Functions of the driver: modules, kernels, launches, memset of wider elements.

use super::error::text;
use super::{Code, Cuda, Memory, Stream};
use crate::Failure;
use crate::{Machine, kernels};
use anyhow::{Context, Result, ensure};
use cuda_um_sys::{self as sys, DriverTable, Table};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const NAMES: [(&str, &CStr); 5] = [
    ("conf_add", c"conf_add"),
    ("conf_copy", c"conf_copy"),
    ("conf_wait", c"conf_wait"),
    ("conf_limited", c"conf_limited"),
    ("conf_trap", c"conf_trap"),
];

/// Shape of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

impl Shape {
    pub(crate) fn linear(count: usize) -> Self {
        Self {
            grid: [(count as u32).div_ceil(256).max(1), 1, 1],
            block: [256, 1, 1],
            shared_bytes: 0,
        }
    }
}

/// Loads every kernel on every device, before the cases: a kernel that is loaded lazily while another kernel spins would wait
/// for it.
pub(crate) fn load_kernels(machine: &Machine) -> Result<()> {
    let (table, driver) = (&machine.table, machine.table.driver()?);
    let mut kernels = machine.kernels.lock().expect("no case has run");
    for device in (0..machine.facts.devices as u32).rev() {
        let mut module = null_mut();
        // SAFETY: the device exists; the place is valid for one write; the image is a whole text.
        let code = unsafe {
            (table.cudaSetDevice)(device as i32);
            (table.cudaFree)(null_mut());
            (driver.cuModuleLoadData)(&mut module, kernels::PTX.as_ptr().cast())
        };
        ensure!(
            code.0 == 0,
            "kernels.ptx on device {device}: error {}",
            code.0
        );
        for (name, c_name) in NAMES {
            let (mut function, mut threads) = (null_mut(), 0);
            // SAFETY: the module is loaded, and never unloaded; the places are valid for one write.
            let code =
                unsafe { (driver.cuModuleGetFunction)(&mut function, module, c_name.as_ptr()) };
            ensure!(code.0 == 0, "{name}: error {}", code.0);
            // SAFETY: as above. A query of an attribute loads the kernel.
            unsafe {
                (driver.cuFuncGetAttribute)(&mut threads, sys::CUfunction_attribute(0), function);
            }
            kernels.insert((device, name), function as usize);
        }
    }
    Ok(())
}

/// `cuDeviceGet` and `cuDeviceGetName`
pub(crate) fn device_name(table: &Table, ordinal: i32) -> Result<String> {
    let driver = table.driver().context("no driver")?;
    let (mut device, mut name) = (0, [0; 256]);
    // SAFETY: the places are valid for the returned texts, and the last byte stays 0.
    unsafe {
        let code = (driver.cuDeviceGet)(&mut device, ordinal);
        ensure!(code.0 == 0, "cuDeviceGet: error {}", code.0);
        let code = (driver.cuDeviceGetName)(name.as_mut_ptr(), 255, device);
        ensure!(code.0 == 0, "cuDeviceGetName: error {}", code.0);
        Ok(text(name.as_ptr()))
    }
}

impl Cuda<'_> {
    pub(super) fn driver(&self) -> Result<&DriverTable, Failure> {
        self.table()
            .driver()
            .map_err(|error| Failure(error.to_string()))
    }

    fn kernel(&self, name: &'static str) -> Result<sys::CUfunction, Failure> {
        let device = self.current_device()? as u32;
        let kernels = self
            .machine
            .kernels
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        match kernels.get(&(device, name)) {
            Some(kernel) => Ok(*kernel as sys::CUfunction),
            None => super::fail(format!("{name} is not loaded on device {device}")),
        }
    }

    /// `cuLaunchKernel`
    ///
    /// The arguments match the kernel.
    /// The arguments are what the kernel takes.
    unsafe fn launch(
        &self,
        name: &'static str,
        shape: Shape,
        stream: &Stream<'_>,
        arguments: &mut [*mut c_void],
    ) -> Result<Code, Failure> {
        let kernel = self.kernel(name)?;
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        // SAFETY: the kernel and the stream are alive; the caller guarantees the arguments.
        let code = unsafe {
            (self.driver()?.cuLaunchKernel)(
                kernel,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                shape.shared_bytes,
                stream.raw() as _,
                arguments.as_mut_ptr(),
                null_mut(),
            )
        };
        Ok(Code(code.0))
    }

    /// Adds to every element of `memory`.
    pub(crate) fn add(
        &self,
        memory: &Memory<'_>,
        amount: u32,
        stream: &Stream<'_>,
    ) -> Result<(), Failure> {
        let code = self.add_range(memory, 0, memory.len(), amount, stream)?;
        self.ok("cuLaunchKernel conf_add", code)
    }

    /// Adds to `count` elements from `start` on.
    pub(crate) fn add_range(
        &self,
        memory: &Memory<'_>,
        start: usize,
        count: usize,
        amount: u32,
        stream: &Stream<'_>,
    ) -> Result<Code, Failure> {
        assert!(start + count <= memory.len(), "out of bounds");
        self.add_at(
            memory.address() + start * 4,
            count as u32,
            amount,
            Shape::linear(count),
            stream,
        )
    }

    /// The same for any address. An address outside of device memory is only for cases that must end in a sticky error.
    pub(crate) fn add_at(
        &self,
        address: usize,
        count: u32,
        amount: u32,
        shape: Shape,
        stream: &Stream<'_>,
    ) -> Result<Code, Failure> {
        let (mut data, mut count, mut amount) = (address as u64, count, amount);
        let arguments = &mut [
            (&raw mut data).cast(),
            (&raw mut count).cast(),
            (&raw mut amount).cast(),
        ];
        // SAFETY: an address, a count and an amount. The GPU refuses a bad address, in a separate process.
        unsafe { self.launch("conf_add", shape, stream, arguments) }
    }

    /// Copies elements by a kernel: reads all of `from`.
    pub(crate) fn read(
        &self,
        from: &Memory<'_>,
        to: &Memory<'_>,
        stream: &Stream<'_>,
    ) -> Result<(), Failure> {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        let (mut from_at, mut to_at) = (from.address() as u64, to.address() as u64);
        let mut count = from.len() as u32;
        let arguments = &mut [
            (&raw mut from_at).cast(),
            (&raw mut to_at).cast(),
            (&raw mut count).cast(),
        ];
        // SAFETY: two live allocations that are large enough.
        let code =
            unsafe { self.launch("conf_copy", Shape::linear(from.len()), stream, arguments) }?;
        self.ok("cuLaunchKernel conf_copy", code)
    }

    /// Waits on the stream until the flag is set, or the time limit is reached.
    pub(super) fn launch_wait(
        &self,
        flag: &Memory<'_>,
        nanoseconds: u64,
        stream: &Stream<'_>,
    ) -> Result<(), Failure> {
        let (mut flag_at, mut nanoseconds) = (flag.address() as u64, nanoseconds);
        let arguments = &mut [(&raw mut flag_at).cast(), (&raw mut nanoseconds).cast()];
        let shape = Shape {
            grid: [1; 3],
            block: [1; 3],
            shared_bytes: 0,
        };
        // SAFETY: two live words of mapped memory, which outlive the kernel because the gate waits for it.
        let code = unsafe { self.launch("conf_wait", shape, stream, arguments) }?;
        self.ok("cuLaunchKernel conf_wait", code)
    }

    /// The kernel with limits: 64 threads a block, 4096 bytes of shared memory. It writes 7 into the first element.
    pub(crate) fn launch_limited(
        &self,
        out: &Memory<'_>,
        shape: Shape,
        stream: &Stream<'_>,
    ) -> Result<Code, Failure> {
        let mut out_at = out.address() as u64;
        let arguments = &mut [(&raw mut out_at).cast()];
        // SAFETY: live memory of at least one element.
        unsafe { self.launch("conf_limited", shape, stream, arguments) }
    }

    /// The kernel that traps: only for cases that must end in a sticky error.
    pub(crate) fn launch_trap(&self, stream: &Stream<'_>) -> Result<Code, Failure> {
        // SAFETY: it takes no arguments.
        unsafe { self.launch("conf_trap", Shape::linear(1), stream, &mut []) }
    }

    /// `cuFuncGetAttribute` of `conf_limited`
    pub(crate) fn kernel_attribute(&self, attribute: u32) -> Result<(Code, i32), Failure> {
        let (kernel, mut value) = (self.kernel("conf_limited")?, -1);
        // SAFETY: the kernel is loaded; the place is valid for one write.
        let code = unsafe {
            (self.driver()?.cuFuncGetAttribute)(
                &mut value,
                sys::CUfunction_attribute(attribute),
                kernel,
            )
        };
        Ok((Code(code.0), value))
    }

    /// `cuFuncSetAttribute` of `conf_limited`
    pub(crate) fn set_kernel_attribute(&self, attribute: u32, value: i32) -> Result<Code, Failure> {
        let kernel = self.kernel("conf_limited")?;
        // SAFETY: the kernel is loaded.
        let code = unsafe {
            (self.driver()?.cuFuncSetAttribute)(kernel, sys::CUfunction_attribute(attribute), value)
        };
        Ok(Code(code.0))
    }

    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor` of a kernel.
    pub(crate) fn occupancy(
        &self,
        name: &'static str,
        threads: i32,
        shared_bytes: usize,
    ) -> Result<(Code, i32), Failure> {
        let (kernel, mut blocks) = (self.kernel(name)?, -1);
        // SAFETY: the kernel is loaded; the place is valid for one write.
        let code = unsafe {
            (self.driver()?.cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &mut blocks,
                kernel,
                threads,
                shared_bytes,
            )
        };
        Ok((Code(code.0), blocks))
    }

    /// `cuModuleLoadData` of a text: code and handle.
    pub(crate) fn load_module(&self, image: &CStr) -> Result<(Code, usize), Failure> {
        let mut module = null_mut();
        // SAFETY: the place is valid for one write; the image ends with NUL.
        let code = unsafe { (self.driver()?.cuModuleLoadData)(&mut module, image.as_ptr().cast()) };
        Ok((Code(code.0), module as usize))
    }

    /// `cuModuleLoadDataEx` of a text, with a buffer for errors; a module is unloaded. The code, the log, and its size as reported.
    pub(crate) fn log_of_module(
        &self,
        image: &CStr,
        room: usize,
    ) -> Result<(Code, String, usize), Failure> {
        use sys::CUjit_option_enum as Jit;
        let (driver, mut module) = (self.driver()?, null_mut());
        let mut log = vec![0u8; room];
        let mut options = [
            Jit::CU_JIT_ERROR_LOG_BUFFER,
            Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [log.as_mut_ptr().cast(), room as *mut c_void];
        // SAFETY: the place is valid for one write, the log for `room`; there are two options; the image ends with NUL.
        let code = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            (driver.cuModuleLoadDataEx)(&mut module, image.as_ptr().cast(), 2, options, values)
        };
        if code.0 == 0 {
            self.unload_module(module as usize)?;
        }
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        Ok((Code(code.0), text, values[1] as usize))
    }

    /// `cuFuncGetParamInfo`: the code, and the parameter's offset and size.
    pub(crate) fn kernel_parameter(
        &self,
        name: &'static str,
        index: usize,
    ) -> Result<(Code, (usize, usize)), Failure> {
        let kernel = self.kernel(name)?;
        let Some(get) = self.driver()?.cuFuncGetParamInfo else {
            return Err(Failure("there is no cuFuncGetParamInfo".to_owned()));
        };
        let (mut offset, mut bytes) = (0, 0);
        // SAFETY: the kernel is loaded; both places are valid for one write.
        let code = unsafe { get(kernel, index, &mut offset, &mut bytes) };
        Ok((Code(code.0), (offset, bytes)))
    }

    /// `cuModuleUnload` of a module from `load_module`, once.
    pub(crate) fn unload_module(&self, module: usize) -> Result<Code, Failure> {
        // SAFETY: the module is loaded, and no kernel of it runs.
        Ok(Code(
            unsafe { (self.driver()?.cuModuleUnload)(module as _) }.0,
        ))
    }

    /// `cuModuleGetFunction`
    pub(crate) fn module_function(&self, module: usize, name: &CStr) -> Result<Code, Failure> {
        let mut function = null_mut();
        // SAFETY: the module is loaded; the place is valid for one write.
        let code = unsafe {
            (self.driver()?.cuModuleGetFunction)(&mut function, module as _, name.as_ptr())
        };
        Ok(Code(code.0))
    }

    /// `cuDeviceGet`: code and handle.
    pub(crate) fn driver_device(&self, ordinal: i32) -> Result<(Code, i32), Failure> {
        let mut device = -1;
        // SAFETY: the place is valid for one write.
        let code = unsafe { (self.driver()?.cuDeviceGet)(&mut device, ordinal) };
        Ok((Code(code.0), device))
    }

    /// `cuDeviceGetName`
    pub(crate) fn device_name(&self) -> Result<String, Failure> {
        device_name(self.table(), 0).map_err(|error| Failure(error.to_string()))
    }

    /// `cuMemsetD8Async`, `cuMemsetD16Async` or `cuMemsetD32Async`, depending on the width, from a byte offset on.
    pub(crate) fn set_wide_async(
        &self,
        (memory, offset): (&Memory<'_>, usize),
        width: usize,
        value: u32,
        count: usize,
        stream: &Stream<'_>,
    ) -> Result<Code, Failure> {
        assert!(offset + width * count <= memory.bytes(), "out of bounds");
        let (driver, at, stream) = (
            self.driver()?,
            (memory.address() + offset) as u64,
            stream.raw(),
        );
        // SAFETY: live memory that is large enough; the cases wait before they read.
        let code = unsafe {
            match width {
                1 => (driver.cuMemsetD8Async)(at, value as u8, count, stream as _),
                2 => (driver.cuMemsetD16Async)(at, value as u16, count, stream as _),
                _ => (driver.cuMemsetD32Async)(at, value, count, stream as _),
            }
        };
        Ok(Code(code.0))
    }
}
