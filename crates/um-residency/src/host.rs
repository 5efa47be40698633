//! Access of the host: the home, after a write back.

use std::sync::Arc;

use parking_lot::MutexGuard;
use um_backend::CudaError;

use crate::entry::Residence;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::state::{Shared, State};
use crate::transfer::write_back;
use crate::wait::wait;

/// Calls `read` with the home, which has the newest contents. Waits while a guard of another thread writes the buffer.
pub(crate) fn with_home<R>(
    shared: &Shared,
    id: usize,
    call: &'static str,
    read: impl FnOnce(&mut Home) -> um_backend::Result<R>,
) -> um_backend::Result<R> {
    shared.check_process(call)?;
    let mut state = shared.state.lock();
    clean(shared, &mut state, id, call).map_err(|error| below(error, call))?;
    let home = Arc::clone(&state.entry(id).home);
    // A write back of later contents waits until the host has read these.
    let mut home = home.lock();
    drop(state);
    read(&mut home)
}

fn clean(
    shared: &Shared,
    state: &mut MutexGuard<'_, State>,
    id: usize,
    call: &'static str,
) -> Result<()> {
    while matches!(state.entry(id).memory, Residence::Taken) {
        wait(shared, state, call)?;
    }
    let entry = state.entry(id);
    if let Some(last_step) = entry.gone {
        let buffer = entry.name.to_string();
        return Err(Error::ContentsGone { buffer, last_step });
    }
    write_back(shared, state, id)
}

/// Takes the buffer out of the arena, and calls `put`, which writes the home. The caller has the buffer exclusively. Without `keeps`, `put`
/// replaces all contents.
pub(crate) fn put_home(
    shared: &Shared,
    id: usize,
    (call, keeps): (&'static str, bool),
    put: impl FnOnce(&mut Home) -> um_backend::Result<()>,
) -> um_backend::Result<()> {
    shared.check_process(call)?;
    let mut state = shared.state.lock();
    if state.entry(id).is_held() {
        let held = "a forgotten guard".to_owned();
        return Err(CudaError::StorageInUse { call, held });
    }
    if keeps {
        clean(shared, &mut state, id, call).map_err(|error| below(error, call))?;
    }
    let entry = state.entry(id);
    (entry.dirty, entry.gone) = (false, None);
    let home = Arc::clone(&entry.home);
    if !entry.is_away() {
        drop(state.left(id));
    }
    // Locked before the state is free: a look-ahead of another thread waits, and then finds the new contents.
    let mut home = home.lock();
    drop(state);
    put(&mut home)
}

/// The error of the layer below that a `Buffer` returns.
pub(crate) fn below(error: Error, call: &'static str) -> CudaError {
    match error {
        Error::Cuda(error) => error,
        Error::WouldDeadlock { held, .. } => CudaError::WouldDeadlock {
            call,
            held: format!("{held} guards of working sets of this thread"),
        },
        other => um_backend::Error::InvalidArgument {
            what: "the buffer",
            value: "used in this way".to_owned(),
            reason: other.to_string(),
        }
        .into(),
    }
}
