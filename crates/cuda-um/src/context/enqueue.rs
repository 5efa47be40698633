//! Enqueues work on a stream: checks, gate, order, work, record, observer.

use crate::context::device::Device;
use crate::context::observer::{Started, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::{Access, InFlight, Use};
use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::sync::Arc;

/// Enqueues `work`, which uses parts of memory, on the stream. The work runs after all work that it must not overlap, and each memory
/// records it as a use.
///
/// # Ordering
///
/// The uses are recorded even if `work` fails, because a part of it may have been enqueued.
pub(crate) fn enqueue<'a>(
    stream: &Stream,
    parts: impl Iterator<Item = Part<'a>> + Clone,
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    enqueue_of(Work::Own, stream, parts, work)
}

impl Started {
    /// Like [`enqueue`], and notifies the observer if it succeeds. The work of a kernel is also a use of its module, which stays loaded
    /// until the kernel is done.
    pub(crate) fn enqueue<'a>(
        self,
        what: What<'_>,
        (device, module): (&Device, Option<&InFlight>),
        stream: &Stream,
        parts: impl Iterator<Item = Part<'a>> + Clone,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let kind = module.map_or(Work::Own, Work::Kernel);
        enqueue_of(kind, stream, parts.clone(), work)?;
        self.done(what, device, Some(stream.inner()), parts);
        Ok(())
    }
}

/// The kind of work.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    /// A copy, a fill, a migration.
    Own,
    /// A kernel, with the uses of its module.
    Kernel(&'a InFlight),
    /// Work of another library, which may be kernels.
    Foreign,
}

/// Like [`enqueue`], for any kind of work.
pub(crate) fn enqueue_of<'a, R>(
    kind: Work<'_>,
    stream: &Stream,
    parts: impl Iterator<Item = Part<'a>> + Clone,
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    // Finished uses of earlier work. Declared first, so dropped last, when all uses are recorded and the gate is unlocked: a drop may
    // destroy a stream.
    let mut finished = Finished::new();
    let inner = stream.inner();
    inner.api().origin.check("enqueue")?;
    inner.check_here()?;
    let mut concurrent = inner.device().capabilities.concurrent_managed_access;
    // A kernel keeps the host off all managed memory, and other work off the memory that it uses.
    let mut excludes = !matches!(kind, Work::Own);
    for Part { memory, access, .. } in parts.clone() {
        if !stream.runtime().is_same(memory.device().runtime()) {
            return Err(Error::RuntimeMismatch { what: "the buffer" });
        }
        if access.is_write() {
            memory.check_write()?;
        }
        concurrent &= memory.device().capabilities().concurrent_managed_access;
        excludes |= memory.is_managed();
    }
    let gate = inner.device().gate().filter(|_| excludes && !concurrent);
    let _open = gate.map(|gate| gate.enqueue(inner)).transpose()?;
    for Part { memory, access, .. } in parts.clone() {
        memory.uses().order(inner, access)?;
    }
    let _record = RecordUses {
        kind,
        inner,
        parts,
        finished: &mut finished,
    };
    work()
}

/// Records the uses when dropped: after the work is enqueued, and also if the enqueue fails or panics half-way.
struct RecordUses<'s, 'a, I: Iterator<Item = Part<'a>> + Clone> {
    kind: Work<'s>,
    inner: &'s Arc<StreamInner>,
    parts: I,
    finished: &'s mut Finished,
}

/// Uses whose work is done.
type Finished = SmallVec<[Use; 16]>;

impl<'a, I: Iterator<Item = Part<'a>> + Clone> Drop for RecordUses<'_, 'a, I> {
    fn drop(&mut self) {
        let Self {
            inner, finished, ..
        } = self;
        let seq = inner.number();
        let mut record = |uses: &InFlight, access| {
            let done = uses.record(inner, seq, access);
            if !done.is_empty() {
                finished.extend(done);
            }
        };
        if let Work::Kernel(module) = self.kind {
            record(module, Access::Read);
        }
        for Part { memory, access, .. } in self.parts.clone() {
            record(memory.uses(), access);
        }
        // After all uses are recorded, because a mistake in the residency cache costs only time.
        for Part { memory, access, .. } in self.parts.clone() {
            memory.used_by(inner, access);
        }
    }
}
