//! Counts the instructions of the library's hot calls, over a CUDA whose functions do nothing: no GPU is needed, and the figures repeat exactly.
//!
//! `um_instructions` prints a line for each call; it needs valgrind. `um_instructions CALL COUNT` makes the calls, for callgrind to count.
#![allow(unsafe_code, reason = "functions of C, and launches")]
#![allow(non_snake_case, reason = "C names")]

use anyhow::{Context, Result, ensure};
use cuda_um::sys::{
    CUresult, Table, cudaDeviceAttr, cudaDriverEntryPointQueryResult, cudaError, cudaError_t,
    cudaPointerAttributes,
};
use cuda_um::{Device, LaunchConfig, Location, Module, Runtime, Stream, UnifiedBuffer};
use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong, c_void};
use std::process::Command;
use std::ptr::without_provenance_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CALLS: [&str; 5] = [
    "launch of two buffers",
    "copy of 4 KiB to the device",
    "copy of 4 KiB to the host",
    "allocate 4 KiB and drop",
    "prefetch that is left out",
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(call), Some(count)) => make_calls(call.parse()?, count.parse()?),
        _ => {
            for (number, call) in CALLS.iter().enumerate() {
                let (few, many) = (counted(number, 1_000)?, counted(number, 11_000)?);
                println!("{:6}  {call}", (many - few) / 10_000);
            }
            Ok(())
        }
    }
}

/// The instructions of a process that makes so many calls.
fn counted(call: usize, count: usize) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(std::env::current_exe()?);
    let output = valgrind
        .args([call.to_string(), count.to_string()])
        .output();
    let output = output.context("cannot run valgrind: install it (apt install valgrind)")?;
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told
        .lines()
        .find_map(|line| line.split("Collected :").nth(1));
    collected
        .and_then(|number| number.trim().parse().ok())
        .with_context(|| format!("valgrind counted nothing: {told}"))
}

struct Machine {
    device: Device,
    stream: Stream,
    a: UnifiedBuffer<f32>,
    b: UnifiedBuffer<f32>,
}

fn make_calls(call: usize, count: usize) -> Result<()> {
    let device = Runtime::from_table(table()?)?.device(0)?;
    let mut machine = Machine {
        stream: device.default_stream()?,
        a: UnifiedBuffer::zeroed(&device, 1024)?,
        b: UnifiedBuffer::zeroed(&device, 1024)?,
        device,
    };
    let Machine {
        device,
        stream,
        a,
        b,
    } = &mut machine;
    let module = Module::load(device, PTX)?;
    let kernel = module.kernel("move")?;
    let mut host = vec![0f32; 1024];
    let large = UnifiedBuffer::<f32>::zeroed(device, 4 << 20)?;
    let mut one = || -> Result<()> {
        match call {
            0 => {
                let config = LaunchConfig::linear(1024, 256);
                // SAFETY: the function that is called does nothing.
                unsafe { kernel.launch(stream, config, (&*a, &mut *b)) }?;
            }
            1 => a.copy_from_host(&host)?,
            2 => a.copy_to_host(&mut host)?,
            3 => drop(UnifiedBuffer::<f32>::zeroed(device, 1024)?),
            _ => drop(large.prefetch_on(Location::Device(0), stream)?),
        }
        Ok(())
    };
    one()?;
    let before = SUCCEEDED.load(Ordering::Relaxed);
    (0..count).try_for_each(|_| one())?;
    let made = SUCCEEDED.load(Ordering::Relaxed) - before;
    // A prefetch that is left out calls nothing, and the others call CUDA each time.
    let is_right = if call == 4 { made == 0 } else { made >= count };
    ensure!(
        is_right,
        "{count} times the {}: {made} calls of CUDA",
        CALLS[call]
    );
    Ok(())
}

const PTX: &str = ".version 7.0\n.target sm_70\n.address_size 64\n\
    .visible .entry move(.param .u64 a, .param .u64 b) { ret; }\n";

/// A runtime whose functions succeed and do nothing.
fn table() -> Result<Arc<Table>> {
    let mut resolve = |name: &CStr| symbol(name);
    // SAFETY: the functions below have the signatures of the version. `succeeds` stands for the others: their results have no use here.
    let table = unsafe { Table::from_symbols(Arc::new(()), None, &mut resolve) };
    Ok(Arc::new(table?))
}

fn symbol(name: &CStr) -> *const c_void {
    macro_rules! find {
        ($($function:ident)*) => {
            match name.to_bytes() {
                $(name if name == stringify!($function).as_bytes() => $function as *const c_void,)*
                name if [&b"cupti"[..], b"cudaUmSim", b"cuUmSim"].iter().any(|of| name.starts_with(of)) => std::ptr::null(),
                _ => succeeds as *const c_void,
            }
        };
    }
    find! {
        cudaRuntimeGetVersion cudaGetErrorName cudaGetErrorString cudaGetDriverEntryPoint cudaGetDevice cudaGetDeviceCount
        cudaDeviceGetAttribute cudaMemGetInfo cudaMalloc cudaMallocManaged cudaHostAlloc cudaStreamCreateWithFlags
        cudaEventCreateWithFlags cudaPointerGetAttributes cuDeviceGetName cuStreamWriteValue32 cuModuleLoadData
        cuModuleGetFunction cuFuncGetParamInfo
    }
}

/// The calls of `succeeds`.
static SUCCEEDED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn succeeds() -> c_int {
    SUCCEEDED.fetch_add(1, Ordering::Relaxed);
    0
}

/// Stores a result at the caller's address.
macro_rules! store {
    ($at:expr, $value:expr) => {{
        // SAFETY: CUDA's contract: the address is valid for one write.
        unsafe { *$at = $value };
        cudaError::cudaSuccess
    }};
}

extern "C" fn cudaRuntimeGetVersion(version: *mut c_int) -> cudaError_t {
    store!(version, 13_000)
}
extern "C" fn cudaGetErrorName(_: cudaError_t) -> *const c_char {
    c"none".as_ptr()
}
extern "C" fn cudaGetErrorString(_: cudaError_t) -> *const c_char {
    c"none".as_ptr()
}
extern "C" fn cudaGetDriverEntryPoint(
    name: *const c_char,
    function: *mut *mut c_void,
    _: c_ulonglong,
    _: *mut cudaDriverEntryPointQueryResult,
) -> cudaError_t {
    // SAFETY: CUDA's contract: a text that ends with NUL.
    let found = symbol(unsafe { CStr::from_ptr(name) });
    store!(function, found.cast_mut())
}
extern "C" fn cudaGetDevice(device: *mut c_int) -> cudaError_t {
    store!(device, 0)
}
extern "C" fn cudaGetDeviceCount(count: *mut c_int) -> cudaError_t {
    store!(count, 1)
}
extern "C" fn cudaDeviceGetAttribute(
    value: *mut c_int,
    of: cudaDeviceAttr,
    _: c_int,
) -> cudaError_t {
    store!(
        value,
        if of == cudaDeviceAttr::cudaDevAttrIntegrated {
            0
        } else {
            1024
        }
    )
}
extern "C" fn cudaMemGetInfo(free: *mut usize, total: *mut usize) -> cudaError_t {
    store!(free, 64 << 30);
    store!(total, 80 << 30)
}
extern "C" fn cudaMalloc(pointer: *mut *mut c_void, bytes: usize) -> cudaError_t {
    let memory = vec![0u128; bytes.div_ceil(16) + 131_072].leak();
    let start = memory.as_mut_ptr().cast::<c_void>();
    store!(pointer, start.map_addr(|at| at.next_multiple_of(2 << 20)))
}
extern "C" fn cudaMallocManaged(pointer: *mut *mut c_void, bytes: usize, _: c_uint) -> cudaError_t {
    cudaMalloc(pointer, bytes)
}
extern "C" fn cudaHostAlloc(pointer: *mut *mut c_void, bytes: usize, _: c_uint) -> cudaError_t {
    cudaMalloc(pointer, bytes)
}
extern "C" fn cudaStreamCreateWithFlags(stream: *mut *mut c_void, _: c_uint) -> cudaError_t {
    store!(stream, without_provenance_mut(64))
}
extern "C" fn cudaEventCreateWithFlags(event: *mut *mut c_void, _: c_uint) -> cudaError_t {
    store!(event, without_provenance_mut(64))
}
extern "C" fn cudaPointerGetAttributes(
    _: *mut cudaPointerAttributes,
    _: *const c_void,
) -> cudaError_t {
    cudaError::cudaSuccess
}
extern "C" fn cuDeviceGetName(name: *mut c_char, _: c_int, _: c_int) -> CUresult {
    store!(name, 0);
    CUresult::CUDA_SUCCESS
}
extern "C" fn cuStreamWriteValue32(
    _: *mut c_void,
    address: u64,
    value: u32,
    _: c_uint,
) -> CUresult {
    store!(
        std::ptr::with_exposed_provenance_mut::<u32>(address as usize),
        value
    );
    CUresult::CUDA_SUCCESS
}
extern "C" fn cuModuleLoadData(module: *mut *mut c_void, _: *const c_void) -> CUresult {
    store!(module, without_provenance_mut(64));
    CUresult::CUDA_SUCCESS
}
extern "C" fn cuModuleGetFunction(
    function: *mut *mut c_void,
    _: *mut c_void,
    _: *const c_char,
) -> CUresult {
    store!(function, without_provenance_mut(64));
    CUresult::CUDA_SUCCESS
}
/// Two addresses.
extern "C" fn cuFuncGetParamInfo(
    _: *mut c_void,
    index: usize,
    offset: *mut usize,
    bytes: *mut usize,
) -> CUresult {
    if index > 1 {
        return CUresult::CUDA_ERROR_INVALID_VALUE;
    }
    store!(offset, 8 * index);
    store!(bytes, 8);
    CUresult::CUDA_SUCCESS
}
