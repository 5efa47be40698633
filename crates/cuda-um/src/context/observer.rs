//! Tells observers, and `tracing`, of operations.
//!
//! While nobody listens, an operation costs two relaxed loads: the number of observers, and the level of `tracing`.

use crate::context::op::{Op, What};
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::error::{Error, Result};
use crate::fork;
use crate::sync::{assert_no_lock_held, outside};
use crate::telemetry::{self, Entered, Level};
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Receives each operation of the process, before it begins and after it ends.
///
/// Both functions run on the thread of the operation, while it holds no lock of cuda-um. They may use the library: work that
/// they enqueue goes to all observers as well, and is no part of a capture of the thread. An arena of um-residency transfers under its own
/// lock: an observer must not use the arena. They may run in a drop, so they must not panic.
pub trait Observer: Send + Sync {
    /// Called after the arguments were checked, and before the operation waits for anything or is enqueued. Work that is enqueued here is
    /// ordered before the operation, as by any two calls of one thread.
    fn before(&self, op: &Op<'_>);

    /// Called when the operation is enqueued, done, or has failed.
    fn after(&self, told: &Told<'_>);
}

/// What became of an operation.
pub struct Told<'a> {
    op: &'a Op<'a>,
    error: Option<&'a Error>,
    is_elided: bool,
}

impl<'a> Told<'a> {
    /// The operation.
    #[must_use]
    pub fn op(&self) -> &'a Op<'a> {
        self.op
    }

    /// The error, if it failed. A part of it may be enqueued nevertheless.
    #[must_use]
    pub fn error(&self) -> Option<&'a Error> {
        self.error
    }

    /// Returns true for a prefetch that was left out, because all pages are at its destination.
    #[must_use]
    pub fn is_elided(&self) -> bool {
        self.is_elided
    }

    /// Sends the event of `tracing`, if the operation has one.
    fn send(&self) {
        let Some(part) = self.op.parts().first().filter(|_| self.error.is_none()) else {
            return;
        };
        let (buffer, range, access) = (part.buffer(), part.range(), part.access);
        let (ranges, is_elided) = (self.op.parts().len(), self.is_elided);
        match self.op.what() {
            What::Prefetch { to } => {
                let text = if is_elided {
                    "prefetch elided"
                } else {
                    "prefetch"
                };
                telemetry::debug!(buffer, ?range, ranges, location = %to, "{text}");
            }
            What::Advise(advice) => telemetry::debug!(buffer, ?range, ?advice, "advise"),
            What::Host { .. } => telemetry::debug!(buffer, ?range, ?access, "host guard"),
            What::Allocate => {
                let info = part.info();
                let (bytes, kind, site) = (info.bytes, info.kind, info.site);
                let (device, what) = (self.op.device().ordinal(), info.title());
                let site = site.map(tracing::field::display);
                telemetry::debug!(buffer, bytes, device, kind, what, site, "allocate");
            }
            _ => {}
        }
    }
}

static OBSERVERS: RwLock<Vec<Arc<dyn Observer>>> = RwLock::new(Vec::new());
/// The length of the list.
// Relaxed: an operation that runs beside `observe` may be told or not.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Tells the observer of all operations of the process, until the result is dropped. A call on another thread may still run then.
///
/// A child made by `fork` tells the parent's observers nothing.
pub fn observe(observer: Arc<dyn Observer>) -> Observing {
    if fork::is_inherited() {
        // A thread of the parent may have the lock.
        return Observing(observer);
    }
    let mut list = OBSERVERS.write().unwrap_or_else(PoisonError::into_inner);
    list.push(Arc::clone(&observer));
    COUNT.store(list.len(), Ordering::Relaxed);
    Observing(observer)
}

/// Keeps an observer installed until it is dropped: [`observe`].
#[must_use = "its drop removes the observer"]
pub struct Observing(Arc<dyn Observer>);

impl Drop for Observing {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        let mut list = OBSERVERS.write().unwrap_or_else(PoisonError::into_inner);
        let at = list.iter().position(|it| Arc::ptr_eq(it, &self.0));
        let removed = at.map(|at| list.swap_remove(at));
        COUNT.store(list.len(), Ordering::Relaxed);
        drop(list);
        // Foreign code, without the lock.
        drop(removed);
    }
}

impl std::fmt::Debug for Observing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observing").finish_non_exhaustive()
    }
}

/// Returns true if an observer, or a subscriber of `tracing`, may want to know.
#[inline]
pub(crate) fn is_heard() -> bool {
    COUNT.load(Ordering::Relaxed) > 0 || telemetry::is_enabled(Level::DEBUG)
}

/// An operation that goes to observers.
struct Heard<'o> {
    op: Op<'o>,
    observers: Observers,
    _span: Entered,
}

struct Observers(SmallVec<[Arc<dyn Observer>; 2]>);

impl Observers {
    fn now() -> Self {
        if COUNT.load(Ordering::Relaxed) == 0 || fork::is_inherited() {
            return Self(SmallVec::new());
        }
        let list = OBSERVERS.read().unwrap_or_else(PoisonError::into_inner);
        Self(list.iter().cloned().collect())
    }

    /// Calls each, without locks, and outside of a capture of this thread.
    fn tell(&self, tell: impl Fn(&dyn Observer)) {
        if !self.0.is_empty() {
            assert_no_lock_held("an observer");
            outside(|| self.0.iter().for_each(|observer| tell(&**observer)));
        }
    }
}

impl<'o> Heard<'o> {
    fn new(mut op: Op<'o>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let observers = Observers::now();
        if !observers.0.is_empty() {
            // Relaxed: the numbers need only differ.
            op.number = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
        }
        Self {
            _span: op.span(),
            op,
            observers,
        }
    }

    #[cold]
    fn begin(op: Op<'o>) -> Self {
        let heard = Self::new(op);
        heard.observers.tell(|observer| observer.before(&heard.op));
        heard
    }

    #[cold]
    fn end(&self, error: Option<&Error>, is_elided: bool) {
        let told = Told {
            op: &self.op,
            error,
            is_elided,
        };
        told.send();
        self.observers.tell(|observer| observer.after(&told));
    }
}

impl Op<'_> {
    /// Does the work of the operation, on a stream if there is one, in its span, and tells observers of it before and after.
    #[inline]
    pub(crate) fn run<R>(
        &self,
        stream: Option<&Stream>,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        if !is_heard() {
            return work();
        }
        let mut op = self.clone();
        op.stream = stream;
        let heard = Heard::begin(op);
        let result = work();
        heard.end(result.as_ref().err(), false);
        result
    }

    /// Tells of a prefetch that was left out.
    #[inline]
    pub(crate) fn elided(&self, stream: &Stream) {
        if is_heard() {
            let mut op = self.clone();
            op.stream = Some(stream);
            Heard::new(op).end(None, true);
        }
    }
}

/// Tells of an operation that has only one of `before` and `after`.
#[cold]
pub(crate) fn tell_once(what: What<'_>, part: &Part<'_>) {
    let op = Op::new(what, part.device(), std::slice::from_ref(part));
    match what {
        What::Free => drop(Heard::begin(op)),
        _ => Heard::new(op).end(None, false),
    }
}

/// The host's access to memory. Its drop tells the observers that the access ended.
// Boxed, because guards are small. `None` if there were no observers.
pub(crate) struct HostUse<'a>(Option<Box<(u64, Part<'a>)>>);

impl<'a> HostUse<'a> {
    /// Gets the access, and tells observers of it.
    #[inline]
    pub(crate) fn begin<A>(
        part: Part<'a>,
        waits: bool,
        access: impl FnOnce() -> Result<A>,
    ) -> Result<(A, Self)> {
        match is_heard() {
            false => Ok((access()?, Self(None))),
            true => Self::heard(part, waits, access),
        }
    }

    #[cold]
    fn heard<A>(
        part: Part<'a>,
        waits: bool,
        access: impl FnOnce() -> Result<A>,
    ) -> Result<(A, Self)> {
        let parts = std::slice::from_ref(&part);
        let heard = Heard::begin(Op::new(What::Host { waits }, part.device(), parts));
        let began = heard.op.number;
        let result = access();
        heard.end(result.as_ref().err(), false);
        drop(heard);
        let access = result?;
        Ok((access, Self((began > 0).then(|| Box::new((began, part))))))
    }
}

impl Drop for HostUse<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(used) = self.0.take() {
            let (began, part) = *used;
            tell_once(What::HostEnd { began }, &part);
        }
    }
}
