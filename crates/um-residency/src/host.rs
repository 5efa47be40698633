//! Access of the host: the home, after a write back.

use std::sync::Arc;

use cuda_um_sys::locks::RwLock;
use um_backend::CudaError;

use crate::entries::Id;
use crate::entry::Residence;
use crate::error::{Error, Result};
use crate::home::Home;
use crate::state::{Guarded, Shared, State};
use crate::transfer::{flush, write_back};
use crate::wait::Wait;

/// Calls `read` with the home, which has the newest contents, without the lock. Waits while a guard of another thread writes the buffer.
pub(crate) fn with_home<R>(
    shared: &Shared,
    id: Id,
    call: &'static str,
    read: impl FnOnce(&Home) -> um_backend::Result<R>,
) -> um_backend::Result<R> {
    shared.check_process(call)?;
    let mut state = shared.state.lock();
    clean(shared, &mut state, id, call).map_err(|error| below(error, call))?;
    access(shared, state, id, |home| read(&home.read()), |_, _| ())
}

/// Calls `work` with the home of a pinned buffer, without the lock, and then `end` with it.
fn access<R>(
    shared: &Shared,
    mut state: Guarded<'_>,
    id: Id,
    work: impl FnOnce(&RwLock<Home>) -> um_backend::Result<R>,
    end: impl FnOnce(&mut State, bool),
) -> um_backend::Result<R> {
    // A write back of later contents waits for the end, and so does a transfer to the arena if this is a write.
    state.pin(id);
    let home = Arc::clone(&state.entry(id).home);
    let result = state.unlocked(|| work(&home));
    end(&mut state, result.is_ok());
    // The caller has a reference to the buffer: it is not dropped meanwhile.
    state.unpin(id);
    drop(state);
    shared.released.notify_all();
    result
}

/// Makes the home as new as the arena.
fn clean(shared: &Shared, state: &mut Guarded<'_>, id: Id, call: &'static str) -> Result<()> {
    let mut wait = Wait::new(call);
    loop {
        let entry = state.entry(id);
        let is_taken = matches!(entry.memory, Residence::Taken);
        if is_taken || (entry.is_dirty && entry.pins > 0) {
            wait.wait(shared, state)?;
        } else if entry.is_dirty && entry.in_file {
            // A guard that reads does not prevent it.
            flush(shared, state, id)?;
        } else {
            return write_back(shared, state, id);
        }
    }
}

/// Calls `put`, which writes the home, and then takes the buffer out of the arena; if `put` fails, the arena keeps its contents. The caller has
/// the buffer exclusively. Without `keeps`, `put` replaces all contents.
pub(crate) fn put_home(
    shared: &Shared,
    id: Id,
    call: &'static str,
    keeps: bool,
    put: impl FnOnce(&mut Home) -> um_backend::Result<()>,
) -> um_backend::Result<()> {
    shared.check_process(call)?;
    let refused = |error| below(error, call);
    let mut state = shared.state.lock();
    let mut wait = Wait::new(call);
    loop {
        // A transfer of another thread, which makes room or reads a file.
        while state.entry(id).pins > 0 {
            wait.wait(shared, &mut state).map_err(refused)?;
        }
        let entry = state.entry(id);
        if entry.is_held() {
            return Err(CudaError::Busy {
                what: format!("{call}: the buffer"),
                by: "a guard of it was forgotten".to_owned(),
            });
        }
        if keeps {
            clean(shared, &mut state, id, call).map_err(refused)?;
        }
        if !state.entry(id).stays() {
            break;
        }
    }
    let end = |state: &mut State, is_put: bool| {
        let entry = state.entry(id);
        match is_put {
            true => {
                entry.is_dirty = false;
                if !entry.is_away() {
                    drop(state.left(id));
                }
            }
            // The home may have a part of the new contents.
            false if matches!(entry.memory, Residence::Here(_)) => entry.is_dirty = true,
            false => {}
        }
    };
    access(shared, state, id, |home| put(&mut home.write()), end)
}

/// The error of the layer below that a `Buffer` returns.
pub(crate) fn below(error: Error, call: &'static str) -> CudaError {
    match error {
        Error::Cuda(error) => error,
        Error::WouldDeadlock { held, .. } => CudaError::WouldDeadlock {
            call,
            held: format!("{held} guards of working sets of this thread"),
        },
        other => um_backend::cuda_um::Error::InvalidArgument {
            what: "the buffer",
            value: "used in this way".to_owned(),
            reason: other.to_string(),
        },
    }
}
