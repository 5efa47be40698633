//! The place of captured work: a private stream, on which it is ordered after captured work that it must not overlap.

use crate::context::capture::{Capture, Kind, Node, Slot, refused};
use crate::context::event::RawEvent;
use crate::context::observer::What;
use crate::context::stream::StreamInner;
use crate::context::tracked::Part;
use crate::context::tracker::Finished;
use crate::error::Result;
use cuda_um_sys::cudaStream_t;
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;

/// Where captured work goes.
pub(crate) struct Place {
    pub(super) capture: Rc<Capture>,
    pub(super) private: Arc<StreamInner>,
}

impl Place {
    /// Captures work: orders it after captured work that it must not overlap, on any stream of the capture, and notes its nodes. `kind` gets
    /// the index of each part's slot.
    pub(crate) fn record<R>(
        &self,
        parts: &[Part<'_>],
        kind: impl FnOnce(&[usize]) -> Kind,
        work: impl FnOnce(cudaStream_t) -> Result<R>,
    ) -> Result<R> {
        let Self { capture, private } = self;
        let slots: SmallVec<[_; 16]> = parts.iter().map(|part| capture.slot_of(part)).collect();
        for ((_, slot), part) in slots.iter().zip(parts) {
            slot.uses.borrow().order(private, part.access)?;
        }
        let after = private.captured_nodes()?;
        let uses = RecordUses {
            private,
            slots: &slots,
            parts,
        };
        let result = work(private.raw());
        drop(uses);
        let done = result.and_then(|result| Ok((result, private.captured_nodes()?)));
        // A launch of the graph would run that work, and nothing would keep its kernel loaded.
        let (result, nodes) = done.inspect_err(|error| capture.is_broken_by(error))?;
        let indices: SmallVec<[_; 16]> = slots.iter().map(|(index, _)| *index).collect();
        let uses = indices.iter().zip(parts);
        let node = Node {
            kind: kind(&indices),
            uses: uses.map(|(slot, part)| (*slot, part.access)).collect(),
            after,
            nodes,
        };
        capture.nodes.borrow_mut().push(node);
        Ok(result)
    }

    /// Captures an event.
    pub(crate) fn event(&self) -> Result<(RawEvent, u64)> {
        let event = RawEvent::create(&self.capture.device, false)?.record(&self.private)?;
        Ok((event, self.capture.part.get()))
    }

    /// Orders later work after an event of this capture.
    pub(crate) fn wait(&self, event: &RawEvent, captured_in: Option<u64>) -> Result<()> {
        match captured_in == Some(self.capture.part.get()) {
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
    private: &'s Arc<StreamInner>,
    slots: &'s [(usize, Rc<Slot>)],
    parts: &'s [Part<'a>],
}

impl Drop for RecordUses<'_, '_> {
    fn drop(&mut self) {
        let (seq, mut finished) = (self.private.number(), Finished::new());
        for ((_, slot), part) in self.slots.iter().zip(self.parts) {
            let uses = slot.uses.borrow();
            uses.record(self.private, seq, part.access, &mut finished);
            slot.used(part);
        }
    }
}

impl From<What<'_>> for Kind {
    fn from(what: What<'_>) -> Self {
        match what {
            What::Fill => Self::Fill,
            What::Copy => Self::Copy,
            // Launches are captured with their arguments, and hints become steps before a launch: they do not come here.
            _ => Self::Foreign,
        }
    }
}
