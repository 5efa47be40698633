//! The context in which streams run their work: its sticky error, the gate before each piece of work, and the number of pieces that run.

use std::sync::OnceLock;

use parking_lot::{Condvar, Mutex};

use super::gate::Gate;
use crate::engine::foreign::contain;
use crate::engine::status::Code;

/// The CUDA context of one simulator.
#[derive(Default)]
pub(crate) struct Context {
    pub(crate) gate: Gate,
    poison: OnceLock<Code>,
    /// Pieces of work that devices run now.
    running: Mutex<usize>,
    came_to_rest: Condvar,
}

impl Context {
    /// The sticky error that every call returns from now on.
    pub(crate) fn poison(&self) -> Option<Code> {
        self.poison.get().copied()
    }

    /// Poisons the context with a sticky error; the first error stays.
    pub(crate) fn set_poison(&self, code: Code) {
        let _ = self.poison.set(code);
    }

    /// Runs a piece of work, unless the context is poisoned.
    pub(super) fn work<R>(&self, run: impl FnOnce() -> R) -> Option<R> {
        // The work is counted before the poison is read, and `rest` is called after the poison was set: either the work does not run, or
        // `rest` waits for it.
        *self.running.lock() += 1;
        let poisoned = self.poison().is_some();
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
