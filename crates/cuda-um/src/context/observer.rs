//! Tells an observer, if one is installed, of buffers that are made and dropped and of operations. The profiler is one.
//!
//! While no observer collects, each of these functions is one relaxed load.

use crate::context::device::Device;
use crate::context::stream::StreamInner;
use crate::context::tracked::{Part, Tracked};
use crate::context::tracker::Access;
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
        /// All pages were there: CUDA was not called.
        elided: bool,
    },
    /// CUDA's name of the advice, without its prefix.
    Advise(&'static str, Option<Location>),
    Copy,
    Fill,
}

/// An operation that an observer has begun to see: its number there.
pub(crate) struct Token {
    pub(crate) session: u64,
    pub(crate) operation: usize,
}

/// Sees what the library does. The functions are only called between [`start`] and [`stop`].
pub(crate) trait Observer: Sync {
    /// The time; `None` if the device is not observed.
    fn now(&self, device: &Device) -> Option<u64>;

    /// An operation that began at `start` is done, or enqueued on `stream`.
    fn operation(
        &self,
        start: u64,
        what: What<'_>,
        device: &Device,
        stream: Option<&StreamInner>,
        parts: &mut dyn Iterator<Item = Part<'_>>,
    );

    /// The host may touch memory, until [`Observer::host_ends`].
    fn host_begins(&self, part: Part<'_>) -> Option<Token>;

    fn host_ends(&self, token: Token);

    /// Memory was allocated, or got a label or a name.
    fn made(&self, memory: &dyn Tracked);

    fn dropped(&self, memory: &dyn Tracked);
}

static OBSERVER: OnceLock<&'static dyn Observer> = OnceLock::new();
/// The process in which the observer collects, as [`Origin::number`] and one; 0 while it does not. A child made by `fork` has none.
static COLLECTS_IN: AtomicU64 = AtomicU64::new(0);

/// Calls the observer from now on. A process has one.
pub(crate) fn start(observer: &'static dyn Observer) {
    OBSERVER.get_or_init(|| observer);
    COLLECTS_IN.store(this_process(), Ordering::Release);
}

/// Ends what [`start`] began. A call of another thread may still be under way.
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

/// An operation that has begun. If it fails, this is just dropped.
#[must_use = "say when it is done"]
pub(crate) struct Started {
    at: Option<u64>,
}

impl Started {
    /// An operation on the device begins.
    #[inline]
    pub(crate) fn now(device: &Device) -> Self {
        Self {
            at: observer().and_then(|observer| observer.now(device)),
        }
    }

    /// It was done, or enqueued on the stream.
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

/// The host may touch a buffer from when this is made until it is dropped.
pub(crate) struct HostUse {
    token: Option<Token>,
}

impl HostUse {
    #[inline]
    pub(crate) fn begin(memory: &dyn Tracked, access: Access) -> Self {
        Self {
            token: observer().and_then(|observer| {
                observer.host_begins(Part {
                    bytes: 0..memory.describe().bytes,
                    memory,
                    access,
                })
            }),
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

/// Memory was allocated, or got its label or name.
#[inline]
pub(crate) fn made(memory: &dyn Tracked) {
    if let Some(observer) = observer() {
        observer.made(memory);
    }
}

/// Memory is dropped.
#[inline]
pub(crate) fn dropped(memory: &dyn Tracked) {
    if let Some(observer) = observer() {
        observer.dropped(memory);
    }
}
