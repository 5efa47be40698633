//! Versions, devices and their attributes.

use crate::driver::api::Api;
use crate::driver::check::{Subject, host_memory, text};
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::{self, Calls, Used};
use crate::sync::assert_may_wait;
use cuda_um_sys as sys;
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

impl Api {
    /// Major and minor version; zeros if there is no driver.
    pub(crate) fn driver_version(&self) -> Result<sys::RuntimeVersion> {
        let _calls = Calls::of("cudaDriverGetVersion")?;
        let mut version = 0;
        // SAFETY: the pointer is valid for one write.
        let code = unsafe { (self.table.cudaDriverGetVersion)(&mut version) };
        self.check("cudaDriverGetVersion", code, None, || {
            Subject::new("the driver")
        })?;
        let version = u32::try_from(version).unwrap_or(0);
        Ok(sys::RuntimeVersion {
            major: version / 1000,
            minor: version % 1000 / 10,
        })
    }

    pub(crate) fn device_count(&self) -> Result<usize> {
        let _calls = Calls::of("cudaGetDeviceCount")?;
        let mut count = 0;
        // SAFETY: the pointer is valid for one write.
        let code = unsafe { (self.table.cudaGetDeviceCount)(&mut count) };
        self.check("cudaGetDeviceCount", code, None, || Subject::new("devices"))?;
        let count = usize::try_from(count).unwrap_or(0);
        self.has_devices(count);
        fork::cuda_is_used();
        process_end::watch(Used::Driver);
        Ok(count)
    }

    pub(crate) fn attribute(&self, ordinal: u32, attribute: sys::cudaDeviceAttr) -> Result<i32> {
        let _calls = Calls::of("cudaDeviceGetAttribute")?;
        let mut value = 0;
        // SAFETY: the pointer is valid for one write; an unknown attribute or device is an error.
        let code =
            unsafe { (self.table.cudaDeviceGetAttribute)(&mut value, attribute, ordinal as i32) };
        self.check("cudaDeviceGetAttribute", code, Some(ordinal), || {
            Subject::new(format_args!(
                "attribute {} of device {ordinal}",
                attribute.0
            ))
        })?;
        Ok(value)
    }

    /// An attribute that older runtimes do not support; `None` there.
    pub(crate) fn late_attribute(
        &self,
        ordinal: u32,
        attribute: sys::cudaDeviceAttr,
    ) -> Result<Option<i32>> {
        match self.attribute(ordinal, attribute) {
            Ok(value) => Ok(Some(value)),
            Err(Error::Call { code, .. }) if code == sys::cudaError::cudaErrorInvalidValue.0 => {
                Ok(None)
            }
            Err(Error::NotSupported { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn device_name(&self, ordinal: u32) -> Result<String> {
        let _calls = Calls::of("cuDeviceGetName")?;
        let driver = self.driver()?;
        let mut device = Default::default();
        // SAFETY: the pointer is valid for one write.
        let code = unsafe { (driver.cuDeviceGet)(&mut device, ordinal as i32) };
        self.check_driver("cuDeviceGet", code, Some(ordinal), || {
            Subject::device(ordinal)
        })?;
        let mut name = [0; 256];
        // SAFETY: the pointer is valid for the length given, and the driver terminates the text within it.
        let code =
            unsafe { (driver.cuDeviceGetName)(name.as_mut_ptr(), name.len() as i32 - 1, device) };
        self.check_driver("cuDeviceGetName", code, Some(ordinal), || {
            Subject::device(ordinal)
        })?;
        // SAFETY: the last byte was not passed to the driver, so it is NUL.
        Ok(unsafe { text(name.as_ptr()) })
    }

    pub(crate) fn memory_info(&self, ordinal: u32) -> Result<MemoryInfo> {
        let (mut free_bytes, mut total_bytes) = (0, 0);
        self.on(
            ordinal,
            "cudaMemGetInfo",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: both pointers are valid for one write.
                unsafe { (table.cudaMemGetInfo)(&mut free_bytes, &mut total_bytes) }
            },
        )?;
        Ok(self.with_reclaimable(
            ordinal,
            MemoryInfo {
                free_bytes,
                total_bytes,
            },
        ))
    }

    /// Adds what the operating system can reclaim, for an integrated device.
    pub(super) fn with_reclaimable(&self, ordinal: u32, mut info: MemoryInfo) -> MemoryInfo {
        let integrated = self.integrated.load(Ordering::Relaxed);
        if integrated & 1u64.checked_shl(ordinal).unwrap_or(0) != 0 {
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
        assert_may_wait();
        let _wait = self.after_captures(ordinal)?;
        self.on(
            ordinal,
            "cudaDeviceSynchronize",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: no preconditions.
                unsafe { (table.cudaDeviceSynchronize)() }
            },
        )
    }
}
