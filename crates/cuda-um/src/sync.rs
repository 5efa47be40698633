//! Locks, atomics and threads of the modules that `tests/loom` models: there, loom's stand in for them.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::{sync::atomic, thread};
