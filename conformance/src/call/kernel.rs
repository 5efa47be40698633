//! Launches of the kernels, and other functions of the driver.

use super::{At, Called, Calls, Code, Cuda, Memory, Shape, Stream, ok};
use crate::{Machine, kernels};
use anyhow::Result;
use cuda_um_sys as sys;
use cuda_um_testkit::call;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

/// Loads every kernel on every device, before the cases: a kernel that is loaded lazily while another kernel spins would wait
/// for it.
pub(crate) fn load_kernels(machine: &Machine) -> Result<()> {
    let table = &*machine.table;
    let mut kernels = machine.kernels.lock().expect("no case has run");
    for device in (0..machine.facts.devices as u32).rev() {
        for (image, names) in kernels::images(table) {
            table.set_device(device as i32)?;
            table.free(0)?;
            let module = table.module_load(image)?;
            for name in names {
                let kernel = table.module_function(module, name)?;
                // A query of an attribute loads the kernel.
                table.function_attribute(kernel, 0)?;
                kernels.insert((device, *name), kernel);
            }
        }
    }
    Ok(())
}

impl Cuda<'_> {
    /// A kernel on the current device.
    pub(crate) fn kernel(&self, name: &'static CStr) -> usize {
        let device = ok(self.current_device()) as u32;
        let kernels = self.machine.kernels.lock();
        let kernels = kernels.unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = kernels.get(&(device, name)).copied();
        found.unwrap_or_else(|| panic!("{name:?} is not loaded on device {device}"))
    }

    /// Adds to every element of `memory`.
    pub(crate) fn add(&self, memory: &Memory<'_>, amount: u32, stream: &Stream<'_>) {
        ok(self.add_range(memory, 0, memory.len(), amount, stream));
    }

    /// Adds to `count` elements from `start` on.
    pub(crate) fn add_range(
        &self,
        memory: &Memory<'_>,
        start: usize,
        count: usize,
        amount: u32,
        stream: &Stream<'_>,
    ) -> Called {
        assert!(start + count <= memory.len(), "out of bounds");
        let address = memory.at() + start * 4;
        self.add_at(address, count as u32, amount, Shape::linear(count), stream)
    }

    /// The same for any address. An address outside of device memory is only for cases that must end in a sticky error.
    pub(crate) fn add_at(
        &self,
        address: usize,
        count: u32,
        amount: u32,
        shape: Shape,
        stream: &Stream<'_>,
    ) -> Called {
        let data = address as u64;
        let arguments = [
            (&raw const data).cast(),
            (&raw const count).cast(),
            (&raw const amount).cast(),
        ];
        self.launch(self.kernel(c"conf_add"), shape, stream, arguments)
    }

    /// Copies elements by a kernel: reads all of `from`.
    pub(crate) fn read(&self, from: &Memory<'_>, to: &Memory<'_>, stream: &Stream<'_>) {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        let (data, out, count) = (from.at() as u64, to.at() as u64, from.len() as u32);
        let arguments = [
            (&raw const data).cast(),
            (&raw const out).cast(),
            (&raw const count).cast(),
        ];
        let shape = Shape::linear(from.len());
        ok(self.launch(self.kernel(c"conf_copy"), shape, stream, arguments));
    }

    /// Waits on the stream until the flag is set, or the time limit is reached.
    pub(super) fn launch_wait(&self, flag: &Memory<'_>, nanoseconds: u64, stream: &Stream<'_>) {
        let flag = flag.at() as u64;
        let arguments = [(&raw const flag).cast(), (&raw const nanoseconds).cast()];
        ok(self.launch(
            self.kernel(c"conf_wait"),
            Shape::of(1, 1),
            stream,
            arguments,
        ));
    }

    /// The kernel with limits: 64 threads a block, 4096 bytes of shared memory. It writes 7 into the first element.
    pub(crate) fn launch_limited(
        &self,
        out: &Memory<'_>,
        (threads, shared_bytes): (u32, u32),
        stream: &Stream<'_>,
    ) -> Called {
        let shape = Shape {
            shared_bytes,
            ..Shape::of(1, threads)
        };
        let out = out.at() as u64;
        let arguments = [(&raw const out).cast()];
        self.launch(self.kernel(c"conf_limited"), shape, stream, arguments)
    }

    /// The kernel that traps: only for cases that must end in a sticky error.
    pub(crate) fn launch_trap(&self, stream: &Stream<'_>) -> Called {
        self.launch(
            self.kernel(c"conf_trap"),
            Shape::linear(1),
            stream,
            [] as [*const c_void; 0],
        )
    }

    /// `cuModuleLoadDataEx` of a text, with a buffer for errors; a module is unloaded. The result, the log, and its size as reported.
    pub(crate) fn log_of_module(&self, image: &CStr, room: usize) -> (Called, String, usize) {
        use sys::CUjit_option_enum as Jit;
        let (load, mut module) = (self.driver().cuModuleLoadDataEx, null_mut());
        let mut log = vec![0u8; room];
        let mut options = [
            Jit::CU_JIT_ERROR_LOG_BUFFER,
            Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [log.as_mut_ptr().cast(), room as *mut c_void];
        let (chosen, given) = (options.as_mut_ptr(), values.as_mut_ptr());
        let got = call!(load(&mut module, image.as_ptr().cast(), 2, chosen, given));
        let got = Code(got.0, "cuModuleLoadDataEx").called();
        if got.is_ok() {
            ok(self.module_unload(module));
        }
        let text = log.split(|byte| *byte == 0).next().unwrap_or_default();
        (
            got,
            String::from_utf8_lossy(text).into_owned(),
            values[1] as usize,
        )
    }

    /// `cudaLaunchHostFunc` of a function that increments a counter.
    pub(crate) fn count_on(&self, counter: &'static AtomicU32, stream: &Stream<'_>) -> Called {
        unsafe extern "C" fn count(counter: *mut c_void) {
            // SAFETY: a counter that is never freed.
            unsafe { &*counter.cast::<AtomicU32>().cast_const() }.fetch_add(1, Ordering::SeqCst);
        }
        self.launch_host_function(stream, count, std::ptr::from_ref(counter))
    }
}

/// A counter that host functions increment, also after the case.
pub(crate) fn counter() -> &'static AtomicU32 {
    Box::leak(Box::default())
}

impl Stream<'_> {
    /// A kernel sets a condition to the first element of `memory`.
    pub(crate) fn set_condition(&self, memory: &Memory<'_>, condition: u64) -> &Self {
        let (c, data) = (self.cuda, memory.at() as u64);
        let arguments = [(&raw const data).cast(), (&raw const condition).cast()];
        let kernel = c.kernel(c"conf_set_condition");
        self.did(c.launch(kernel, Shape::linear(1), self, arguments))
    }
}
