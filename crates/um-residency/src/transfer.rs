//! Transfers between the arena and the homes. Each one either happens, or leaves the buffer as it was.

use std::ops::Range;
use std::sync::Arc;

use um_backend::cuda_um::DeviceBuffer;

use crate::access::Access;
use crate::entries::Id;
use crate::entry::{Entry, Residence};
use crate::error::Result;
use crate::home::SharedHome;
use crate::state::{Guarded, Shared, State};
use crate::stats::Change;

/// Makes the home as new as the arena: enqueues a copy. A file is [flushed](flush) before, unless the buffer is in use: then it stays dirty.
pub(crate) fn write_back(shared: &Shared, state: &mut State, id: Id) -> Result<()> {
    let State { entries, stats, .. } = state;
    let goes = |entry: &&mut Entry| entry.is_dirty && !entry.in_file && entry.pins == 0;
    let Some(entry) = entries.get_mut(id).filter(goes) else {
        return Ok(());
    };
    if let Residence::Here(memory) = &entry.memory {
        let write = |stream: &_| entry.home.write().write_back(memory, stream);
        shared.outbound.enqueue(write)?;
        entry.is_dirty = false;
        stats.note(Change::Out, entry);
    }
    Ok(())
}

/// Writes contents that only the arena has to the file that is their home, without the lock: the state may be another one afterwards.
pub(crate) fn flush(shared: &Shared, state: &mut Guarded<'_>, id: Id) -> Result<()> {
    let entry = state.entry(id);
    let Residence::Here(memory) = &entry.memory else {
        return Ok(());
    };
    let (memory, home) = (Arc::clone(memory), Arc::clone(&entry.home));
    // As a guard that reads: no other guard writes the buffer meanwhile.
    entry.readers += 1;
    state.pin(id);
    let stream = shared.outbound.stream();
    let written = state.unlocked(|| home.write().write_back(&memory, stream));
    drop(memory);
    let State { entries, stats, .. } = &mut **state;
    if let Some(entry) = entries.get_mut(id) {
        entry.readers -= 1;
        if written.is_ok() {
            entry.is_dirty = false;
            stats.note(Change::Out, entry);
        }
    }
    let dropped = state.unpin(id);
    shared.released.notify_all();
    // Closes the file.
    state.unlocked(|| drop(dropped));
    Ok(written?)
}

/// Flushes a buffer in these slots, if one must be before it leaves. Returns whether there was one.
pub(crate) fn flush_one(
    shared: &Shared,
    state: &mut Guarded<'_>,
    slots: &Range<usize>,
) -> Result<bool> {
    let must = |id: &Id| state.entries.get(*id).is_some_and(Entry::needs_flush);
    match state.in_slots(slots).into_iter().find(must) {
        Some(id) => flush(shared, state, id).map(|()| true),
        None => Ok(false),
    }
}

/// Takes a buffer out of the arena, which no guard has and which needs no flush. The next buffer in its slots comes after its work.
pub(crate) fn evict(shared: &Shared, state: &mut State, id: Id) -> Result<()> {
    write_back(shared, state, id)?;
    debug_assert!(!state.entry(id).is_dirty, "contents are lost");
    drop(state.left(id));
    Ok(())
}

/// Takes all buffers out of these slots, which no guard has.
pub(crate) fn make_room(shared: &Shared, state: &mut State, slots: &Range<usize>) -> Result<()> {
    for id in state.in_slots(slots) {
        evict(shared, state, id)?;
    }
    Ok(())
}

/// A buffer that is read from a file without the lock. It is pinned.
pub(crate) struct Load {
    pub(crate) id: Id,
    pub(crate) memory: DeviceBuffer<u8>,
    pub(crate) home: SharedHome,
}

/// Places a buffer that is away, and enqueues the copy of its contents if the access needs them. A copy from a file is left to the caller,
/// without the lock.
pub(crate) fn bring_in(
    shared: &Shared,
    state: &mut State,
    id: Id,
    first: usize,
    access: Access,
) -> Result<Option<Load>> {
    let entry = state.entry(id);
    let mut memory = shared.memory.place::<u8>(first, entry.bytes)?;
    memory.set_name(Arc::clone(&entry.name));
    let needs_contents = access != Access::Write;
    if needs_contents && entry.in_file {
        let home = Arc::clone(&entry.home);
        state.arrived(id, first, Residence::Taken, Change::In);
        state.pin(id);
        return Ok(Some(Load { id, memory, home }));
    }
    if !needs_contents {
        let memory = Residence::Blank(Arc::new(memory));
        state.arrived(id, first, memory, Change::Claim);
        return Ok(None);
    }
    let home = entry.home.read();
    let inbound = &shared.inbound;
    inbound.enqueue(|stream| home.bring_in(&mut memory, stream))?;
    let change = match home.is_nowhere() {
        true => Change::Claim,
        false => Change::In,
    };
    drop(home);
    let memory = Residence::Here(Arc::new(memory));
    state.arrived(id, first, memory, change);
    Ok(None)
}
