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
use crate::sync::{Condvar, Mutex, MutexGuard, Turn, assert_no_lock_held, has_turn, this_thread};
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The gate of all devices of a driver, for all [`Runtime`](crate::Runtime)s over it.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The buffers of the host guards that live or are being made, and their threads.
    guards: Vec<(Arc<Title>, u64)>,
    /// The number of threads that wait until no guard lives. The next guard waits for them.
    waiting: usize,
    /// The numbers of turns that have begun and ended. A thread with a turn does not hold the lock, because it may wait for the device.
    begun: u64,
    ended: u64,
    /// The streams whose work, enqueued in a turn, may not be over.
    busy: Vec<Arc<Listed>>,
}

/// Keeps the gate open during an enqueue: a guard that closes it waits until this is dropped.
pub(crate) struct Enqueue<'a> {
    gate: &'a Gate,
    _turn: Turn,
}

/// Keeps the gate closed until dropped.
pub(crate) struct Closed {
    gate: Arc<Gate>,
    buffer: Arc<Title>,
    /// A thread must not wait for its own guards. The drop may run on any thread: the Python package relies on it.
    _on_this_thread: PhantomData<*const ()>,
}

/// The live [`Closed`] of the process.
// Relaxed: a thread always sees its own.
static CLOSED: AtomicUsize = AtomicUsize::new(0);

const ENQUEUES: &str = "is enqueuing work for a device that has no concurrent managed access";

impl Gate {
    /// Opens a turn, which the caller holds while it enqueues work on `stream`.
    pub(crate) fn enqueue(&self, stream: &Arc<StreamInner>) -> Result<Enqueue<'_>> {
        let waits = stream.device().non_concurrent_access() != NonConcurrentAccess::Refuse;
        let mut state = self.state.lock();
        if !state.guards.is_empty() {
            // With a turn of this thread, the guards wait for this thread. With a capture, waits for the device do, which other threads may make
            // while they have a guard.
            let holds_off = has_turn() || capture::is_of_this_thread();
            if !waits || state.own_guards() > 0 || holds_off {
                return Err(state.refusal(stream.ordinal()));
            }
            state.waiting += 1;
            let waited = self.wait_until(&mut state, |state| state.guards.is_empty());
            state.waiting -= 1;
            waited?;
        }
        state.begun += 1;
        let listed = stream.listed();
        if !state.busy.iter().any(|busy| Arc::ptr_eq(busy, listed)) {
            prune(&mut state.busy);
            state.busy.push(Arc::clone(listed));
        }
        Ok(Enqueue {
            gate: self,
            _turn: Turn::begin(),
        })
    }

    /// Closes the gate and waits until the devices behind it are idle.
    pub(crate) fn close(self: &Arc<Self>, buffer: Title) -> Result<Closed> {
        assert_no_lock_held("a wait");
        if has_turn() {
            // The closure of `enqueue_foreign`: the thread would wait for itself.
            return Err(busy(&buffer, format!("this thread {ENQUEUES}")));
        }
        loop {
            let mut state = self.state.lock();
            self.wait_until(&mut state, |state| !state.is_for_waiting())?;
            // From here on no new turn begins.
            let closed = self.shut(&mut state, buffer.clone());
            let waited = self.wait_until(&mut state, |state| state.ended == state.begun);
            let streams = state.busy.clone();
            // Before `closed`, whose drop takes the lock.
            drop(state);
            waited?;
            let devices = devices(&streams);
            let hold_off = devices.iter();
            let hold_off = hold_off.map(|(of, api)| api.hold_captures_off(*of, false));
            if let Some(_held_off) = hold_off.collect::<Result<Option<SmallVec<[_; 1]>>>>()? {
                synchronize(&devices)?;
                // While the gate is closed nothing is added to the list, so all its work has been waited for.
                let _waited_for = std::mem::take(&mut self.state.lock().busy);
                return Ok(closed);
            }
            // A thread that captures may enqueue other work before its capture ends, so the gate is open meanwhile.
            drop(closed);
            let mut captured = devices.iter();
            captured.try_for_each(|(of, api)| api.hold_captures_off(*of, true).map(drop))?;
        }
    }

    /// Closes the gate if the devices behind it are idle now.
    ///
    /// A successful `cudaStreamQuery` is equivalent to `cudaStreamSynchronize` for managed memory, and a successful `cudaEventQuery` to
    /// `cudaEventSynchronize`, if nothing was enqueued after the event. So no wait is needed first.
    pub(crate) fn try_close(self: &Arc<Self>, buffer: Title) -> Result<Closed> {
        // Declared first, so dropped last: the last handle of an `Api` must not be dropped under the lock.
        let _idle;
        let mut state = self.state.lock();
        if state.ended < state.begun || state.is_for_waiting() {
            return Err(busy(&buffer, format!("a thread {ENQUEUES}")));
        }
        for stream in &state.busy {
            if !stream.is_idle()? {
                let by = format!(
                    "device {} is at work and has no concurrent managed access",
                    stream.ordinal
                );
                return Err(busy(&buffer, by));
            }
        }
        _idle = std::mem::take(&mut state.busy);
        Ok(self.shut(&mut state, buffer))
    }

    /// Waits for the current work of the devices behind the gate. Does not change the gate.
    pub(crate) fn wait(&self) -> Result<()> {
        assert_no_lock_held("a wait");
        let streams = {
            let mut state = self.state.lock();
            // Wait for the current turns only: later turns are not waited for.
            let begun = state.begun;
            self.wait_until(&mut state, |state| state.ended >= begun)?;
            state.busy.clone()
        };
        let is_gone = |stream: &&Arc<Listed>| stream.is_gone();
        let gone: Vec<_> = streams.iter().filter(is_gone).cloned().collect();
        synchronize(&devices(&streams))?;
        remove(&mut self.state.lock().busy, &gone);
        Ok(())
    }

    /// From here on nothing is enqueued; the list has all work that was enqueued before.
    fn shut(self: &Arc<Self>, state: &mut State, buffer: Title) -> Closed {
        let buffer = Arc::new(buffer);
        state.guards.push((Arc::clone(&buffer), this_thread()));
        CLOSED.fetch_add(1, Ordering::Relaxed);
        Closed {
            gate: Arc::clone(self),
            buffer,
            _on_this_thread: PhantomData,
        }
    }

    /// Returns true if a host guard lives, so that the devices behind the gate are idle, or are being waited for.
    pub(crate) fn is_closed(&self) -> bool {
        !self.state.lock().guards.is_empty()
    }

    /// Waits until the condition holds.
    fn wait_until(
        &self,
        state: &mut MutexGuard<'_, State>,
        is_over: impl Fn(&State) -> bool,
    ) -> Result<()> {
        while !is_over(state) {
            if !self.changed.wait_unless_ending(state) {
                let by = format!("the process ends, and a thread that it stopped {ENQUEUES}");
                return Err(busy("managed memory", by));
            }
        }
        Ok(())
    }
}

/// Returns true if other threads may wait at a gate for this one.
pub(crate) fn keeps_a_gate() -> bool {
    has_turn() || CLOSED.load(Ordering::Relaxed) > 0
}

fn busy(what: impl Display, by: String) -> Error {
    let what = what.to_string();
    Error::Busy { what, by }
}

fn devices(streams: &[Arc<Listed>]) -> BTreeMap<u32, &Api> {
    let devices = streams.iter();
    devices
        .map(|stream| (stream.ordinal, &*stream.api))
        .collect()
}

fn synchronize(devices: &BTreeMap<u32, &Api>) -> Result<()> {
    let mut devices = devices.iter();
    devices.try_for_each(|(ordinal, api)| api.device_synchronize(*ordinal))
}

impl State {
    /// Returns true if threads that have waited for the last guard enqueue before the next one.
    fn is_for_waiting(&self) -> bool {
        self.waiting > 0 && self.guards.is_empty()
    }

    fn own_guards(&self) -> usize {
        let own = this_thread();
        self.guards.iter().filter(|(_, of)| *of == own).count()
    }

    fn refusal(&self, ordinal: u32) -> Error {
        let (own, all) = (self.own_guards(), self.guards.len());
        let newest = self.guards.last().map(|(buffer, _)| buffer.to_string());
        let newest = newest.unwrap_or_default();
        let guards = "host guard(s) of managed memory";
        let by = match own {
            0 => format!(
                "{all} {guards} live on other threads, the newest of {newest}: with NonConcurrentAccess::Wait the call waits for them"
            ),
            _ => format!(
                "this thread has {own} of the {all} {guards} that live, the newest of {newest}: drop them before the call, or use mapped \
                 memory (NonConcurrentAccess::Mapped)"
            ),
        };
        let what = format!("device {ordinal}, which has no concurrent managed access,");
        busy(what, by)
    }
}

impl Drop for Enqueue<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state.lock();
        state.ended += 1;
        drop(state);
        self.gate.changed.notify_all();
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        if fork::is_inherited() {
            return;
        }
        let mut state = self.gate.state.lock();
        state
            .guards
            .retain(|(buffer, _)| !Arc::ptr_eq(buffer, &self.buffer));
        CLOSED.fetch_sub(1, Ordering::Relaxed);
        drop(state);
        self.gate.changed.notify_all();
    }
}
