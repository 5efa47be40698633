//! Keeps captures and waits for a whole device apart: CUDA refuses to synchronize a device on which any thread captures a stream.

#![allow(unsafe_code, reason = "sets the mode of a thread")]

use crate::driver::api::Api;
use crate::error::{Error, Result};
use crate::fork::{self, PerProcess};
use crate::sync::{Condvar, Mutex, global, has_turn, this_thread};
use cuda_um_sys as sys;
use smallvec::SmallVec;
use std::sync::Arc;

const RELAXED: sys::cudaStreamCaptureMode =
    sys::cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;

/// A capture on a device of a driver, or, without a device, a wait for one of the driver; with its thread.
type Entry = (usize, Option<u32>, u64);

#[derive(Default)]
struct Shared {
    entries: Mutex<SmallVec<[Entry; 4]>>,
    changed: Condvar,
}

// Of the process, because several runtimes may use one driver.
global! {
    static SHARED: PerProcess<Shared> = PerProcess::new(Shared::default);
}

/// Removes the entry, if it is there.
fn remove(entry: Entry) {
    let shared = SHARED.get();
    let mut entries = shared.entries.lock();
    let found = entries.iter().position(|other| *other == entry);
    found.map(|at| entries.swap_remove(at));
    drop(entries);
    shared.changed.notify_all();
}

/// The thread of a capture on a device of a driver.
fn capturing(entries: &[Entry], driver: usize, device: u32) -> Option<u64> {
    let is_it = |entry: &&Entry| (entry.0, entry.1) == (driver, Some(device));
    entries.iter().find(is_it).map(|entry| entry.2)
}

/// The mode of this thread before, which it has again when this is dropped.
pub(crate) struct Tolerant {
    api: Arc<Api>,
    mode: sys::cudaStreamCaptureMode,
}

impl Drop for Tolerant {
    fn drop(&mut self) {
        // Otherwise the exchange has failed, or there is nothing to restore.
        if self.mode != RELAXED {
            let restore = || self.api.exchange_mode(&mut { self.mode });
            fork::released(|| _ = restore() || restore());
        }
    }
}

/// A wait for a device: no capture begins over its driver until this is dropped.
pub(crate) struct Wait(Entry);

impl Api {
    /// The calls of this thread that the program did not ask for, until the result is dropped: they do not disturb captures of other libraries in
    /// CUDA's "global" mode, in which a query of an event ends the capture.
    pub(crate) fn tolerate_captures(self: &Arc<Self>) -> Tolerant {
        let mut mode = RELAXED;
        fork::released(|| _ = self.exchange_mode(&mut mode));
        Tolerant {
            api: Arc::clone(self),
            mode,
        }
    }

    /// Exchanges the mode of this thread. Returns false after an error, which may come after the call had its effect.
    fn exchange_mode(&self, mode: &mut sys::cudaStreamCaptureMode) -> bool {
        let Some(exchange) = self.table.cudaThreadExchangeStreamCaptureMode else {
            return true;
        };
        // SAFETY: the place is valid for the call.
        let has_worked = unsafe { exchange(mode) } == sys::cudaError::cudaSuccess;
        if !has_worked {
            self.clear_last_error();
        }
        has_worked
    }

    /// Waits until no thread waits for a device of the driver, and counts a capture of this thread.
    pub(super) fn count_capture(&self, device: u32) -> Result<()> {
        if has_turn() {
            // A thread that waits for the device waits for the end of the turn.
            return Err(Error::Busy {
                what: format!("device {device}"),
                by: "this thread is enqueuing work for a device that has no concurrent managed access".to_owned(),
            });
        }
        let driver = self.driver_identity()?;
        let shared = SHARED.get();
        let mut entries = shared.entries.lock();
        let is_wait = |entry: &Entry| (entry.0, entry.1) == (driver, None);
        while entries.iter().any(is_wait) && shared.changed.wait_unless_ending(&mut entries) {}
        entries.push((driver, Some(device), this_thread()));
        Ok(())
    }

    /// Counts the capture of this thread no more.
    pub(super) fn uncount_capture(&self, device: u32) {
        if let Ok(driver) = self.driver_identity() {
            remove((driver, Some(device), this_thread()));
        }
    }

    /// Holds captures on the device off until the result is dropped. If a thread captures on it, waits for the end of that capture, or returns
    /// `None`.
    pub(crate) fn hold_captures_off(&self, device: u32, waits: bool) -> Result<Option<Wait>> {
        let (driver, own) = (self.driver_identity()?, this_thread());
        let shared = SHARED.get();
        let mut entries = shared.entries.lock();
        while let Some(thread) = capturing(&entries, driver, device) {
            if !waits {
                return Ok(None);
            }
            if thread == own {
                return Err(Error::Capture {
                    call: "a wait for the device".to_owned(),
                    reason: "this thread captures on it, and captured work does not run: wait when the capture has ended".to_owned(),
                });
            }
            if !shared.changed.wait_unless_ending(&mut entries) {
                // The thread of the capture has stopped. CUDA refuses the wait.
                break;
            }
        }
        let entry = (driver, None, own);
        entries.push(entry);
        Ok(Some(Wait(entry)))
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        remove(self.0);
    }
}
