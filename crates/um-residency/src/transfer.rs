//! Transfers between the arena and the homes. Each one either happens, or leaves the buffer as it was.

use std::ops::Range;
use std::sync::Arc;

use um_backend::cuda_um::DeviceBuffer;

use crate::entry::Residence;
use crate::error::Result;
use crate::place::{Urgency, choose};
use crate::state::{Shared, State};
use crate::stats::Change;
use cuda_um_plan::Access;

/// Makes the home as new as the arena. Enqueues a copy, or writes a file.
pub(crate) fn write_back(shared: &Shared, state: &mut State, id: usize) -> Result<()> {
    let State {
        entries, counters, ..
    } = state;
    let Some(entry) = entries[id].as_mut().filter(|entry| entry.dirty) else {
        return Ok(());
    };
    if let Residence::Here(memory) = &entry.memory {
        let write = |stream: &_| entry.home.lock().write_back(memory, stream);
        match entry.in_file {
            true => write(shared.outbound.stream())?,
            false => shared.outbound.enqueue(write)?,
        }
        entry.dirty = false;
        counters.note(Change::Out, entry);
    }
    Ok(())
}

/// Takes a buffer out of the arena, which no guard has. The next buffer in its slots comes after its work.
pub(crate) fn evict(shared: &Shared, state: &mut State, id: usize) -> Result<()> {
    write_back(shared, state, id)?;
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

/// Places a buffer that is away, and enqueues the copy of its contents if the access needs them. A copy from a file is left to the caller,
/// without the lock: it gets the memory.
pub(crate) fn bring_in(
    shared: &Shared,
    state: &mut State,
    (id, first): (usize, usize),
    access: Access,
) -> Result<Option<DeviceBuffer<u8>>> {
    let entry = state.entry(id);
    let mut memory = shared.memory.place::<u8>(first, entry.bytes)?;
    memory.set_name(Arc::clone(&entry.name));
    let needs_contents = access != Access::Write;
    entry.blank = !needs_contents;
    if needs_contents && entry.in_file {
        state.arrived(id, first, (Residence::Taken, Change::In));
        return Ok(Some(memory));
    }
    let change = match needs_contents {
        true => {
            let home = entry.home.lock();
            let inbound = &shared.inbound;
            inbound.enqueue(|stream| home.bring_in(&mut memory, stream))?;
            match home.is_nowhere() {
                true => Change::Claim,
                false => Change::In,
            }
        }
        false => Change::Claim,
    };
    state.arrived(id, first, (Residence::Here(Arc::new(memory)), change));
    Ok(None)
}

/// Brings announced buffers in, as long as there is room that buffers with an earlier use do not need. Files are read when their working set
/// asks for them.
pub(crate) fn look_ahead(shared: &Shared, state: &mut State) -> Result<()> {
    let is_over = |state: &State, at: u64, id: usize| {
        let entry = state.entries[id].as_ref();
        entry.is_none_or(|entry| entry.next.front().is_none_or(|&next| next > at))
    };
    while let Some(&(at, id, _)) = state.upcoming.front()
        && is_over(state, at, id)
    {
        state.upcoming.pop_front();
    }
    for index in 0..state.upcoming.len() {
        let (at, id, access) = state.upcoming[index];
        let entry = state.entry(id);
        if !entry.is_away() || entry.in_file || access == Access::Write {
            continue;
        }
        let (count, earlier) = (entry.slot_count(), Urgency::Next(std::cmp::Reverse(at)));
        let regions = state.regions(|_, entry| entry.urgency() >= Some(earlier));
        let Some(places) = choose(shared.memory.slots(), &regions, &[count]) else {
            break;
        };
        make_room(shared, state, &(places[0]..places[0] + count))?;
        bring_in(shared, state, (id, places[0]), access)?;
    }
    Ok(())
}
