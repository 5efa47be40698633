//! CUDA's functions, over the engine. The models call these; any other function ends the process.
#![allow(unsafe_code, reason = "functions of C")]
#![allow(non_snake_case, reason = "C names")]

use crate::models::engine::{Copy, Engine, engine};
use cuda_um_sys::{
    CUdevice, CUdeviceptr, CUresult, CUstream, Table, cudaDeviceAttr,
    cudaDriverEntryPointQueryResult, cudaError, cudaError_t, cudaEvent_t, cudaGraph_t,
    cudaGraphExec_t, cudaGraphNode_t, cudaMemcpyKind, cudaPointerAttributes, cudaStream_t,
    cudaStreamCaptureMode, cudaStreamCaptureStatus,
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

fn symbol(name: &CStr) -> Option<*const c_void> {
    macro_rules! find {
        ($($function:ident)*) => {
            match name.to_str().ok()? {
                $(stringify!($function) => Some($function as *const c_void),)*
                _ => None,
            }
        };
    }
    find! {
        cudaRuntimeGetVersion cudaGetLastError cudaGetErrorName cudaGetErrorString cudaGetDriverEntryPoint
        cudaGetDevice cudaSetDevice cudaGetDeviceCount cudaDeviceGetAttribute cudaDeviceSynchronize cudaMemGetInfo
        cuDeviceGet cuDeviceGetName cuStreamWriteValue32
        cudaStreamCreateWithFlags cudaStreamDestroy cudaStreamSynchronize cudaStreamQuery cudaStreamWaitEvent
        cudaEventCreateWithFlags cudaEventDestroy cudaEventRecord cudaEventQuery cudaEventSynchronize
        cudaHostAlloc cudaFreeHost cudaMalloc cudaFree cudaMemcpyAsync cudaPointerGetAttributes
        cudaThreadExchangeStreamCaptureMode cudaStreamBeginCapture cudaStreamEndCapture cudaStreamGetCaptureInfo_v2
        cudaGraphInstantiateWithFlags cudaGraphLaunch cudaGraphDestroy cudaGraphExecDestroy
    }
}

fn code(outcome: Result<(), cudaError>) -> cudaError_t {
    outcome.err().unwrap_or(cudaError::cudaSuccess)
}

fn ready(is_ready: bool) -> cudaError_t {
    match is_ready {
        true => cudaError::cudaSuccess,
        false => cudaError::cudaErrorNotReady,
    }
}

/// Stores a result of a function at the caller's address.
macro_rules! store {
    ($at:expr, $value:expr) => {{
        // SAFETY: CUDA's contract: the address is valid for one write.
        unsafe { *$at = $value };
        cudaError::cudaSuccess
    }};
}

extern "C" fn cudaRuntimeGetVersion(version: *mut c_int) -> cudaError_t {
    store!(version, 12_090)
}

extern "C" fn cudaGetLastError() -> cudaError_t {
    cudaError::cudaSuccess
}

extern "C" fn cudaGetErrorName(_: cudaError_t) -> *const c_char {
    c"played".as_ptr()
}

extern "C" fn cudaGetErrorString(_: cudaError_t) -> *const c_char {
    c"told to fail".as_ptr()
}

extern "C" fn cudaGetDriverEntryPoint(
    name: *const c_char,
    function: *mut *mut c_void,
    _: c_ulonglong,
    _: *mut cudaDriverEntryPointQueryResult,
) -> cudaError_t {
    // SAFETY: CUDA's contract: a text that ends with NUL.
    let found = symbol(unsafe { CStr::from_ptr(name) }).unwrap_or(unplayed as *const c_void);
    store!(function, found.cast_mut())
}

extern "C" fn cudaGetDevice(device: *mut c_int) -> cudaError_t {
    store!(device, 0)
}

extern "C" fn cudaSetDevice(_: c_int) -> cudaError_t {
    cudaError::cudaSuccess
}

extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> cudaError_t {
    store!(count, 1)
}

extern "C" fn cudaDeviceGetAttribute(
    value: *mut c_int,
    attribute: cudaDeviceAttr,
    _: c_int,
) -> cudaError_t {
    let has = match attribute {
        cudaDeviceAttr::cudaDevAttrConcurrentManagedAccess => {
            engine(|cuda| cuda.has_concurrent_access)
        }
        cudaDeviceAttr::cudaDevAttrManagedMemory => true,
        _ => false,
    };
    store!(value, c_int::from(has))
}

extern "C" fn cuDeviceGet(device: *mut CUdevice, _: c_int) -> CUresult {
    store!(device, Default::default());
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
    engine(|cuda| cuda.wait_for_stream(stream.addr()));
    let flag = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: CUDA's contract: an aligned value in pinned memory, which the host accesses as an atomic.
    let flag = unsafe { std::sync::atomic::AtomicU32::from_ptr(flag) };
    flag.store(value, std::sync::atomic::Ordering::Release);
    CUresult::CUDA_SUCCESS
}

extern "C" fn cudaDeviceSynchronize() -> cudaError_t {
    engine(Engine::wait_for_all);
    cudaError::cudaSuccess
}

extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> cudaError_t {
    store!(free, 0);
    store!(total, 0)
}

extern "C" fn cudaStreamCreateWithFlags(stream: *mut cudaStream_t, _: c_uint) -> cudaError_t {
    store!(
        stream,
        without_provenance_mut(engine(Engine::create_stream))
    )
}

extern "C" fn cudaStreamDestroy(stream: cudaStream_t) -> cudaError_t {
    engine(|cuda| cuda.destroy_stream(stream.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaStreamSynchronize(stream: cudaStream_t) -> cudaError_t {
    engine(|cuda| cuda.wait_for_stream(stream.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaStreamQuery(stream: cudaStream_t) -> cudaError_t {
    ready(engine(|cuda| cuda.is_stream_done(stream.addr())))
}

extern "C" fn cudaStreamWaitEvent(
    stream: cudaStream_t,
    event: cudaEvent_t,
    _: c_uint,
) -> cudaError_t {
    engine(|cuda| cuda.wait_in_stream(stream.addr(), event.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaEventCreateWithFlags(event: *mut cudaEvent_t, _: c_uint) -> cudaError_t {
    store!(event, without_provenance_mut(engine(Engine::create_event)))
}

extern "C" fn cudaEventDestroy(event: cudaEvent_t) -> cudaError_t {
    engine(|cuda| cuda.destroy_event(event.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaEventRecord(event: cudaEvent_t, stream: cudaStream_t) -> cudaError_t {
    code(engine(|cuda| cuda.record(event.addr(), stream.addr())))
}

extern "C" fn cudaEventQuery(event: cudaEvent_t) -> cudaError_t {
    ready(engine(|cuda| cuda.is_event_done(event.addr())))
}

extern "C" fn cudaEventSynchronize(event: cudaEvent_t) -> cudaError_t {
    code(engine(|cuda| cuda.wait_for_event(event.addr())))
}

extern "C" fn cudaHostAlloc(memory: *mut *mut c_void, bytes: usize, _: c_uint) -> cudaError_t {
    store!(memory, engine(|cuda| cuda.allocate_pinned(bytes)).cast())
}

extern "C" fn cudaFreeHost(memory: *mut c_void) -> cudaError_t {
    engine(|cuda| cuda.free_pinned(memory.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaMalloc(memory: *mut *mut c_void, bytes: usize) -> cudaError_t {
    match engine(|cuda| cuda.allocate(bytes)) {
        Ok(address) => store!(memory, without_provenance_mut(address)),
        Err(error) => error,
    }
}

extern "C" fn cudaFree(memory: *mut c_void) -> cudaError_t {
    engine(|cuda| cuda.free(memory.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaMemcpyAsync(
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    _: cudaMemcpyKind,
    stream: cudaStream_t,
) -> cudaError_t {
    let copy = Copy {
        to: to.cast(),
        from: from.cast(),
        bytes,
    };
    code(engine(|cuda| cuda.copy(stream.addr(), copy)))
}

extern "C" fn cudaPointerGetAttributes(
    _: *mut cudaPointerAttributes,
    _: *const c_void,
) -> cudaError_t {
    // What older versions return for memory that CUDA does not know.
    cudaError::cudaErrorInvalidValue
}

extern "C" fn cudaStreamBeginCapture(
    stream: cudaStream_t,
    _: cudaStreamCaptureMode,
) -> cudaError_t {
    engine(|cuda| cuda.begin_capture(stream.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaStreamEndCapture(stream: cudaStream_t, graph: *mut cudaGraph_t) -> cudaError_t {
    let ended = engine(|cuda| cuda.end_capture(stream.addr()));
    store!(graph, without_provenance_mut(ended))
}

/// There are no nodes to tell.
extern "C" fn cudaStreamGetCaptureInfo_v2(
    _: cudaStream_t,
    status: *mut cudaStreamCaptureStatus,
    _: *mut c_ulonglong,
    _: *mut cudaGraph_t,
    _: *mut *const cudaGraphNode_t,
    _: *mut usize,
) -> cudaError_t {
    store!(
        status,
        cudaStreamCaptureStatus::cudaStreamCaptureStatusActive
    )
}

extern "C" fn cudaGraphInstantiateWithFlags(
    exec: *mut cudaGraphExec_t,
    graph: cudaGraph_t,
    _: c_ulonglong,
) -> cudaError_t {
    let made = engine(|cuda| cuda.instantiate(graph.addr()));
    store!(exec, without_provenance_mut(made))
}

extern "C" fn cudaGraphLaunch(exec: cudaGraphExec_t, stream: cudaStream_t) -> cudaError_t {
    engine(|cuda| cuda.launch_graph(exec.addr(), stream.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaGraphDestroy(graph: cudaGraph_t) -> cudaError_t {
    engine(|cuda| cuda.destroy_graph(graph.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaGraphExecDestroy(exec: cudaGraphExec_t) -> cudaError_t {
    engine(|cuda| cuda.destroy_graph(exec.addr()));
    cudaError::cudaSuccess
}

extern "C" fn cudaThreadExchangeStreamCaptureMode(_: *mut cudaStreamCaptureMode) -> cudaError_t {
    cudaError::cudaSuccess
}
