//! Drains the work that uses memory before the memory is returned to its owner, even if a wait fails.

use crate::context::stream::StreamInner;
use crate::context::tracker::Use;
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end;
use std::fmt::Display;

impl StreamInner {
    /// Waits for work of the stream. The flag is true if the work is over, also after an error: another way of waiting succeeded, or the context is
    /// corrupted and runs nothing.
    fn drain(&self, wait: impl FnOnce() -> Result<()>) -> (bool, Result<()>) {
        let waited = wait();
        // This also applies after a sticky error: the report that a device is lost may be wrong, and CUDA does not document for any
        // error that all work is over.
        let over = waited.is_ok()
            || self.synchronize().is_ok()
            || self
                .api()
                .device_synchronize(self.ordinal())
                .map_or_else(|error| error.is_sticky(), |()| true);
        (over, waited)
    }

    /// Waits for all work of the stream, which may use memory of the caller.
    ///
    /// # Errors
    ///
    /// The error of the wait; the work is over nevertheless.
    pub(crate) fn finish(&self) -> Result<()> {
        or_abort(|| self.drain(|| self.synchronize()))
    }
}

/// Returns when the work is over, with the error of the wait.
///
/// # Aborts
///
/// If the work may not be over: otherwise the caller would reuse memory that a device may still access. While the process ends, the thread
/// stops instead, unless it runs the exit handlers.
fn or_abort(drain: impl FnOnce() -> (bool, Result<()>)) -> Result<()> {
    let to_its_end = ToItsEnd;
    let (over, waited) = drain();
    if let Err(error) = &waited
        && !over
    {
        not_over(format_args!("no way of waiting for it works: {error}"));
    }
    std::mem::forget(to_its_end);
    waited
}

/// Aborts the process if a panic unwinds while the library waits for work that may use the caller's memory. The unwind would return
/// the memory to its owner while a device may still use it.
///
/// The wait calls CUDA and sends events; panics of these are caught. This guard protects against mistakes in the library.
struct ToItsEnd;

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        not_over("the wait for it panicked");
    }
}

fn not_over(why: impl Display) -> ! {
    process_end::abort(format_args!(
        "a device may still use memory that goes back to its owner, and {why}"
    ))
}

/// Drains all uses of memory that the library does not own. When it returns, with an error or without, they are over: in a child made by `fork`
/// there are none.
///
/// # Errors
///
/// The first error of the waits.
pub(crate) fn drain_or_abort(uses: &[Use]) -> Result<()> {
    let mut first = Ok(());
    for used in uses {
        // The wait may take a lock, which in a child may never be free.
        let wait = || fork::check("a wait").and_then(|()| used.wait());
        first = first.and(or_abort(|| used.stream.drain(wait)));
    }
    first
}

/// Drains all uses. The flag is true if they are over.
pub(crate) fn drain(uses: &[Use]) -> (bool, Result<()>) {
    uses.iter().fold((true, Ok(())), |(all, first), used| {
        let (over, waited) = used.stream.drain(|| used.wait());
        let over = over && !waited.as_ref().is_err_and(Error::is_sticky);
        (all && over, first.and(waited))
    })
}
