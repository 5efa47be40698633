//! Managed memory as the home of read-only buffers: the device gets a copy of the pages, and drops it without a transfer.

use std::sync::Arc;

use crate::entries::Id;
use crate::entry::{Memory, Residence};
use crate::error::Result;
use crate::home::Home;
use crate::host_memory::{copy_pages, drop_pages, exclusive};
use crate::state::{Guarded, Shared, State};
use crate::stats::Change;

/// Enqueues the copy of the pages of a buffer that is away.
pub(crate) fn bring_in(
    shared: &Shared,
    state: &mut State,
    (id, first): (Id, usize),
    home: &Home,
) -> Result<()> {
    let Home::Managed(memory) = home else {
        return Ok(());
    };
    let copy = |stream: &_| Ok(copy_pages(&**memory, stream)?);
    shared.inbound.enqueue(copy)?;
    let memory = Memory::Home(Arc::clone(memory));
    state.arrived(id, first, (Residence::Here(memory), Change::In));
    Ok(())
}

/// Takes a buffer that no guard has out of the arena. Nothing in a stream ends a copy of pages, so the host waits for the work that reads it,
/// without the lock: the state may be another one afterwards.
pub(crate) fn leave(shared: &Shared, state: &mut Guarded<'_>, id: Id) -> Result<()> {
    let entry = state.entry(id);
    let home = Arc::clone(&entry.home);
    let here = std::mem::replace(&mut entry.memory, Residence::Taken);
    // The home has the only handle then.
    drop(here);
    state.pin(id);
    let left: Result<()> = state.unlocked(|| match &mut *home.write() {
        Home::Managed(memory) => Ok(drop_pages(exclusive(memory)?)?),
        _ => Ok(()),
    });
    match (&left, &*home.read()) {
        (Err(_), Home::Managed(memory)) => {
            state.entry(id).memory = Residence::Here(Memory::Home(Arc::clone(memory)));
        }
        _ => drop(state.left(id)),
    }
    let dropped = state.unpin(id);
    shared.released.notify_all();
    state.unlocked(|| drop(dropped));
    left
}
