//! The place of captured work: a private stream, on which it is ordered after captured work that it must not overlap.

use crate::context::capture::{Capture, Slot, refused};
use crate::context::event::RawEvent;
use crate::context::op::Op;
use crate::context::stream::StreamInner;
use crate::context::tracked::Part;
use crate::context::tracker::Finished;
use crate::driver::OnStream;
use crate::driver::location::Location;
use crate::error::Result;
use crate::process_end::Calls;
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

pub(crate) struct Place {
    pub(super) capture: Rc<Capture>,
    pub(super) private: Arc<StreamInner>,
}

impl Place {
    /// Captures work: orders it after captured work that it must not overlap, on any stream of the capture.
    pub(crate) fn record<R>(
        &self,
        calls: &Calls,
        op: &Op<'_>,
        work: impl FnOnce(OnStream<'_>) -> Result<R>,
    ) -> Result<R> {
        let kernel = op.node.map(|node| node()).transpose()?;
        let Self { capture, private } = self;
        capture.check_stamps(op)?;
        let parts = op.parts;
        let slots: SmallVec<[_; 16]> = parts.iter().map(|part| capture.slot_of(part)).collect();
        for (slot, part) in slots.iter().zip(parts) {
            slot.uses.borrow().order(private, part.access)?;
        }
        let mut uses = RecordUses {
            capture,
            returned: false,
            private,
            slots: &slots,
            parts,
        };
        let result = work(OnStream::new(private.raw(), calls));
        uses.returned = true;
        drop(uses);
        let Some(mut kernel) = kernel else {
            capture.others.set(capture.others.get() + 1);
            return result.inspect_err(|error| capture.is_broken_by(error));
        };
        let node = match (&result, &mut kernel.named) {
            (Ok(_), Some(named)) => private.captured_node().map(|node| named.node = node),
            _ => Ok(()),
        };
        // A launch of the graph would run the kernel, and nothing would keep it loaded, or set its scalars.
        let result = result.and_then(|result| node.map(|()| result));
        let result = result.inspect_err(|error| capture.is_broken_by(error))?;
        capture.kernels.borrow_mut().push(kernel);
        Ok(result)
    }

    /// A prefetch becomes a step before each launch of the graph.
    pub(crate) fn prefetch(&self, parts: &[Part<'_>], location: Location) {
        for part in parts {
            self.capture.slot_of(part).prefetch(location, &part.bytes);
        }
    }

    pub(crate) fn event(&self) -> Result<(RawEvent, u64)> {
        let event = RawEvent::create(&self.capture.device, false)?.record(&self.private)?;
        Ok((event, self.capture.id))
    }

    /// Orders later work after an event of this capture.
    pub(crate) fn wait(&self, event: &RawEvent, captured_in: Option<u64>) -> Result<()> {
        match captured_in == Some(self.capture.id) {
            true => self.private.enqueue_wait(event),
            false => Err(refused(
                "a wait for an event that was recorded outside of the capture",
                "each launch of the graph would wait for that one record: let the stream of the launch wait for it",
            )),
        }
    }
}

/// Records the uses when dropped: also if the work fails or panics, because a part of it may be captured.
struct RecordUses<'s, 'a> {
    capture: &'s Capture,
    /// False after a panic.
    returned: bool,
    private: &'s Arc<StreamInner>,
    slots: &'s [Rc<Slot>],
    parts: &'s [Part<'a>],
}

impl Drop for RecordUses<'_, '_> {
    fn drop(&mut self) {
        if !self.returned {
            self.capture.fails_with(refused(
                "to go on after work that panicked",
                "CUDA may have recorded a part of that work: capture again",
            ));
        }
        let (seq, mut finished) = (self.private.number(), Finished::new());
        for (slot, part) in self.slots.iter().zip(self.parts) {
            let uses = slot.uses.borrow();
            uses.record(self.private, seq, part.access, &mut finished);
            slot.used(part);
        }
    }
}
