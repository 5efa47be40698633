//! Tells observers, and `tracing`, of operations.
//!
//! While nobody listens, an operation costs two relaxed loads: the number of observers, and the level of `tracing`.

use crate::context::op::{Op, What};
use crate::context::stream::Stream;
use crate::context::tracked::Part;
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::Calls;
use crate::sync::{Mutex, assert_no_lock_held, global, outside};
use crate::telemetry::{self, Level};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

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
#[non_exhaustive]
pub struct Told<'a> {
    /// The operation.
    pub op: &'a Op<'a>,
    /// The error, if it failed. A part of it may be enqueued nevertheless.
    pub error: Option<&'a Error>,
    /// True for a prefetch that was left out, because all pages are at its destination.
    pub is_elided: bool,
}

global! {
    static OBSERVERS: Mutex<Vec<Arc<dyn Observer>>> = Mutex::new(Vec::new());
}
/// The number of observers.
// Relaxed: an operation that runs beside `observe` may be told or not.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Tells the observer of all operations of the process, until the result is dropped. A call on another thread may still run then.
pub fn observe(observer: Arc<dyn Observer>) -> Observing {
    let mut list = OBSERVERS.lock();
    list.push(Arc::clone(&observer));
    COUNT.store(list.len(), Ordering::Relaxed);
    Observing(observer)
}

/// An installed [`Observer`].
#[must_use = "its drop removes the observer"]
pub struct Observing(Arc<dyn Observer>);

impl Drop for Observing {
    fn drop(&mut self) {
        fork::released(|| {
            let mut list = OBSERVERS.lock();
            // Not the last reference, so no foreign code is dropped under the lock.
            let at = list.iter().position(|it| Arc::ptr_eq(it, &self.0));
            at.map(|at| list.swap_remove(at));
            COUNT.store(list.len(), Ordering::Relaxed);
        });
    }
}

/// Returns true if an observer or a subscriber of `tracing` may want to know. In a child made by `fork` a lock of theirs may never be free.
#[inline]
pub(crate) fn is_heard() -> bool {
    COUNT.load(Ordering::Relaxed) > 0 && !fork::is_inherited()
        || telemetry::is_enabled(Level::DEBUG)
}

/// An operation with the observers that hear of its begin and its end. Later observers hear nothing of it.
struct Heard<'o> {
    op: Op<'o>,
    observers: SmallVec<[Arc<dyn Observer>; 2]>,
    began: Instant,
}

impl<'o> Heard<'o> {
    #[cold]
    fn new(mut op: Op<'o>, stream: Option<&'o Stream>) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        op.stream = stream;
        let mut observers = SmallVec::new();
        if COUNT.load(Ordering::Relaxed) > 0 {
            observers.extend(OBSERVERS.lock().iter().cloned());
            // Relaxed: the numbers need only differ.
            op.number = NUMBERS.fetch_add(1, Ordering::Relaxed) + 1;
        }
        Self {
            op,
            observers,
            began: Instant::now(),
        }
    }

    /// Calls each, without locks, and outside of a capture of this thread.
    fn tell(&self, tell: impl Fn(&dyn Observer)) {
        if !self.observers.is_empty() {
            assert_no_lock_held("an observer");
            outside(|| self.observers.iter().for_each(|observer| tell(&**observer)));
        }
    }

    fn before(&self) {
        self.tell(|observer| observer.before(&self.op));
    }

    fn after(&self, error: Option<&Error>, is_elided: bool) {
        let op = &self.op;
        self.send(error, is_elided);
        let told = Told {
            op,
            error,
            is_elided,
        };
        self.tell(|observer| observer.after(&told));
    }

    /// Sends the event of `tracing`.
    fn send(&self, error: Option<&Error>, elided: bool) {
        if !telemetry::is_enabled(Level::DEBUG) {
            return;
        }
        let Self { op, began, .. } = self;
        let (what, device, took) = (
            format!("{:?}", op.what),
            op.device.ordinal(),
            began.elapsed(),
        );
        let (first, buffers) = (op.parts.first(), op.parts.len());
        let (buffer, range) = (first.map(Part::buffer), first.map(Part::range));
        let info = first.map(Part::info);
        let (title, site) = (info.map(|it| it.title()), info.and_then(|it| it.site));
        let error = error.map(ToString::to_string);
        telemetry::debug!(
            device,
            buffer,
            title,
            ?site,
            ?range,
            buffers,
            ?took,
            elided,
            error,
            "{what}"
        );
    }
}

impl Op<'_> {
    /// Does an operation of the host, for which the end of the process waits, and tells observers if `is_told`. `call` is the program's call.
    #[inline]
    pub(crate) fn run<R>(
        &self,
        (call, is_told): (&'static str, bool),
        work: impl FnOnce(&Calls) -> Result<R>,
    ) -> Result<R> {
        self.tell_if(is_told, None, || work(&Calls::of(call)?))
    }

    /// Does the work of the operation, and tells observers if `is_told`.
    #[inline]
    pub(crate) fn tell_if<R>(
        &self,
        is_told: bool,
        stream: Option<&Stream>,
        work: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        match is_told && is_heard() {
            false => work(),
            true => self.run_heard(stream, work).0,
        }
    }

    /// Returns the number of the operation, too; 0 if there are no observers.
    #[cold]
    pub(crate) fn run_heard<R>(
        &self,
        stream: Option<&Stream>,
        work: impl FnOnce() -> Result<R>,
    ) -> (Result<R>, u64) {
        let heard = Heard::new(self.clone(), stream);
        heard.before();
        let result = work();
        heard.after(result.as_ref().err(), false);
        (result, heard.op.number)
    }

    /// Tells observers of a prefetch that was left out.
    #[inline]
    pub(crate) fn elided(&self, stream: &Stream) {
        if is_heard() {
            Heard::new(self.clone(), Some(stream)).after(None, true);
        }
    }
}

/// Tells observers of something of which they hear once.
#[cold]
pub(crate) fn tell_once(what: What<'_>, part: &Part<'_>) {
    let op = Op::new(what, part.device(), std::slice::from_ref(part));
    let heard = Heard::new(op, None);
    match what {
        What::Free => {
            heard.send(None, false);
            heard.before();
        }
        _ => heard.after(None, false),
    }
}

/// An access of the host, with the number of its begin. Observers hear of its end when this is dropped.
// Boxed, because guards are small. `None` if there were no observers.
pub(crate) struct HostUse<'a>(Option<Box<(u64, Part<'a>)>>);

impl<'a> HostUse<'a> {
    #[inline]
    pub(crate) fn begin<A>(
        part: Part<'a>,
        waits: bool,
        access: impl FnOnce() -> Result<A>,
    ) -> Result<(A, Self)> {
        if !is_heard() {
            return Ok((access()?, Self(None)));
        }
        let parts = std::slice::from_ref(&part);
        let op = Op::new(What::Host { waits }, part.device(), parts);
        let (access, began) = op.run_heard(None, access);
        let access = access?;
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
