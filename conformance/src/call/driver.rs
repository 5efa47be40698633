//! Functions of the driver: modules, kernels, launches, memset of wider elements.

use super::error::text;
use super::{Code, Cuda, Memory, Stream};
use crate::Failure;
use crate::{Machine, kernels};
use anyhow::{Context, Result, ensure};
use cuda_um_sys::{self as sys, DriverTable, Table};
use cuda_um_testkit::call::{self, Shape};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

/// An image, the first version of CUDA that has all that its kernels call, and the kernels.
type Image = (
    &'static CStr,
    (u32, u32),
    &'static [(&'static str, &'static CStr)],
);

const IMAGES: [Image; 2] = [
    (
        kernels::PTX,
        (11, 8),
        &[
            ("conf_add", c"conf_add"),
            ("conf_copy", c"conf_copy"),
            ("conf_wait", c"conf_wait"),
            ("conf_limited", c"conf_limited"),
            ("conf_trap", c"conf_trap"),
        ],
    ),
    (
        kernels::CONDITIONS,
        (12, 3),
        &[("conf_set_condition", c"conf_set_condition")],
    ),
];

/// One thread for each element.
pub(crate) fn linear(count: usize) -> Shape {
    Shape::of((count as u32).div_ceil(256).max(1), 256)
}

/// The images that the version of the runtime has.
pub(crate) fn images(table: &Table) -> impl Iterator<Item = Image> + Clone {
    let version = (table.version().major, table.version().minor);
    IMAGES
        .into_iter()
        .filter(move |(_, since, _)| version >= *since)
}

/// Loads every kernel on every device, before the cases: a kernel that is loaded lazily while another kernel spins would wait
/// for it.
pub(crate) fn load_kernels(machine: &Machine) -> Result<()> {
    let (table, driver) = (&machine.table, machine.table.driver()?);
    let mut kernels = machine.kernels.lock().expect("no case has run");
    let devices = (0..machine.facts.devices as u32).rev();
    let images = devices.flat_map(|device| images(table).map(move |image| (device, image)));
    for (device, (image, _, names)) in images {
        let mut module = null_mut();
        call!(table, cudaSetDevice(device as i32));
        call!(table, cudaFree(null_mut()));
        let image = image.as_ptr().cast();
        let code = call!(driver, cuModuleLoadData(&mut module, image));
        ensure!(
            code == Code::SUCCESS,
            "the kernels on device {device}: error {}",
            code.0
        );
        for (name, c_name) in names {
            let (mut function, mut threads) = (null_mut(), 0);
            let code = call!(
                driver,
                cuModuleGetFunction(&mut function, module, c_name.as_ptr())
            );
            ensure!(code == Code::SUCCESS, "{name}: error {}", code.0);
            // A query of an attribute loads the kernel.
            let attribute = sys::CUfunction_attribute(0);
            call!(
                driver,
                cuFuncGetAttribute(&mut threads, attribute, function)
            );
            kernels.insert((device, name), function as usize);
        }
    }
    Ok(())
}

/// `cuDeviceGet` and `cuDeviceGetName`
pub(crate) fn device_name(table: &Table, ordinal: i32) -> Result<String> {
    let driver = table.driver().context("no driver")?;
    let (mut device, mut name) = (0, [0; 256]);
    let code = call!(driver, cuDeviceGet(&mut device, ordinal));
    ensure!(code == Code::SUCCESS, "cuDeviceGet: error {}", code.0);
    let code = call!(driver, cuDeviceGetName(name.as_mut_ptr(), 255, device));
    ensure!(code == Code::SUCCESS, "cuDeviceGetName: error {}", code.0);
    // SAFETY: the last byte stays 0.
    Ok(unsafe { text(name.as_ptr()) })
}

impl Cuda<'_> {
    pub(super) fn driver(&self) -> Result<&DriverTable, Failure> {
        self.table()
            .driver()
            .map_err(|error| Failure(error.to_string()))
    }

    pub(super) fn kernel(&self, name: &'static str) -> Result<sys::CUfunction, Failure> {
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

    /// `cuLaunchKernel` of a kernel that takes these arguments.
    pub(super) fn launch<const N: usize>(
        &self,
        name: &'static str,
        shape: Shape,
        stream: &Stream<'_>,
        arguments: [*const c_void; N],
    ) -> Result<Code, Failure> {
        let (driver, kernel, stream) = (self.driver()?, self.kernel(name)?, stream.raw() as _);
        Ok(Code(
            call::launch(driver, kernel, shape, stream, arguments).0,
        ))
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
            linear(count),
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
        let data = address as u64;
        let arguments = [
            (&raw const data).cast(),
            (&raw const count).cast(),
            (&raw const amount).cast(),
        ];
        self.launch("conf_add", shape, stream, arguments)
    }

    /// Copies elements by a kernel: reads all of `from`.
    pub(crate) fn read(
        &self,
        from: &Memory<'_>,
        to: &Memory<'_>,
        stream: &Stream<'_>,
    ) -> Result<(), Failure> {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        let (from_at, to_at) = (from.address() as u64, to.address() as u64);
        let count = from.len() as u32;
        let arguments = [
            (&raw const from_at).cast(),
            (&raw const to_at).cast(),
            (&raw const count).cast(),
        ];
        let code = self.launch("conf_copy", linear(from.len()), stream, arguments)?;
        self.ok("cuLaunchKernel conf_copy", code)
    }

    /// Waits on the stream until the flag is set, or the time limit is reached.
    pub(super) fn launch_wait(
        &self,
        flag: &Memory<'_>,
        nanoseconds: u64,
        stream: &Stream<'_>,
    ) -> Result<(), Failure> {
        let flag_at = flag.address() as u64;
        let arguments = [(&raw const flag_at).cast(), (&raw const nanoseconds).cast()];
        let shape = Shape::of(1, 1);
        let code = self.launch("conf_wait", shape, stream, arguments)?;
        self.ok("cuLaunchKernel conf_wait", code)
    }

    /// The kernel with limits: 64 threads a block, 4096 bytes of shared memory. It writes 7 into the first element.
    pub(crate) fn launch_limited(
        &self,
        out: &Memory<'_>,
        shape: Shape,
        stream: &Stream<'_>,
    ) -> Result<Code, Failure> {
        let out_at = out.address() as u64;
        let arguments = [(&raw const out_at).cast()];
        self.launch("conf_limited", shape, stream, arguments)
    }

    /// The kernel that traps: only for cases that must end in a sticky error.
    pub(crate) fn launch_trap(&self, stream: &Stream<'_>) -> Result<Code, Failure> {
        self.launch("conf_trap", linear(1), stream, [])
    }

    /// `cuFuncGetAttribute` of `conf_limited`
    pub(crate) fn kernel_attribute(&self, attribute: u32) -> Result<(Code, i32), Failure> {
        let (kernel, mut value) = (self.kernel("conf_limited")?, -1);
        let code = call!(
            self.driver()?,
            cuFuncGetAttribute(&mut value, sys::CUfunction_attribute(attribute), kernel)
        );
        Ok((code, value))
    }

    /// `cuFuncSetAttribute` of `conf_limited`
    pub(crate) fn set_kernel_attribute(&self, attribute: u32, value: i32) -> Result<Code, Failure> {
        let kernel = self.kernel("conf_limited")?;
        Ok(call!(
            self.driver()?,
            cuFuncSetAttribute(kernel, sys::CUfunction_attribute(attribute), value)
        ))
    }

    /// `cuOccupancyMaxActiveBlocksPerMultiprocessor` of a kernel.
    pub(crate) fn occupancy(
        &self,
        name: &'static str,
        threads: i32,
        shared_bytes: usize,
    ) -> Result<(Code, i32), Failure> {
        let (kernel, mut blocks) = (self.kernel(name)?, -1);
        let code = call!(
            self.driver()?,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, kernel, threads, shared_bytes)
        );
        Ok((code, blocks))
    }

    /// `cuModuleLoadData` of a text: code and handle.
    pub(crate) fn load_module(&self, image: &CStr) -> Result<(Code, usize), Failure> {
        let mut module = null_mut();
        let code = call!(
            self.driver()?,
            cuModuleLoadData(&mut module, image.as_ptr().cast())
        );
        Ok((code, module as usize))
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
        let (chosen, given) = (options.as_mut_ptr(), values.as_mut_ptr());
        let image = image.as_ptr().cast();
        let code = call!(
            driver,
            cuModuleLoadDataEx(&mut module, image, 2, chosen, given)
        );
        if code == Code::SUCCESS {
            self.unload_module(module as usize)?;
        }
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        let text = String::from_utf8_lossy(text).into_owned();
        Ok((code, text, values[1] as usize))
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
        let code = call!(get(kernel, index, &mut offset, &mut bytes));
        Ok((code, (offset, bytes)))
    }

    /// `cuModuleUnload` of a module from `load_module`, once.
    pub(crate) fn unload_module(&self, module: usize) -> Result<Code, Failure> {
        Ok(call!(self.driver()?, cuModuleUnload(module as _)))
    }

    /// `cuModuleGetFunction`
    pub(crate) fn module_function(&self, module: usize, name: &CStr) -> Result<Code, Failure> {
        let mut function = null_mut();
        Ok(call!(
            self.driver()?,
            cuModuleGetFunction(&mut function, module as _, name.as_ptr())
        ))
    }

    /// `cuDeviceGet`: code and handle.
    pub(crate) fn driver_device(&self, ordinal: i32) -> Result<(Code, i32), Failure> {
        let mut device = -1;
        let code = call!(self.driver()?, cuDeviceGet(&mut device, ordinal));
        Ok((code, device))
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
        Ok(match width {
            1 => call!(driver, cuMemsetD8Async(at, value as u8, count, stream as _)),
            2 => call!(
                driver,
                cuMemsetD16Async(at, value as u16, count, stream as _)
            ),
            _ => call!(driver, cuMemsetD32Async(at, value, count, stream as _)),
        })
    }

    /// `cuStreamWriteValue32` to a word of pinned memory.
    pub(crate) fn write_value(
        &self,
        (memory, index): (&Memory<'_>, usize),
        value: u32,
        stream: &Stream<'_>,
    ) -> Result<Code, Failure> {
        assert!(index < memory.len(), "out of bounds");
        let write = self.driver()?.cuStreamWriteValue32;
        let write = write.ok_or_else(|| Failure("there is no cuStreamWriteValue32".to_owned()))?;
        let at = memory.address() + index * size_of::<u32>();
        // A live word, which the cases access only as an atomic until they have synchronized.
        Ok(call!(write(stream.raw() as _, at as u64, value, 0)))
    }
}
