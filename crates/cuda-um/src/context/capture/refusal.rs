//! What a capture refuses, before CUDA sees it.

use crate::context::capture::{Capture, current, of};
use crate::context::device::DeviceState;
use crate::context::stream::StreamInner;
use crate::context::tracked::Part;
use crate::error::{Error, Result};
use std::sync::Arc;

/// Refuses a call for a stream of this thread's capture.
#[inline]
pub(crate) fn refuse_stream(
    call: &'static str,
    reason: &'static str,
    stream: &Arc<StreamInner>,
) -> Result<()> {
    match of(stream)? {
        None => Ok(()),
        Some(_) => Err(refused(call, reason)),
    }
}

pub(crate) const NO_WAIT: &str = "captured work does not run, so the host cannot wait for it: do this before the capture, or after a launch of the graph";
pub(crate) const BY_HOST: &str = "the host would do this at once, and not in each launch: do it before the capture, or between launches of the graph";

/// Refuses a wait for the device of this thread's capture.
pub(crate) fn refuse_device(call: &'static str, device: &Arc<DeviceState>) -> Result<()> {
    match current().filter(|capture| Arc::ptr_eq(&capture.device, device)) {
        None => Ok(()),
        Some(_) => Err(refused(call, NO_WAIT)),
    }
}

/// Refuses an access of the host to memory of this thread's capture. Memory that no captured work uses gets a stamp instead: captured work
/// must not use it from now on.
#[inline]
pub(crate) fn refuse_host<'a>(part: impl FnOnce() -> Part<'a>, call: &'static str) -> Result<()> {
    match current() {
        None => Ok(()),
        Some(capture) => capture.refuse_host(&part(), call),
    }
}

/// Does the same as [`refuse_host`] for an access that cannot fail: the capture fails at its end.
#[inline]
pub(crate) fn accessed_by_host<'a>(part: impl FnOnce() -> Part<'a>, call: &'static str) {
    if let Some(capture) = current()
        && let Err(error) = capture.refuse_host(&part(), call)
    {
        capture.fails_with(error);
    }
}

impl Capture {
    #[cold]
    fn refuse_host(&self, part: &Part<'_>, call: &'static str) -> Result<()> {
        if self.has(part.memory.id()) {
            let call = format_args!("`{call}` of {}", part.memory.title());
            return Err(refused(call, NO_WAIT));
        }
        self.stamp(std::slice::from_ref(part), format_args!("`{call}`"));
        Ok(())
    }
}

#[cold]
pub(crate) fn refused(call: impl ToString, reason: impl ToString) -> Error {
    Error::Capture {
        call: call.to_string(),
        reason: reason.to_string(),
    }
}
