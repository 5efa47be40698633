//! Drains the work that uses memory before the memory is returned to its owner, even if a wait fails.

use crate::context::stream::StreamInner;
use crate::context::tracker::Use;
use crate::error::{Error, Result};
use crate::process_end;
use std::fmt::Display;
use std::io::Write;

/// The error of a wait that failed.
pub(crate) struct Undrained {
    error: Error,
    /// True if the work is over nevertheless: another way of waiting succeeded, or the context is corrupted and runs nothing.
    over: bool,
}

impl Use {
    fn drain(&self) -> Result<(), Undrained> {
        self.wait().or_else(|error| self.stream.drain_after(error))
    }
}

impl StreamInner {
    /// After a wait for this stream failed: determines if its work is over nevertheless.
    fn drain_after(&self, error: Error) -> Result<(), Undrained> {
        // This also applies after a sticky error: the report that a device is lost may be wrong, and CUDA does not document for any
        // error that all work is over.
        let over = self.synchronize().is_ok()
            || self
                .api()
                .device_synchronize(self.ordinal())
                .map_or_else(|error| error.is_sticky(), |()| true);
        Err(Undrained { error, over })
    }

    /// Waits for all work of the stream, which may use memory of the caller.
    ///
    /// # Errors
    ///
    /// The error of the wait; the work is over nevertheless.
    pub(crate) fn finish(&self) -> Result<()> {
        let to_its_end = ToItsEnd;
        let finished = match self.synchronize().or_else(|error| self.drain_after(error)) {
            Ok(()) => Ok(()),
            Err(undrained) => Err(undrained.or_abort()),
        };
        std::mem::forget(to_its_end);
        finished
    }
}

/// Aborts the process if a panic unwinds while the library waits for work that may use the caller's memory. The unwind would return
/// the memory to its owner while a device may still use it.
///
/// The wait calls CUDA and sends events; panics of these are caught. This guard protects against mistakes in the library.
struct ToItsEnd;

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        abort("the wait for it panicked");
    }
}

fn abort(why: impl Display) -> ! {
    if !process_end::may_call() {
        process_end::stop();
    }
    // The write may fail; the process is aborted in any case.
    let _ = writeln!(
        std::io::stderr(),
        "cuda-um: a device may still use memory that goes back to its owner, and {why}"
    );
    std::process::abort();
}

impl Undrained {
    /// Returns the error, if the work is over.
    ///
    /// # Aborts
    ///
    /// If the work may not be over: otherwise the caller would reuse memory that a device may still access. While the process ends, the thread
    /// stops instead, unless it runs the exit handlers.
    fn or_abort(self) -> Error {
        if !self.over {
            abort(format_args!(
                "no way of waiting for it works: {}",
                self.error
            ));
        }
        self.error
    }
}

/// Drains all uses of memory that the library does not own. When it returns, with an error or without, they are over.
///
/// # Errors
///
/// The first error of the waits.
pub(crate) fn drain_or_abort(uses: &[Use]) -> Result<()> {
    let to_its_end = ToItsEnd;
    let mut first = Ok(());
    for used in uses {
        if let Err(undrained) = used.drain() {
            first = first.and(Err(undrained.or_abort()));
        }
    }
    std::mem::forget(to_its_end);
    first
}

/// Drains all uses. The flag is true if they are over.
pub(crate) fn drain(uses: &[Use]) -> (bool, Result<()>) {
    let (mut over, mut first) = (true, Ok(()));
    for used in uses {
        if let Err(undrained) = used.drain() {
            over &= undrained.over && !undrained.error.is_sticky();
            first = first.and(Err(undrained.error));
        }
    }
    (over, first)
}
