//! Notifies listeners of operations and of buffers that are made and dropped: an observer (the profiler), and a planner (automatic
//! prefetch), if they are installed.
//!
//! While none listens, each of these functions costs one atomic load, for both.

use crate::context::device::Device;
use crate::context::listeners::{self, Listener, has, listens, set_observer};
use crate::context::planner::{self, Planned};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::{Part, Tracked};
use crate::error::Result;
use std::sync::OnceLock;

pub(crate) use crate::context::listeners::What;

/// The observer's number for an operation that has begun.
pub(crate) struct Token {
    pub(crate) session: u64,
    pub(crate) operation: usize,
}

/// An observer of the library's operations. The functions are called only between [`start`] and [`stop`].
pub(crate) trait Observer: Sync {
    /// The current time; `None` if the device is not observed.
    fn now(&self, device: &Device) -> Option<u64>;

    /// Called when an operation that began at `start` is done, or enqueued on `stream`.
    fn operation(
        &self,
        start: u64,
        what: What<'_>,
        device: &Device,
        stream: Option<&StreamInner>,
        parts: &mut dyn Iterator<Item = Part<'_>>,
    );

    /// Called when the host may access memory, until [`Observer::host_ends`].
    fn host_begins(&self, part: Part<'_>) -> Option<Token>;

    fn host_ends(&self, token: Token);

    /// Called when memory is allocated, or gets a label or a name.
    fn made(&self, memory: &dyn Tracked);

    fn dropped(&self, memory: &dyn Tracked);
}

static OBSERVER: OnceLock<&'static dyn Observer> = OnceLock::new();
/// Starts to call the observer. A process has at most one.
pub(crate) fn start(observer: &'static dyn Observer) {
    OBSERVER.get_or_init(|| observer);
    set_observer(true);
}

/// Stops calling the observer. A call on another thread may still run.
pub(crate) fn stop() {
    set_observer(false);
}

/// The observer, if it collects in this process.
#[inline]
pub(crate) fn observer() -> Option<&'static dyn Observer> {
    match listens(Listener::Observer) {
        true => OBSERVER.get().copied(),
        false => None,
    }
}

/// An operation that has begun. If it fails, this is dropped without a call.
#[must_use = "say when it is done"]
#[derive(Default)]
pub(crate) struct Started {
    at: Option<u64>,
    /// True if a planner is to see it.
    is_planned: bool,
}

impl Started {
    /// Begins an operation on the device.
    #[inline]
    pub(crate) fn now(device: &Device) -> Self {
        match listeners::word() {
            0 => Self::default(),
            word => Self::heard(word, device),
        }
    }

    #[cold]
    fn heard(word: u32, device: &Device) -> Self {
        let observes = has(word, Listener::Observer);
        let observer = observes.then(observer).flatten();
        Self {
            at: observer.and_then(|observer| observer.now(device)),
            is_planned: has(word, Listener::Planner),
        }
    }

    /// Tells the planner that work is about to be enqueued.
    #[inline]
    pub(crate) fn before(&self, what: What<'_>, stream: &Stream, parts: &[Part<'_>]) {
        if self.is_planned {
            planner::before(what, stream, parts);
        }
    }

    /// Tells the planner that the work is enqueued.
    #[inline]
    pub(crate) fn after(&self, parts: &[Part<'_>]) {
        if self.is_planned {
            planner::after(parts);
        }
    }

    /// Reports the operation as done, or as enqueued on the stream.
    #[inline]
    pub(crate) fn done<'p>(
        self,
        what: What<'_>,
        device: &Device,
        stream: Option<&StreamInner>,
        parts: impl IntoIterator<Item = Part<'p>>,
    ) {
        if let Some(start) = self.at
            && let Some(observer) = observer()
        {
            observer.operation(start, what, device, stream, &mut parts.into_iter());
        }
    }
}

/// Reports that the host may access a buffer, from its creation until it is dropped.
#[derive(Default)]
pub(crate) struct HostUse<'a> {
    token: Option<Token>,
    // Boxed, because guards are small.
    planned: Option<Box<(Part<'a>, Planned)>>,
}

impl<'a> HostUse<'a> {
    /// Begins the access. `is_held` is true if the host may access the memory already, so that a planner must not move it.
    #[inline]
    pub(crate) fn begin(part: Part<'a>, is_held: bool) -> Self {
        match listeners::word() {
            0 => Self::default(),
            word => Self::heard(word, part, is_held),
        }
    }

    #[cold]
    fn heard(word: u32, part: Part<'a>, is_held: bool) -> Self {
        let planned = match has(word, Listener::Planner) {
            true => planner::host_begins(&part, is_held),
            false => None,
        };
        let observes = has(word, Listener::Observer);
        let observer = observes.then(observer).flatten();
        Self {
            token: observer.and_then(|observer| observer.host_begins(part.clone())),
            planned: planned.map(|planned| Box::new((part, planned))),
        }
    }
}

impl HostUse<'_> {
    /// Must be called when the host has the access.
    #[inline]
    pub(crate) fn waited(&self) {
        if let Some(planned) = &self.planned {
            planner::host_waited(&planned.0, &planned.1);
        }
    }
}

impl Drop for HostUse<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.token.take()
            && let Some(observer) = observer()
        {
            observer.host_ends(token);
        }
        // A child made by `fork` has no planner.
        if let Some(planned) = self.planned.take()
            && listens(Listener::Planner)
        {
            let (part, planned) = *planned;
            planner::host_ends(&part, planned);
        }
    }
}

/// Reports that memory was allocated, or got its label or name.
#[inline]
pub(crate) fn made(memory: &dyn Tracked) {
    if let Some(observer) = observer() {
        observer.made(memory);
    }
}

/// Must be called before the program gives advice for memory: the advice of a planner ends.
pub(crate) fn advises(memory: &dyn Tracked) -> Result<()> {
    match listens(Listener::Planner) {
        true => planner::advises(memory),
        false => Ok(()),
    }
}

/// Reports that memory is dropped.
#[inline]
pub(crate) fn dropped(memory: &dyn Tracked) {
    if let Some(observer) = observer() {
        observer.dropped(memory);
    }
    if listens(Listener::Planner) {
        planner::dropped(memory);
    }
}
