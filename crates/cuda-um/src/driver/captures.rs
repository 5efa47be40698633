//! Keeps captures and waits for a whole device apart: CUDA refuses to synchronize a device on which any thread captures a stream.

#![allow(unsafe_code, reason = "sets the mode of a thread")]

use crate::driver::api::Api;
use crate::error::{Error, Result};
use crate::fork::{self, PerProcess};
use crate::process_end;
use crate::sync::{Condvar, Mutex, global, has_turn, this_thread};
use cuda_um_sys as sys;
use smallvec::SmallVec;
use std::sync::Arc;
use std::time::Duration;

const LOOKS_AGAIN: Duration = Duration::from_millis(100);

const RELAXED: sys::cudaStreamCaptureMode =
    sys::cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;

/// The captures of this process, and the waits for devices.
#[derive(Default)]
struct State {
    captures: SmallVec<[Capture; 1]>,
    /// The driver of each thread that waits for a device.
    waits: SmallVec<[usize; 4]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Capture {
    driver: usize,
    device: u32,
    thread: u64,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

// Of the process, because several runtimes may use one driver.
global! {
    static SHARED: PerProcess<Shared> = PerProcess::new(Shared::default);
}

impl State {
    /// The capture on a device of a driver.
    fn on(&self, driver: usize, device: u32) -> Option<&Capture> {
        let mut captures = self.captures.iter();
        captures.find(|capture| (capture.driver, capture.device) == (driver, device))
    }
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
            let _ = restore() || restore();
        }
    }
}

/// A wait for a device: no capture begins over its driver until this is dropped.
pub(crate) struct Wait {
    driver: usize,
}

impl Api {
    /// The calls of this thread that the program did not ask for, until the result is dropped: they do not disturb captures of other libraries in
    /// CUDA's "global" mode, in which a query of an event ends the capture.
    pub(crate) fn tolerate_captures(self: &Arc<Self>) -> Tolerant {
        let mut mode = RELAXED;
        self.exchange_mode(&mut mode);
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
        let has_worked =
            fork::is_over() || unsafe { exchange(mode) } == sys::cudaError::cudaSuccess;
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
        let mut state = shared.state.lock();
        while state.waits.contains(&driver) {
            shared.changed.wait_for(&mut state, LOOKS_AGAIN);
        }
        state.captures.push(Capture {
            driver,
            device,
            thread: this_thread(),
        });
        Ok(())
    }

    /// Counts the capture of this thread no more.
    pub(super) fn uncount_capture(&self, device: u32) {
        let Ok(driver) = self.driver_identity() else {
            return;
        };
        let thread = this_thread();
        let capture = Capture {
            driver,
            device,
            thread,
        };
        let shared = SHARED.get();
        let mut state = shared.state.lock();
        let found = state.captures.iter().position(|other| *other == capture);
        found.map(|at| state.captures.swap_remove(at));
        drop(state);
        shared.changed.notify_all();
    }

    /// Waits until no other thread captures on the device. None begins until the result is dropped.
    pub(crate) fn after_captures(&self, device: u32) -> Result<Wait> {
        let driver = self.driver_identity()?;
        let shared = SHARED.get();
        let mut state = shared.state.lock();
        loop {
            match state.on(driver, device) {
                None => break,
                Some(capture) if capture.thread == this_thread() => {
                    return Err(Error::Capture {
                        call: "a wait for the device".to_owned(),
                        reason: "this thread captures on it, and captured work does not run: wait when the capture has ended".to_owned(),
                    });
                }
                // The thread of the capture has stopped. CUDA refuses the wait.
                Some(_) if process_end::is_ending() => break,
                Some(_) => shared.changed.wait_for(&mut state, LOOKS_AGAIN),
            }
        }
        state.waits.push(driver);
        Ok(Wait { driver })
    }

    /// Holds captures on the device off until the result is dropped; `None` if a thread captures on it.
    pub(crate) fn hold_captures_off(&self, device: u32) -> Option<Wait> {
        // Without the driver's functions there is no capture.
        let driver = self.driver_identity().unwrap_or(0);
        let mut state = SHARED.get().state.lock();
        if state.on(driver, device).is_some() {
            return None;
        }
        state.waits.push(driver);
        Some(Wait { driver })
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        let shared = SHARED.get();
        let mut state = shared.state.lock();
        let found = state.waits.iter().position(|driver| *driver == self.driver);
        found.map(|at| state.waits.swap_remove(at));
        drop(state);
        shared.changed.notify_all();
    }
}
