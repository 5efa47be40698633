//! The context in which streams run their work: its sticky error, the gate before each piece of work, and the number of pieces that run.

use std::ffi::CStr;
use std::sync::OnceLock;

use cuda_um_sys::locks::{Condvar, Mutex};

use super::gate::Gate;
use crate::engine::detail::text_of;
use crate::engine::foreign::contain;
use crate::engine::status::Code;

/// The CUDA context of one simulator.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) gate: Gate,
    /// The sticky error, and its text if that says more than the code.
    poison: OnceLock<(Code, Option<&'static CStr>)>,
    /// The devices that are lost, each with its error.
    lost: Mutex<Vec<(usize, Code)>>,
    /// Pieces of work that devices run now.
    running: Mutex<usize>,
    came_to_rest: Condvar,
}

impl Context {
    /// The sticky error that every call returns from now on.
    pub(crate) fn poison(&self) -> Option<Code> {
        Some(self.poison.get()?.0)
    }

    /// The text of the sticky error, if it has this code and says more than the code.
    pub(crate) fn poison_text(&self, code: Code) -> Option<&'static CStr> {
        let (poison, text) = *self.poison.get()?;
        text.filter(|_| poison == code)
    }

    /// Poisons the context with a sticky error; the first error stays.
    pub(crate) fn set_poison(&self, code: Code) {
        let _ = self.poison.set((code, None));
    }

    /// The error that every call for a device returns from now on; the first error stays.
    pub(crate) fn lose(&self, device: usize, code: Code) {
        self.lost.lock().push((device, code));
    }

    /// The error of a device that is lost.
    pub(crate) fn loss_of(&self, device: usize) -> Option<Code> {
        let lost = self.lost.lock();
        let loss = lost.iter().find(|(lost, _)| *lost == device);
        loss.map(|(_, code)| *code)
    }

    /// As [`set_poison`](Self::set_poison), for a failure whose text says more than the code.
    pub(crate) fn fault(&self, code: Code, detail: &str) {
        if self.poison.get().is_none() {
            let _ = self.poison.set((code, text_of(code, detail)));
        }
    }

    pub(crate) fn is_lost(&self, device: usize) -> bool {
        self.loss_of(device).is_some()
    }

    /// Runs a piece of work of a device, unless the context is poisoned or the device is lost.
    pub(super) fn work<R>(&self, device: usize, run: impl FnOnce() -> R) -> Option<R> {
        // The work is counted before the poison is read, and `rest` is called after the poison was set: either the work does not run, or
        // `rest` waits for it.
        *self.running.lock() += 1;
        let poisoned = self.poison().is_some() || self.is_lost(device);
        let result = if poisoned { None } else { contain(run) };
        if !poisoned && result.is_none() {
            // The simulator itself panicked, for a panic of a reference has been caught before. A wait for the work must still end.
            self.set_poison(Code::UNKNOWN);
        }
        self.work_ended();
        result
    }

    /// Runs host code inside a piece of work: the device is at rest meanwhile.
    pub(crate) fn leave_to_host(&self, run: impl FnOnce()) {
        self.work_ended();
        run();
        *self.running.lock() += 1;
    }

    fn work_ended(&self) {
        let mut running = self.running.lock();
        *running -= 1;
        if *running == 0 {
            self.came_to_rest.notify_all();
        }
    }

    /// Waits until no work runs. A poisoned context begins no work, and a call returns its error only after running work has ended: the
    /// caller may then free memory that the work used.
    pub(crate) fn rest(&self) {
        let mut running = self.running.lock();
        while *running > 0 {
            self.came_to_rest.wait(&mut running);
        }
    }
}
