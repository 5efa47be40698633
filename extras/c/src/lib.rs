//! The allocator of `um_backend` for C: `include/cuda_um.h` describes each function.
#![allow(unsafe_code, reason = "functions of C")]

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use um_backend::allocator::Allocator;
use um_backend::cuda_um::{MemoryKind, Oversubscription, Pool, PoolOptions};
use um_backend::{CudaBackend, CudaBackendConfig, CudaError, Result};

const OVERSUBSCRIPTION: c_uint = 1;
const NO_PREFETCH: c_uint = 2;

/// The memory of an allocator.
#[repr(C)]
pub struct Stats {
    live_bytes: usize,
    peak_bytes: usize,
    reserved_bytes: usize,
    live_blocks: usize,
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs a function: its error is kept for the thread.
fn run<R>(work: impl FnOnce() -> Result<R>) -> Option<R> {
    let refused = match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => return Some(done),
        Ok(Err(refused)) => refused.to_string(),
        Err(_) => "a panic of the library".to_owned(),
    };
    let text = CString::new(refused.replace('\0', " ")).unwrap_or_default();
    // At the end of a thread there is no place for it.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
    None
}

fn backend(device: c_int) -> Result<CudaBackend> {
    static FIRST: Mutex<Option<CudaBackend>> = Mutex::new(None);
    let wrong = |_| CudaError::InvalidArgument {
        what: "the device",
        value: device.to_string(),
        reason: "ordinals are numbered from 0".to_owned(),
    };
    let ordinal = usize::try_from(device).map_err(wrong)?;
    let mut first = FIRST.lock().unwrap_or_else(PoisonError::into_inner);
    match &*first {
        Some(first) => first.sibling(ordinal),
        None => {
            let config = CudaBackendConfig::default().device(ordinal);
            let opened = CudaBackend::initialize_blocking(config)?;
            Ok(first.insert(opened).clone())
        }
    }
}

/// Makes an allocator.
///
/// # Safety
/// `name` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_um_allocator_create(
    device: c_int,
    kind: c_int,
    options: c_uint,
    name: *const c_char,
) -> *mut Allocator {
    let made = run(|| {
        let refuse = |what, value: String, reason: &str| {
            let reason = reason.to_owned();
            Err(CudaError::InvalidArgument {
                what,
                value,
                reason,
            })
        };
        let kind = match kind {
            0 => MemoryKind::Managed,
            1 => MemoryKind::Device,
            other => {
                let allowed = "it is CUDA_UM_UNIFIED or CUDA_UM_DEVICE";
                return refuse("the kind", other.to_string(), allowed);
            }
        };
        if options & !(OVERSUBSCRIPTION | NO_PREFETCH) != 0 {
            let allowed = "they are CUDA_UM_OVERSUBSCRIPTION and CUDA_UM_NO_PREFETCH";
            return refuse("the options", options.to_string(), allowed);
        }
        let backend = backend(device)?;
        let oversubscription = match options & OVERSUBSCRIPTION {
            0 => Oversubscription::Refused,
            _ => Oversubscription::Allowed,
        };
        let pool = PoolOptions::default().oversubscription(oversubscription);
        let pool = Pool::new(backend.device(), kind, pool)?;
        let allocator = Allocator::new(pool)?.prefetch(options & NO_PREFETCH == 0);
        Ok(Box::new(match name.is_null() {
            true => allocator,
            // SAFETY: guaranteed by the caller.
            false => allocator.name(unsafe { CStr::from_ptr(name) }.to_string_lossy()),
        }))
    });
    made.map_or(std::ptr::null_mut(), Box::into_raw)
}

/// Frees an allocator.
///
/// # Safety
/// Null, or an allocator that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_um_allocator_destroy(allocator: *mut Allocator) {
    if allocator.is_null() {
        return;
    }
    run(|| {
        // SAFETY: guaranteed by the caller; it is one of `cuda_um_allocator_create`.
        let allocator = unsafe { Box::from_raw(allocator) };
        // The program may still use its memory.
        if allocator.stats().live_bytes > 0 {
            Box::leak(allocator);
        }
        Ok(())
    });
}

/// Allocates memory.
///
/// # Safety
/// The allocator lives, and as for [`Allocator::allocate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_um_allocate(
    allocator: *const Allocator,
    bytes: usize,
    stream: *mut c_void,
) -> *mut c_void {
    // SAFETY: guaranteed by the caller.
    let address = run(|| unsafe { (*allocator).allocate(bytes, stream.cast()) });
    address.unwrap_or(std::ptr::null_mut())
}

/// Frees memory.
///
/// # Safety
/// The allocator lives, and as for [`Allocator::free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_um_free(
    allocator: *const Allocator,
    address: *mut c_void,
    stream: *mut c_void,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    match run(|| unsafe { (*allocator).free(address, stream.cast()) }) {
        Some(()) => 0,
        None => -1,
    }
}

/// Writes the figures of an allocator.
///
/// # Safety
/// The allocator lives, and `stats` is valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_um_allocator_stats(allocator: *const Allocator, stats: *mut Stats) {
    // SAFETY: guaranteed by the caller.
    let found = unsafe { &*allocator }.stats();
    let figures = Stats {
        live_bytes: found.live_bytes,
        peak_bytes: found.peak_bytes,
        reserved_bytes: found.reserved_bytes,
        live_blocks: found.live_buffers,
    };
    // SAFETY: guaranteed by the caller.
    unsafe { stats.write(figures) };
}

/// Returns free memory to CUDA.
///
/// # Safety
/// The allocator lives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cuda_um_allocator_trim(allocator: *const Allocator) -> usize {
    // SAFETY: guaranteed by the caller.
    run(|| Ok(unsafe { &*allocator }.trim())).unwrap_or(0)
}

/// The last error of the thread.
#[unsafe(no_mangle)]
pub extern "C" fn cuda_um_last_error() -> *const c_char {
    let last = LAST.try_with(|last| last.borrow().as_ptr());
    last.unwrap_or(c"".as_ptr())
}
