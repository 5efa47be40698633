//! The end of the process: the library's own threads then call CUDA no more.
//!
//! When a process ends, the C library runs CUDA's exit handlers while other threads still run. A free on another thread can then end the
//! process by a signal: on an H100 it did in a third of the processes that ended right after the drop of many buffers in use. Exit handlers
//! run in the reverse order of their registration, so one that is registered after CUDA was used runs before CUDA's.
#![allow(unsafe_code, reason = "registers an exit handler")]

use std::sync::atomic::{AtomicUsize, Ordering};

/// Set in [`STATE`] when the process ends.
const ENDING: usize = 1;
/// A thread that may call CUDA.
const ONE: usize = 2;

/// [`ENDING`], and the number of threads that hold [`Calls`].
static STATE: AtomicUsize = AtomicUsize::new(0);

/// While it lives, a thread of the library may call CUDA, and the end of the process waits.
#[must_use]
pub struct Calls(());

impl Calls {
    /// Returns `None` if the process ends: then the thread must not call CUDA, and must not drop what calls CUDA in its drop.
    pub fn begin() -> Option<Self> {
        let calls = STATE.fetch_add(ONE, Ordering::AcqRel);
        let begun = Self(());
        (calls & ENDING == 0).then_some(begun)
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        STATE.fetch_sub(ONE, Ordering::AcqRel);
    }
}

/// The end of a thread without [`Calls`], which keeps what it owns.
pub(crate) fn stop() -> ! {
    loop {
        std::thread::park();
    }
}

/// Returns true if the library's threads stop, so that nothing may wait for them.
pub(crate) fn is_ending() -> bool {
    STATE.load(Ordering::Acquire) & ENDING != 0
}

/// Registers the exit handler once. Call it after CUDA was used, and before a thread needs it.
#[cfg(all(unix, not(miri)))]
pub fn watch() {
    use crate::fork::Origin;
    use crate::sync::after_unlock;
    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    /// How long the end of the process waits for calls that have begun: a free waits for all work of its device.
    const PATIENCE: Duration = Duration::from_secs(1);
    const NONE: u32 = u32::MAX;
    /// The process that registered the handler. Its children made by `fork` have the handler, but not the threads.
    static WATCHED: AtomicU32 = AtomicU32::new(NONE);

    extern "C" fn at_exit() {
        if WATCHED.load(Ordering::Acquire) != Origin::here().number() {
            return;
        }
        let start = Instant::now();
        STATE.fetch_or(ENDING, Ordering::AcqRel);
        while STATE.load(Ordering::Acquire) >= ONE && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    let here = Origin::here().number();
    let first = WATCHED.compare_exchange(NONE, here, Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        return;
    }
    // SAFETY: the handler cannot unwind. If the library that contains it is unloaded, the C library runs it then.
    let result = unsafe { libc::atexit(at_exit) };
    if result != 0 {
        // The caller may hold a lock.
        after_unlock(move || {
            crate::telemetry::warn!(
                result,
                "atexit failed: frees may still run while the process ends"
            );
        });
    }
}

/// Windows ends the other threads first; Miri has no `atexit`.
#[cfg(any(not(unix), miri))]
pub fn watch() {}
