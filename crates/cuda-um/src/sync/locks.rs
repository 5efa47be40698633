//! The locks, atomics and threads that `sync` wraps: those of cuda-um-sys and of the standard library or, with `cfg(cuda_um_loom)`, loom's.

#[cfg(any(not(cuda_um_loom), miri))]
pub(crate) use crate::sync::locks::system::*;

#[cfg(any(not(cuda_um_loom), miri))]
mod system {
    pub(crate) use cuda_um_sys::locks::{Condvar, Mutex, MutexGuard};
    pub(crate) use std::{sync::atomic, thread, thread_local};

    /// A static with a lock.
    macro_rules! global {
        (static $name:ident: $type:ty = $value:expr;) => {
            static $name: $type = $value;
        };
    }
    pub(crate) use global;
}

// Miri cannot run loom.
#[cfg(all(cuda_um_loom, not(miri)))]
mod loom;
#[cfg(all(cuda_um_loom, not(miri)))]
pub(crate) use crate::sync::locks::loom::*;
