//! Knowing that this process is a child made by `fork`, where CUDA cannot be used.
//!
//! The child has copies of all handles, but neither the driver's state nor managed memory, nor any thread but one; and locks that other
//! threads held at that moment are never given back. So in a child whatever was made before the fork asks for no lock and calls no
//! CUDA: calls are refused ([`Error::Forked`]), and drops do nothing.
#![allow(unsafe_code, reason = "asks to be told of forks")]

use crate::error::{Error, Result};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How often this process and its ancestors were forked off.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made.
#[derive(Clone, Copy)]
pub(crate) struct Origin(u32);

impl Origin {
    pub(crate) fn here() -> Self {
        static TOLD: Once = Once::new();
        TOLD.call_once(ask_to_be_told);
        Self(GENERATION.load(Ordering::Relaxed))
    }

    /// Whether this is another process, made by `fork`.
    pub(crate) fn is_inherited(self) -> bool {
        self.0 != GENERATION.load(Ordering::Relaxed)
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
        tracing::warn!(target: "cuda_um", result, "children of this process will not know that they are");
    }
}

#[cfg(not(unix))]
fn ask_to_be_told() {}
