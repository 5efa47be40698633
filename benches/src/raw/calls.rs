//! Advice, memset and events.

use super::memory::{Kind, Memory};
use super::{Raw, check};
use anyhow::{Result, ensure};
use cuda_um::sys;
use cuda_um_testkit::call;
use cuda_um_testkit::call::Place;
use std::ptr::null_mut;
use std::rc::Rc;
use sys::cudaMemoryAdvise;

/// An event without timing, destroyed when dropped.
pub struct Mark {
    raw: Rc<Raw>,
    event: sys::cudaEvent_t,
}

impl Raw {
    /// `cudaMemAdvise`: sets or unsets accessed-by for device 0 on managed memory.
    pub fn advise_accessed_by(&self, memory: &Memory, on: bool) -> Result<()> {
        let advice = match on {
            true => cudaMemoryAdvise::cudaMemAdviseSetAccessedBy,
            false => cudaMemoryAdvise::cudaMemAdviseUnsetAccessedBy,
        };
        self.advise(memory, advice)
    }

    /// `cudaMemAdvise`: sets read-mostly on managed memory.
    pub fn advise_read_mostly(&self, memory: &Memory) -> Result<()> {
        self.advise(memory, cudaMemoryAdvise::cudaMemAdviseSetReadMostly)
    }

    /// `cudaMemAdvise`: unsets read-mostly on managed memory.
    pub fn unadvise_read_mostly(&self, memory: &Memory) -> Result<()> {
        self.advise(memory, cudaMemoryAdvise::cudaMemAdviseUnsetReadMostly)
    }

    fn advise(&self, memory: &Memory, advice: cudaMemoryAdvise) -> Result<()> {
        ensure!(
            memory.kind == Kind::Managed,
            "only managed memory takes advice"
        );
        let code = call::advise(&self.table, memory.range(), advice, Place::device(0));
        check(&self.table, "cudaMemAdvise", code)
    }

    /// Enqueues `cudaMemsetAsync` of device memory to zero.
    pub fn clear(&self, memory: &mut Memory) -> Result<()> {
        ensure!(memory.kind == Kind::Device, "for device memory");
        self.busy.set(true);
        let bytes = memory.len * size_of::<f32>();
        // The device memory has this length, and is borrowed exclusively; the host cannot access it.
        cuda!(
            self.table,
            cudaMemsetAsync(memory.pointer.cast(), 0, bytes, self.stream)
        )
    }

    /// `cudaEventCreateWithFlags`, without timing.
    pub fn mark(self: &Rc<Self>) -> Result<Mark> {
        let mut event = null_mut();
        cuda!(
            self.table,
            cudaEventCreateWithFlags(&mut event, sys::cudaEventDisableTiming)
        )?;
        Ok(Mark {
            raw: Rc::clone(self),
            event,
        })
    }
}

impl Mark {
    /// `cudaEventRecord`.
    pub fn record(&self) -> Result<()> {
        let raw = &self.raw;
        cuda!(raw.table, cudaEventRecord(self.event, raw.stream))
    }

    /// `cudaEventQuery` of an event that has completed.
    pub fn query(&self) -> Result<()> {
        cuda!(self.raw.table, cudaEventQuery(self.event))
    }

    /// `cudaStreamWaitEvent` on the stream itself.
    pub fn hold_stream(&self) -> Result<()> {
        let raw = &self.raw;
        cuda!(raw.table, cudaStreamWaitEvent(raw.stream, self.event, 0))
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // CUDA releases the event when its work is done.
        call!(self.raw.table, cudaEventDestroy(self.event));
    }
}
