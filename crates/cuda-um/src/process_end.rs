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

use crate::error::{Error, Result};
use crate::fork;
use crate::sync::after_unlock;
#[cfg(all(windows, not(miri)))]
use crate::windows::fence_on_all_threads;
use calls::held;
use cuda_um_sys::cudaError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

pub(crate) mod calls;

pub use calls::Calls;

/// The thread that runs the exit handlers; 0 before that.
static EXITS: AtomicUsize = AtomicUsize::new(0);
/// True if the end of the process no longer waits for [`Calls`].
static WAITED: AtomicBool = AtomicBool::new(false);

/// Returns true if this thread runs the exit handlers.
fn is_exiting() -> bool {
    EXITS.load(Ordering::Acquire) == this_thread()
}

/// Returns false if the process ends, and this thread must not call CUDA.
pub(crate) fn may_call() -> bool {
    may_call_beside(0)
}

/// Does not count the last `new` [`Calls`] of this thread.
fn may_call_beside(new: usize) -> bool {
    let has_begun = || held() > new && !WAITED.load(Ordering::Acquire);
    !fork::is_ending() || is_exiting() || has_begun()
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
#[cfg(not(miri))]
pub fn watch(used: Used) {
    static WATCHED: [AtomicBool; 4] = [const { AtomicBool::new(false) }; 4];

    extern "C" fn at_exit() {
        // A child made by `fork` has the handler, but neither CUDA nor the threads.
        if !fork::is_inherited() {
            end();
        }
    }

    if WATCHED[used as usize].swap(true, Ordering::AcqRel) {
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
#[cfg(not(miri))]
fn end() {
    use std::time::Instant;

    /// How long the end of the process waits for [`Calls`]: a free waits for all work of its device.
    const PATIENCE: Duration = Duration::from_secs(1);

    if is_exiting() {
        return;
    }
    // Only one thread may run CUDA's exit handlers, which come next.
    let first = EXITS.compare_exchange(0, this_thread(), Ordering::AcqRel, Ordering::Acquire);
    if first.is_err() {
        stop();
    }
    fork::end();
    if calls::are_other_threads() {
        fence_on_all_threads();
        let start = Instant::now();
        while calls::are_others_held() && start.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    // The process may end in a call of this thread.
    WAITED.store(true, Ordering::Release);
}

/// Waits until each thread of the process has passed a fence, or for so long that it must have.
#[cfg(all(not(windows), not(miri)))]
fn fence_on_all_threads() {
    // SAFETY: the system call only waits.
    #[cfg(target_os = "linux")]
    let result = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_GLOBAL, 0) };
    #[cfg(not(target_os = "linux"))]
    let result = -1;
    if result != 0 {
        // An old kernel, or a sandbox that refuses the call. A processor writes its stores within microseconds.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The address of a thread-local, which no two threads that live have.
fn this_thread() -> usize {
    thread_local!(static HERE: u8 = const { 0 });
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// Miri has no `atexit`.
#[cfg(miri)]
pub fn watch(_: Used) {}
