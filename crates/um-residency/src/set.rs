//! Acquires a working set: all of its buffers, or none.

use std::sync::Arc;

use smallvec::SmallVec;
use um_backend::CudaError;
use um_backend::cuda_um::{graph, observe::later, resource::DeviceArena};

use crate::access::{Access, Role};
use crate::entries::Id;
use crate::entry::Residence;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::order::read_ahead;
use crate::place::{Region, choose};
use crate::state::{Guarded, Handle, Shared, State};
use crate::transfer::{Load, bring_in, evict, flush, flush_one, make_room};
use crate::wait::Wait;

/// The buffers of a set and the access to each.
#[derive(Default)]
pub struct Requests<'a> {
    shared: Option<&'a Arc<Shared>>,
    pub(crate) list: List,
}

pub(crate) type List = SmallVec<[(Id, Access); 4]>;

/// Guards of a set whose other buffers are still read from files.
type Parts = SmallVec<[Option<Held>; 4]>;

/// The guards of a set, in the order of the list.
pub(crate) type Guards = SmallVec<[Held; 4]>;

impl<'a> Requests<'a> {
    pub(crate) fn add(&mut self, handle: Handle<'a>, access: Access) -> Result<()> {
        let shared = self.shared.get_or_insert(handle.shared);
        if !Arc::ptr_eq(shared, handle.shared) {
            let found = "buffers of several arenas";
            return Err(Error::Arenas { found });
        }
        self.list.push((handle.id, access));
        Ok(())
    }

    /// The arena of all buffers.
    pub(crate) fn shared(&self) -> Result<&'a Arc<Shared>> {
        let found = "no buffer";
        self.shared.ok_or(Error::Arenas { found })
    }
}

/// Refuses sets that can never be granted.
fn check(shared: &Shared, state: &State, list: &List) -> Result<()> {
    let (mut slots, mut needs) = (0, SmallVec::<[usize; 4]>::new());
    for (at, &(id, access)) in list.iter().enumerate() {
        let Some(entry) = state.entries.get(id) else {
            continue;
        };
        let buffer = || entry.name.to_string();
        if entry.role == Role::ReadOnly && access != Access::Read {
            return Err(Error::ReadOnly { buffer: buffer() });
        }
        match list[..at].iter().find(|(other, _)| *other == id) {
            None => {
                slots += entry.slot_count();
                needs.push(entry.slot_count());
            }
            Some((_, Access::Read)) if access == Access::Read => {}
            Some(_) => return Err(Error::Twice { buffer: buffer() }),
        }
    }
    if slots > shared.slots {
        return Err(over_budget(shared, &[], slots));
    }
    let lost = state.lost();
    if lost.is_empty() {
        return Ok(());
    }
    // No wait gives the slots of forgotten guards back.
    let fits = choose(state.slots(shared), &lost, &needs).is_some();
    fits.then_some(())
        .ok_or_else(|| over_budget(shared, &lost, slots))
}

fn over_budget(shared: &Shared, lost: &[Region], slots: usize) -> Error {
    let lost: usize = lost.iter().map(|lost| lost.slots.len()).sum();
    Error::OverBudget {
        needed_bytes: (slots * DeviceArena::SLOT_BYTES) as u64,
        budget_bytes: shared.budget_bytes() - (lost * DeviceArena::SLOT_BYTES) as u64,
    }
}

/// Waits until the whole set can be had, brings in what is missing, and takes it.
pub(crate) fn acquire(shared: &Arc<Shared>, list: &List, call: &'static str) -> Result<Guards> {
    shared.check_process(call)?;
    if graph::is_capturing() {
        return Err(Error::Cuda(CudaError::Capture {
            call: call.to_owned(),
            reason: "launches of the graph would use slots that other buffers have by then: get the set before the capture, and keep it for the launches"
                .to_owned(),
        }));
    }
    // Dropped after the lock, which the drop of a guard takes.
    let mut held: Parts = SmallVec::new();
    let mut loads = Loads::new();
    let mut state = shared.state.lock();
    let places = free_places(shared, &mut state, list, call)?;
    arrive(shared, &mut state, list, &places, &mut loads)?;
    state.clock += 1;
    state.stats.sets += 1;
    for &(id, access) in list {
        state.entry(id).used = state.clock;
        held.push(Held::take(shared, &mut state, id, access));
    }
    state.follow(list, shared.slots);
    // Its failures are those of buffers that other sets need: a later set meets them.
    let _ = read_ahead(shared, &mut state);
    drop(state);
    let loaded = read_files(shared, list, loads, &mut held);
    let held = held.into_iter().flatten();
    match loaded {
        Ok(()) => Ok(held.collect()),
        Err(error) => {
            Held::cancel(held);
            Err(error)
        }
    }
}

/// The buffers of the set that are away, and a place for each.
type Places = SmallVec<[(Id, usize); 4]>;

/// Waits until no guard is in the way, and there is room.
fn free_places(
    shared: &Shared,
    state: &mut Guarded<'_>,
    list: &List,
    call: &'static str,
) -> Result<Places> {
    let mut wait = Wait::new(call);
    loop {
        check(shared, state, list)?;
        for &(id, access) in list {
            if state.entry(id).must_return(access) {
                evict(shared, state, id)?;
            }
        }
        let is_busy = list
            .iter()
            .any(|&(id, access)| state.entry(id).is_busy_for(access));
        if !is_busy {
            let places = match places(shared, state, list, false) {
                None if state.guards() == 0 => match pack(shared, state, list)? {
                    None => continue,
                    places => places,
                },
                places => places,
            };
            if let Some(places) = places {
                // After a flush the state may be another one.
                if flush_places(shared, state, &places)? {
                    continue;
                }
                return Ok(places);
            }
        }
        wait.wait(shared, state)?;
    }
}

/// Flushes a buffer that leaves these places, if one must be.
fn flush_places(shared: &Shared, state: &mut Guarded<'_>, places: &Places) -> Result<bool> {
    for &(id, first) in places {
        let slots = first..first + state.entry(id).slot_count();
        if flush_one(shared, state, &slots)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Places for what is away; the other buffers of the set stay in their places. With `all`, places for the whole set, as if it were away.
fn places(shared: &Shared, state: &State, list: &List, all: bool) -> Option<Places> {
    let mut away: Places = SmallVec::new();
    for (at, &(id, _)) in list.iter().enumerate() {
        let entry = state.entries.get(id)?;
        let is_first = list[..at].iter().all(|&(other, _)| other != id);
        if is_first && (all || entry.is_away()) {
            away.push((id, entry.slot_count()));
        }
    }
    if away.is_empty() {
        return Some(away);
    }
    let of_set = |id: Id| list.iter().any(|&(other, _)| other == id);
    let regions = state.regions(|id, _| !all && of_set(id));
    let needs: SmallVec<[usize; 4]> = away.iter().map(|(_, slots)| *slots).collect();
    let starts = choose(state.slots(shared), &regions, &needs)?;
    let ids = away.iter().map(|(id, _)| *id);
    Some(ids.zip(starts).collect())
}

/// Makes places for the whole set by moving those of its buffers that are in the way: they go home and come back. `None` if the state may be
/// another one: a buffer was flushed.
fn pack(shared: &Shared, state: &mut Guarded<'_>, list: &List) -> Result<Option<Places>> {
    let Some(all) = places(shared, state, list, true) else {
        // Forgotten guards have slots.
        let slots = list.iter().map(|&(id, _)| state.entry(id).slot_count());
        let slots = slots.sum();
        return Err(over_budget(shared, &state.lost(), slots));
    };
    for &(id, _) in &all {
        if state.entry(id).needs_flush() {
            return flush(shared, state, id).map(|()| None);
        }
    }
    for &(id, _) in &all {
        if !state.entry(id).is_away() {
            evict(shared, state, id)?;
        }
    }
    Ok(Some(all))
}

/// Brings in what is away.
fn arrive(
    shared: &Shared,
    state: &mut State,
    list: &List,
    places: &Places,
    loads: &mut Loads,
) -> Result<()> {
    let arrived = (|| {
        for &(id, first) in places {
            let slots = first..first + state.entry(id).slot_count();
            make_room(shared, state, &slots)?;
            let of = list.iter().find(|&&(other, _)| other == id);
            let Some(&(_, access)) = of else { continue };
            loads.extend(bring_in(shared, state, id, first, access)?);
        }
        Ok(())
    })();
    state.stats.misses += places.len() as u64;
    state.stats.hits += (list.len() - places.len()) as u64;
    if arrived.is_err() {
        for Load { id, memory, .. } in loads.drain(..) {
            drop(memory);
            state.left(id);
            state.unpin(id);
        }
        for &(id, _) in places {
            if matches!(state.entry(id).memory, Residence::Blank(_)) {
                // Its contents are in the home.
                drop(state.left(id));
            }
        }
    }
    arrived
}

/// Buffers that are read from files without the lock.
type Loads = Vec<Load>;

/// Reads files into the buffers that were placed for them, without the lock, and takes them; after an error, frees their slots.
fn read_files(shared: &Arc<Shared>, list: &List, loads: Loads, held: &mut Parts) -> Result<()> {
    if loads.is_empty() {
        return Ok(());
    }
    // A subscriber would wait for the buffer that its own thread reads.
    let _later = later();
    let mut outcome = Ok(());
    for Load {
        id,
        mut memory,
        home,
    } in loads
    {
        if outcome.is_ok() {
            let read = home.read().bring_in(&mut memory, shared.inbound.stream());
            outcome = read.map_err(Error::from);
        }
        let mut state = shared.state.lock();
        match outcome {
            Ok(()) => state.entry(id).memory = Residence::Here(Arc::new(memory)),
            Err(_) => {
                drop(memory);
                state.left(id);
            }
        }
        // The set has a reference to the buffer: it is not dropped meanwhile.
        state.unpin(id);
        if outcome.is_ok() {
            for (at, &(other, access)) in list.iter().enumerate() {
                if other == id {
                    held[at] = Held::take(shared, &mut state, id, access);
                }
            }
        }
        drop(state);
        shared.released.notify_all();
    }
    outcome
}
