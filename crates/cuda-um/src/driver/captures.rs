//! Keeps captures and waits for a whole device apart: CUDA refuses to synchronize a device on which any thread captures a stream.

use crate::error::{Error, Result};
use crate::fork;
use crate::sync::{Condvar, Mutex, has_turn, this_thread};
use smallvec::SmallVec;
use std::time::Duration;

/// How long a thread waits before it looks again.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// The captures over one runtime, and the waits for its devices.
#[derive(Default)]
pub(super) struct Captures {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The device and the thread of each capture.
    captures: SmallVec<[(u32, u64); 1]>,
    /// The threads that wait for a device.
    waits: usize,
}

/// A wait for a device, until it is dropped.
pub(crate) struct Wait<'a>(&'a Captures);

impl Captures {
    /// Waits until no thread waits for a device, and counts a capture of this thread.
    pub(super) fn begin(&self, ordinal: u32) -> Result<()> {
        fork::check("cudaStreamBeginCapture")?;
        if has_turn() {
            // A thread that waits for the device waits for the end of the turn.
            return Err(Error::Busy {
                what: format!("device {ordinal}"),
                by: "this thread is enqueuing work for a device that has no concurrent managed access".to_owned(),
            });
        }
        let mut state = self.state.lock();
        while state.waits > 0 {
            self.changed.wait_for(&mut state, LOOKS_AGAIN);
        }
        state.captures.push((ordinal, this_thread()));
        Ok(())
    }

    /// Ends the capture of this thread.
    pub(super) fn end(&self, ordinal: u32) {
        if fork::is_inherited() {
            return;
        }
        let this = (ordinal, this_thread());
        let mut state = self.state.lock();
        let found = state.captures.iter().position(|capture| *capture == this);
        found.map(|at| state.captures.swap_remove(at));
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until no other thread captures on the device.
    pub(super) fn wait(&self, ordinal: u32) -> Result<Wait<'_>> {
        fork::check("cudaDeviceSynchronize")?;
        let mut state = self.state.lock();
        loop {
            let mut captures = state.captures.iter().filter(|(of, _)| *of == ordinal);
            match captures.next() {
                None => break,
                Some((_, thread)) if *thread == this_thread() => {
                    return Err(Error::Capture {
                        call: "a wait for the device".to_owned(),
                        reason: "this thread captures on it, and captured work does not run: wait when the capture has ended".to_owned(),
                    });
                }
                Some(_) => {}
            }
            self.changed.wait_for(&mut state, LOOKS_AGAIN);
        }
        state.waits += 1;
        Ok(Wait(self))
    }
}

impl Captures {
    /// Holds captures on the device off until the result is dropped; `None` if a thread captures on it.
    pub(super) fn hold_off(&self, ordinal: u32) -> Option<Wait<'_>> {
        let mut state = self.state.lock();
        if state.captures.iter().any(|(of, _)| *of == ordinal) {
            return None;
        }
        state.waits += 1;
        Some(Wait(self))
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        self.0.state.lock().waits -= 1;
        self.0.changed.notify_all();
    }
}
