//! In place of `host_fault.rs` where the simulator does not run: no simulator is built, so none is watched.

use std::sync::Arc;

use crate::engine::Core;

pub(crate) fn watch(_: &Arc<Core>) {}

pub(crate) fn unwatch(_: &Core) {}

/// Does nothing: the simulator runs only on Linux.
pub fn keep_fault_handler() {}
