//! A thin, checked way to call the table.

use std::ffi::CString;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use cuda_um_sim::{Builder, CpuReference, LaunchContext, ReferenceError, Sim};
use cuda_um_sys::{
    CUfunction, CUmodule, Table, cudaError, cudaEvent_t, cudaMemLocation, cudaMemcpyKind,
    cudaStream_t,
};

pub(crate) use cuda_um_testkit::call;
use cuda_um_testkit::call::{Called, Calls, Place, Shape};

pub(crate) const MIB: usize = 1 << 20;

/// Bytes of a page of the host, which on Arm may be larger than the simulator's 4 KiB.
pub(crate) fn host_page() -> usize {
    // SAFETY: no preconditions.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes).unwrap()
}

pub(crate) struct Cuda {
    pub(crate) sim: Sim,
    pub(crate) table: Arc<Table>,
}

pub(crate) fn h200() -> Cuda {
    Cuda::new(Sim::builder())
}

/// A simulator with a reference of its own for a kernel.
pub(crate) fn with_kernel(builder: Builder, name: &str, reference: CpuReference) -> Builder {
    // SAFETY: the kernels of the tests exist only as these references; tests launch them on memory that nothing else uses meanwhile.
    unsafe { builder.kernel(name, reference) }
}

impl Cuda {
    pub(crate) fn new(builder: Builder) -> Cuda {
        let builder = with_kernel(builder, "read", read);
        let builder = with_kernel(builder, "write", write);
        let builder = with_kernel(builder, "add", add);
        let sim = with_kernel(builder, "wild", wild).build().unwrap();
        let table = sim.table();
        Cuda { sim, table }
    }

    pub(crate) fn managed(&self, bytes: usize) -> *mut u8 {
        self.table.malloc_managed(bytes, 1).unwrap() as _
    }

    pub(crate) fn device(&self, bytes: usize) -> *mut u8 {
        self.table.malloc(bytes).unwrap() as _
    }

    pub(crate) fn pinned(&self, bytes: usize) -> *mut u8 {
        self.table.host_alloc(bytes, 0).unwrap() as _
    }

    pub(crate) fn free(&self, pointer: *mut u8) {
        self.table.free(pointer).unwrap();
    }

    pub(crate) fn stream(&self) -> cudaStream_t {
        self.table.stream_create(1).unwrap() as _
    }

    pub(crate) fn event(&self) -> cudaEvent_t {
        self.table.event_create(0).unwrap() as _
    }

    pub(crate) fn sync(&self, stream: cudaStream_t) {
        self.table.stream_synchronize(stream).unwrap();
    }

    pub(crate) fn prefetch(
        &self,
        pointer: *mut u8,
        bytes: usize,
        to: i32,
        stream: cudaStream_t,
    ) -> cudaError {
        let range = range(pointer, bytes);
        code(self.table.prefetch_range(range, place(to), stream))
    }

    pub(crate) fn advise(&self, pointer: *mut u8, bytes: usize, advice: u32, to: i32) -> cudaError {
        let range = range(pointer, bytes);
        code(self.table.advise_range(range, advice, place(to)))
    }

    pub(crate) fn copy(&self, to: *mut u8, from: *const u8, bytes: usize) {
        let kind = cudaMemcpyKind::cudaMemcpyDefault.0;
        self.table.memcpy(to, from, bytes, kind).unwrap();
    }

    pub(crate) fn kernel(&self, name: &str) -> CUfunction {
        self.module_and_kernel(name).1
    }

    pub(crate) fn module_and_kernel(&self, name: &str) -> (CUmodule, CUfunction) {
        let [image, name] = [PTX, name].map(|text| CString::new(text).unwrap());
        let module = self.table.module_load(&image).unwrap();
        let function = self.table.module_function(module, &name).unwrap();
        (module as _, function as _)
    }

    /// Launches a kernel of two parameters: pointer and number of bytes.
    pub(crate) fn launch(&self, name: &str, pointer: *mut u8, bytes: usize, stream: cudaStream_t) {
        let function = self.kernel(name);
        assert_eq!(self.try_launch(function, pointer, bytes, stream), 0);
    }

    pub(crate) fn try_launch(
        &self,
        function: CUfunction,
        pointer: *mut u8,
        bytes: usize,
        stream: cudaStream_t,
    ) -> u32 {
        let (pointer, bytes) = (pointer as u64, bytes as u64);
        let arguments = [(&raw const pointer).cast(), (&raw const bytes).cast()];
        let shape = Shape::of(1, 32);
        code(self.table.launch(function, shape, stream, arguments)).0
    }

    /// A kernel that touches a range, and the wait for it.
    pub(crate) fn run(&self, name: &str, pointer: *mut u8, bytes: usize) {
        self.launch(name, pointer, bytes, null_mut());
        self.sync(null_mut());
    }
}

/// Fails the test if `body` hangs.
pub(crate) fn within_a_minute(body: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(60)) {
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
    }
}

pub(crate) fn ok(error: cudaError) {
    assert_eq!(error, cudaError::cudaSuccess);
}

fn code(called: Called) -> cudaError {
    cudaError(called.err().map_or(0, |code| code.0))
}

fn place(to: i32) -> Place {
    match to {
        -1 => Place::HOST,
        device => Place::device(device),
    }
}

pub(crate) fn location(to: i32) -> cudaMemLocation {
    place(to).to_sys()
}

fn range(pointer: *mut u8, bytes: usize) -> Range<usize> {
    pointer as usize..pointer as usize + bytes
}

/// The host view of memory.
pub(crate) fn bytes<'a>(pointer: *mut u8, len: usize) -> &'a mut [u8] {
    // SAFETY: tests hand in host-accessible memory of at least this size, hold one slice of it at a time, and no kernel
    // runs on it then.
    unsafe { std::slice::from_raw_parts_mut(pointer, len) }
}

pub(crate) const PTX: &str = "
.version 6.4
.target sm_52
.address_size 64
.entry read(.param .u64 data, .param .u64 bytes) { ret; }
.entry write(.param .u64 data, .param .u64 bytes) { ret; }
.entry add(.param .u64 data, .param .u64 bytes) { ret; }
.entry wild(.param .u64 data, .param .u64 bytes) { ret; }
.entry scale(.param .u64 input, .param .u64 output, .param .u64 bytes) { ret; }
.entry custom(.param .u64 data, .param .u64 bytes) { ret; }
.entry unreferenced(.param .u64 data) { ret; }
";

fn read(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let len = launch.value::<u64>(1)? as usize;
    launch.slice::<u8>(0, len).map(drop)
}

fn write(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let len = launch.value::<u64>(1)? as usize;
    launch.slice_mut::<u8>(0, len)?.fill(7);
    Ok(())
}

fn add(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let len = launch.value::<u64>(1)? as usize;
    // SAFETY: tests launch it on memory of at least `len` bytes that nothing else uses meanwhile.
    for byte in unsafe { launch.system_slice_mut::<u8>(0, len)? } {
        *byte = byte.wrapping_add(1);
    }
    Ok(())
}

fn wild(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let len = launch.value::<u64>(1)? as usize;
    launch.slice::<u8>(0, len + 1).map(drop)
}
