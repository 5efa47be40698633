//! Waiting to the very end, also where waiting itself fails: before memory that is not ours is given back.

use crate::context::stream::StreamInner;
use crate::context::tracker::Use;
use crate::error::{Error, Result};
use std::fmt::Display;
use std::io::Write;

/// Waiting failed.
pub(crate) struct Unsettled {
    error: Error,
    /// The work is over nevertheless: another way of waiting worked, or the context is broken and runs nothing any more.
    over: bool,
}

impl Use {
    fn settle(&self) -> Result<(), Unsettled> {
        self.wait().or_else(|error| self.stream.settle(error))
    }
}

impl StreamInner {
    /// After a wait for this stream failed: whether its work is over nevertheless.
    fn settle(&self, error: Error) -> Result<(), Unsettled> {
        // Also after a sticky error: one word of a lost device may be a mistake, and CUDA says of none that all work is over.
        let over = self.synchronize().is_ok()
            || self
                .api()
                .device_synchronize(self.ordinal())
                .map_or_else(|error| error.is_sticky(), |()| true);
        Err(Unsettled { error, over })
    }

    /// Waits for all work of the stream, which may use memory of the caller's.
    ///
    /// # Errors
    ///
    /// The error of waiting; the work is over nevertheless.
    pub(crate) fn finish(&self) -> Result<()> {
        let to_its_end = ToItsEnd;
        let finished = match self.synchronize().or_else(|error| self.settle(error)) {
            Ok(()) => Ok(()),
            Err(unsettled) => Err(unsettled.or_abort()),
        };
        std::mem::forget(to_its_end);
        finished
    }
}

/// Lives while the library waits for work that may use the caller's memory. A panic there would give that memory back to its owner, who
/// does not know that a device may still use it: the process is aborted, as if the wait had failed.
///
/// The wait calls CUDA, and sends events, whose panics are caught: this is for mistakes of the library's own.
struct ToItsEnd;

impl Drop for ToItsEnd {
    fn drop(&mut self) {
        abort("the wait for it panicked");
    }
}

fn abort(why: impl Display) -> ! {
    // Fails where nobody reads it.
    let _ = writeln!(
        std::io::stderr(),
        "cuda-um: a device may still use memory that goes back to its owner, and {why}"
    );
    std::process::abort();
}

impl Unsettled {
    /// The error, if the work is over.
    ///
    /// # Aborts
    ///
    /// If it may not be: the caller's memory is about to be used again, by somebody who does not know.
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

/// Waits for all uses of memory that is somebody else's. When it returns, with an error or without, they are over.
///
/// # Errors
///
/// The first error of waiting.
pub(crate) fn settle_or_abort(uses: &[Use]) -> Result<()> {
    let to_its_end = ToItsEnd;
    let mut first = Ok(());
    for used in uses {
        if let Err(unsettled) = used.settle() {
            first = first.and(Err(unsettled.or_abort()));
        }
    }
    std::mem::forget(to_its_end);
    first
}

/// Waits for all uses. The flag says whether they are over.
pub(crate) fn settle(uses: &[Use]) -> (bool, Result<()>) {
    let (mut over, mut first) = (true, Ok(()));
    for used in uses {
        if let Err(unsettled) = used.settle() {
            over &= unsettled.over && !unsettled.error.is_sticky();
            first = first.and(Err(unsettled.error));
        }
    }
    (over, first)
}
