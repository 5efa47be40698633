//! The bodies of conditions: work of a capture that goes into a graph of its own, which a node of the captured graph runs.

use crate::context::capture::{Capture, Captured, Kind, Node};
use crate::context::stream::StreamInner;
use crate::context::tracker::{Access, Finished, InFlight};
use crate::error::Result;
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The part of a capture that stands still while a body is recorded.
struct Outer {
    streams: SmallVec<[Captured; 2]>,
    nodes: Vec<Node>,
    part: u64,
    /// The uses of each slot.
    uses: Vec<InFlight>,
}

/// A body that is recorded, until it is ended or dropped by a panic.
struct Body<'c> {
    capture: &'c Capture,
    private: Arc<StreamInner>,
    outer: Option<Outer>,
}

impl Capture {
    /// Makes a condition in the captured graph, or in the body that is recorded.
    pub(crate) fn new_condition(&self) -> Result<u64> {
        self.first().condition()
    }

    /// Records a node that runs a body if, or as long as, the value of its condition is not 0. It is after all work that is captured by now, on
    /// all streams; work of it sets the value. `record` records the body.
    ///
    /// After an error the capture can only end with an error, because the body may lack work.
    pub(crate) fn condition(
        &self,
        repeats: bool,
        handle: u64,
        record: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let first = self.first();
        self.join()?;
        let lacked_work = self.lacks_work.replace(true);
        let private = StreamInner::create_private(&self.device)?;
        let (after, node) = first.add_condition(handle, repeats, &private)?;
        let mut body = self.begin_body(private);
        let recorded = body.join_in().and_then(|()| record());
        let recorded = recorded.and_then(|()| self.join());
        let (nodes, ended) = body.end();
        let mut uses: SmallVec<[(usize, Access); 4]> = SmallVec::new();
        for (slot, access) in nodes.iter().flat_map(|node| &node.uses) {
            // A body may run not at all: it writes a part.
            let access = match access.is_write() {
                true => Access::WritePart,
                false => *access,
            };
            match uses.iter_mut().find(|(known, _)| known == slot) {
                None => uses.push((*slot, access)),
                Some((_, known)) if access.is_write() => *known = access,
                Some(_) => {}
            }
        }
        let (seq, mut finished) = (first.number(), Finished::new());
        for (slot, access) in &uses {
            let slot = &self.slots.borrow()[*slot];
            let uses = slot.uses.borrow();
            uses.record(&first, seq, *access, &mut finished);
        }
        self.nodes.borrow_mut().push(Node {
            kind: Kind::Body { repeats, nodes },
            uses,
            after,
            nodes: smallvec::smallvec![node],
        });
        recorded?;
        ended?;
        self.lacks_work.set(lacked_work);
        Ok(())
    }

    /// Later work goes into the body, which the private stream captures in the place of the first stream.
    fn begin_body(&self, private: Arc<StreamInner>) -> Body<'_> {
        let stream = Arc::clone(&self.streams.borrow()[0].stream);
        let captured = Captured {
            stream,
            private: Arc::clone(&private),
        };
        let slots = self.slots.borrow();
        let uses = slots.iter().map(|slot| slot.uses.take());
        let outer = Outer {
            streams: self.streams.replace(smallvec::smallvec![captured]),
            nodes: self.nodes.take(),
            // Relaxed: the numbers need only differ.
            part: self
                .part
                .replace(super::NEXT.fetch_add(1, Ordering::Relaxed)),
            uses: uses.collect(),
        };
        Body {
            capture: self,
            private,
            outer: Some(outer),
        }
    }

    /// Returns true while the body of a condition is recorded.
    pub(crate) fn is_in_body(&self) -> bool {
        self.part.get() != self.id
    }
}

impl Body<'_> {
    /// The other streams of the capture join the body.
    fn join_in(&self) -> Result<()> {
        let mut others = self.outer.iter().flat_map(|outer| &outer.streams[1..]);
        others.try_for_each(|other| self.capture.fork(&other.stream))
    }

    /// Ends the body; later work goes into the graph around it. Returns the work of the body.
    fn end(&mut self) -> (Vec<Node>, Result<()>) {
        let Some(outer) = self.outer.take() else {
            return (Vec::new(), Ok(()));
        };
        let capture = self.capture;
        let ended = self.private.end_body();
        capture.streams.replace(outer.streams);
        capture.part.set(outer.part);
        let uses = outer
            .uses
            .into_iter()
            .chain(std::iter::repeat_with(InFlight::default));
        for (slot, uses) in capture.slots.borrow().iter().zip(uses) {
            slot.uses.replace(uses);
        }
        (capture.nodes.replace(outer.nodes), ended)
    }
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
