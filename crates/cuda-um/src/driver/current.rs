//! Makes a device current for the duration of one call.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::Result;
use crate::fork;
use crate::process_end::Calls;
use cuda_um_sys as sys;

/// Makes a device current until dropped. The drop makes the caller's device current again.
pub(super) struct Current<'a> {
    api: &'a Api,
    ordinal: u32,
    restore: Option<i32>,
    _calls: Calls,
}

impl<'a> Current<'a> {
    /// Makes the device current for `call`, which is refused in a child made by `fork`.
    #[inline]
    pub(super) fn set(api: &'a Api, ordinal: u32, call: &'static str) -> Result<Self> {
        let calls = Calls::of(call)?;
        match api.has_one_device() {
            true => Ok(Self {
                api,
                ordinal,
                restore: None,
                _calls: calls,
            }),
            false => Self::set_one_of_many(api, ordinal, calls),
        }
    }

    fn set_one_of_many(api: &'a Api, ordinal: u32, calls: Calls) -> Result<Self> {
        let wanted = ordinal as i32;
        let mut before = 0;
        // SAFETY: the pointer is valid for one write.
        let code = unsafe { (api.table.cudaGetDevice)(&mut before) };
        api.check("cudaGetDevice", code, Some(ordinal), || {
            Subject::device(ordinal)
        })?;
        if before == wanted {
            return Ok(Self {
                api,
                ordinal,
                restore: None,
                _calls: calls,
            });
        }
        let current = Self {
            api,
            ordinal,
            restore: Some(before),
            _calls: calls,
        };
        // The error may come from earlier work although the device was set. In that case the drop restores the caller's device.
        api.set_device(wanted)?;
        Ok(current)
    }

    pub(super) fn ordinal(&self) -> u32 {
        self.ordinal
    }
}

impl<'a> Current<'a> {
    /// Like [`set`](Self::set), with one more try, because no later call would release the resource.
    pub(super) fn set_for_release(api: &'a Api, ordinal: u32, call: &'static str) -> Result<Self> {
        Self::set(api, ordinal, call).or_else(|error| match error.is_sticky() {
            true => Err(error),
            false => Self::set(api, ordinal, call),
        })
    }
}

impl Drop for Current<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.restore {
            self.restore(before);
        }
    }
}

impl Current<'_> {
    fn restore(&self, before: i32) {
        if fork::is_over() {
            return;
        }
        let restored = self.api.set_device(before);
        // Try twice: otherwise the caller's later calls would go to the wrong device.
        let restored = restored.or_else(|error| match error.is_sticky() {
            true => Err(error),
            false => self.api.set_device(before),
        });
        if let Err(error) = restored {
            crate::telemetry::warn!(%error, "the caller's current device could not be restored");
        }
    }
}

impl Api {
    pub(super) fn set_device(&self, ordinal: i32) -> Result<()> {
        // SAFETY: any number is permitted; an unknown one is an error.
        let code = unsafe { (self.table.cudaSetDevice)(ordinal) };
        self.check("cudaSetDevice", code, u32::try_from(ordinal).ok(), || {
            Subject::new(format_args!("device {ordinal}"))
        })
    }

    /// Binds the device's primary context to this thread. Functions of the driver require that; functions of the runtime bind it
    /// themselves.
    pub(super) fn bind(&self, ordinal: u32) -> Result<()> {
        self.set_device(ordinal as i32)?;
        // Before CUDA 12, `cudaSetDevice` does not create a context.
        // SAFETY: freeing null does nothing.
        let code = unsafe { (self.table.cudaFree)(std::ptr::null_mut()) };
        self.check("cudaFree", code, Some(ordinal), || Subject::device(ordinal))
    }

    /// Calls a function of the runtime while device `ordinal` is current.
    pub(super) fn on(
        &self,
        ordinal: u32,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        call: impl FnOnce(&sys::Table) -> sys::cudaError_t,
    ) -> Result<()> {
        let current = Current::set(self, ordinal, name)?;
        self.on_current(current, name, subject, call)
    }

    /// Like [`on`](Self::on), for a function that releases a resource. If the device cannot be made current, nothing is released, so it
    /// is tried once more: no later call would release it.
    pub(super) fn on_release(
        &self,
        ordinal: u32,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        call: impl FnOnce(&sys::Table) -> sys::cudaError_t,
    ) -> Result<()> {
        let current = Current::set_for_release(self, ordinal, name)?;
        self.on_current(current, name, subject, call)
    }

    fn on_current(
        &self,
        current: Current<'_>,
        name: &'static str,
        subject: impl FnOnce() -> Subject,
        call: impl FnOnce(&sys::Table) -> sys::cudaError_t,
    ) -> Result<()> {
        let code = call(&self.table);
        self.check(name, code, Some(current.ordinal()), subject)
    }
}
