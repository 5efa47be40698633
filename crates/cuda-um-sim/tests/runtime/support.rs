//! A thin, checked way to call the table.

use std::ffi::CString;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_um_sim::{Builder, Sim};
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

impl Cuda {
    pub(crate) fn new(builder: Builder) -> Cuda {
        let sim = builder.build().unwrap();
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
        let blocks = match name {
            "read" | "write" | "add" => bytes.div_ceil(256 * 16).clamp(1, 1024),
            _ => 1,
        };
        let shape = Shape::of(blocks as u32, if blocks > 1 { 256 } else { 32 });
        assert_eq!(self.enqueue(function, shape, pointer, bytes, stream), 0);
    }

    pub(crate) fn try_launch(
        &self,
        function: CUfunction,
        pointer: *mut u8,
        bytes: usize,
        stream: cudaStream_t,
    ) -> u32 {
        self.enqueue(function, Shape::of(1, 32), pointer, bytes, stream)
    }

    fn enqueue(
        &self,
        function: CUfunction,
        shape: Shape,
        pointer: *mut u8,
        bytes: usize,
        stream: cudaStream_t,
    ) -> u32 {
        let (pointer, bytes) = (pointer as u64, bytes as u64);
        let arguments = [(&raw const pointer).cast(), (&raw const bytes).cast()];
        code(self.table.launch(function, shape, stream, arguments)).0
    }

    /// A kernel that touches a range, and the wait for it.
    pub(crate) fn run(&self, name: &str, pointer: *mut u8, bytes: usize) {
        self.launch(name, pointer, bytes, null_mut());
        self.sync(null_mut());
    }
}

/// Two words for the kernel `wait`: it waits for the first one, and tells with the second one that it runs.
#[derive(Clone, Copy)]
pub(crate) struct Gate(usize);

impl Gate {
    pub(crate) fn new(cuda: &Cuda) -> Gate {
        let words = cuda.pinned(8);
        bytes(words, 8).fill(0);
        Gate(words as usize)
    }

    /// The address, for a launch.
    pub(crate) fn words(self) -> usize {
        self.0
    }

    /// Launches the kernel, which also reads a byte of `data`.
    pub(crate) fn launch(self, cuda: &Cuda, data: *mut u8, stream: cudaStream_t) {
        cuda.launch("wait", data, self.0, stream);
    }

    /// Waits until the kernel runs.
    pub(crate) fn await_kernel(self) {
        while self.word(1).load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
    }

    /// Lets the kernel end.
    pub(crate) fn open(self) {
        self.word(0).store(1, Ordering::Release);
    }

    fn word<'a>(self, index: usize) -> &'a AtomicU32 {
        // SAFETY: an aligned word of live memory, which host and kernel access only in whole.
        unsafe { AtomicU32::from_ptr((self.0 as *mut u32).add(index)) }
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

/// The kernels of the tests.
pub(crate) const PTX: &str = include_str!("kernels.ptx");
