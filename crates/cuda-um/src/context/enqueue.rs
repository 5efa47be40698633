//! Enqueues work on a stream: checks, gate, order, work, record, observer.

use crate::context::capture::{self, NO_WAIT};
use crate::context::device::Device;
use crate::context::observer::{self, Op, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::{Access, Finished, InFlight};
use crate::error::Result;
use crate::fork;
use cuda_um_sys::cudaStream_t;
use std::sync::Arc;

/// Enqueues `work`, which uses parts of memory, on the stream. The work runs after all work that it must not overlap, and each memory
/// records it as a use.
///
/// # Ordering
///
/// The uses are recorded even if `work` fails, because a part of it may have been enqueued.
pub(crate) fn enqueue<R>(
    stream: &Stream,
    parts: &[Part<'_>],
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    if capture::is_active() {
        capture::refuse(
            "a copy from or to the host, or an export",
            NO_WAIT,
            stream.inner(),
            parts,
        )?;
    }
    enqueue_of(Work::Own, stream, parts, work)
}

/// Like [`enqueue`], as an operation of which observers are told. The work of a kernel is also a use of its module, which stays loaded
/// until the kernel is done. `work` gets CUDA's stream, which is another one if this thread captures the stream.
#[inline]
pub(crate) fn enqueue_op(
    what: What<'_>,
    (device, module): (&Device, Option<&InFlight>),
    stream: &Stream,
    parts: &[Part<'_>],
    work: impl FnOnce(cudaStream_t) -> Result<()>,
) -> Result<()> {
    if capture::is_active()
        && let Some(place) = capture::of(stream.inner(), parts)?
    {
        check_each(stream, parts)?;
        let name = match what {
            What::Fill => "a fill",
            What::Copy => "a copy",
            // Launches are captured with their arguments, and hints become steps before a launch: they do not come here.
            _ => "other work",
        };
        return place.record(format_args!("{name}"), parts, None, work);
    }
    let kind = module.map_or(Work::Own, Work::Kernel);
    let op = || Op::new(what, device, parts).on(stream);
    observer::around(op, || {
        enqueue_of(kind, stream, parts, || work(stream.as_raw()))
    })
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
#[inline]
pub(crate) fn enqueue_of<R>(
    kind: Work<'_>,
    stream: &Stream,
    parts: &[Part<'_>],
    work: impl FnOnce() -> Result<R>,
) -> Result<R> {
    // Finished uses of earlier work. Declared first, so dropped last, when all uses are recorded and the gate is unlocked: a drop may
    // destroy a stream.
    let mut finished = Finished::new();
    let inner = stream.inner();
    fork::check("enqueue")?;
    inner.check_here()?;
    let home = inner.device().identity();
    if parts
        .iter()
        .any(|part| part.home != home || part.is_special)
    {
        check_each(stream, parts)?;
    }
    let gate = inner.device().gate();
    let gate = gate.filter(|_| is_excluded(inner, kind, parts));
    let _open = gate.map(|gate| gate.enqueue(inner)).transpose()?;
    for part in parts {
        part.uses.order(inner, part.access)?;
    }
    let _record = RecordUses {
        kind,
        inner,
        parts,
        finished: &mut finished,
    };
    work()
}

/// Refuses memory of another runtime, and a write to a read-only import.
#[cold]
pub(crate) fn check_each(stream: &Stream, parts: &[Part<'_>]) -> Result<()> {
    parts.iter().try_for_each(|part| {
        stream.check_runtime(part.memory.device(), "the buffer")?;
        part.check_write()
    })
}

/// Returns true if host guards exclude the work.
#[cold]
fn is_excluded(stream: &StreamInner, kind: Work<'_>, parts: &[Part<'_>]) -> bool {
    // A kernel keeps the host off all managed memory, and other work off the memory that it uses.
    let is_kernel = !matches!(kind, Work::Own);
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
    kind: Work<'s>,
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
        if let Work::Kernel(module) = self.kind {
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
