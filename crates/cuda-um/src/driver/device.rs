//! Versions, devices and their attributes.

use crate::driver::api::Api;
use crate::driver::call::calls;
use crate::driver::check::{host_memory, text};
use crate::error::Result;
use crate::fork;
use crate::process_end::{self, Used};
use cuda_um_sys as sys;
use std::ffi::c_char;
use std::sync::atomic::Ordering;

/// Free and total memory of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryInfo {
    /// Free bytes at the time of the call. An integrated device has the memory of the host: `cudaMemGetInfo` counts what the operating system
    /// only caches as used there, so this is at least what the operating system can reclaim (`MemAvailable`), less a 32nd of the total for the
    /// rest of the machine.
    pub free_bytes: usize,
    /// Total bytes.
    pub total_bytes: usize,
}

calls! {
    /// Zeros if there is no driver.
    safe fn driver_version() -> version: i32 as sys::RuntimeVersion = Ok(version_of(version))
        => runtime.cudaDriverGetVersion(&mut version),
        of ("the driver");

    safe fn count_devices() -> count: i32
        => runtime.cudaGetDeviceCount(&mut count),
        of ("devices");

    safe fn attribute(ordinal, attribute: sys::cudaDeviceAttr) -> value: i32
        => [Anywhere] runtime.cudaDeviceGetAttribute(&mut value, attribute, ordinal as i32),
        of ("attribute {} of device {ordinal}", attribute.0);

    safe fn driver_device(ordinal) -> device: sys::CUdevice
        => [Anywhere] driver.cuDeviceGet(&mut device, ordinal as i32);

    /// The driver terminates the text before the last byte, which it does not get.
    safe fn write_name(ordinal, device: sys::CUdevice, name: &mut [c_char; 256])
        => [Anywhere] driver.cuDeviceGetName(name.as_mut_ptr(), name.len() as i32 - 1, device);

    safe fn raw_memory_info(ordinal) -> info: MemoryInfo
        => runtime.cudaMemGetInfo(&mut info.free_bytes, &mut info.total_bytes);

    safe fn synchronize_device(ordinal) => [Waits] runtime.cudaDeviceSynchronize();
}

fn version_of(version: i32) -> sys::RuntimeVersion {
    let version = u32::try_from(version).unwrap_or(0);
    sys::RuntimeVersion {
        major: version / 1000,
        minor: version % 1000 / 10,
    }
}

impl Api {
    pub(crate) fn device_count(&self) -> Result<usize> {
        let count = usize::try_from(self.count_devices()?).unwrap_or(0);
        self.has_one_device.store(count == 1, Ordering::Relaxed);
        fork::cuda_is_used();
        process_end::watch(Used::Driver);
        Ok(count)
    }

    pub(crate) fn device_name(&self, ordinal: u32) -> Result<String> {
        let mut name = [0; 256];
        self.write_name(ordinal, self.driver_device(ordinal)?, &mut name)?;
        // SAFETY: the last byte is NUL.
        Ok(unsafe { text(name.as_ptr()) })
    }

    pub(crate) fn memory_info(&self, ordinal: u32) -> Result<MemoryInfo> {
        let info = self.raw_memory_info(ordinal)?;
        Ok(self.with_reclaimable(ordinal, info))
    }

    /// Adds what the operating system can reclaim, for an integrated device.
    pub(super) fn with_reclaimable(&self, ordinal: u32, mut info: MemoryInfo) -> MemoryInfo {
        if self.is_integrated(ordinal) {
            let available = match self.table.simulated_available() {
                // SAFETY: the function is the simulator's, which takes any number.
                Some(available) => unsafe { available(ordinal) },
                None => host_memory().0,
            };
            let reclaimable = available.saturating_sub(info.total_bytes / 32);
            info.free_bytes = info.free_bytes.max(reclaimable).min(info.total_bytes);
        }
        info
    }

    pub(crate) fn device_synchronize(&self, ordinal: u32) -> Result<()> {
        let _wait = self.hold_captures_off(ordinal, true)?;
        self.synchronize_device(ordinal)
    }
}
