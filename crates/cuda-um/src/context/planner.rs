//! The planner: sees operations before and after they are enqueued, so that it can move memory ahead of them.

use crate::context::listeners::{What, count_planner};
use crate::context::stream::Stream;
use crate::context::tracked::{Part, Tracked};
use crate::error::Result;
use std::sync::OnceLock;

/// What the planner keeps of a host guard until its end.
pub(crate) struct Planned {
    /// The number of the event in the planner's sequence.
    pub(crate) event: u64,
    /// The planner's number of the session.
    pub(crate) session: u64,
}

/// A planner. Each function is called on the thread of the operation, which may have no session: then it does nothing.
pub(crate) trait Planner: Sync {
    /// Called before work is enqueued, outside of all locks.
    fn before(&self, what: What<'_>, stream: &Stream, parts: &[Part<'_>]);

    /// Called after the work of the last [`before`](Self::before) was enqueued.
    fn after(&self, parts: &[Part<'_>]);

    /// Called when the host accesses memory: before it waits for the memory, unless `is_held`.
    fn host_begins(&self, part: &Part<'_>, is_held: bool) -> Option<Planned>;

    /// Called when the host has the access.
    fn host_waited(&self, part: &Part<'_>, planned: &Planned);

    /// Called when the guard is gone.
    fn host_ends(&self, part: &Part<'_>, planned: Planned);

    /// Called before the program gives advice for memory, which ends the planner's advice.
    fn advises(&self, memory: &dyn Tracked) -> Result<()>;

    fn dropped(&self, memory: &dyn Tracked);
}

static PLANNER: OnceLock<&'static dyn Planner> = OnceLock::new();

/// Calls the planner from now on, until as many calls of [`leave`].
pub(crate) fn enter(planner: &'static dyn Planner) {
    PLANNER.get_or_init(|| planner);
    count_planner(true);
}

/// Ends the calls of one [`enter`].
pub(crate) fn leave() {
    count_planner(false);
}

#[cold]
pub(crate) fn before(what: What<'_>, stream: &Stream, parts: &[Part<'_>]) {
    if let Some(planner) = PLANNER.get() {
        planner.before(what, stream, parts);
    }
}

#[cold]
pub(crate) fn after(parts: &[Part<'_>]) {
    if let Some(planner) = PLANNER.get() {
        planner.after(parts);
    }
}

#[cold]
pub(crate) fn host_begins(part: &Part<'_>, is_held: bool) -> Option<Planned> {
    PLANNER.get()?.host_begins(part, is_held)
}

#[cold]
pub(crate) fn host_waited(part: &Part<'_>, planned: &Planned) {
    if let Some(planner) = PLANNER.get() {
        planner.host_waited(part, planned);
    }
}

#[cold]
pub(crate) fn host_ends(part: &Part<'_>, planned: Planned) {
    if let Some(planner) = PLANNER.get() {
        planner.host_ends(part, planned);
    }
}

#[cold]
pub(crate) fn advises(memory: &dyn Tracked) -> Result<()> {
    match PLANNER.get() {
        Some(planner) => planner.advises(memory),
        None => Ok(()),
    }
}

#[cold]
pub(crate) fn dropped(memory: &dyn Tracked) {
    if let Some(planner) = PLANNER.get() {
        planner.dropped(memory);
    }
}
