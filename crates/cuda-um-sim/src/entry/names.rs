//! The last error, names and texts of errors, and accesses of the host: functions that do not return a status.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_void};
use std::sync::LazyLock;

use super::guard::{Entry, of_all_slots};
use crate::engine::{Code, Core, ThreadState, contain, last_text};
use crate::slot::{self, SLOTS};

struct Names {
    runtime: CString,
    driver: CString,
    text: CString,
}

static NAMES: LazyLock<HashMap<u32, Names>> = LazyLock::new(|| {
    let text = |text: String| CString::new(text).unwrap_or_default();
    let names = Code::ALL
        .iter()
        .filter_map(|code| Some((code.0, code.describe()?)));
    names
        .map(|(code, (name, description))| {
            (
                code,
                Names {
                    runtime: text(runtime_name(code, name)),
                    driver: text(driver_name(code, name)),
                    text: text(description.to_owned()),
                },
            )
        })
        .collect()
});

/// `MEMORY_ALLOCATION` is `cudaErrorMemoryAllocation`.
fn runtime_name(code: u32, name: &str) -> String {
    match code {
        0 => return "cudaSuccess".to_owned(),
        214 => return "cudaErrorECCUncorrectable".to_owned(),
        _ => {}
    }
    let words = name
        .split('_')
        .map(|word| word[..1].to_owned() + &word[1..].to_lowercase());
    "cudaError".to_owned() + &words.collect::<String>()
}

/// The driver has other names for some codes.
fn driver_name(code: u32, name: &str) -> String {
    let name = match code {
        0 => return "CUDA_SUCCESS".to_owned(),
        2 => "OUT_OF_MEMORY",
        3 => "NOT_INITIALIZED",
        4 => "DEINITIALIZED",
        46 => "DEVICE_UNAVAILABLE",
        200 => "INVALID_IMAGE",
        201 => "INVALID_CONTEXT",
        209 => "NO_BINARY_FOR_GPU",
        400 => "INVALID_HANDLE",
        500 => "NOT_FOUND",
        719 => "LAUNCH_FAILED",
        _ => name,
    };
    format!("CUDA_ERROR_{name}")
}

const UNRECOGNIZED: &CStr = c"unrecognized error code";

/// The driver's name and text of a code.
pub(super) fn driver_texts(core: &Core, code: u32) -> Option<(&'static CStr, &'static CStr)> {
    let names = NAMES.get(&code)?;
    let text = text_now(core, code).unwrap_or(&names.text);
    Some((names.driver.as_c_str(), text))
}

/// What the simulator says now about a code, if it can say more than the code: of the context's sticky error, or of this thread's last
/// failure.
fn text_now(core: &Core, code: u32) -> Option<&'static CStr> {
    let code = Code(code);
    core.context.poison_text(code).or_else(|| last_text(code))
}

fn last_error(slot: usize, clear: bool) -> u32 {
    let Some(core) = slot::core(slot) else {
        return Code::CUDART_UNLOADING.0;
    };
    // A query does not clear a sticky error.
    if let Some(poison) = core.context.poison() {
        return poison.0;
    }
    ThreadState::with(core.id, |thread| {
        let last = thread.last_error;
        if clear {
            thread.last_error = Code::SUCCESS;
        }
        last.0
    })
}

unsafe extern "C" fn cudaGetLastError<const SLOT: usize>() -> u32 {
    last_error(SLOT, true)
}

unsafe extern "C" fn cudaPeekAtLastError<const SLOT: usize>() -> u32 {
    last_error(SLOT, false)
}

extern "C" fn cudaGetErrorName(code: u32) -> *const c_char {
    NAMES
        .get(&code)
        .map_or(UNRECOGNIZED, |names| &names.runtime)
        .as_ptr()
}

unsafe extern "C" fn cudaGetErrorString<const SLOT: usize>(code: u32) -> *const c_char {
    let text = slot::core(SLOT).and_then(|core| text_now(&core, code));
    let text = text.or_else(|| Some(NAMES.get(&code)?.text.as_c_str()));
    text.unwrap_or(UNRECOGNIZED).as_ptr()
}

/// `Table::declared_host_access` of cuda-um-sys.
unsafe extern "C" fn cudaUmSimHostAccess<const SLOT: usize>(
    pointer: *const c_void,
    bytes: usize,
    write: bool,
) {
    if let Some(core) = slot::core(SLOT).filter(|core| !core.is_inherited()) {
        contain(|| {
            core.state
                .lock()
                .host_access(pointer as usize, bytes, write)
        });
    }
}

/// `Table::simulated_available` of cuda-um-sys.
unsafe extern "C" fn cudaUmSimAvailable<const SLOT: usize>(device: u32) -> usize {
    let core = slot::core(SLOT).filter(|core| !core.is_inherited());
    core.map_or(0, |core| {
        let state = core.state.lock();
        let device = state.devices.get(device as usize);
        device.map_or(0, |device| device.free_bytes() as usize)
    })
}

pub(super) const ENTRIES: &[Entry] = &[
    Entry::unrecorded("cudaGetLastError", of_all_slots!(cudaGetLastError)),
    Entry::unrecorded("cudaPeekAtLastError", of_all_slots!(cudaPeekAtLastError)),
    Entry::unrecorded(
        "cudaGetErrorName",
        [cudaGetErrorName as *const c_void; SLOTS],
    ),
    Entry::unrecorded("cudaGetErrorString", of_all_slots!(cudaGetErrorString)),
    Entry::unrecorded("cudaUmSimHostAccess", of_all_slots!(cudaUmSimHostAccess)),
    Entry::unrecorded("cudaUmSimAvailable", of_all_slots!(cudaUmSimAvailable)),
];
