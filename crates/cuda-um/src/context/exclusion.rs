//! Mutual exclusion of the CPU and devices without concurrent managed access.
//!
//! While a kernel runs on such a device, the CPU must not access *any* managed memory: an access can be a segmentation fault. A host
//! guard of managed memory therefore closes the gate. It first waits for those devices, and while the gate is closed nothing can be
//! enqueued on them. A guard that is leaked (`mem::forget`) leaves the gate closed: launches are refused, and memory stays safe.

use crate::context::stream::StreamInner;
use crate::context::streams::{Listed, prune, remove};
use crate::error::{Error, Result};
use crate::fork::Origin;
use crate::sync::{Condvar, Mutex, Turn, assert_may_wait, has_turn};
use std::sync::Arc;

/// The gate of all devices of a driver, for all [`Runtime`](crate::Runtime)s over it.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    turn_over: Condvar,
}

#[derive(Default)]
struct State {
    guards: usize,
    /// The number of threads that are enqueuing. They do not hold the lock, because they may wait for the device.
    turns: usize,
    /// The number of turns that have ended.
    ended: u64,
    /// The buffer of the newest guard.
    buffer: u64,
    /// The streams whose work, enqueued in a turn, may not be over.
    busy: Vec<Arc<Listed>>,
}

/// Keeps the gate open during an enqueue: a guard that closes it waits until this is dropped.
pub(crate) struct Enqueue<'a> {
    gate: &'a Gate,
    origin: Origin,
    _turn: Turn,
}

/// Keeps the gate closed until dropped.
pub(crate) struct Closed {
    gate: Arc<Gate>,
    origin: Origin,
}

impl Gate {
    /// Opens a turn, which the caller holds while it enqueues work on `stream`.
    pub(crate) fn enqueue(&self, stream: &Arc<StreamInner>) -> Result<Enqueue<'_>> {
        let mut state = self.state.lock();
        let ordinal = stream.ordinal();
        if state.guards > 0 {
            return Err(Error::Busy {
                what: format!("device {ordinal}, which has no concurrent managed access,"),
                by: format!(
                    "{} host guard(s) of managed memory live, the newest of buffer {}",
                    state.guards, state.buffer
                ),
            });
        }
        state.record(stream.listed());
        state.turns += 1;
        Ok(Enqueue {
            gate: self,
            origin: stream.api().origin,
            _turn: Turn::begin(),
        })
    }

    /// Closes the gate and waits until the devices behind it are idle.
    pub(crate) fn close(self: &Arc<Self>, buffer: u64) -> Result<Closed> {
        assert_may_wait();
        debug_assert!(!has_turn(), "a thread would wait for itself");
        let (closed, busy) = {
            let mut state = self.state.lock();
            // From here on no new turn begins.
            let closed = self.shut(&mut state, buffer);
            while state.turns > 0 {
                self.turn_over.wait(&mut state);
            }
            (closed, state.busy.clone())
        };
        synchronize(&busy)?;
        // While the gate is closed nothing is added to the list, so all its work has been waited for.
        let _waited_for = std::mem::take(&mut self.state.lock().busy);
        Ok(closed)
    }

    /// Closes the gate if the devices behind it are idle now.
    ///
    /// A successful `cudaStreamQuery` is equivalent to `cudaStreamSynchronize` for managed memory, and a successful `cudaEventQuery` to
    /// `cudaEventSynchronize`, if nothing was enqueued after the event. So no wait is needed first.
    pub(crate) fn try_close(self: &Arc<Self>, buffer: u64) -> Result<Closed> {
        // Declared first, so dropped last: the last handle of an `Api` must not be dropped under the lock.
        let _idle;
        let mut state = self.state.lock();
        let refused = |by| {
            let what = format!("buffer {buffer}");
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
            while state.ended < end {
                self.turn_over.wait(&mut state);
            }
            state.busy.clone()
        };
        let gone: Vec<_> = busy.iter().filter(|busy| busy.is_gone()).cloned().collect();
        synchronize(&busy)?;
        remove(&mut self.state.lock().busy, &gone);
        Ok(())
    }

    /// From here on nothing is enqueued; the list has all work that was enqueued before.
    fn shut(self: &Arc<Self>, state: &mut State, buffer: u64) -> Closed {
        state.guards += 1;
        state.buffer = buffer;
        Closed {
            gate: Arc::clone(self),
            origin: Origin::here(),
        }
    }
}

/// Waits for all work of the devices of these streams.
fn synchronize(busy: &[Arc<Listed>]) -> Result<()> {
    let mut devices: Vec<_> = busy.iter().map(|busy| (busy.ordinal, &busy.api)).collect();
    devices.sort_by_key(|(ordinal, _)| *ordinal);
    devices.dedup_by_key(|(ordinal, _)| *ordinal);
    devices
        .iter()
        .try_for_each(|(ordinal, api)| api.device_synchronize(*ordinal))
}

impl State {
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
        if self.origin.is_inherited() {
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
        if self.origin.is_inherited() {
            return;
        }
        self.gate.state.lock().guards -= 1;
    }
}
