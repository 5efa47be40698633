//! CUDA's functions, over the engine. The models call these; any other function ends the process.
#![allow(unsafe_code, reason = "functions of C")]
#![allow(non_snake_case, reason = "C names")]

use crate::models::engine::{Copy, Engine, engine};
use cuda_um_sys::{
    CUdevice, CUdeviceptr, CUresult, CUstream, Table, cudaDeviceAttr,
    cudaDriverEntryPointQueryResult, cudaError, cudaError_t, cudaEvent_t, cudaMemcpyKind,
    cudaPointerAttributes, cudaStream_t, cudaStreamCaptureMode,
};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr::without_provenance_mut;
use std::sync::{Arc, OnceLock};

/// The one table.
pub(super) fn table() -> Arc<Table> {
    static TABLE: OnceLock<Arc<Table>> = OnceLock::new();
    let table = TABLE.get_or_init(|| {
        let mut resolve = |name: &CStr| symbol(name).unwrap_or(unplayed as *const c_void);
        // SAFETY: the functions have the signatures of the same version.
        let table = unsafe { Table::from_symbols(Arc::new(()), None, &mut resolve) };
        Arc::new(table.expect("every function is there"))
    });
    Arc::clone(table)
}

extern "C" fn unplayed() -> ! {
    panic!("a model calls a function of CUDA that `table.rs` does not have");
}

/// What a function of the table returns for what it did.
trait Outcome {
    fn code(self) -> cudaError_t;
}

impl Outcome for () {
    fn code(self) -> cudaError_t {
        cudaError::cudaSuccess
    }
}

impl Outcome for Result<(), cudaError> {
    fn code(self) -> cudaError_t {
        self.err().unwrap_or(cudaError::cudaSuccess)
    }
}

/// True if the work is done.
impl Outcome for bool {
    fn code(self) -> cudaError_t {
        match self {
            true => cudaError::cudaSuccess,
            false => cudaError::cudaErrorNotReady,
        }
    }
}

/// Stores a result of a function at the caller's address.
fn store<T>(at: *mut T, value: T) {
    // SAFETY: CUDA's contract: the address is valid for one write.
    unsafe { *at = value };
}

fn store_handle<T>(at: *mut *mut T, handle: usize) {
    store(at, without_provenance_mut(handle));
}

/// The functions of the runtime, and `symbol`, which finds all functions by their names.
macro_rules! played {
    ($($others:ident)*; $($name:ident($($argument:ident: $kind:ty),*) => $does:expr;)*) => {
        $(extern "C" fn $name($($argument: $kind),*) -> cudaError_t {
            Outcome::code($does)
        })*

        fn symbol(name: &CStr) -> Option<*const c_void> {
            match name.to_str().ok()? {
                $(stringify!($others) => Some($others as *const c_void),)*
                $(stringify!($name) => Some($name as *const c_void),)*
                _ => None,
            }
        }
    };
}

played! {
    cudaGetErrorName cudaGetErrorString cuDeviceGet cuDeviceGetName cuStreamWriteValue32;

    cudaGetLastError() => ();
    cudaRuntimeGetVersion(version: *mut c_int) => store(version, 12_090);
    cudaGetDriverEntryPoint(name: *const c_char, function: *mut *mut c_void, _flags: c_ulonglong, _found: *mut cudaDriverEntryPointQueryResult) => {
        // SAFETY: CUDA's contract: a text that ends with NUL.
        let found = symbol(unsafe { CStr::from_ptr(name) }).unwrap_or(unplayed as *const c_void);
        store(function, found.cast_mut())
    };
    cudaGetDevice(device: *mut c_int) => store(device, 0);
    cudaSetDevice(_device: c_int) => ();
    cudaGetDeviceCount(count: *mut c_int) => store(count, 1);
    cudaDeviceGetAttribute(value: *mut c_int, attribute: cudaDeviceAttr, _device: c_int) => {
        let has = match attribute {
            cudaDeviceAttr::cudaDevAttrConcurrentManagedAccess => engine(|cuda| cuda.has_concurrent_access),
            cudaDeviceAttr::cudaDevAttrManagedMemory => true,
            _ => false,
        };
        store(value, c_int::from(has))
    };
    cudaDeviceSynchronize() => engine(Engine::wait_for_all);
    cudaMemGetInfo(free: *mut usize, total: *mut usize) => {
        store(free, 0);
        store(total, 0)
    };

    cudaStreamCreateWithFlags(stream: *mut cudaStream_t, _flags: c_uint) => store_handle(stream, engine(Engine::create_stream));
    cudaStreamDestroy(stream: cudaStream_t) => engine(|cuda| cuda.destroy_stream(stream.addr()));
    cudaStreamSynchronize(stream: cudaStream_t) => engine(|cuda| cuda.run(stream.addr()));
    cudaStreamQuery(stream: cudaStream_t) => engine(|cuda| cuda.is_stream_done(stream.addr()));
    cudaStreamWaitEvent(stream: cudaStream_t, event: cudaEvent_t, _flags: c_uint) => engine(|cuda| cuda.wait_in_stream(stream.addr(), event.addr()));

    cudaEventCreateWithFlags(event: *mut cudaEvent_t, _flags: c_uint) => store_handle(event, engine(Engine::create_event));
    cudaEventDestroy(event: cudaEvent_t) => engine(|cuda| cuda.destroy_event(event.addr()));
    cudaEventRecord(event: cudaEvent_t, stream: cudaStream_t) => engine(|cuda| cuda.record(event.addr(), stream.addr()));
    cudaEventQuery(event: cudaEvent_t) => engine(|cuda| cuda.is_event_done(event.addr()));
    cudaEventSynchronize(event: cudaEvent_t) => engine(|cuda| cuda.wait_for_event(event.addr()));

    cudaHostAlloc(memory: *mut *mut c_void, bytes: usize, _flags: c_uint) => store(memory, engine(|cuda| cuda.allocate_pinned(bytes)).cast());
    cudaFreeHost(memory: *mut c_void) => engine(|cuda| cuda.free_pinned(memory.addr()));
    cudaMalloc(memory: *mut *mut c_void, bytes: usize) => engine(|cuda| cuda.allocate(bytes)).map(|address| store_handle(memory, address));
    cudaFree(memory: *mut c_void) => engine(|cuda| cuda.free(memory.addr()));
    cudaMemcpyAsync(to: *mut c_void, from: *const c_void, bytes: usize, _kind: cudaMemcpyKind, stream: cudaStream_t) => {
        let (to, from) = (to.cast(), from.cast());
        engine(|cuda| cuda.copy(stream.addr(), Copy { to, from, bytes }))
    };
    // What older versions return for memory that CUDA does not know.
    cudaPointerGetAttributes(_attributes: *mut cudaPointerAttributes, _memory: *const c_void) => Err(cudaError::cudaErrorInvalidValue);

    cudaThreadExchangeStreamCaptureMode(_mode: *mut cudaStreamCaptureMode) => ();
}

extern "C" fn cudaGetErrorName(_: cudaError_t) -> *const c_char {
    c"played".as_ptr()
}

extern "C" fn cudaGetErrorString(_: cudaError_t) -> *const c_char {
    c"told to fail".as_ptr()
}

extern "C" fn cuDeviceGet(device: *mut CUdevice, _: c_int) -> CUresult {
    store(device, Default::default());
    CUresult::CUDA_SUCCESS
}

extern "C" fn cuDeviceGetName(_: *mut c_char, _: c_int, _: CUdevice) -> CUresult {
    CUresult::CUDA_SUCCESS
}

extern "C" fn cuStreamWriteValue32(
    stream: CUstream,
    address: CUdeviceptr,
    value: u32,
    _: c_uint,
) -> CUresult {
    engine(|cuda| cuda.run(stream.addr()));
    let flag = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: CUDA's contract: an aligned value in pinned memory, which the host accesses as an atomic.
    let flag = unsafe { std::sync::atomic::AtomicU32::from_ptr(flag) };
    flag.store(value, std::sync::atomic::Ordering::Release);
    CUresult::CUDA_SUCCESS
}
