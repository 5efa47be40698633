//! Detects that this process is a child made by `fork`, in which CUDA cannot be used.
//!
//! The child has copies of all handles, but neither the driver's state nor managed memory, and only one thread. In a child of a process that used
//! CUDA:
//!
//! - Each call of CUDA, work on a stream, each prefetch, host guard and allocation is refused ([`Error::Forked`]).
//! - Drops do nothing, and take no lock. Observers and subscribers of `tracing` hear nothing.
//! - A lock of the library that another thread held during the fork ends the child, with one line, when it has waited for 2 s.
//!
//! What a child may use, because it needs no CUDA, has its own rules: a static is an atomic or a [`PerProcess`], and an object has an [`Origin`].
#![allow(unsafe_code, reason = "registers a fork handler")]

use crate::error::{Error, Result};
use crate::process_end;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

mod per_process;

pub use per_process::PerProcess;

/// 0 while this process may call CUDA; otherwise [`ENDING`] or [`INHERITED`]. One comparison detects both.
// `SeqCst`: a thread counts its call before it loads this, and the end of the process stores it before it reads the counts (`process_end`).
static STATE: AtomicU32 = AtomicU32::new(0);
const ENDING: u32 = 1;
const INHERITED: u32 = 2;

static USED: AtomicBool = AtomicBool::new(false);
/// The number of forks between the first process that asked and this one.
// Relaxed: it changes only in a child that has one thread; its later threads begin after that.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Refuses a child made by `fork`. A crate above calls it before it takes a lock of its own that a thread may hold at a fork: in the child
/// that lock is never released. `call` is named in the error. Each call of CUDA in this crate does the same.
///
/// If the process ends, only the thread that runs the exit handlers returns with success: other threads stop here.
///
/// # Errors
///
/// [`Error::Forked`] in a child made by `fork` of a process that used CUDA. CUDA's error for a call during the end of the process, if this
/// thread holds a lock of the library: then it stops when it has released the lock.
#[inline]
pub fn check(call: &'static str) -> Result<()> {
    match may_call() {
        true => Ok(()),
        false => refuse(call),
    }
}

#[cold]
fn refuse(call: &'static str) -> Result<()> {
    match is_inherited() {
        true => Err(Error::Forked { call }),
        false => process_end::check(call),
    }
}

/// Returns true if this process neither is a child of a process that used CUDA, nor ends.
#[inline]
pub(crate) fn may_call() -> bool {
    STATE.load(Ordering::SeqCst) == 0
}

/// Returns true if this process is a child made by `fork` of a process that used CUDA.
#[must_use]
#[inline]
pub fn is_inherited() -> bool {
    STATE.load(Ordering::SeqCst) & INHERITED != 0
}

/// Returns true if a drop must not call CUDA: in a child, and on threads that stop because the process ends.
#[must_use]
pub fn is_over() -> bool {
    !may_call() && (is_inherited() || !process_end::may_call())
}

/// Does the work of a drop, unless [`is_over`]: then nothing is released.
pub(crate) fn released(work: impl FnOnce()) {
    if !is_over() {
        work();
    }
}

/// Must be called when CUDA works, before any lock of the library is taken that a child may need: from now on, children are refused.
pub(crate) fn cuda_is_used() {
    ask_to_be_told();
    USED.store(true, Ordering::SeqCst);
}

pub(crate) fn end() {
    STATE.fetch_or(ENDING, Ordering::SeqCst);
}

pub(crate) fn is_ending() -> bool {
    STATE.load(Ordering::SeqCst) & ENDING != 0
}

/// The process in which an object was made that needs no CUDA.
#[derive(Clone, Copy, Debug)]
pub struct Origin(u32);

impl Origin {
    /// The current process.
    #[must_use]
    pub fn here() -> Self {
        ask_to_be_told();
        Self(FORKS.load(Ordering::Relaxed))
    }

    /// Returns true if this process is a child made by `fork` after the origin.
    #[must_use]
    pub fn is_inherited(self) -> bool {
        self.0 != FORKS.load(Ordering::Relaxed)
    }

    /// Must be called before the lock of the object is taken.
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

#[cfg(all(unix, not(miri)))]
fn ask_to_be_told() {
    static TOLD: AtomicBool = AtomicBool::new(false);

    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
        // The child does not end with its parent.
        let used = USED.load(Ordering::SeqCst);
        STATE.store(u32::from(used) * INHERITED, Ordering::Relaxed);
        process_end::in_child();
    }
    // Not a `Once`: a child would wait for the parent's thread that runs it. Two threads may register the handler twice; the number of
    // forks then grows twice for one fork, and still differs from the parent's.
    if TOLD.load(Ordering::Acquire) {
        return;
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
    TOLD.store(true, Ordering::Release);
}

/// Windows has no `fork`, and Miri neither that nor `pthread_atfork`: the state of a child is never entered.
#[cfg(any(not(unix), miri))]
fn ask_to_be_told() {}
