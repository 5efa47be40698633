//! Versions, devices and their attributes.

use crate::driver::api::{Api, bit};
use crate::driver::call::How::Anywhere;
use crate::driver::call::calls;
use crate::driver::check::{Subject, host_memory, text};
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::{self, Used};
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

calls! {
    safe fn attribute(ordinal, attribute: sys::cudaDeviceAttr) -> value: i32
        => [Anywhere] runtime.cudaDeviceGetAttribute(&mut value, attribute, ordinal as i32),
        of ("attribute {} of device {ordinal}", attribute.0);

    safe fn driver_device(ordinal) -> device: sys::CUdevice
        => [Anywhere] driver.cuDeviceGet(&mut device, ordinal as i32);

    safe fn raw_memory_info(ordinal) -> info: MemoryInfo
        => runtime.cudaMemGetInfo(&mut info.free_bytes, &mut info.total_bytes);

    safe fn synchronize_device(ordinal) => [Waits] runtime.cudaDeviceSynchronize();
}

impl Api {
    /// Major and minor version; zeros if there is no driver.
    pub(crate) fn driver_version(&self) -> Result<sys::RuntimeVersion> {
        let call = self.begin("cudaDriverGetVersion")?;
        let mut version = 0;
        // SAFETY: the pointer is valid for one write.
        let ask = || unsafe { (self.table.cudaDriverGetVersion)(&mut version) };
        call.run(Anywhere(None), ask, || Subject::new("the driver"))?;
        let version = u32::try_from(version).unwrap_or(0);
        Ok(sys::RuntimeVersion {
            major: version / 1000,
            minor: version % 1000 / 10,
        })
    }

    pub(crate) fn device_count(&self) -> Result<usize> {
        let call = self.begin("cudaGetDeviceCount")?;
        let mut count = 0;
        // SAFETY: the pointer is valid for one write.
        let ask = || unsafe { (self.table.cudaGetDeviceCount)(&mut count) };
        call.run(Anywhere(None), ask, || Subject::new("devices"))?;
        let count = usize::try_from(count).unwrap_or(0);
        self.has_devices(count);
        fork::cuda_is_used();
        process_end::watch(Used::Driver);
        Ok(count)
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
        let device = self.driver_device(ordinal)?;
        let call = self.begin("cuDeviceGetName")?;
        let ask = self.table.driver()?.cuDeviceGetName;
        let mut name = [0; 256];
        call.run(
            Anywhere(Some(ordinal)),
            // SAFETY: the pointer is valid for the length given, and the driver terminates the text within it.
            || unsafe { ask(name.as_mut_ptr(), name.len() as i32 - 1, device) },
            || Subject::device(ordinal),
        )?;
        // SAFETY: the last byte was not passed to the driver, so it is NUL.
        Ok(unsafe { text(name.as_ptr()) })
    }

    pub(crate) fn memory_info(&self, ordinal: u32) -> Result<MemoryInfo> {
        let info = self.raw_memory_info(ordinal)?;
        Ok(self.with_reclaimable(ordinal, info))
    }

    /// Adds what the operating system can reclaim, for an integrated device.
    pub(super) fn with_reclaimable(&self, ordinal: u32, mut info: MemoryInfo) -> MemoryInfo {
        if self.integrated.load(Ordering::Relaxed) & bit(ordinal) != 0 {
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
        let _wait = self.after_captures(ordinal)?;
        self.synchronize_device(ordinal)
    }
}
