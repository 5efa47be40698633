//! The few functions of CUPTI that count unified memory, opened at run time.
#![allow(unsafe_code, reason = "calls a C library and reads its records")]

use super::ProfileError;
use libloading::Library;
use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{CStr, c_char, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// `CUpti_ActivityUnifiedMemoryCounterKind`: the ones that are counted.
#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum Kind {
    HostToDevice = 1,
    DeviceToHost = 2,
    CpuFault = 3,
    GpuFault = 4,
    DeviceToDevice = 8,
}

const KINDS: [Kind; 5] = [
    Kind::HostToDevice,
    Kind::DeviceToHost,
    Kind::CpuFault,
    Kind::GpuFault,
    Kind::DeviceToDevice,
];
/// One more than the highest kind that is counted.
const SLOTS: usize = 9;
/// `CUPTI_ACTIVITY_KIND_UNIFIED_MEMORY_COUNTER`
const UNIFIED_MEMORY_COUNTER: u32 = 25;
/// `CUPTI_ACTIVITY_UNIFIED_MEMORY_COUNTER_SCOPE_PROCESS_SINGLE_DEVICE`
const PROCESS_SINGLE_DEVICE: u32 = 1;
/// `CUPTI_ACTIVITY_FLAG_FLUSH_FORCED`: buffers that are not full as well.
const FLUSH_FORCED: u32 = 1;
const BUFFER: Layout = match Layout::from_size_align(256 * 1024, 8) {
    Ok(layout) => layout,
    Err(_) => unreachable!(),
};

// CUPTI's callbacks take no user data, so the sums are the process's.
static SUMS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static RECORDS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static DROPPED: AtomicU64 = AtomicU64::new(0);
static FUNCTIONS: std::sync::OnceLock<Functions> = std::sync::OnceLock::new();

/// The first fields of `CUpti_ActivityUnifiedMemoryCounter2` and `3`, alike from CUDA 7.0 on.
#[repr(C)]
struct Record {
    kind: u32,
    counter_kind: u32,
    value: u64,
}

#[repr(C)]
struct Config {
    scope: u32,
    kind: u32,
    device: u32,
    enable: u32,
}

type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);

#[derive(Clone, Copy)]
struct Functions {
    register: unsafe extern "C" fn(Requested, Completed) -> u32,
    configure: unsafe extern "C" fn(*mut Config, u32) -> u32,
    enable: unsafe extern "C" fn(u32) -> u32,
    disable: unsafe extern "C" fn(u32) -> u32,
    flush: unsafe extern "C" fn(u32) -> u32,
    next: unsafe extern "C" fn(*mut u8, usize, *mut *mut Record) -> u32,
    dropped: unsafe extern "C" fn(*mut c_void, u32, *mut usize) -> u32,
    text: unsafe extern "C" fn(u32, *mut *const c_char) -> u32,
}

pub(super) struct Cupti {
    functions: Functions,
}

impl Cupti {
    pub(super) fn open(major: u32) -> Result<Self, ProfileError> {
        if let Some(functions) = FUNCTIONS.get() {
            return Ok(Self {
                functions: *functions,
            });
        }
        let mut tried = Vec::new();
        for path in candidates(major) {
            // SAFETY: opening NVIDIA's library runs its initialisers; the names are the documented ones or a path the user trusts.
            let opened = unsafe { Library::new(&path) }
                .map_err(|error| error.to_string())
                .and_then(|library| {
                    let functions = Functions::of(&library)?;
                    // CUPTI keeps threads and callbacks: it is never unloaded.
                    std::mem::forget(library);
                    Ok(functions)
                });
            match opened {
                Ok(functions) => {
                    return Ok(Self {
                        functions: *FUNCTIONS.get_or_init(|| functions),
                    });
                }
                Err(why) => tried.push(format!("{}: {why}", path.display())),
            }
        }
        Err(ProfileError::Missing {
            tried: tried.join("; "),
        })
    }

    pub(super) fn start(&self, devices: u32) -> Result<(), ProfileError> {
        for counter in SUMS.iter().chain(&RECORDS).chain([&DROPPED]) {
            counter.store(0, Ordering::Relaxed);
        }
        // SAFETY: both callbacks have the signatures CUPTI documents and live as long as the program.
        self.check("cuptiActivityRegisterCallbacks", unsafe {
            (self.functions.register)(requested, completed)
        })?;
        for device in 0..devices {
            for kind in KINDS {
                let mut config = Config {
                    scope: PROCESS_SINGLE_DEVICE,
                    kind: kind as u32,
                    device,
                    enable: 1,
                };
                // SAFETY: one configuration, valid for the call.
                let code = unsafe { (self.functions.configure)(&mut config, 1) };
                // A single device has no device-to-device transfers to count; CUPTI may say so.
                if !matches!(kind, Kind::DeviceToDevice) {
                    self.check("cuptiActivityConfigureUnifiedMemoryCounter", code)?;
                }
            }
        }
        // SAFETY: the kind is one of CUPTI's.
        self.check("cuptiActivityEnable", unsafe {
            (self.functions.enable)(UNIFIED_MEMORY_COUNTER)
        })
    }

    pub(super) fn flush(&self) -> Result<(), ProfileError> {
        // SAFETY: no preconditions; it calls `completed` for each buffer.
        self.check("cuptiActivityFlushAll", unsafe {
            (self.functions.flush)(FLUSH_FORCED)
        })
    }

    pub(super) fn stop(&self) {
        // SAFETY: the kind is one of CUPTI's. Nothing can be done about a failure when counting ends.
        unsafe { (self.functions.disable)(UNIFIED_MEMORY_COUNTER) };
        let _ = self.flush();
    }

    fn check(&self, call: &'static str, code: u32) -> Result<(), ProfileError> {
        if code == 0 {
            return Ok(());
        }
        let mut text = std::ptr::null();
        // SAFETY: `text` is written with a static string, or left alone for an unknown code.
        let message = unsafe {
            (self.functions.text)(code, &mut text);
            if text.is_null() {
                "unknown".into()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Err(ProfileError::Refused {
            call,
            code,
            message,
        })
    }
}

impl Functions {
    fn of(library: &Library) -> Result<Self, String> {
        // SAFETY: each field has the type that cupti_activity.h and cupti_result.h declare for the name.
        unsafe {
            Ok(Self {
                register: *symbol(library, "cuptiActivityRegisterCallbacks")?,
                configure: *symbol(library, "cuptiActivityConfigureUnifiedMemoryCounter")?,
                enable: *symbol(library, "cuptiActivityEnable")?,
                disable: *symbol(library, "cuptiActivityDisable")?,
                flush: *symbol(library, "cuptiActivityFlushAll")?,
                next: *symbol(library, "cuptiActivityGetNextRecord")?,
                dropped: *symbol(library, "cuptiActivityGetNumDroppedRecords")?,
                text: *symbol(library, "cuptiGetResultString")?,
            })
        }
    }
}

/// # Safety
/// `T` is the type of the symbol.
unsafe fn symbol<'a, T>(
    library: &'a Library,
    name: &str,
) -> Result<libloading::Symbol<'a, T>, String> {
    // SAFETY: the caller's promise.
    unsafe { library.get(name.as_bytes()) }.map_err(|error| format!("{name}: {error}"))
}

/// What was summed up for a kind: bytes, or faults.
pub(super) fn sum(kind: Kind) -> u64 {
    SUMS[kind as usize].load(Ordering::Acquire)
}

/// How many records there were of a kind.
pub(super) fn records(kind: Kind) -> u64 {
    RECORDS[kind as usize].load(Ordering::Acquire)
}

pub(super) fn dropped() -> u64 {
    DROPPED.load(Ordering::Acquire)
}

fn candidates(major: u32) -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os("CUDA_UM_CUPTI") {
        return vec![path.into()];
    }
    let soname = if major == 11 {
        "libcupti.so.11.8".to_owned()
    } else {
        format!("libcupti.so.{major}")
    };
    let toolkits = ["CUDA_HOME", "CUDA_PATH"]
        .into_iter()
        .filter_map(std::env::var_os)
        .map(PathBuf::from);
    let mut paths = vec![PathBuf::from(&soname)];
    for toolkit in toolkits.chain([PathBuf::from("/usr/local/cuda")]) {
        for folder in ["extras/CUPTI/lib64", "lib64"] {
            paths.push(toolkit.join(folder).join(&soname));
        }
    }
    paths
}

unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, max_records: *mut usize) {
    // SAFETY: CUPTI passes three valid places; a null buffer of size 0 tells it that there is no memory. The layout is not empty.
    unsafe {
        *buffer = alloc(BUFFER);
        *size = if (*buffer).is_null() {
            0
        } else {
            BUFFER.size()
        };
        *max_records = 0;
    }
}

unsafe extern "C" fn completed(
    context: *mut c_void,
    stream: u32,
    buffer: *mut u8,
    _size: usize,
    valid: usize,
) {
    if buffer.is_null() {
        return;
    }
    if let Some(functions) = FUNCTIONS.get() {
        let mut record: *mut Record = std::ptr::null_mut();
        // SAFETY: `buffer` is one that `requested` gave, with `valid` bytes of records; CUPTI walks it and sets `record` to
        // places inside. Every unified-memory record starts with the three fields that are read, which may be packed.
        unsafe {
            while (functions.next)(buffer, valid, &mut record) == 0 {
                let read = std::ptr::read_unaligned(record);
                if read.kind == UNIFIED_MEMORY_COUNTER && (read.counter_kind as usize) < SLOTS {
                    SUMS[read.counter_kind as usize].fetch_add(read.value, Ordering::AcqRel);
                    RECORDS[read.counter_kind as usize].fetch_add(1, Ordering::AcqRel);
                }
            }
            let mut dropped = 0;
            if (functions.dropped)(context, stream, &mut dropped) == 0 {
                DROPPED.fetch_add(dropped as u64, Ordering::AcqRel);
            }
        }
    }
    // SAFETY: allocated by `requested` with the same layout, and CUPTI is done with it.
    unsafe { dealloc(buffer, BUFFER) };
}
