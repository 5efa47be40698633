//! Enqueues work on a stream: checks, gate, order, work, record, observer.

use crate::context::device::Device;
use crate::context::observer::{Started, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::{Access, Finished, InFlight};
use crate::error::{Error, Result};
use std::sync::Arc;

/// Enqueues `work`, which uses parts of memory, on the stream. The work runs after all work that it must not overlap, and each memory
/// records it as a use.
///
/// # Ordering
///
/// The uses are recorded even if `work` fails, because a part of it may have been enqueued.
pub(crate) fn enqueue(
    stream: &Stream,
    parts: &[Part<'_>],
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    enqueue_of(None, stream, parts, work)
}

impl Started {
    /// Like [`enqueue`], and notifies the observer if it succeeds. The work of a kernel is also a use of its module, which stays loaded
    /// until the kernel is done.
    #[inline]
    pub(crate) fn enqueue(
        self,
        what: What<'_>,
        (device, module): (&Device, Option<&InFlight>),
        stream: &Stream,
        parts: &[Part<'_>],
        work: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        enqueue_of(module, stream, parts, work)?;
        self.done(what, device, Some(stream.inner()), parts.iter().cloned());
        Ok(())
    }
}

/// Like [`enqueue`]. With a module, the work is a kernel of it.
#[inline]
pub(crate) fn enqueue_of(
    module: Option<&InFlight>,
    stream: &Stream,
    parts: &[Part<'_>],
    work: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // Finished uses of earlier work. Declared first, so dropped last, when all uses are recorded and the gate is unlocked: a drop may
    // destroy a stream.
    let mut finished = Finished::new();
    let inner = stream.inner();
    inner.api().origin.check("enqueue")?;
    let home = inner.device().identity();
    if parts.iter().any(|part| part.home != home) {
        check_runtime(stream, parts)?;
    }
    let gate = inner.device().gate();
    let gate = gate.filter(|_| is_excluded(inner, module.is_some(), parts));
    let _open = gate.map(|gate| gate.enqueue(inner)).transpose()?;
    for part in parts {
        part.uses.order(inner, part.access)?;
    }
    let _record = RecordUses {
        module,
        inner,
        parts,
        finished: &mut finished,
    };
    work()
}

/// Refuses memory of another runtime.
#[cold]
fn check_runtime(stream: &Stream, parts: &[Part<'_>]) -> Result<()> {
    match parts
        .iter()
        .all(|part| stream.runtime().is_same(part.memory.device().runtime()))
    {
        true => Ok(()),
        false => Err(Error::RuntimeMismatch { what: "the buffer" }),
    }
}

/// Returns true if host guards exclude the work.
#[cold]
fn is_excluded(
    stream: &StreamInner,
    // A kernel keeps the host off all managed memory, and other work off the memory that it uses.
    is_kernel: bool,
    parts: &[Part<'_>],
) -> bool {
    let is_concurrent = |part: &Part<'_>| {
        part.memory
            .device()
            .capabilities()
            .concurrent_managed_access
    };
    let concurrent = stream.device().capabilities.concurrent_managed_access;
    !(concurrent && parts.iter().all(is_concurrent))
        && (is_kernel || parts.iter().any(|part| part.memory.is_managed()))
}

/// Records the uses when dropped: after the work is enqueued, and also if the enqueue fails or panics half-way.
struct RecordUses<'s, 'a> {
    module: Option<&'s InFlight>,
    inner: &'s Arc<StreamInner>,
    parts: &'s [Part<'a>],
    finished: &'s mut Finished,
}

impl Drop for RecordUses<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        let Self {
            inner, finished, ..
        } = self;
        let seq = inner.number();
        if let Some(module) = self.module {
            module.record(inner, seq, Access::Read, finished);
        }
        for part in self.parts {
            part.uses.record(inner, seq, part.access, finished);
        }
        // After all uses are recorded, because a mistake in the residency cache costs only time.
        let home = inner.device().identity();
        for part in self.parts {
            if part.is_located || part.home != home {
                part.memory.used_by(inner, part.access);
            }
        }
    }
}
