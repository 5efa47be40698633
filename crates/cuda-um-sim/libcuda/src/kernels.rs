//! CPU references that C code provides: functions of `include/cuda_um_sim.h`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use cuda_um_sim::{LaunchContext, ReferenceError, register_kernel};
use libloading::Library;

/// Names the library with the program's kernels. It is code that is loaded into the process: a trusted path.
const KERNELS: &str = "CUDA_UM_SIM_KERNELS";

/// `cudaUmSimLaunch`.
#[repr(C)]
struct Launch {
    kernel: *const c_char,
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared_bytes: c_uint,
    parameters: c_uint,
    value: unsafe extern "C" fn(*const Launch, c_uint, *mut c_void, usize) -> c_int,
    read: unsafe extern "C" fn(*const Launch, c_uint, usize) -> *const c_void,
    write: unsafe extern "C" fn(*const Launch, c_uint, usize) -> *mut c_void,
    context: *const c_void,
}

/// `cudaUmSimKernel`.
type Reference = unsafe extern "C" fn(*const Launch) -> c_int;
/// `cudaUmSimRegister`.
type Register = unsafe extern "C" fn(*const c_char, Option<Reference>) -> c_int;

static REFERENCES: LazyLock<Mutex<HashMap<String, Reference>>> = LazyLock::new(Mutex::default);

#[unsafe(no_mangle)]
unsafe extern "C" fn cudaUmSimRegisterKernel(
    name: *const c_char,
    reference: Option<Reference>,
) -> c_int {
    let (false, Some(reference)) = (name.is_null(), reference) else {
        return 1;
    };
    // SAFETY: not null, and the caller passes a NUL-terminated text.
    let Ok(name) = unsafe { CStr::from_ptr(name) }.to_str() else {
        return 1;
    };
    let mut references = REFERENCES.lock().unwrap_or_else(PoisonError::into_inner);
    match references.entry(name.to_owned()) {
        Entry::Occupied(known) => c_int::from(!std::ptr::fn_addr_eq(*known.get(), reference)),
        Entry::Vacant(free) => {
            free.insert(reference);
            // SAFETY: the caller vouches that its function does what the kernel does.
            unsafe { register_kernel(name, run) };
            0
        }
    }
}

/// Runs the reference that is registered for the kernel.
fn run(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    let name = launch.kernel();
    let references = REFERENCES.lock().unwrap_or_else(PoisonError::into_inner);
    let reference = references.get(name).copied();
    drop(references);
    let failed = ReferenceError::Failed;
    let reference = reference.ok_or_else(|| failed(format!("`{name}` has no reference")))?;
    let kernel = CString::new(name).map_err(|error| failed(error.to_string()))?;
    let for_c = Launch {
        kernel: kernel.as_ptr(),
        grid: launch.grid(),
        block: launch.block(),
        shared_bytes: launch.shared_bytes(),
        parameters: launch.parameters() as c_uint,
        value,
        read,
        write,
        context: std::ptr::from_ref(&*launch).cast(),
    };
    // SAFETY: registered for this signature, with a launch that lives until the function returns.
    match unsafe { reference(&for_c) } {
        0 => Ok(()),
        code => Err(failed(format!("its CPU reference returned {code}"))),
    }
}

/// # Safety
/// `launch` is the argument of a reference that has not returned.
unsafe fn context<'a>(launch: *const Launch) -> &'a LaunchContext<'a> {
    // SAFETY: `run` stores the address of its context there, which lives as long as the reference runs.
    unsafe { &*(*launch).context.cast() }
}

unsafe extern "C" fn value(
    launch: *const Launch,
    index: c_uint,
    to: *mut c_void,
    bytes: usize,
) -> c_int {
    // SAFETY: only references get this function, with their launch.
    let launch = unsafe { context(launch) };
    match launch.bytes(index as usize) {
        Ok(value) if value.len() == bytes => {
            // SAFETY: the reference vouches for `bytes` writable bytes at `to`.
            unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), to.cast(), bytes) };
            0
        }
        _ => 1,
    }
}

unsafe extern "C" fn read(launch: *const Launch, index: c_uint, bytes: usize) -> *const c_void {
    // SAFETY: only references get this function, with their launch.
    let found = unsafe { context(launch) }.slice::<u8>(index as usize, bytes);
    found.map_or(std::ptr::null(), |slice| slice.as_ptr().cast())
}

unsafe extern "C" fn write(launch: *const Launch, index: c_uint, bytes: usize) -> *mut c_void {
    // SAFETY: only references get this function, with their launch.
    let found = unsafe { context(launch) }.slice_mut::<u8>(index as usize, bytes);
    found.map_or(std::ptr::null_mut(), |slice| slice.as_mut_ptr().cast())
}

/// Loads the library that the variable names, which registers its kernels.
pub(crate) fn load_named() -> Result<(), String> {
    let Some(path) = std::env::var_os(KERNELS).filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let failed = |why: String| format!("{KERNELS} names {}: {why}", path.display());
    // SAFETY: the variable is trusted, as `LD_LIBRARY_PATH` is: the library is code that may run here.
    let library = unsafe { Library::new(&path) }.map_err(|error| failed(error.to_string()))?;
    // SAFETY: `include/cuda_um_sim.h` declares the function of this name.
    let kernels =
        unsafe { library.get::<unsafe extern "C" fn(Register) -> c_int>(c"cudaUmSimKernels") }
            .map_err(|error| failed(error.to_string()))?;
    // SAFETY: as declared; called once.
    let code = unsafe { kernels(cudaUmSimRegisterKernel) };
    // Its references are called as long as the process runs.
    std::mem::forget(library);
    match code {
        0 => Ok(()),
        code => Err(failed(format!(
            "its function cudaUmSimKernels returned {code}"
        ))),
    }
}
