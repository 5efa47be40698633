//! Detects that this process is a child made by `fork`, in which CUDA cannot be used.
//!
//! The child has copies of all handles, but neither the driver's state nor managed memory, and only one thread. A lock that another
//! thread held during the fork is never released in the child. For objects made before the fork, the library therefore takes no lock and
//! calls no CUDA function in the child: calls are refused ([`Error::Forked`]), and drops do nothing.
//!
//! A child may use objects that it makes itself. The rule for every `static` of the library that outlives a fork: it is an atomic, which is
//! valid in the child; or it is a [`PerProcess`], of which a child gets its own; or all code that takes its lock checks an [`Origin`] first.
//! Thread-locals need no check: the child has the values of the thread that called `fork`.
#![allow(unsafe_code, reason = "registers a fork handler")]

use crate::error::{Error, Result};
use crate::process_end;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[cfg(all(test, not(cuda_um_loom)))]
pub(crate) use pretend::{as_child, assert_no_child};

mod per_process;

pub use per_process::PerProcess;

/// Twice the number of forks between the first process and this one, and [`ENDING`]. One comparison with an [`Origin`] detects both a fork
/// and the end of the process.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// Set in [`PROCESS`] when the process ends.
const ENDING: u32 = 1;

/// The process in which an object was made. Not part of the public interface: crates above use it for their own state.
#[derive(Clone, Copy, Debug)]
pub struct Origin(u32);

impl Origin {
    /// The current process.
    #[must_use]
    pub fn here() -> Self {
        static TOLD: AtomicBool = AtomicBool::new(false);
        // Not a `Once`: a child would wait for the parent's thread that runs it. Two threads may register the handler twice; the
        // number then grows twice for one fork, and still differs from the parent's.
        if !TOLD.load(Ordering::Acquire) {
            ask_to_be_told();
            TOLD.store(true, Ordering::Release);
        }
        Self(process() & !ENDING)
    }

    /// A number that differs between a process and its children.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns true if this process is a child made by `fork` after the origin.
    #[must_use]
    pub fn is_inherited(self) -> bool {
        self.0 != process() & !ENDING
    }

    /// Returns true if a drop must not call CUDA: in a child made by `fork`, and on threads that stop because the process ends.
    pub(crate) fn is_over(self) -> bool {
        self.0 != process() && (self.is_inherited() || !process_end::may_call())
    }

    /// Returns true in the process of the origin, if it does not end.
    #[inline]
    pub(crate) fn is_here_and_now(self) -> bool {
        self.0 == process()
    }

    /// Must be called before each call of CUDA, and before the locks that are held during one. If the process ends, only the thread that
    /// runs the exit handlers returns with success: other threads stop here.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] if this process is a child made by `fork` after the origin. CUDA's error for a call during the end of the
    /// process, if this thread holds a lock of the library: then it stops when it has released the lock.
    #[inline]
    pub(crate) fn check(self, call: &'static str) -> Result<()> {
        match self.is_here_and_now() {
            true => Ok(()),
            false => self.refuse(call),
        }
    }

    #[cold]
    fn refuse(self, call: &'static str) -> Result<()> {
        self.check_fork(call)?;
        process_end::check(call)
    }

    /// Like `check`, for code that takes a lock and does not call CUDA: it may run while the process ends.
    ///
    /// # Errors
    ///
    /// [`Error::Forked`] if this process is a child made by `fork` after the origin.
    pub fn check_fork(self, call: &'static str) -> Result<()> {
        match self.is_inherited() {
            true => Err(Error::Forked { call }),
            false => Ok(()),
        }
    }
}

/// Marks the process as ending.
#[cfg(all(unix, not(miri)))]
pub(crate) fn end() {
    PROCESS.fetch_or(ENDING, Ordering::SeqCst);
}

/// Returns true if the process ends.
pub(crate) fn is_ending() -> bool {
    PROCESS.load(Ordering::SeqCst) & ENDING != 0
}

#[inline]
fn process() -> u32 {
    let process = PROCESS.load(Ordering::Relaxed);
    #[cfg(all(test, not(cuda_um_loom)))]
    let process = process + 2 * pretend::forks();
    process
}

#[cfg(all(unix, not(miri)))]
fn ask_to_be_told() {
    extern "C" fn in_child() {
        // The next even number: the child does not end with its parent.
        let process = PROCESS.load(Ordering::Relaxed) | ENDING;
        PROCESS.store(process + 1, Ordering::Relaxed);
        process_end::in_child();
    }
    // SAFETY: the handler only sets atomics, which is permitted in a child whatever the parent's other threads did. If the
    // library that contains it is unloaded, the C library removes the handler.
    let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if result != 0 {
        crate::telemetry::warn!(
            result,
            "pthread_atfork failed: forked children will not be detected"
        );
    }
}

/// Miri has neither `pthread_atfork` nor `fork`.
#[cfg(any(not(unix), miri))]
fn ask_to_be_told() {}

/// Unit tests simulate a child on a thread of their own process. The thread has the parent's objects, but runs no code that is
/// forbidden after `fork`.
#[cfg(all(test, not(cuda_um_loom)))]
mod pretend {
    use std::cell::Cell;

    thread_local!(static FORKS: Cell<u32> = const { Cell::new(0) });

    pub(super) fn forks() -> u32 {
        FORKS.get()
    }

    /// Runs `body` as if in a child made by `fork`. Locks of the library (`crate::sync`) panic there.
    pub(crate) fn as_child<R>(body: impl FnOnce() -> R) -> R {
        struct Back;
        impl Drop for Back {
            fn drop(&mut self) {
                FORKS.set(0);
            }
        }
        FORKS.set(1);
        let _back = Back;
        body()
    }

    pub(crate) fn assert_no_child(what: &str) {
        // A second panic would abort the process and hide the first message.
        if !std::thread::panicking() {
            assert_eq!(forks(), 0, "a child made by fork waits for {what}");
        }
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests;
