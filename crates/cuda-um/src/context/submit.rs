//! The one way of work onto a stream: [`Stream::submit`].

use crate::context::capture::{self, Place};
use crate::context::observer;
use crate::context::op::{Op, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::{Access, Finished};
use crate::driver::OnStream;
use crate::driver::location::Location;
use crate::error::Result;
use crate::fork;
use crate::process_end::Calls;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// What the error for a child made by `fork` names.
const WORK: &str = "work on a stream";

impl Stream {
    /// Enqueues the work of an operation on this stream. `work` gets CUDA's stream.
    ///
    /// In this order: `submit` refuses the operation, or a capture of this thread records it; observers hear that it begins; the gate opens; the stream
    /// waits for all work that the operation must not overlap; `work` runs; each memory records the use, also if `work` fails or panics,
    /// because a part of it may be enqueued; the gate may close; observers hear that the operation has ended.
    ///
    /// One check for fork and the end of the process covers all of that, and another one what comes after observers.
    #[inline]
    pub(crate) fn submit<R>(
        &self,
        op: &Op<'_>,
        work: impl FnOnce(OnStream<'_>) -> Result<R>,
    ) -> Result<R> {
        let calls = Calls::of(WORK)?;
        match self.admit(op)? {
            None => self.enqueue(calls, op, work),
            Some(place) => place.record(&calls, op, work),
        }
    }

    /// Does the same as [`submit`](Self::submit) for a part of an operation of the host: that checked the process, and tells observers.
    #[inline]
    pub(crate) fn submit_within<R>(
        &self,
        calls: &Calls,
        op: &Op<'_>,
        work: impl FnOnce(OnStream<'_>) -> Result<R>,
    ) -> Result<R> {
        match self.admit(op)? {
            None => self.run(calls, op, work),
            Some(place) => place.record(calls, op, work),
        }
    }

    /// Refuses an operation that cannot run on this stream. Returns the place in the capture of this thread, if it records the operation.
    #[inline(always)]
    pub(crate) fn admit(&self, op: &Op<'_>) -> Result<Option<Place>> {
        let inner = self.inner();
        let home = inner.device().identity();
        // Without branches.
        let is_usual = |part: &Part<'_>| (part.home == home) & !part.is_special;
        if !op.parts.iter().all(is_usual) {
            self.check_each(op)?;
        }
        match capture::is_active() {
            false => Ok(None),
            true => capture::admit(op, inner),
        }
    }

    /// Returns true if a prefetch, of memory of the device `home`, is left out without an operation: all pages are there, the memory is of the
    /// stream's device, and no capture and no observer may want to know.
    #[inline]
    pub(crate) fn leaves_out(
        &self,
        home: usize,
        to: Location,
        is_there: impl FnOnce() -> bool,
    ) -> Result<bool> {
        fork::check("prefetch")?;
        let (inner, device) = (self.inner(), self.inner().device());
        let is_quiet = || !(capture::is_active() || observer::is_heard());
        Ok(device.identity() == home && is_there() && is_quiet() && {
            inner.look_for_evictions();
            !matches!(to, Location::Device(ordinal) if device.driver.evicts(ordinal))
        })
    }

    /// Enqueues the work of an admitted operation, and tells observers. They run foreign code, which may fork.
    #[inline]
    pub(crate) fn enqueue<R>(
        &self,
        calls: Calls,
        op: &Op<'_>,
        work: impl FnOnce(OnStream<'_>) -> Result<R>,
    ) -> Result<R> {
        if op.is_told && observer::is_heard() {
            drop(calls);
            let run = || self.run(&Calls::of(WORK)?, op, work);
            return op.run_heard(Some(self), run).0;
        }
        self.run(&calls, op, work)
    }

    #[inline(always)]
    fn run<R>(
        &self,
        calls: &Calls,
        op: &Op<'_>,
        work: impl FnOnce(OnStream<'_>) -> Result<R>,
    ) -> Result<R> {
        // Finished uses of earlier work. Declared first, so dropped last, when all uses are recorded and the gate is open to guards: a drop may
        // destroy a stream.
        let mut finished = Finished::new();
        let inner = self.inner();
        let gate = inner.device().gate().filter(|_| is_excluded(inner, op));
        let _turn = gate.map(|gate| gate.enqueue(inner)).transpose()?;
        for part in op.parts {
            part.uses.order(inner, part.access)?;
        }
        let record = RecordUses {
            op,
            inner,
            finished: &mut finished,
        };
        let done = work(OnStream::new(inner.raw(), calls))?;
        // Here, and not by the drop, which is no part of this function.
        record.record();
        if finished.is_empty() {
            std::mem::forget(finished);
        }
        Ok(done)
    }

    /// Refuses memory of another runtime, a write to a read-only import, and memory that the device of a launch cannot reach.
    #[cold]
    fn check_each(&self, op: &Op<'_>) -> Result<()> {
        op.parts.iter().try_for_each(|part| {
            self.check_runtime(part.memory.device(), "the buffer")?;
            part.check_write()?;
            match op.what {
                What::Launch { .. } | What::Graph { .. } => part.memory.check_kernel_of(op.device),
                _ => Ok(()),
            }
        })
    }
}

/// Returns true if host guards exclude the work.
#[cold]
fn is_excluded(stream: &StreamInner, op: &Op<'_>) -> bool {
    // A kernel keeps the host off all managed memory, and other work off the memory that it uses.
    let may_run_kernels = matches!(
        op.what,
        What::Launch { .. } | What::Graph { .. } | What::Foreign
    );
    let is_concurrent = |part: &Part<'_>| {
        part.memory
            .device()
            .capabilities()
            .concurrent_managed_access
    };
    let concurrent = stream.device().capabilities.concurrent_managed_access;
    !(concurrent && op.parts.iter().all(is_concurrent))
        && (may_run_kernels || op.parts.iter().any(|part| part.memory.info().is_managed))
}

/// Records the uses after the work is enqueued; its drop does after an error or a panic, when a part may be enqueued.
struct RecordUses<'s> {
    op: &'s Op<'s>,
    inner: &'s Arc<StreamInner>,
    finished: &'s mut Finished,
}

impl Drop for RecordUses<'_> {
    #[cold]
    fn drop(&mut self) {
        self.record_all();
    }
}

impl RecordUses<'_> {
    #[inline(always)]
    fn record(self) {
        ManuallyDrop::new(self).record_all();
    }

    #[inline(always)]
    fn record_all(&mut self) {
        let Self {
            op,
            inner,
            finished,
        } = self;
        let seq = inner.number();
        if let Some(module) = op.module {
            module.record(inner, seq, Access::Read, finished);
        }
        let (home, mut may_move) = (inner.device().identity(), false);
        for part in op.parts {
            part.uses.record(inner, seq, part.access, finished);
            may_move |= part.is_located | (part.home != home);
        }
        // After all uses are recorded, because a mistake in the location of pages costs only time.
        if may_move {
            op.parts
                .iter()
                .for_each(|part| part.memory.used_by(inner, part.access));
        }
    }
}
