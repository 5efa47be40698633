//! The one way onto a stream: checks, gate, order, work, record.

use crate::context::stream::{Stream, StreamInner};
use crate::context::tracker::{Access, InFlight, Use};
use crate::error::{Error, Result};
use crate::resource::allocation::RawBuffer;
use crate::resource::cache::Place;
use smallvec::SmallVec;
use std::sync::Arc;

/// A buffer that work uses.
#[derive(Clone, Copy)]
pub struct Tracked<'a> {
    pub(crate) raw: &'a RawBuffer,
    pub(crate) access: Access,
}

impl<'a> Tracked<'a> {
    pub(crate) fn new(raw: &'a RawBuffer, access: Access) -> Self {
        Self { raw, access }
    }
}

/// Enqueues `work`, which uses the buffers, on the stream: after what it must not overlap, and noted in each buffer.
///
/// # Ordering
///
/// The uses are noted even if `work` fails: part of it may have been enqueued.
pub(crate) fn enqueue<'a>(
    stream: &Stream,
    used: impl Iterator<Item = Tracked<'a>> + Clone,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    enqueue_of(None, stream, used, work)
}

/// The same for a kernel of a module, which notes the use as the buffers do: it stays loaded until the kernel is done.
pub(crate) fn enqueue_kernel<'a>(
    module: &InFlight,
    stream: &Stream,
    used: impl Iterator<Item = Tracked<'a>> + Clone,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    enqueue_of(Some(module), stream, used, work)
}

fn enqueue_of<'a>(
    module: Option<&InFlight>,
    stream: &Stream,
    used: impl Iterator<Item = Tracked<'a>> + Clone,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // Of earlier work. Declared first, so dropped last, when all notes are made and the gate is unlocked: to drop one may destroy its
    // stream.
    let mut finished = Finished::new();
    let inner = stream.inner();
    inner.api().origin.check("enqueue")?;
    let mut concurrent = inner.device().capabilities.concurrent_managed_access;
    for Tracked { raw, .. } in used.clone() {
        if !stream.runtime().is_same(raw.device().runtime()) {
            return Err(Error::RuntimeMismatch { what: "the buffer" });
        }
        concurrent &= raw.device().capabilities().concurrent_managed_access;
    }
    let gate = inner.device().gate.as_ref().filter(|_| !concurrent);
    let _open = gate.map(|gate| gate.enqueue(inner)).transpose()?;
    for Tracked { raw, access } in used.clone() {
        raw.in_flight.order(inner, access)?;
    }
    let _noted = Noted {
        module,
        inner,
        used,
        finished: &mut finished,
    };
    work()
}

/// Notes the uses when it is dropped: after the work is enqueued, and also if that failed or panicked half-way.
struct Noted<'s, 'a, I: Iterator<Item = Tracked<'a>> + Clone> {
    module: Option<&'s InFlight>,
    inner: &'s Arc<StreamInner>,
    used: I,
    finished: &'s mut Finished,
}

/// Uses that are over.
type Finished = SmallVec<[Use; 16]>;

impl<'a, I: Iterator<Item = Tracked<'a>> + Clone> Drop for Noted<'_, 'a, I> {
    fn drop(&mut self) {
        let Self {
            inner, finished, ..
        } = self;
        let seq = inner.number();
        if let Some(module) = self.module {
            finished.extend(module.record(inner, seq, Access::Read));
        }
        for Tracked { raw, access } in self.used.clone() {
            finished.extend(raw.in_flight.record(inner, seq, access));
        }
        // Where the pages are: a mistake there costs time, and nothing else.
        let place = Place::Device(inner.ordinal());
        for Tracked { raw, access } in self.used.clone() {
            raw.used_by(place, access, inner);
        }
    }
}
