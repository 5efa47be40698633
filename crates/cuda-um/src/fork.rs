//! Detects that this process is a child made by `fork`, in which CUDA cannot be used.
//!
//! The child has copies of all handles, but neither the driver's state nor managed memory, and only one thread. A lock that another
//! thread held during the fork is never released in the child. For objects made before the fork, the library therefore takes no lock and
//! calls no CUDA function in the child: calls are refused ([`Error::Forked`]), and drops do nothing.
#![allow(unsafe_code, reason = "registers a fork handler")]

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[cfg(all(test, not(cuda_um_loom)))]
pub(crate) use pretend::{as_child, assert_no_child};

/// The number of forks between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process in which an object was made.
#[derive(Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) fn here() -> Self {
        static TOLD: AtomicBool = AtomicBool::new(false);
        // Not a `Once`: a child would wait for the parent's thread that runs it. Two threads may register the handler twice; the
        // generation then grows by two for one fork, which still differs from the parent's.
        if !TOLD.load(Ordering::Acquire) {
            ask_to_be_told();
            TOLD.store(true, Ordering::Release);
        }
        Self::now()
    }

    fn now() -> Self {
        let generation = GENERATION.load(Ordering::Relaxed);
        #[cfg(all(test, not(cuda_um_loom)))]
        let generation = generation + pretend::forks();
        Self(generation)
    }

    /// A number that differs between a process and its children.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Returns true if this process is a child made by `fork` after the origin.
    pub(crate) fn is_inherited(self) -> bool {
        self.0 != Self::now().0
    }

    /// # Errors
    ///
    /// [`Error::Forked`] if this process is a child made by `fork` after the origin.
    pub(crate) fn check(self, call: &'static str) -> Result<()> {
        match self.is_inherited() {
            true => Err(Error::Forked { call }),
            false => Ok(()),
        }
    }
}

#[cfg(all(unix, not(miri)))]
fn ask_to_be_told() {
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler only increments an atomic, which is permitted in a child whatever the parent's other threads did. If the
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
