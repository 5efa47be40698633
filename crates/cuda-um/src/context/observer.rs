//! Notifies an observer, if one is installed, of operations and of buffers that are made and dropped. The profiler is an observer.
//!
//! While no observer collects, each of these functions costs one atomic load.

use crate::context::device::Device;
use crate::context::stream::StreamInner;
use crate::context::tracked::{Part, Tracked};
use crate::driver::location::Location;
use crate::fork::Origin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// An operation of the library.
#[derive(Clone, Copy)]
pub(crate) enum What<'a> {
    Launch(&'a str),
    Prefetch {
        to: Location,
        /// True if all pages were at the destination and CUDA was not called.
        elided: bool,
    },
    /// CUDA's name of the advice, without its prefix.
    Advise(&'static str, Option<Location>),
    Copy,
    Fill,
}

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
/// [`Origin::number`] + 1 of the process in which the observer collects; 0 while it does not. A child made by `fork` has no observer.
static COLLECTS_IN: AtomicU64 = AtomicU64::new(0);

/// Starts to call the observer. A process has at most one.
pub(crate) fn start(observer: &'static dyn Observer) {
    OBSERVER.get_or_init(|| observer);
    COLLECTS_IN.store(this_process(), Ordering::Release);
}

/// Stops calling the observer. A call on another thread may still run.
pub(crate) fn stop() {
    COLLECTS_IN.store(0, Ordering::Relaxed);
}

/// The observer, if it collects in this process.
#[inline]
pub(crate) fn observer() -> Option<&'static dyn Observer> {
    match COLLECTS_IN.load(Ordering::Acquire) {
        0 => None,
        process => here(process),
    }
}

#[cold]
fn here(process: u64) -> Option<&'static dyn Observer> {
    OBSERVER
        .get()
        .copied()
        .filter(|_| process == this_process())
}

fn this_process() -> u64 {
    u64::from(Origin::here().number()) + 1
}

/// An operation that has begun. If it fails, this is dropped without a call.
#[must_use = "say when it is done"]
pub(crate) struct Started {
    at: Option<u64>,
}

impl Started {
    /// Begins an operation on the device.
    #[inline]
    pub(crate) fn now(device: &Device) -> Self {
        Self {
            at: observer().and_then(|observer| observer.now(device)),
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
pub(crate) struct HostUse {
    token: Option<Token>,
}

impl HostUse {
    #[inline]
    pub(crate) fn begin(part: Part<'_>) -> Self {
        Self {
            token: observer().and_then(|observer| observer.host_begins(part)),
        }
    }
}

impl Drop for HostUse {
    #[inline]
    fn drop(&mut self) {
        if let Some(token) = self.token.take()
            && let Some(observer) = observer()
        {
            observer.host_ends(token);
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

/// Reports that memory is dropped.
#[inline]
pub(crate) fn dropped(memory: &dyn Tracked) {
    if let Some(observer) = observer() {
        observer.dropped(memory);
    }
}
