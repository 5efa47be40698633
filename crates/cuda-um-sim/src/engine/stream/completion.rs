//! The end of a piece of work.

use std::time::Duration;

use cuda_um_sys::locks::{Condvar, Mutex};

/// The end of a piece of work.
pub(crate) struct Completion {
    /// The stream's handle.
    pub(crate) stream: usize,
    /// The work's number on the stream, from 1.
    pub(crate) seq: u64,
    done: Mutex<Option<Duration>>,
    changed: Condvar,
}

impl Completion {
    pub(in crate::engine) fn new(stream: usize, seq: u64) -> Completion {
        Completion {
            stream,
            seq,
            done: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    /// Blocks until the work has run; its end on the virtual clock.
    pub(crate) fn wait(&self) -> Duration {
        let mut done = self.done.lock();
        loop {
            match *done {
                Some(at) => return at,
                None => self.changed.wait(&mut done),
            }
        }
    }

    /// The work's end, if it has run.
    pub(crate) fn get(&self) -> Option<Duration> {
        *self.done.lock()
    }

    pub(in crate::engine) fn finish(&self, at: Duration) {
        *self.done.lock() = Some(at);
        self.changed.notify_all();
    }
}
