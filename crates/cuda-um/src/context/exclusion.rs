//! Mutual exclusion of the CPU and devices without concurrent managed access.
//!
//! While a kernel runs on such a device, the CPU must not access *any* managed memory: an access can be a segmentation fault. A host
//! guard of managed memory therefore closes the gate. It first waits for those devices, and while the gate is closed no kernel and no work on
//! managed memory is enqueued on them: it is refused, or waits for the guards of other threads ([`NonConcurrentAccess`]). A guard that is
//! leaked (`mem::forget`) leaves the gate closed, and memory stays safe.

use crate::context::capture;
use crate::context::non_concurrent::NonConcurrentAccess;
use crate::context::stream::StreamInner;
use crate::context::streams::{Listed, prune, remove};
use crate::driver::Api;
use crate::error::{Error, Result};
use crate::fork;
use crate::label::Title;
use crate::process_end;
use crate::sync::{
    Closing, Condvar, Mutex, MutexGuard, Turn, assert_may_wait, has_turn, this_thread,
};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The gate of all devices of a driver, for all [`Runtime`](crate::Runtime)s over it.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    turn_over: Condvar,
}

#[derive(Default)]
struct State {
    /// The host guards that live or are being made.
    guards: Vec<Live>,
    /// The number of guards that were made.
    made: u64,
    /// The number of threads that wait until no guard lives. Then all of them have a turn at the same time, so that guards that begin
    /// later wait for them.
    waiting: usize,
    /// The number of times that waiting threads were given a turn.
    rounds: u64,
    /// The number of threads that are enqueuing. They do not hold the lock, because they may wait for the device.
    turns: usize,
    /// The number of turns that have ended.
    ended: u64,
    /// The streams whose work, enqueued in a turn, may not be over.
    busy: Vec<Arc<Listed>>,
}

/// A host guard.
struct Live {
    number: u64,
    thread: u64,
    buffer: Title,
}

/// Keeps the gate open during an enqueue: a guard that closes it waits until this is dropped.
pub(crate) struct Enqueue<'a> {
    gate: &'a Gate,
    _turn: Turn,
}

/// Keeps the gate closed until dropped.
pub(crate) struct Closed {
    gate: Arc<Gate>,
    number: u64,
    /// Dropped after the gate is open: then the events of this thread are sent.
    _closing: Closing,
    /// A thread must not wait for its own guards. The drop may run on any thread: the Python package relies on it.
    _on_this_thread: PhantomData<*const ()>,
}

/// The time after which a thread that waits tells why, or stops to wait while the process ends.
const PATIENCE: Duration = Duration::from_secs(2);

impl Gate {
    /// Opens a turn, which the caller holds while it enqueues work on `stream`.
    pub(crate) fn enqueue(&self, stream: &Arc<StreamInner>) -> Result<Enqueue<'_>> {
        fork::check("enqueue")?;
        let waits = stream.device().non_concurrent.get() != NonConcurrentAccess::Refuse;
        let mut state = self.state.lock();
        while !state.guards.is_empty() {
            // With a turn of this thread, the guards wait for this thread. With a capture, waits for the device do, which other threads may make
            // while they have a guard.
            // While the process ends, other threads may never drop their guards.
            let holds_off = has_turn() || capture::is_of_this_thread();
            if !waits || state.own_guards() > 0 || holds_off || process_end::is_ending() {
                return Err(state.refusal(stream.ordinal()));
            }
            if self.wait_for_guards(&mut state) {
                return Ok(self.turn(&mut state, stream));
            }
            let refusal = state.refusal(stream.ordinal());
            drop(state);
            fork::check("enqueue")?;
            crate::telemetry::warn!(%refusal, "work waits for host guards");
            state = self.state.lock();
        }
        state.turns += 1;
        Ok(self.turn(&mut state, stream))
    }

    /// The turn of this thread, which is counted already.
    fn turn(&self, state: &mut State, stream: &Arc<StreamInner>) -> Enqueue<'_> {
        state.record(stream.listed());
        Enqueue {
            gate: self,
            _turn: Turn::begin(),
        }
    }

    /// Closes the gate and waits until the devices behind it are idle.
    pub(crate) fn close(self: &Arc<Self>, buffer: Title) -> Result<Closed> {
        assert_may_wait();
        if has_turn() {
            // The closure of `enqueue_foreign`: the thread would wait for itself.
            return Err(Error::Busy {
                what: buffer.to_string(),
                by: "this thread is enqueuing work for a device that has no concurrent managed access"
                    .to_owned(),
            });
        }
        let closed = loop {
            let (closed, busy) = {
                let mut state = self.state.lock();
                // From here on no new turn begins.
                let closed = self.shut(&mut state, buffer.clone());
                let waited = self.wait_for_turns(&mut state, |state| state.turns == 0);
                let busy = state.busy.clone();
                // Before `closed`, whose drop takes the lock.
                drop(state);
                if waited.is_none() {
                    return Err(stopped(buffer.to_string()));
                }
                (closed, busy)
            };
            let devices = devices(&busy);
            let hold_off = devices.iter().map(|(of, api)| api.hold_captures_off(*of));
            if let Some(_held_off) = hold_off.collect::<Option<SmallVec<[_; 1]>>>() {
                synchronize(&devices)?;
                break closed;
            }
            // A thread that captures may enqueue other work before its capture ends, so the gate is open meanwhile.
            drop(closed);
            let mut captured = devices.iter();
            captured.try_for_each(|(of, api)| api.after_captures(*of).map(drop))?;
        };
        // While the gate is closed nothing is added to the list, so all its work has been waited for.
        let _waited_for = std::mem::take(&mut self.state.lock().busy);
        Ok(closed)
    }

    /// Closes the gate if the devices behind it are idle now.
    ///
    /// A successful `cudaStreamQuery` is equivalent to `cudaStreamSynchronize` for managed memory, and a successful `cudaEventQuery` to
    /// `cudaEventSynchronize`, if nothing was enqueued after the event. So no wait is needed first.
    pub(crate) fn try_close(self: &Arc<Self>, buffer: Title) -> Result<Closed> {
        // Declared first, so dropped last: the last handle of an `Api` must not be dropped under the lock.
        let _idle;
        let mut state = self.state.lock();
        let refused = |by| {
            let what = buffer.to_string();
            Err(Error::Busy { what, by })
        };
        if state.turns > 0 {
            return refused(
                "work is being enqueued for a device that has no concurrent managed access"
                    .to_owned(),
            );
        }
        for busy in &state.busy {
            if !busy.is_idle()? {
                return refused(format!(
                    "device {} is at work and has no concurrent managed access",
                    busy.ordinal
                ));
            }
        }
        _idle = std::mem::take(&mut state.busy);
        Ok(self.shut(&mut state, buffer))
    }

    /// Waits for the current work of the devices behind the gate. Does not change the gate.
    pub(crate) fn wait(&self) -> Result<()> {
        assert_may_wait();
        let busy = {
            let mut state = self.state.lock();
            // Wait for the current turns only: later turns are not waited for.
            let end = state.ended + state.turns as u64;
            let waited = self.wait_for_turns(&mut state, |state| state.ended >= end);
            waited.ok_or_else(|| stopped("managed memory".to_owned()))?;
            state.busy.clone()
        };
        let gone: Vec<_> = busy.iter().filter(|busy| busy.is_gone()).cloned().collect();
        synchronize(&devices(&busy))?;
        remove(&mut self.state.lock().busy, &gone);
        Ok(())
    }

    /// From here on nothing is enqueued; the list has all work that was enqueued before.
    fn shut(self: &Arc<Self>, state: &mut State, buffer: Title) -> Closed {
        state.made += 1;
        let number = state.made;
        state.guards.push(Live {
            number,
            thread: this_thread(),
            buffer,
        });
        Closed {
            gate: Arc::clone(self),
            number,
            _closing: Closing::begin(),
            _on_this_thread: PhantomData,
        }
    }

    /// Returns true if a host guard lives, so that the devices behind the gate are idle, or are being waited for.
    pub(crate) fn is_closed(&self) -> bool {
        !self.state.lock().guards.is_empty()
    }

    /// Waits until `are_over`. Returns `None` if the process ends and this has waited for long: the turn of a thread that was stopped does not
    /// end.
    fn wait_for_turns(
        &self,
        state: &mut MutexGuard<'_, State>,
        are_over: impl Fn(&State) -> bool,
    ) -> Option<()> {
        let start = Instant::now();
        while !are_over(state) {
            if cfg!(cuda_um_loom) {
                self.turn_over.wait(state);
            } else if !process_end::is_ending() {
                self.turn_over.wait_for(state, PATIENCE);
            } else {
                let left = PATIENCE.checked_sub(start.elapsed())?;
                self.turn_over.wait_for(state, left);
            }
        }
        Some(())
    }

    /// Waits until no guard lives. Returns true if the thread then has a turn, and false if it has waited for long.
    fn wait_for_guards(&self, state: &mut MutexGuard<'_, State>) -> bool {
        let round = state.rounds;
        state.waiting += 1;
        let start = Instant::now();
        while state.rounds == round {
            if cfg!(cuda_um_loom) {
                self.turn_over.wait(state);
            } else if start.elapsed() < PATIENCE {
                self.turn_over.wait_for(state, PATIENCE);
            } else {
                state.waiting -= 1;
                return false;
            }
        }
        true
    }
}

/// The error of a wait for the turn of a thread that was stopped.
fn stopped(what: String) -> Error {
    Error::Busy {
        what,
        by: "the process ends, and a thread that it stopped was enqueuing work for a device that has no concurrent managed access"
            .to_owned(),
    }
}

/// The devices of these streams.
fn devices(busy: &[Arc<Listed>]) -> SmallVec<[(u32, &Api); 1]> {
    let mut devices: SmallVec<[_; 1]> =
        busy.iter().map(|busy| (busy.ordinal, &*busy.api)).collect();
    devices.sort_by_key(|(ordinal, _)| *ordinal);
    devices.dedup_by_key(|(ordinal, _)| *ordinal);
    devices
}

/// Waits for all work of the devices.
fn synchronize(devices: &[(u32, &Api)]) -> Result<()> {
    let mut devices = devices.iter();
    devices.try_for_each(|(ordinal, api)| api.device_synchronize(*ordinal))
}

impl State {
    /// The number of guards that this thread has.
    fn own_guards(&self) -> usize {
        let own = |live: &&Live| live.thread == this_thread();
        self.guards.iter().filter(own).count()
    }

    /// The error for work on a device while guards live.
    fn refusal(&self, ordinal: u32) -> Error {
        let newest = self.guards.last().map(|live| live.buffer.to_string());
        let (own, newest) = (self.own_guards(), newest.unwrap_or_default());
        let by = match own {
            0 => format!(
                "{} host guard(s) of managed memory live on other threads, the newest of {newest}: with NonConcurrentAccess::Wait the \
                 call waits for them",
                self.guards.len()
            ),
            own => format!(
                "this thread has {own} of the {} host guard(s) of managed memory that live, the newest of {newest}: drop them before \
                 the call, or use mapped memory (NonConcurrentAccess::Mapped)",
                self.guards.len()
            ),
        };
        Error::Busy {
            what: format!("device {ordinal}, which has no concurrent managed access,"),
            by,
        }
    }

    fn record(&mut self, stream: &Arc<Listed>) {
        if !self.busy.iter().any(|busy| Arc::ptr_eq(busy, stream)) {
            prune(&mut self.busy);
            self.busy.push(Arc::clone(stream));
        }
    }
}

impl Drop for Enqueue<'_> {
    fn drop(&mut self) {
        // In a child made by `fork`, another thread of the parent may have held the lock during the fork.
        if fork::is_inherited() {
            return;
        }
        let mut state = self.gate.state.lock();
        state.turns -= 1;
        state.ended += 1;
        drop(state);
        self.gate.turn_over.notify_all();
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        let mut state = self.gate.state.lock();
        let at = state
            .guards
            .iter()
            .rposition(|live| live.number == self.number);
        let _live = at.map(|at| state.guards.remove(at));
        let waiting = match state.guards.is_empty() {
            true => std::mem::take(&mut state.waiting),
            false => 0,
        };
        if waiting > 0 {
            state.turns += waiting;
            state.rounds += 1;
            drop(state);
            self.gate.turn_over.notify_all();
        }
    }
}
