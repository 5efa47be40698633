//! Knowing that this process is a child made by `fork`, where CUDA cannot be used.
//!
//! The child has copies of all handles, but neither the driver's state nor managed memory, nor any thread but one; and locks that other
//! threads held at that moment are never given back. So in a child whatever was made before the fork asks for no lock and calls no
//! CUDA: calls are refused ([`Error::Forked`]), and drops do nothing.
#![allow(unsafe_code, reason = "asks to be told of forks")]

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[cfg(test)]
pub(crate) use pretend::{as_child, assert_no_child};

/// How often this process and its ancestors were forked off.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made.
#[derive(Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) fn here() -> Self {
        static TOLD: AtomicBool = AtomicBool::new(false);
        // No `Once`: a child would wait for the thread of its parent that is at it. Threads that ask at the same time are told twice, and
        // a child counts two forks for one, which is another number all the same.
        if !TOLD.load(Ordering::Acquire) {
            ask_to_be_told();
            TOLD.store(true, Ordering::Release);
        }
        Self::now()
    }

    fn now() -> Self {
        let generation = GENERATION.load(Ordering::Relaxed);
        #[cfg(test)]
        let generation = generation + pretend::forks();
        Self(generation)
    }

    /// Differs between a process and its children.
    pub(crate) fn number(self) -> u32 {
        self.0
    }

    /// Whether this is another process, made by `fork`.
    pub(crate) fn is_inherited(self) -> bool {
        self.0 != Self::now().0
    }

    /// # Errors
    ///
    /// This is another process.
    pub(crate) fn check(self, call: &'static str) -> Result<()> {
        match self.is_inherited() {
            true => Err(Error::Forked { call }),
            false => Ok(()),
        }
    }
}

#[cfg(unix)]
fn ask_to_be_told() {
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: the handler counts, which any child may do whatever its parent's other threads were at. Where the library that this is part
    // of is unloaded, the C library forgets the handler.
    let result = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    if result != 0 {
        crate::telemetry::warn!(
            result,
            "children of this process will not know that they are"
        );
    }
}

#[cfg(not(unix))]
fn ask_to_be_told() {}

/// Unit tests play a child on a thread of their own process: with all that the parent has, and no code that must not run after `fork`.
#[cfg(test)]
mod pretend {
    use std::cell::Cell;

    thread_local!(static FORKS: Cell<u32> = const { Cell::new(0) });

    pub(crate) fn forks() -> u32 {
        FORKS.get()
    }

    /// Does `body` as a child made by `fork` would. Locks of the library (`crate::sync`) panic there.
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
        // A panic on top of a panic would end the process, and say less.
        if !std::thread::panicking() {
            assert_eq!(forks(), 0, "a child made by fork waits for {what}");
        }
    }
}

#[cfg(test)]
mod tests;
