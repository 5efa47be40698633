//! What a capture refuses, before CUDA sees it.

use crate::context::capture::{Capture, current};
use crate::context::op::Op;
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::error::{Error, Result};
use std::fmt;

pub(crate) const NO_WAIT: &str = "captured work does not run, so the host cannot wait for it: do this before the capture, or after a launch of the graph";
pub(crate) const BY_HOST: &str = "the host would do this at once, and not in each launch: do it before the capture, or between launches of the graph";

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

    /// Marks memory that a call outside of the capture uses: no launch of the graph would repeat that call. A prefetch changes nothing.
    pub(super) fn stamp(&self, parts: &[Part<'_>], call: impl fmt::Display) {
        let mut stamps = self.stamps.borrow_mut();
        for part in parts.iter().filter(|part| part.access != Access::Move) {
            let stamp = stamps.entry(part.memory.id());
            stamp.or_insert_with(|| call.to_string());
        }
    }

    /// Refuses captured work with memory that has a stamp. There is no graph afterwards, whatever the closure does.
    pub(super) fn check_stamps(&self, op: &Op<'_>) -> Result<()> {
        let stamps = self.stamps.borrow();
        let stamped = |part: &Part<'_>| Some((part.memory.title(), stamps.get(&part.memory.id())?));
        let Some((title, call)) = op.parts.iter().find_map(stamped) else {
            return Ok(());
        };
        let refuse = || {
            refused(
                format_args!("{} with {title}", op.words()),
                format_args!(
                    "{call} has used that memory since the capture began, and no launch of the graph repeats that call: make it before the capture, or between launches"
                ),
            )
        };
        self.fails_with(refuse());
        Err(refuse())
    }
}

#[cold]
pub(crate) fn refused(call: impl ToString, reason: impl ToString) -> Error {
    Error::Capture {
        call: call.to_string(),
        reason: reason.to_string(),
    }
}
