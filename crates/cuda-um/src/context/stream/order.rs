//! The order of streams: events that cover the work of a stream, and the waits of other streams for them.
#![allow(unsafe_code, reason = "passes handles to CUDA")]

use crate::context::device::DeviceState;
use crate::context::event::RawEvent;
use crate::context::stream::StreamInner;
use crate::context::stream_handle::StreamHandle;
use crate::error::{Error, Result};
use crate::fork;
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
    /// Unknown work of another library, which is over after a wait for the device.
    pub(crate) fn unknown(device: &Arc<DeviceState>) -> Arc<Self> {
        Self::of(device, StreamHandle::unknown(&device.api, device.ordinal))
    }

    /// Work of another library that an event covers.
    pub(crate) fn of_event(device: &Arc<DeviceState>, event: &Arc<RawEvent>) -> (Arc<Self>, u64) {
        let work = Self::unknown(device);
        let seq = work.number();
        work.tails.lock().0.push_back(Tail {
            covers: seq,
            event: Arc::clone(event),
            is_mark: false,
        });
        (work, seq)
    }

    /// Refuses a thread for which the handle is another stream.
    #[inline]
    pub(crate) fn check_here(&self) -> Result<()> {
        match self.handle.is_here() {
            true => Ok(()),
            false => Err(not_here()),
        }
    }

    /// Returns true if only a wait by the host tells that the work up to `seq` is over: no event covers it, and this thread cannot record
    /// one.
    #[inline]
    pub(crate) fn must_wait_for(&self, seq: u64) -> bool {
        !self.handle.is_here() && !self.is_known_done(seq) && self.known_cover(seq).is_none()
    }

    /// Records an event after work that has just been enqueued, because other threads cannot do it.
    #[cold]
    pub(super) fn let_others_wait(&self, seq: u64) {
        // Without the event, other threads wait for the device.
        let _ = self.cover(seq);
    }

    /// An event that was recorded after the work up to `seq`.
    pub(super) fn known_cover(&self, seq: u64) -> Option<(u64, Arc<RawEvent>)> {
        self.tails.lock().covering(seq)
    }

    /// Queries the first event, if it is older than `than`. If it is complete, the next one is kept.
    pub(super) fn ask_kept(&self, than: u64) -> Result<()> {
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
        self.check_here()?;
        // SAFETY: both are live; every `RawEvent` is recorded when it is made.
        unsafe {
            self.api()
                .stream_wait_event(self.ordinal(), self.raw(), event.raw())
        }
    }

    /// An event that covers at least the work up to `seq`, and the number of the last work that it covers.
    pub(super) fn cover(&self, seq: u64) -> Result<(u64, Arc<RawEvent>)> {
        let mut tails = self.tails.lock();
        match tails.covering(seq) {
            Some(known) => Ok(known),
            None => self.add_event(&mut tails, false),
        }
    }

    /// An event after all work so far. Work that is ordered after a part of that work waits for no later work of this stream.
    pub(crate) fn mark(&self) -> Result<Arc<RawEvent>> {
        // Before the lock, which a thread of the parent may hold in a child made by `fork`.
        fork::check("cudaEventRecord")?;
        if self.tails.lock().0.len() > FEW_MARKS {
            self.ask_kept(u64::MAX)?;
        }
        Ok(self.add_event(&mut self.tails.lock(), true)?.1)
    }

    fn add_event(&self, tails: &mut Tails, is_mark: bool) -> Result<(u64, Arc<RawEvent>)> {
        self.check_here()?;
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

#[cold]
fn not_here() -> Error {
    Error::InvalidArgument {
        what: "the stream",
        value: "the per-thread default stream that another thread adopted".to_owned(),
        reason: "on this thread its handle is another stream: adopt the stream on this thread"
            .to_owned(),
    }
}
