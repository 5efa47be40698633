//! Deferred frees: a thread frees memory that was dropped while a device still used it.

use crate::context::drain::drain;
use crate::context::tracker::Use;
use crate::driver::captures;
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::{self, Calls};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread;
use crate::sync::thread::ThreadId;
use crate::sync::{Condvar, Mutex, after_unlock, assert_may_wait, caught, time_limit};
use cuda_um_sys::cudaError;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A resource to be released when its uses are done.
///
/// If waiting fails, the device may still use the resource, which is then leaked. `release` must therefore do nothing if it is dropped
/// without being called.
pub(crate) struct Deferred {
    pub(crate) uses: SmallVec<[Use; 2]>,
    pub(crate) what: String,
    pub(crate) release: Box<dyn FnOnce() -> Result<()> + Send>,
}

/// The queue and its thread, which starts with the first entry.
#[derive(Default)]
pub(crate) struct Reclaim {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// Notifies the thread.
    queued: Condvar,
    /// Notifies the callers that wait for the thread.
    ended: Condvar,
    /// The number of entries that were released or leaked.
    released: AtomicU64,
    /// The number of threads in `flush`.
    flushing: AtomicU64,
}

#[derive(Default)]
struct State {
    queue: Vec<Entry>,
    /// The number of the next entry.
    next: u64,
    /// The numbers of all entries that are neither released nor leaked.
    pending: BTreeSet<u64>,
    thread: Option<ThreadId>,
    /// The start of the period in which at least one thread is in `flush`.
    flushing_since: Option<Instant>,
    closing: bool,
    first_error: Option<Error>,
}

/// An entry, and its position in the queue. The fields are dropped in this order.
struct Entry {
    deferred: Deferred,
    ticket: Ticket,
}

/// Keeps an entry pending until dropped, on all paths.
struct Ticket {
    shared: Arc<Shared>,
    number: u64,
}

/// Streams, by address, and the number of the first work of each that was not done when it was queried.
type Busy = SmallVec<[(usize, u64); 4]>;

/// How long a flush takes before other threads give way to it, and how long they wait.
const FLUSH_ALONE: Duration = time_limit(Duration::from_millis(50));
const GIVES_WAY: Duration = Duration::from_millis(20);

/// How often a flush checks if the process ends.
const ENDS_AT: Duration = Duration::from_millis(100);

/// How long the thread sleeps between two queries of pending work: doubles from the first value to the second.
const SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

impl Reclaim {
    /// Releases the resource when its uses are done, without blocking the caller.
    pub(crate) fn defer(&self, deferred: Deferred) {
        let mut state = self.shared.state.lock();
        let number = state.next;
        state.next += 1;
        state.pending.insert(number);
        let ticket = Ticket {
            shared: Arc::clone(&self.shared),
            number,
        };
        let entry = Entry { deferred, ticket };
        if state.thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let thread = thread::Builder::new().name("cuda-um-reclaim".to_owned());
            match thread.spawn(move || shared.run()) {
                Ok(thread) => state.thread = Some(thread.thread().id()),
                Err(error) => {
                    drop(state);
                    let shared = Arc::clone(&self.shared);
                    // The caller may hold a lock.
                    return after_unlock(move || {
                        crate::telemetry::warn!(%error, "cannot start the reclaim thread: waiting instead");
                        shared.finish(entry);
                    });
                }
            }
        }
        state.queue.push(entry);
        drop(state);
        self.shared.queued.notify_one();
    }

    /// Waits until all entries that are pending now are released or leaked. Later entries are not waited for.
    ///
    /// On the reclaim thread, on which only foreign code can call this, it returns at once: the thread cannot wait for itself. It also
    /// returns when the process ends, because that thread stops. Returns false if it gave up, because entries wait for the end of a capture of
    /// this thread.
    pub(crate) fn flush(&self) -> bool {
        assert_may_wait();
        let mut state = self.shared.state.lock();
        if state.thread == Some(thread::current().id()) {
            return true;
        }
        let end = state.next;
        let is_pending = |state: &State| state.pending.first().is_some_and(|&first| first < end);
        if !is_pending(&state) {
            return true;
        }
        if self.shared.flushing.fetch_add(1, Ordering::AcqRel) == 0 {
            state.flushing_since = Some(Instant::now());
        }
        let mut is_held_up = false;
        while is_pending(&state) && !is_held_up && !process_end::is_ending() {
            let released = self.released();
            match cfg!(cuda_um_loom) {
                true => self.shared.ended.wait(&mut state),
                // The thread may have stopped within a call.
                false => self.shared.ended.wait_for(&mut state, ENDS_AT),
            }
            // While it waits for the end of a capture, the thread releases nothing.
            is_held_up =
                !cfg!(cuda_um_loom) && released == self.released() && captures::hold_up_others();
        }
        self.shared.flushing.fetch_sub(1, Ordering::AcqRel);
        drop(state);
        self.shared.ended.notify_all();
        !is_held_up
    }

    /// Must be called before memory is allocated with CUDA. If another thread has been in `flush` for some time, this waits briefly until
    /// an entry is released.
    ///
    /// CUDA's functions that free wait for all work of the device. If other threads continued to enqueue, each free would take longer
    /// than the one before.
    pub(crate) fn give_way(&self) {
        if self.shared.flushing.load(Ordering::Acquire) == 0 {
            return;
        }
        assert_may_wait();
        let mut state = self.shared.state.lock();
        let is_long = |since: Instant| since.elapsed() >= FLUSH_ALONE;
        if state.flushing_since.is_some_and(is_long) && state.thread != Some(thread::current().id())
        {
            self.shared.ended.wait_for(&mut state, GIVES_WAY);
        }
    }

    /// The number of entries that were released or leaked so far.
    pub(crate) fn released(&self) -> u64 {
        self.shared.released.load(Ordering::Acquire)
    }

    /// Takes the first error since the last call.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.shared.state.lock().first_error.take()
    }
}

impl Drop for Reclaim {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        // The thread ends after it has released the remaining entries.
        self.shared.state.lock().closing = true;
        self.shared.queued.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        let mut waiting: Vec<Entry> = Vec::new();
        let mut sleep = SLEEP.0;
        let mut tolerates = false;
        loop {
            let mut state = self.state.lock();
            if state.queue.is_empty() {
                if !waiting.is_empty() {
                    self.queued.wait_for(&mut state, sleep);
                    sleep = SLEEP.1.min(sleep * 2);
                } else if state.closing {
                    return;
                } else {
                    self.queued.wait(&mut state);
                }
            }
            if !state.queue.is_empty() {
                sleep = SLEEP.0;
            }
            waiting.append(&mut state.queue);
            drop(state);
            let mut busy = Busy::new();
            waiting = waiting
                .into_iter()
                .filter_map(|entry| self.poll(entry, &mut busy, &mut tolerates))
                .collect();
        }
    }

    /// Releases the entry if its uses are done; otherwise returns it. Does not return when the process ends.
    fn poll(&self, entry: Entry, busy: &mut Busy, tolerates: &mut bool) -> Option<Entry> {
        let Some(_calls) = Calls::begin() else {
            // Threads in `flush` do not wait for it.
            drop(self.state.lock());
            self.ended.notify_all();
            process_end::stop();
        };
        if !*tolerates && let Some(used) = entry.deferred.uses.first() {
            used.stream.api().tolerate_captures();
            *tolerates = true;
        }
        match caught(|| entry.deferred.is_done(busy)) {
            Some(Ok(true)) => self.end(entry, true, Ok(())),
            Some(Ok(false)) => return Some(entry),
            // The query may have failed rather than the work.
            Some(Err(_)) | None => self.finish(entry),
        }
        None
    }

    /// Waits for the entry's uses and releases it.
    fn finish(&self, entry: Entry) {
        let (over, waited) = caught(|| drain(&entry.deferred.uses))
            .unwrap_or_else(|| (false, Err(panicked("waiting for the device"))));
        self.end(entry, over, waited);
    }

    /// Releases the entry if its uses are over; otherwise leaks it. A panic does not end the thread, because other threads wait for
    /// it.
    fn end(&self, entry: Entry, over: bool, waited: Result<()>) {
        let Entry { deferred, ticket } = entry;
        let Deferred {
            uses,
            what,
            release,
        } = deferred;
        let mut failures: SmallVec<[_; 2]> = SmallVec::new();
        if let Err(error) = waited {
            failures.push((if over { "freed late" } else { "leaked" }, error));
        }
        if over {
            let released = caught(release).unwrap_or_else(|| Err(panicked("freeing")));
            failures.extend(released.err().map(|error| ("not freed", error)));
        } else {
            caught(|| drop(release));
        }
        // This may drop the last handle of a stream.
        caught(|| drop(uses));
        let events = failures.into_iter().map(|(outcome, error)| {
            let text = error.to_string();
            self.state.lock().first_error.get_or_insert(error);
            (outcome, text)
        });
        let events: SmallVec<[_; 2]> = events.collect();
        // Before the events: foreign code may wait for pending entries.
        drop(ticket);
        for (outcome, error) in events {
            let what = what.clone();
            crate::telemetry::warn!(what, outcome, error, "deferred free failed");
        }
    }
}

fn panicked(what: &str) -> Error {
    Error::Call {
        call: "cuda-um-reclaim",
        subject: what.to_owned(),
        code: cudaError::cudaErrorUnknown.0,
        name: "cudaErrorUnknown".to_owned(),
        message: "a panic".to_owned(),
    }
}

impl Deferred {
    /// Returns true if all uses are done. Does not query work that is ordered after work in `busy`.
    fn is_done(&self, busy: &mut Busy) -> Result<bool> {
        for used in &self.uses {
            let stream = Arc::as_ptr(&used.stream).addr();
            let is_behind = |&(other, seq): &(usize, u64)| other == stream && seq <= used.seq;
            if busy.iter().any(is_behind) {
                return Ok(false);
            }
            if !used.is_done_or_must_wait()? {
                busy.push((stream, used.seq));
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.shared.released.fetch_add(1, Ordering::Release);
        self.shared.state.lock().pending.remove(&self.number);
        self.shared.ended.notify_all();
    }
}
