//! The gate before each piece of work: a paused or held stream waits there.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use cuda_um_sys::locks::{Condvar, Mutex};

/// Streams that are held until a call waits for one.
pub(crate) struct Hold {
    order: u64,
    over: AtomicBool,
    /// The thread whose call waited.
    ended_by: Mutex<Option<ThreadId>>,
}

impl Hold {
    /// The number that chooses the order in which the streams go on.
    pub(crate) fn order(&self) -> u64 {
        self.order
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Marks the hold as over; returns whether it was over before.
    pub(crate) fn set_over(&self) -> bool {
        self.over.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn ended_by(&self) -> Option<ThreadId> {
        *self.ended_by.lock()
    }

    /// This thread ends the hold, unless another thread did before.
    pub(crate) fn end_by_this_thread(&self) {
        self.ended_by
            .lock()
            .get_or_insert_with(|| std::thread::current().id());
    }
}

/// The gate before each piece of work.
#[derive(Default)]
pub(crate) struct Gate {
    closed: Mutex<Closed>,
    opened: Condvar,
}

/// The reasons for which streams wait at the gate.
#[derive(Default)]
struct Closed {
    pauses: usize,
    /// The hold, and the streams that it has let go.
    hold: Option<(Arc<Hold>, HashSet<usize>)>,
}

impl Closed {
    fn is_closed_to(&self, stream: usize) -> bool {
        let held = self
            .hold
            .as_ref()
            .is_some_and(|(_, let_go)| !let_go.contains(&stream));
        self.pauses > 0 || held
    }

    fn is_held_by(&self, hold: &Arc<Hold>) -> bool {
        self.hold
            .as_ref()
            .is_some_and(|(current, _)| Arc::ptr_eq(current, hold))
    }
}

impl Gate {
    pub(crate) fn pause(&self) {
        self.closed.lock().pauses += 1;
    }

    pub(crate) fn resume(&self) {
        self.closed.lock().pauses -= 1;
        self.opened.notify_all();
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.closed.lock().pauses > 0
    }

    /// Blocks a stream's thread while the simulator is paused, or the stream is held.
    pub(super) fn pass(&self, stream: usize) {
        let mut closed = self.closed.lock();
        while closed.is_closed_to(stream) {
            self.opened.wait(&mut closed);
        }
    }

    /// Holds all streams; an earlier hold ends.
    pub(crate) fn hold(&self, order: u64) -> Arc<Hold> {
        let hold = Arc::new(Hold {
            order,
            over: AtomicBool::new(false),
            ended_by: Mutex::new(None),
        });
        let mut closed = self.closed.lock();
        if let Some((earlier, _)) = closed.hold.replace((hold.clone(), HashSet::new())) {
            earlier.over.store(true, Ordering::Release);
        }
        hold
    }

    /// The hold that holds streams now.
    pub(crate) fn current_hold(&self) -> Option<Arc<Hold>> {
        let closed = self.closed.lock();
        closed.hold.as_ref().map(|(hold, _)| hold.clone())
    }

    /// Lets a stream of a hold go on. Returns false if another hold has replaced this one.
    pub(crate) fn let_go(&self, hold: &Arc<Hold>, stream: usize) -> bool {
        match &mut self.closed.lock().hold {
            Some((current, let_go)) if Arc::ptr_eq(current, hold) => let_go.insert(stream),
            _ => return false,
        };
        self.opened.notify_all();
        true
    }

    /// Lets all streams of a hold go on.
    pub(crate) fn end(&self, hold: &Arc<Hold>) {
        let mut closed = self.closed.lock();
        if closed.is_held_by(hold) {
            closed.hold = None;
        }
        drop(closed);
        self.opened.notify_all();
    }
}
