//! Converts CUDA's codes into errors.

use crate::driver::api::{Api, bit};
use crate::driver::device::MemoryInfo;
use crate::error::{Error, Result};
use crate::fork;
use cuda_um_sys as sys;
use std::ffi::{CStr, c_char};
use std::fmt::Display;
use std::sync::atomic::Ordering;

/// The subject of a call, for its error.
pub(crate) struct Subject {
    text: String,
    requested_bytes: usize,
}

impl Subject {
    pub(crate) fn new(text: impl Display) -> Self {
        Self {
            text: text.to_string(),
            requested_bytes: 0,
        }
    }

    pub(crate) fn device(ordinal: u32) -> Self {
        Self::new(format_args!("device {ordinal}"))
    }

    pub(crate) fn bytes(mut self, bytes: usize) -> Self {
        self.requested_bytes = bytes;
        self
    }
}

pub(super) trait Code: Copy {
    /// The code of a function that needs a context, on a thread that has none.
    const NO_CONTEXT: Option<u32>;

    fn number(self) -> u32;

    /// Returns CUDA's name and message of the code, each null or a static text.
    fn texts(self, table: &sys::Table) -> (*const c_char, *const c_char);
}

impl Code for sys::cudaError_t {
    const NO_CONTEXT: Option<u32> = None;

    #[inline]
    fn number(self) -> u32 {
        self.0
    }

    fn texts(self, table: &sys::Table) -> (*const c_char, *const c_char) {
        // SAFETY: both functions accept any number.
        unsafe {
            (
                (table.cudaGetErrorName)(self),
                (table.cudaGetErrorString)(self),
            )
        }
    }
}

impl Code for sys::CUresult {
    const NO_CONTEXT: Option<u32> = Some(Self::CUDA_ERROR_INVALID_CONTEXT.0);

    #[inline]
    fn number(self) -> u32 {
        self.0
    }

    fn texts(self, table: &sys::Table) -> (*const c_char, *const c_char) {
        let (mut name, mut message) = (std::ptr::null(), std::ptr::null());
        if let Ok(driver) = table.driver() {
            // SAFETY: both pointers are valid for one write; an unknown code leaves or sets null.
            unsafe {
                (driver.cuGetErrorName)(self, &mut name);
                (driver.cuGetErrorString)(self, &mut message);
            }
        }
        (name, message)
    }
}

impl Api {
    /// Returns `Ok` for success. Otherwise clears the runtime's last error and returns the error. `device` is the device of the call,
    /// if any.
    #[inline]
    pub(super) fn check<C: Code>(
        &self,
        call: &'static str,
        code: C,
        device: Option<u32>,
        subject: impl FnOnce() -> Subject,
    ) -> Result<()> {
        match code.number() == 0 {
            true => Ok(()),
            false => self.failed(call, code, device, subject),
        }
    }

    #[cold]
    fn failed<C: Code>(
        &self,
        call: &'static str,
        code: C,
        device: Option<u32>,
        subject: impl FnOnce() -> Subject,
    ) -> Result<()> {
        fork::check(call)?;
        self.clear_last_error();
        let (name, message) = code.texts(&self.table);
        // SAFETY: each is null or a text that lives as long as the library, which the table keeps loaded.
        let (name, message) = unsafe { (text(name), text(message)) };
        Err(self.classify(call, (code.number(), name, message), device, subject()))
    }

    pub(super) fn clear_last_error(&self) {
        // SAFETY: no preconditions; clears this thread's last error.
        unsafe { (self.table.cudaGetLastError)() };
    }

    fn classify(
        &self,
        call: &'static str,
        (number, name, message): (u32, String, String),
        device: Option<u32>,
        subject: Subject,
    ) -> Error {
        // Before its first work, a device may be unavailable temporarily because another process uses it.
        let has_worked = self.worked.load(Ordering::Relaxed) & device.map_or(u64::MAX, bit) != 0;
        let is_lost = matches!(number, DEVICES_UNAVAILABLE | NO_DEVICE) && has_worked;
        match number {
            OUT_OF_MEMORY => {
                let (free_bytes, total_bytes) = match call {
                    "cudaHostAlloc" | "cudaHostRegister" => host_memory(),
                    _ => self.current_memory_info(device),
                };
                Error::OutOfMemory {
                    call,
                    subject: subject.text,
                    requested_bytes: subject.requested_bytes,
                    free_bytes,
                    total_bytes,
                }
            }
            NO_DEVICE if !is_lost => Error::NoDevice { call },
            STUB_LIBRARY
            | INSUFFICIENT_DRIVER
            | SYSTEM_DRIVER_MISMATCH
            | COMPATIBILITY_NOT_SUPPORTED => Error::NoDriver {
                call,
                name,
                message,
            },
            NOT_SUPPORTED => Error::NotSupported {
                what: format!("{call} ({})", subject.text),
                needs: "another device, driver or version".to_owned(),
                have: format!("{} ({name}: {message})", self.version_text()),
            },
            number if is_lost || STICKY.contains(&number) => Error::Sticky {
                call,
                subject: subject.text,
                code: number,
                name,
                message,
            },
            _ => Error::Call {
                call,
                subject: subject.text,
                code: number,
                name,
                message,
            },
        }
    }

    /// Free and total bytes of the current device, which is that of the call, if any; zeros if the query fails.
    fn current_memory_info(&self, device: Option<u32>) -> (usize, usize) {
        let mut info = MemoryInfo::default();
        let (free, total) = (&mut info.free_bytes, &mut info.total_bytes);
        // SAFETY: both pointers are valid for one write.
        if unsafe { (self.table.cudaMemGetInfo)(free, total) }.number() != 0 {
            self.clear_last_error();
            return (0, 0);
        }
        let info = device.map_or(info, |device| self.with_reclaimable(device, info));
        (info.free_bytes, info.total_bytes)
    }

    pub(crate) fn version_text(&self) -> String {
        let version = self.version();
        format!("CUDA {}.{}", version.major, version.minor)
    }
}

/// The text at `pointer`; "unknown" for null.
/// # Safety: `pointer` is null or points to a NUL-terminated text.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "unknown".to_owned();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}

// The runtime and the driver use the same numbers, which are stable.
const OUT_OF_MEMORY: u32 = 2;
const STUB_LIBRARY: u32 = 34;
const INSUFFICIENT_DRIVER: u32 = 35;
const DEVICES_UNAVAILABLE: u32 = 46;
const NO_DEVICE: u32 = 100;
const NOT_SUPPORTED: u32 = 801;
const SYSTEM_DRIVER_MISMATCH: u32 = 803;
const COMPATIBILITY_NOT_SUPPORTED: u32 = 804;

/// Errors that leave the context unusable: "the process must be terminated and relaunched" in CUDA's documentation.
const STICKY: &[u32] = &[
    214, // ECCUncorrectable
    220, // NvlinkUncorrectable
    226, // Contained
    700, // IllegalAddress
    702, // LaunchTimeout
    709, // ContextIsDestroyed
    710, // Assert
    714, // HardwareStackError
    715, // IllegalInstruction
    716, // MisalignedAddress
    717, // InvalidAddressSpace
    718, // InvalidPc
    719, // LaunchFailure
    721, // TensorMemoryLeak
];

#[cfg(all(windows, not(miri)))]
pub(crate) use crate::windows::memory as host_memory;

/// Available and total bytes of host memory; zeros if the system does not report them.
#[cfg(any(not(windows), miri))]
pub(crate) fn host_memory() -> (usize, usize) {
    let Ok(info) = std::fs::read_to_string("/proc/meminfo") else {
        return (0, 0);
    };
    let field = |name: &str| {
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(":"))?;
        line.split_whitespace()
            .next()?
            .parse::<usize>()
            .ok()?
            .checked_mul(1024)
    };
    (
        field("MemAvailable").unwrap_or(0),
        field("MemTotal").unwrap_or(0),
    )
}
