//! The one way onto a stream: checks, gate, order, work, record, observer.

use crate::context::device::Device;
use crate::context::observer::{Started, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::{Access, InFlight, Use};
use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Enqueues `work`, which uses parts of memory, on the stream: after all work that it must not overlap, and recorded as a use of each memory.
///
/// # Ordering
///
/// The uses are recorded even if `work` fails: part of it may have been enqueued.
pub(crate) fn enqueue<'a>(
    stream: &Stream,
    parts: impl Iterator<Item = Part<'a>> + Clone,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    enqueue_of(None, stream, parts, work)
}

impl Started {
    /// The same as [`enqueue`], and tells the observer if it succeeds. The work of a kernel is a use of its module too, which stays loaded
    /// until the kernel is done.
    pub(crate) fn enqueue<'a>(
        self,
        what: What<'_>,
        (device, module): (&Device, Option<&InFlight>),
        stream: &Stream,
        parts: impl Iterator<Item = Part<'a>> + Clone,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        enqueue_of(module, stream, parts.clone(), work)?;
        self.done(what, device, Some(stream.inner()), parts);
        Ok(())
    }
}

fn enqueue_of<'a>(
    module: Option<&InFlight>,
    stream: &Stream,
    parts: impl Iterator<Item = Part<'a>> + Clone,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // Of earlier work. Declared first, so dropped last, when all uses are recorded and the gate is unlocked: to drop one may destroy its
    // stream.
    let mut finished = Finished::new();
    let inner = stream.inner();
    inner.api().origin.check("enqueue")?;
    let mut concurrent = inner.device().capabilities.concurrent_managed_access;
    for Part { memory, .. } in parts.clone() {
        if !stream.runtime().is_same(memory.device().runtime()) {
            return Err(Error::RuntimeMismatch { what: "the buffer" });
        }
        concurrent &= memory.device().capabilities().concurrent_managed_access;
    }
    let gate = inner.device().gate().filter(|_| !concurrent);
    let _open = gate.map(|gate| gate.enqueue(inner)).transpose()?;
    for Part { memory, access, .. } in parts.clone() {
        memory.uses().order(inner, access)?;
    }
    let _noted = Noted {
        module,
        inner,
        parts,
        finished: &mut finished,
    };
    work()
}

/// Records the uses when it is dropped: after the work is enqueued, and also if that failed or panicked half-way.
struct Noted<'s, 'a, I: Iterator<Item = Part<'a>> + Clone> {
    module: Option<&'s InFlight>,
    inner: &'s Arc<StreamInner>,
    parts: I,
    finished: &'s mut Finished,
}

/// Uses that are over.
type Finished = SmallVec<[Use; 16]>;

impl<'a, I: Iterator<Item = Part<'a>> + Clone> Drop for Noted<'_, 'a, I> {
    fn drop(&mut self) {
        let Self {
            inner, finished, ..
        } = self;
        let seq = inner.number();
        if let Some(module) = self.module {
            finished.extend(module.record(inner, seq, Access::Read));
        }
        for Part { memory, access, .. } in self.parts.clone() {
            finished.extend(memory.uses().record(inner, seq, access));
        }
        // After all uses are recorded: a mistake there costs time, and nothing else.
        for Part { memory, access, .. } in self.parts.clone() {
            memory.used_by(inner, access);
        }
    }
}
