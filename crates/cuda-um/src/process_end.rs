//! The end of the process: only the thread that runs the exit handlers then calls CUDA.
//!
//! When a process ends, the C library runs CUDA's exit handlers while other threads still run. A call of CUDA on another thread can then end
//! the process by a signal: with 8 threads at work it did in 19 of 20 processes. Exit handlers run in the reverse order of their
//! registration, so one that is registered after CUDA was used runs before CUDA's. The library's handler marks the process as ending, which
//! each call of CUDA checks ([`fork::check`]), and waits for the calls that have begun ([`Calls`]).
//!
//! On Windows the C runtime runs the handler when `main` returns. Then the system ends the other threads, and CUDA's libraries come last. So there
//! the handler only makes the other threads release the library's locks, which destructors of the last thread may need. `std::process::exit`
//! runs no handler there.
#![allow(unsafe_code, reason = "registers an exit handler")]

mod count;

use crate::error::{Error, Result};
use crate::fork;
use crate::sync::{CALL, Held, after_unlock, holds, shard, this_thread};
use count::Count;
use cuda_um_sys::cudaError;
use std::fmt::Display;
use std::io::Write;
use std::sync::atomic::{self, AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The thread that runs the exit handlers; 0 before that.
static EXITS: AtomicU64 = AtomicU64::new(0);
/// True if the end of the process no longer waits for [`Calls`].
static WAITED: AtomicBool = AtomicBool::new(false);
/// So many that threads seldom contend for one.
const SHARDS: usize = 64;
/// Each thread has a part of them.
static COUNTS: [Count; SHARDS] = [const { Count(AtomicUsize::new(0)) }; SHARDS];

/// While it lives, this thread may call CUDA and use its memory, and the end of the process waits for it.
#[must_use]
pub struct Calls {
    count: &'static Count,
    _held: Held<CALL>,
}

impl Calls {
    /// Returns `None` in a child made by `fork`, and if the process ends: then the thread must not call CUDA, and must not drop what calls CUDA in
    /// its drop. The thread that runs the exit handlers may.
    #[must_use]
    pub fn begin() -> Option<Self> {
        let begun = Self::count();
        (may_call_beside(1) && !fork::is_inherited()).then_some(begun)
    }

    /// Like [`fork::check`], for one call.
    ///
    /// # Errors
    ///
    /// The errors of [`fork::check`].
    #[inline]
    pub fn of(call: &'static str) -> Result<Self> {
        let begun = Self::count();
        match fork::may_call() {
            true => Ok(begun),
            false => begun.refused(call),
        }
    }

    #[cold]
    fn refused(self, call: &'static str) -> Result<Self> {
        drop(self);
        fork::check(call)?;
        Ok(Self::count())
    }

    /// Counts the thread, if these are its first.
    #[inline]
    fn count() -> Self {
        let count = &COUNTS[shard::own::<SHARDS>()];
        if holds(CALL) == 0 {
            count.begin();
        }
        Self {
            count,
            _held: Held::begin(),
        }
    }
}

impl Drop for Calls {
    #[inline]
    fn drop(&mut self) {
        if holds(CALL) == 1 {
            self.count.end();
        }
    }
}

fn is_exiting() -> bool {
    EXITS.load(Ordering::Acquire) == this_thread()
}

/// Returns false if the process ends, and this thread must not call CUDA.
pub(crate) fn may_call() -> bool {
    may_call_beside(0)
}

/// Does not count the last `new` [`Calls`] of this thread.
fn may_call_beside(new: usize) -> bool {
    let has_begun = || holds(CALL) > new && !WAITED.load(Ordering::Acquire);
    !is_ending() || is_exiting() || has_begun()
}

/// Stops this thread if it must not call CUDA. The thread that runs the exit handlers may need a lock that this thread holds: then this
/// returns CUDA's error for a call during the end of the process, and the thread stops when it releases its last lock.
pub(crate) fn check(call: &'static str) -> Result<()> {
    if may_call() {
        return Ok(());
    }
    after_unlock(|| -> () { stop() });
    Err(error(call))
}

/// CUDA's error for a call during the end of the process.
#[must_use]
pub fn error(call: &'static str) -> Error {
    Error::Call {
        call,
        subject: "the process ends".to_owned(),
        code: cudaError::cudaErrorCudartUnloading.0,
        name: "cudaErrorCudartUnloading".to_owned(),
        message: "driver shutting down".to_owned(),
    }
}

/// The end of a thread that must not call CUDA, which keeps what it owns.
pub(crate) fn stop() -> ! {
    loop {
        // Not `park`: this may run in a destructor of a thread-local.
        std::thread::sleep(Duration::from_secs(3600));
    }
}

/// Aborts the process, with a line that says why. While the process ends, only stops this thread.
pub(crate) fn abort(why: impl Display) -> ! {
    if !may_call() {
        stop();
    }
    // The write may fail; the process is aborted in any case.
    let _ = writeln!(std::io::stderr(), "cuda-um: {why}");
    std::process::abort();
}

/// Returns true if the process ends, so that nothing may wait for other threads.
#[must_use]
pub fn is_ending() -> bool {
    fork::is_ending()
}

/// What a program used last. CUDA may register exit handlers at each of these points, and the library's must be registered after them.
#[derive(Clone, Copy, Debug)]
pub enum Used {
    /// The driver.
    Driver,
    /// A context of a device.
    Context,
    /// CUPTI.
    Profiler,
    /// Records of CUPTI.
    Records,
}

/// Registers the exit handler, once for each argument. Must be called after the library used what the argument says.
pub fn watch(used: Used) {
    static WATCHED: [AtomicBool; 4] = [const { AtomicBool::new(false) }; 4];

    extern "C" fn at_exit() {
        // A child made by `fork` has the handler, but neither CUDA nor the threads.
        if !fork::is_inherited() && !is_exiting() {
            end();
        }
    }

    // Miri has no `atexit`, and the handler knows no thread of loom.
    if cfg!(any(miri, cuda_um_loom)) || WATCHED[used as usize].swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: the handler cannot unwind. If the library that contains it is unloaded, the C library runs it then.
    let result = unsafe { libc::atexit(at_exit) };
    if result != 0 {
        crate::telemetry::warn!(
            result,
            "atexit failed: threads may still call CUDA while the process ends"
        );
    }
}

/// Stops the other threads, and waits for the calls that have begun.
fn end() {
    /// How long the end of the process waits for [`Calls`]: a free waits for all work of its device.
    const PATIENCE: Duration = Duration::from_secs(1);

    // The process may end in a call of this thread, which never returns.
    if holds(CALL) > 0 {
        COUNTS[shard::own::<SHARDS>()].end();
    }
    // Only one thread may run CUDA's exit handlers, which come next.
    let first = EXITS.compare_exchange(0, this_thread(), Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        stop();
    }
    fork::end();
    let start = Instant::now();
    while COUNTS.iter().any(Count::is_held) && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(50));
    }
    WAITED.store(true, Ordering::Release);
}

/// Counts only this thread, which is the only one of a child made by `fork`. Runs there before any other code.
#[cfg(all(unix, not(miri)))]
pub(crate) fn in_child() {
    for count in &COUNTS {
        count.0.store(0, Ordering::Relaxed);
    }
    if holds(CALL) > 0 {
        COUNTS[shard::own::<SHARDS>()].begin();
    }
}
