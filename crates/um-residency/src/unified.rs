//! Managed memory as the home of buffers: its pages are on the device while the buffer is in the arena.
//!
//! The device gets a copy of the pages of read-only buffers, and drops it without a transfer. The pages of other buffers move.

use std::sync::Arc;

use um_backend::CudaError;
use um_backend::cuda_um::Location;

use crate::entries::Id;
use crate::entry::{Memory, Residence};
use crate::error::Result;
use crate::host_memory::{copy_pages, drop_pages, move_pages};
use crate::state::{Guarded, Shared, State};
use crate::stats::Change;
use cuda_um_plan::Access;

/// Enqueues the transfer of the pages of a buffer that is away. For an access that needs no contents, takes only the slots: the pages come
/// with the guard.
pub(crate) fn bring_in(
    shared: &Shared,
    state: &mut State,
    (id, first): (Id, usize),
    access: Access,
) -> Result<()> {
    let State {
        entries,
        departures,
        ..
    } = state;
    let Some(entry) = entries.get_mut(id) else {
        return Ok(());
    };
    let home = Arc::clone(&entry.home);
    let home = home.read();
    let Some(memory) = home.managed() else {
        return Ok(());
    };
    let is_blank = access == Access::Write;
    if !is_blank {
        let (moves, slots) = (entry.moves(), first..first + entry.slot_count());
        shared.inbound.enqueue(|stream| {
            departures.order(&slots, stream)?;
            let come = if moves { move_pages } else { copy_pages };
            Ok(come(memory.view()?, stream)?)
        })?;
        entry.dirty = moves;
    }
    entry.blank = is_blank;
    let change = match is_blank {
        true => Change::Claim,
        false => Change::In,
    };
    let memory = Memory::Home(Arc::clone(memory));
    state.arrived(id, first, (Residence::Here(memory), change));
    Ok(())
}

/// Takes a buffer whose pages moved out of the arena, in stream order, after all work on them. Contents that are not needed are not
/// transferred, if CUDA can discard.
pub(crate) fn move_out(shared: &Shared, state: &mut State, id: Id) -> Result<()> {
    let entry = state.entry(id);
    if entry.blank {
        // The pages are in the home.
        drop(state.left(id));
        return Ok(());
    }
    let (home, is_needed) = (Arc::clone(&entry.home), entry.dirty);
    let here = std::mem::replace(&mut entry.memory, Residence::Taken);
    // The home has the only handle then.
    drop(here);
    let mut moved = is_needed;
    let lane = match is_needed {
        true => &shared.outbound,
        false => &shared.drops,
    };
    let left = lane.enqueue(|stream| {
        let mut home = home.write();
        let mut memory = home.managed_mut()?;
        match is_needed {
            true => memory.prefetch_after_reads_on(Location::Host, stream)?,
            false => moved = !memory.discard_and_prefetch_on(Location::Host, stream)?,
        }
        Ok(())
    });
    let end = left.and_then(|end| match end {
        Some(end) => Ok(Some(end)),
        // Nothing else tells later transfers when the pages are gone.
        None => Ok(lane.stream().synchronize().map(|()| None)?),
    });
    let State {
        entries,
        counters,
        departures,
        ..
    } = state;
    let Some(entry) = entries.get_mut(id) else {
        return Ok(());
    };
    let end = match end {
        Ok(end) => end,
        Err(error) => {
            if let Some(memory) = home.read().managed() {
                entry.memory = Residence::Here(Memory::Home(Arc::clone(memory)));
            }
            return Err(error.into());
        }
    };
    if moved {
        counters.note(Change::Out, entry);
    }
    entry.dirty = false;
    if let Some(end) = end {
        departures.add(entry.slots(), &end);
    }
    drop(state.left(id));
    Ok(())
}

/// Takes a read-only buffer that no guard has out of the arena. Nothing in a stream ends a copy of pages, so the host waits for the work that
/// reads it, without the lock: the state may be another one afterwards.
pub(crate) fn leave(shared: &Shared, state: &mut Guarded<'_>, id: Id) -> Result<()> {
    let entry = state.entry(id);
    let home = Arc::clone(&entry.home);
    let here = std::mem::replace(&mut entry.memory, Residence::Taken);
    // The home has the only handle then.
    drop(here);
    state.pin(id);
    let left: Result<(), CudaError> =
        state.unlocked(|| Ok(drop_pages(&mut home.write().managed_mut()?)?));
    match (&left, home.read().managed()) {
        (Err(_), Some(memory)) => {
            state.entry(id).memory = Residence::Here(Memory::Home(Arc::clone(memory)));
        }
        _ => drop(state.left(id)),
    }
    let dropped = state.unpin(id);
    shared.released.notify_all();
    state.unlocked(|| drop(dropped));
    Ok(left?)
}
