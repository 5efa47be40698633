//! The order of streams: events that cover the work of a stream, and the waits of the host and of other streams for them.
#![allow(unsafe_code, reason = "passes handles to CUDA")]

use crate::context::event::RawEvent;
use crate::context::stream::StreamInner;
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// Events of the stream that may not be complete, in its order. The first one is kept until it is complete: if newer events always replaced
/// it, no event would be seen to complete.
#[derive(Default)]
pub(super) struct Tails(VecDeque<Tail>);

/// An event, and the number of the last work that it covers.
struct Tail {
    covers: u64,
    event: Arc<RawEvent>,
    /// The caller of the library recorded it, so work is likely to be ordered after this point: later events do not replace it.
    is_mark: bool,
}

/// Beyond this number of marks, a new one replaces the one before.
const MOST_MARKS: usize = 1024;
/// Beyond this number, a new mark asks for the completion of old ones.
const FEW_MARKS: usize = 4;

impl Tails {
    /// The first event that covers the work up to `seq`.
    fn covering(&self, seq: u64) -> Option<(u64, Arc<RawEvent>)> {
        let at = self.0.partition_point(|tail| tail.covers < seq);
        let Tail { covers, event, .. } = self.0.get(at)?;
        Some((*covers, Arc::clone(event)))
    }

    /// Makes room for a new event. Returns one that is no longer needed.
    fn make_room(&mut self, is_done: impl Fn(u64) -> bool) -> Option<Arc<RawEvent>> {
        let done = self.0.partition_point(|tail| is_done(tail.covers));
        if let Some(last) = self.0.drain(..done).next_back() {
            return Some(last.event);
        }
        let is_replaced = |last: &Tail| !last.is_mark || self.0.len() > MOST_MARKS;
        let is_replaced = self.0.len() > 1 && self.0.back().is_some_and(is_replaced);
        let replaced = if is_replaced { self.0.pop_back() } else { None };
        replaced.map(|last| last.event)
    }
}

impl StreamInner {
    /// Waits for all work of the stream; for the whole device, if the work is not known.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let seq = self.submitted();
        match self.is_unknown {
            true => self.api().device_synchronize(self.ordinal())?,
            // SAFETY: the stream is live as long as `self`.
            false => unsafe { self.api().stream_synchronize(self.ordinal(), self.raw()) }?,
        }
        self.completed_to(seq);
        Ok(())
    }

    pub(crate) fn is_idle(&self) -> Result<bool> {
        if self.is_unknown {
            return Ok(self.is_known_idle());
        }
        let seq = self.submitted();
        let idle = self.raw.is_idle()?;
        if idle {
            self.completed_to(seq);
        }
        Ok(idle)
    }

    pub(crate) fn wait_for(&self, seq: u64) -> Result<()> {
        if self.is_known_done(seq) {
            return Ok(());
        }
        // If no work was enqueued after it, no event is needed.
        if seq == self.submitted() || self.is_unknown {
            return self.synchronize();
        }
        let (covers, event) = self.cover(seq)?;
        event.wait()?;
        self.completed_to(covers);
        Ok(())
    }

    /// Returns true if the work up to `seq` is done. Does not wait.
    pub(crate) fn is_done(&self, seq: u64) -> Result<bool> {
        if self.is_known_done(seq) {
            return Ok(true);
        }
        if self.is_unknown {
            return Ok(false);
        }
        let (covers, event) = self.cover(seq)?;
        let done = event.is_complete()?;
        if done {
            self.completed_to(covers);
        } else {
            self.ask_kept(covers)?;
        }
        Ok(done)
    }

    /// Queries the first event, if it is older than `than`. If it is complete, the next one is kept.
    fn ask_kept(&self, than: u64) -> Result<()> {
        let (covers, event) = match self.tails.lock().0.front() {
            Some(first) if first.covers < than => (first.covers, Arc::clone(&first.event)),
            _ => return Ok(()),
        };
        if !self.is_known_done(covers) && event.is_complete()? {
            self.completed_to(covers);
        }
        Ok(())
    }

    /// Orders later work on this stream after the work of another stream up to `seq`. Does not block the caller.
    #[inline]
    pub(crate) fn order_after(self: &Arc<Self>, other: &Arc<Self>, seq: u64) -> Result<()> {
        match Arc::ptr_eq(self, other) || other.is_known_done(seq) {
            true => Ok(()),
            false => self.wait_in_order(other, seq),
        }
    }

    fn wait_in_order(&self, other: &Arc<Self>, seq: u64) -> Result<()> {
        let is_other = |stream: &Weak<Self>| std::ptr::eq(stream.as_ptr(), Arc::as_ptr(other));
        if self
            .waited
            .lock()
            .iter()
            .any(|(stream, covered)| is_other(stream) && *covered >= seq)
        {
            return Ok(());
        }
        let (covers, event) = other.cover(seq)?;
        self.enqueue_wait(&event)?;
        // Stored after the wait is enqueued: a thread that reads the entry enqueues after the wait.
        let mut waited = self.waited.lock();
        waited.retain(|(stream, _)| stream.strong_count() > 0);
        match waited.iter_mut().find(|(stream, _)| is_other(stream)) {
            Some((_, seq)) => *seq = covers.max(*seq),
            None => waited.push((Arc::downgrade(other), covers)),
        }
        Ok(())
    }

    pub(crate) fn enqueue_wait(&self, event: &RawEvent) -> Result<()> {
        // SAFETY: both are live; every `RawEvent` is recorded when it is made.
        unsafe {
            self.api()
                .stream_wait_event(self.ordinal(), self.raw(), event.raw())
        }
    }

    /// An event that covers at least the work up to `seq`, and the number of the last work that it covers.
    fn cover(&self, seq: u64) -> Result<(u64, Arc<RawEvent>)> {
        let mut tails = self.tails.lock();
        match tails.covering(seq) {
            Some(known) => Ok(known),
            None => self.add_event(&mut tails, false),
        }
    }

    /// An event after all work so far. Work that is ordered after a part of that work waits for no later work of this stream.
    pub(crate) fn mark(&self) -> Result<Arc<RawEvent>> {
        if self.tails.lock().0.len() > FEW_MARKS {
            self.ask_kept(u64::MAX)?;
        }
        Ok(self.add_event(&mut self.tails.lock(), true)?.1)
    }

    /// Refuses unknown work, which no event covers.
    pub(crate) fn check_known(&self) -> Result<()> {
        match self.is_unknown {
            false => Ok(()),
            true => Err(Error::Busy {
                what: "the memory".to_owned(),
                by: "another library uses it, and only a wait for the device tells the end"
                    .to_owned(),
            }),
        }
    }

    fn add_event(&self, tails: &mut Tails, is_mark: bool) -> Result<(u64, Arc<RawEvent>)> {
        self.check_known()?;
        // Read before the record: the event covers all work that is numbered by now.
        let covers = self.submitted();
        let unneeded = tails.make_room(|covers| self.is_known_done(covers));
        let event = match unneeded.and_then(Arc::into_inner) {
            Some(event) => event,
            None => RawEvent::create(&self.device, false)?,
        };
        let event = Arc::new(event.record(self)?);
        tails.0.push_back(Tail {
            covers,
            event: Arc::clone(&event),
            is_mark,
        });
        Ok((covers, event))
    }
}
