//! The simulator of this process.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

use cuda_um_sim::Sim;

use crate::exports::{NAMES, TARGETS};
use crate::{kernels, log};

static SIM: OnceLock<Option<Sim>> = OnceLock::new();

/// The simulator; the first call starts it. `None` if it did not start.
pub(crate) fn sim() -> Option<&'static Sim> {
    SIM.get_or_init(|| {
        log::to_standard_error();
        um_kernels::sim::register();
        if let Err(error) = kernels::load_named() {
            eprintln!("cuda-um-sim: {error}");
            return None;
        }
        match Sim::from_env() {
            Ok(sim) => Some(sim),
            Err(error) => {
                eprintln!("cuda-um-sim: {error}");
                None
            }
        }
    })
    .as_ref()
}

/// Gives every exported function its target. Any thread may call it, any number of times.
pub(crate) extern "C" fn find_targets() {
    let sim = sim();
    for (name, target) in NAMES.iter().zip(&TARGETS) {
        let found = sim.map_or(std::ptr::null(), |sim| sim.symbol(name));
        let address = match (found.is_null(), sim) {
            (false, _) => found,
            (true, Some(_)) => not_supported as *const c_void,
            // These return a text.
            (true, None) if ["cudaGetErrorName", "cudaGetErrorString"].contains(name) => {
                no_text as *const c_void
            }
            (true, None) => not_started as *const c_void,
        };
        target.store(address.cast_mut(), Ordering::Release);
    }
}

/// `cudaErrorNotSupported`, which is also the number of `CUDA_ERROR_NOT_SUPPORTED`.
extern "C" fn not_supported() -> u32 {
    801
}

/// `cudaErrorInitializationError`, which is also the number of `CUDA_ERROR_NOT_INITIALIZED`.
extern "C" fn not_started() -> u32 {
    3
}

extern "C" fn no_text() -> *const c_char {
    const TEXT: &CStr = c"the simulator did not start: see standard error";
    TEXT.as_ptr()
}
