//! Frees, on a thread of its own, what was dropped while a device still used it.

use crate::error::{Error, Result};
use crate::fork::Origin;
use crate::memory::in_flight::Use;
use crate::memory::settle::settle;
use crate::sync::{Condvar, Mutex};
use smallvec::SmallVec;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Something to be released once its uses are done.
///
/// If waiting fails, nobody knows whether the device still uses it: then it is leaked, not released. So `release` must do nothing
/// when it is dropped without being called.
pub(crate) struct Deferred {
    pub(crate) uses: SmallVec<[Use; 2]>,
    pub(crate) what: String,
    pub(crate) release: Box<dyn FnOnce() -> Result<()> + Send>,
}

/// The queue and its thread, which starts with the first entry.
pub(crate) struct Reclaim {
    shared: Arc<Shared>,
    origin: Origin,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    queue: Vec<Deferred>,
    /// Entries that the thread has taken and not released yet.
    taken: usize,
    has_thread: bool,
    closing: bool,
    first_error: Option<Error>,
}

/// How long the thread sleeps between two looks at work that is not done: from the first to the second, doubling.
const SLEEP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_millis(2));

impl Reclaim {
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            shared: Arc::default(),
            origin,
        }
    }

    /// Releases `entry` when its uses are done, without making the caller wait.
    pub(crate) fn defer(&self, entry: Deferred) {
        let mut state = self.shared.state.lock();
        if !state.has_thread {
            let shared = Arc::clone(&self.shared);
            let thread = std::thread::Builder::new().name("cuda-um-reclaim".to_owned());
            if let Err(error) = thread.spawn(move || shared.run()) {
                drop(state);
                crate::telemetry::warn!(%error, "no thread to free on: waiting here");
                self.shared.finish(entry);
                return;
            }
            state.has_thread = true;
        }
        state.queue.push(entry);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Whether something waits to be released.
    pub(crate) fn is_pending(&self) -> bool {
        let state = self.shared.state.lock();
        !state.queue.is_empty() || state.taken > 0
    }

    /// Waits until nothing is left to release.
    pub(crate) fn flush(&self) {
        let mut state = self.shared.state.lock();
        while !state.queue.is_empty() || state.taken > 0 {
            self.shared.changed.wait(&mut state);
        }
    }

    /// The first error since the last call.
    pub(crate) fn take_error(&self) -> Option<Error> {
        self.shared.state.lock().first_error.take()
    }
}

impl Drop for Reclaim {
    fn drop(&mut self) {
        if self.origin.is_inherited() {
            return;
        }
        // Entries hold the `Api` that this belongs to, so the queue is empty: the thread only has to end.
        self.shared.state.lock().closing = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn run(&self) {
        let mut waiting: Vec<Deferred> = Vec::new();
        let mut sleep = SLEEP.0;
        loop {
            let mut state = self.state.lock();
            state.taken = waiting.len();
            if state.queue.is_empty() {
                if waiting.is_empty() {
                    self.changed.notify_all();
                    if state.closing {
                        return;
                    }
                    self.changed.wait(&mut state);
                } else {
                    self.changed.wait_for(&mut state, sleep);
                    sleep = SLEEP.1.min(sleep * 2);
                }
            }
            if !state.queue.is_empty() {
                sleep = SLEEP.0;
            }
            waiting.append(&mut state.queue);
            state.taken = waiting.len();
            drop(state);
            waiting = waiting
                .into_iter()
                .filter_map(|entry| self.poll(entry))
                .collect();
        }
    }

    /// Releases the entry if its uses are done; else gives it back.
    fn poll(&self, entry: Deferred) -> Option<Deferred> {
        for used in &entry.uses {
            match used.is_done() {
                Ok(true) => {}
                Ok(false) => return Some(entry),
                // Asking may have failed, and not the work.
                Err(_) => {
                    self.finish(entry);
                    return None;
                }
            }
        }
        self.release(entry);
        None
    }

    /// Waits for the entry's uses and releases it.
    fn finish(&self, entry: Deferred) {
        let (over, waited) = settle(&entry.uses);
        if let Err(error) = waited {
            let outcome = if over { "freed late" } else { "leaked" };
            self.failed(&entry.what, outcome, error);
        }
        if over {
            self.release(entry);
        }
    }

    fn release(&self, entry: Deferred) {
        // A panic (of a subscriber of `tracing`, say) must not end the thread: others wait for it.
        let released = catch_unwind(AssertUnwindSafe(entry.release));
        if let Ok(Err(error)) = released {
            self.failed(&entry.what, "not freed", error);
        }
    }

    fn failed(&self, what: &str, outcome: &str, error: Error) {
        let _ = catch_unwind(AssertUnwindSafe(|| {
            crate::telemetry::warn!(what, outcome, %error, "a drop in use was not completed as it should");
        }));
        self.state.lock().first_error.get_or_insert(error);
    }
}
