//! Deferred frees: memory and objects that were dropped while a device still used them.
//!
//! No thread frees them. A drop that adds an entry polls a few old ones, without a wait; the calls that may wait empty the list. Entries whose release
//! runs code of another library, which may take any lock of the program, are released only by drops of such memory and by calls that say so.

use crate::context::capture;
use crate::context::device::DeviceState;
use crate::context::drain::drain;
use crate::context::tracker::Use;
use crate::error::{Error, Result};
use crate::fork;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{
    Condvar, Mutex, MutexGuard, after_unlock, assert_no_lock_held, caught, this_thread,
};
use cuda_um_sys::cudaError;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::{Arc, OnceLock};

/// A resource to be released when its uses are done. It knows no [`Device`](crate::Device), which would keep the runtime.
///
/// If waiting fails, the device may still use the resource, which is then leaked. `release` must therefore do nothing if it is dropped
/// without being called.
pub(crate) struct Deferred {
    pub(crate) device: Arc<DeviceState>,
    pub(crate) uses: SmallVec<[Use; 2]>,
    pub(crate) what: String,
    /// The bytes of own memory.
    pub(crate) bytes: usize,
    /// True if the release waits for all devices, as `cudaFree` does.
    pub(crate) waits: bool,
    /// True if the release runs code of another library.
    pub(crate) is_foreign: bool,
    pub(crate) release: Box<dyn FnOnce() -> Result<()> + Send>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Own,
    All,
}

#[derive(Default)]
pub(crate) struct Reclaim {
    state: Mutex<State>,
    /// Notifies the threads that wait for entries which other threads have taken.
    changed: Condvar,
    // Relaxed: they say nothing of other memory.
    bytes: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// All entries that are neither released nor leaked, the oldest first.
    entries: BTreeMap<u64, Place>,
    next: u64,
    /// The number of entries that were released or leaked.
    released: u64,
    /// The number of the entry that a drop polls first.
    polled: u64,
    /// True from a call of the [`HOOK`] until no import is left.
    is_hooked: bool,
    first_error: Option<Error>,
}

struct Place {
    is_foreign: bool,
    /// The entry, or the thread that has taken it.
    entry: Result<Deferred, u64>,
}

/// How many entries a drop polls.
const FEW: usize = 4;

/// The bytes of deferred frees above which an allocation waits for them.
const BUDGET: usize = 4 << 30;

impl Which {
    fn has(self, place: &Place) -> bool {
        self == Self::All || !place.is_foreign
    }
}

impl Reclaim {
    /// Releases the resource now, if its uses are done; otherwise when they are, and polls a few entries. Does not wait.
    pub(crate) fn defer(self: &Arc<Self>, deferred: Deferred) {
        let is_foreign = deferred.is_foreign;
        self.bytes.fetch_add(deferred.bytes, Ordering::Relaxed);
        // It is no entry yet: no thread waits for the code of another library that its release may run.
        let Some(deferred) = self.end_if(u64::MAX, deferred, Deferred::is_over) else {
            if is_foreign {
                self.poll_few(Which::All);
            }
            return;
        };
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let entry = Ok(deferred);
        state.entries.insert(number, Place { is_foreign, entry });
        let hook = HOOK.get().filter(|_| is_foreign && !state.is_hooked);
        state.is_hooked |= hook.is_some();
        drop(state);
        if let Some(hook) = hook {
            let list = Arc::downgrade(self);
            let poll = move || list.upgrade().is_some_and(|list| list.poll(Which::All));
            hook(Box::new(poll));
        }
        self.poll_few(match is_foreign {
            true => Which::All,
            false => Which::Own,
        });
    }

    /// Releases a few entries whose uses are done, as soon as this thread holds no lock. Does not wait.
    pub(crate) fn poll_few(self: &Arc<Self>, which: Which) {
        let this = Arc::clone(self);
        after_unlock(move || {
            for _ in 0..FEW {
                let from = this.state.lock().polled;
                let polled = this.poll_one(which, from..);
                let polled = polled.or_else(|| this.poll_one(which, ..from));
                let Some(number) = polled else { return };
                this.state.lock().polled = number + 1;
            }
        });
    }

    /// Releases all entries whose uses are done. Does not wait. Returns true if some are left.
    pub(crate) fn poll(&self, which: Which) -> bool {
        // Not what other threads add meanwhile.
        let (mut from, end) = (0, self.state.lock().next);
        while let Some(number) = self.poll_one(which, from..end) {
            from = number + 1;
        }
        let mut state = self.state.lock();
        let is_left = state.entries.values().any(|it| which.has(it));
        state.is_hooked &= is_left || which == Which::Own;
        is_left
    }

    /// Releases the first entry among these numbers, if its uses are done. Returns its number; `None` if there is none.
    fn poll_one(&self, which: Which, numbers: impl RangeBounds<u64>) -> Option<u64> {
        let (number, deferred) = self.open()?.take(which, numbers)?;
        if let Some(deferred) = self.end_if(number, deferred, Deferred::is_over) {
            let place = |place: &mut Place| place.entry = Ok(deferred);
            self.state.lock().entries.get_mut(&number).map(place);
            self.changed.notify_all();
        }
        Some(number)
    }

    /// Waits until all entries that are there now are released or leaked. Later entries are not waited for, nor those that this thread is
    /// releasing. It also returns when the process ends. If there are some and this thread captures, returns an error at once.
    pub(crate) fn flush(&self, which: Which) -> Result<()> {
        assert_no_lock_held("a wait");
        let this_thread = this_thread();
        let Some(mut state) = self.open() else {
            return Ok(());
        };
        let end = state.next;
        loop {
            let is_waited_for =
                |it: &Place| which.has(it) && it.entry.as_ref().err() != Some(&this_thread);
            if !state.entries.range(..end).any(|(_, it)| is_waited_for(it)) {
                return Ok(());
            }
            if capture::is_of_this_thread() {
                return Err(capture::refused("Runtime::reclaim", capture::NO_WAIT));
            }
            let numbers = (Bound::Unbounded, Bound::Excluded(end));
            if let Some((number, deferred)) = state.take(which, numbers) {
                drop(state);
                self.end_if(number, deferred, |deferred| {
                    let panicked = || (false, Err(panicked("waiting for the device")));
                    Some(caught(|| drain(&deferred.uses)).unwrap_or_else(panicked))
                });
                state = self.state.lock();
            } else if !self.changed.wait_unless_ending(&mut state) {
                return Ok(());
            }
        }
    }

    /// Must be called before memory is allocated with CUDA, without locks. Waits for own entries if they have too many bytes.
    pub(crate) fn keep_budget(&self) {
        if self.bytes.load(Ordering::Relaxed) > BUDGET {
            self.poll(Which::Own);
            if self.bytes.load(Ordering::Relaxed) > BUDGET {
                let _ = self.flush(Which::Own);
            }
        }
    }

    pub(crate) fn released(&self) -> u64 {
        self.state.lock().released
    }

    pub(crate) fn take_error(&self) -> Option<Error> {
        self.open()?.first_error.take()
    }

    /// The list; `None` in a child made by `fork`, and on threads that the end of the process stops.
    fn open(&self) -> Option<MutexGuard<'_, State>> {
        (!fork::is_over()).then(|| self.state.lock())
    }

    /// Ends an entry that this thread took, if `ask` tells that its uses are over, or that no wait tells it. Otherwise returns it.
    fn end_if(
        &self,
        number: u64,
        deferred: Deferred,
        ask: impl FnOnce(&Deferred) -> Option<(bool, Result<()>)>,
    ) -> Option<Deferred> {
        let calls = !deferred.uses.is_empty() || deferred.waits;
        let _tolerant = calls.then(|| deferred.device.api.tolerate_captures());
        let Some(over) = ask(&deferred) else {
            return Some(deferred);
        };
        self.end(number, deferred, over);
        None
    }

    /// Releases the entry if its uses are over; otherwise leaks it. A panic leaves no entry behind, because other threads wait for it.
    fn end(&self, number: u64, deferred: Deferred, (over, waited): (bool, Result<()>)) {
        let Deferred {
            uses,
            what,
            bytes,
            release,
            ..
        } = deferred;
        let mut failures: SmallVec<[_; 2]> = SmallVec::new();
        if let Err(error) = waited {
            failures.push((if over { "freed late" } else { "leaked" }, error));
        }
        if over {
            let released = caught(release).unwrap_or_else(|| Err(panicked("freeing")));
            failures.extend(released.err().map(|error| ("not freed", error)));
        } else {
            caught(|| drop(release));
        }
        // This may drop the last handle of a stream.
        caught(|| drop(uses));
        let events = failures
            .iter()
            .map(|(outcome, error)| (*outcome, error.to_string()));
        let events: SmallVec<[_; 2]> = events.collect();
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        let mut state = self.state.lock();
        state.released += 1;
        state.entries.remove(&number);
        if let Some((_, error)) = failures.into_iter().next() {
            state.first_error.get_or_insert(error);
        }
        // Before the events: foreign code may wait for the entries.
        drop(state);
        self.changed.notify_all();
        for (outcome, error) in events {
            let what = what.clone();
            crate::telemetry::warn!(what, outcome, error, "deferred free failed");
        }
    }
}

impl State {
    /// Takes the first entry among these numbers that no thread has taken.
    fn take(&mut self, which: Which, numbers: impl RangeBounds<u64>) -> Option<(u64, Deferred)> {
        let mut entries = self.entries.range_mut(numbers);
        let is_here = |it: &Place| which.has(it) && it.entry.is_ok();
        let (&number, place) = entries.find(|(_, it)| is_here(it))?;
        let taken = std::mem::replace(&mut place.entry, Err(this_thread()));
        Some((number, taken.ok()?))
    }
}

fn panicked(what: &str) -> Error {
    Error::Call {
        call: "a deferred free",
        subject: what.to_owned(),
        code: cudaError::cudaErrorUnknown.0,
        name: "cudaErrorUnknown".to_owned(),
        message: "a panic".to_owned(),
    }
}

impl Deferred {
    /// `None` if the release would wait, if this thread captures, and if a query failed, in place of the work: then a wait tells.
    fn is_over(&self) -> Option<(bool, Result<()>)> {
        let is_done = || matches!(caught(|| self.is_done()), Some(Ok(true)));
        (!capture::is_of_this_thread() && is_done()).then_some((true, Ok(())))
    }

    fn is_done(&self) -> Result<bool> {
        for used in &self.uses {
            if !used.is_done_or_must_wait()? {
                return Ok(false);
            }
        }
        Ok(!self.waits || self.device.driver.is_known_idle())
    }
}

/// Empties the list when it is dropped, as soon as the thread holds no lock. Waits.
pub(crate) struct Emptied(pub(crate) Arc<Reclaim>);

impl Drop for Emptied {
    fn drop(&mut self) {
        let list = Arc::clone(&self.0);
        after_unlock(move || {
            let _ = list.flush(Which::All);
        });
    }
}

type Hook = fn(Box<dyn Fn() -> bool + Send>);

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Calls `hook` when an import is dropped in use, for a crate with a thread of its own: what the hook gets releases the owners of imports whose work is
/// done, without a wait, and returns true if some are left. The hook runs in the drop, and must call nothing of this library. Only the first hook counts.
pub fn on_deferred_imports(hook: Hook) {
    let _ = HOOK.set(hook);
}
