//! Advice, memset and events.
#![allow(unsafe_code, reason = "calls raw CUDA")]

use super::memory::{Kind, Memory};
use super::{Raw, check};
use anyhow::{Result, bail, ensure};
use cuda_um::sys;
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
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn advise_accessed_by(&self, memory: &Memory, on: bool) -> Result<()> {
        let advice = match on {
            true => cudaMemoryAdvise::cudaMemAdviseSetAccessedBy,
            false => cudaMemoryAdvise::cudaMemAdviseUnsetAccessedBy,
        };
        self.advise(memory, advice)
    }

    /// `cudaMemAdvise`: sets read-mostly on managed memory.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn advise_read_mostly(&self, memory: &Memory) -> Result<()> {
        self.advise(memory, cudaMemoryAdvise::cudaMemAdviseSetReadMostly)
    }

    /// `cudaMemAdvise`: unsets read-mostly on managed memory.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn unadvise_read_mostly(&self, memory: &Memory) -> Result<()> {
        self.advise(memory, cudaMemoryAdvise::cudaMemAdviseUnsetReadMostly)
    }

    fn advise(&self, memory: &Memory, advice: cudaMemoryAdvise) -> Result<()> {
        ensure!(
            memory.kind == Kind::Managed,
            "only managed memory takes advice"
        );
        let (start, bytes) = (memory.pointer.cast(), memory.len * size_of::<f32>());
        // SAFETY: the range is one live managed allocation.
        let code = unsafe {
            if let Some(advise) = self.table.cudaMemAdvise_v13 {
                let type_ = sys::cudaMemLocationType::cudaMemLocationTypeDevice;
                advise(start, bytes, advice, sys::cudaMemLocation { type_, id: 0 })
            } else if let Some(advise) = self.table.cudaMemAdvise_v11 {
                advise(start, bytes, advice, 0)
            } else {
                bail!("this runtime has no cudaMemAdvise");
            }
        };
        check(&self.table, "cudaMemAdvise", code)
    }

    /// Enqueues `cudaMemsetAsync` of device memory to zero.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn clear(&self, memory: &mut Memory) -> Result<()> {
        ensure!(memory.kind == Kind::Device, "for device memory");
        self.busy.set(true);
        let bytes = memory.len * size_of::<f32>();
        // SAFETY: the device memory has this length, and is borrowed exclusively; the host cannot access it.
        let code =
            unsafe { (self.table.cudaMemsetAsync)(memory.pointer.cast(), 0, bytes, self.stream) };
        check(&self.table, "cudaMemsetAsync", code)
    }

    /// `cudaEventCreateWithFlags`, without timing.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn mark(self: &Rc<Self>) -> Result<Mark> {
        let mut event = null_mut();
        // SAFETY: the place is valid for the call.
        let code = unsafe {
            (self.table.cudaEventCreateWithFlags)(&mut event, sys::cudaEventDisableTiming)
        };
        check(&self.table, "cudaEventCreateWithFlags", code)?;
        Ok(Mark {
            raw: Rc::clone(self),
            event,
        })
    }
}

impl Mark {
    /// `cudaEventRecord`.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn record(&self) -> Result<()> {
        let raw = &self.raw;
        // SAFETY: event and stream live.
        let code = unsafe { (raw.table.cudaEventRecord)(self.event, raw.stream) };
        check(&raw.table, "cudaEventRecord", code)
    }

    /// `cudaEventQuery` of an event that has completed.
    ///
    /// # Errors
    /// CUDA reports an error; an event that has not completed is also an error.
    pub fn query(&self) -> Result<()> {
        // SAFETY: the event lives.
        let code = unsafe { (self.raw.table.cudaEventQuery)(self.event) };
        check(&self.raw.table, "cudaEventQuery", code)
    }

    /// `cudaStreamWaitEvent` on the stream itself.
    ///
    /// # Errors
    /// CUDA reports an error.
    pub fn hold_stream(&self) -> Result<()> {
        let raw = &self.raw;
        // SAFETY: event and stream live.
        let code = unsafe { (raw.table.cudaStreamWaitEvent)(raw.stream, self.event, 0) };
        check(&raw.table, "cudaStreamWaitEvent", code)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: created by `mark`; CUDA releases the event when its work is done.
        unsafe { (self.raw.table.cudaEventDestroy)(self.event) };
    }
}
