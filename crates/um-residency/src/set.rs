//! Acquires a working set: all of its buffers, or none.

use std::sync::Arc;

use parking_lot::MutexGuard;
use smallvec::SmallVec;
use um_backend::cuda_um::{DeviceArena, DeviceBuffer};

use crate::entry::Residence;
use crate::error::{Error, Result};
use crate::held::Held;
use crate::place::choose;
use crate::state::{Handle, Shared, State};
use crate::transfer::{bring_in, evict, look_ahead, make_room};
use crate::wait::wait;
use cuda_um_plan::{Access, Role};

/// The buffers of a set and the access to each.
#[derive(Default)]
pub struct Requests<'a> {
    shared: Option<&'a Arc<Shared>>,
    pub(crate) list: List,
}

pub(crate) type List = SmallVec<[(usize, Access); 8]>;

/// The guards of a set, in the order of the list.
pub(crate) type Guards = SmallVec<[Held; 8]>;

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
pub(crate) fn check(shared: &Shared, state: &State, list: &List) -> Result<()> {
    let mut sorted = list.clone();
    sorted.sort_unstable_by_key(|(id, _)| *id);
    let mut slots = 0;
    for (at, &(id, access)) in sorted.iter().enumerate() {
        let Some(entry) = &state.entries[id] else {
            continue;
        };
        let buffer = || entry.name.to_string();
        if entry.role == Role::ReadOnly && access != Access::Read {
            return Err(Error::ReadOnly { buffer: buffer() });
        }
        if let Some(step) = entry.gone
            && access != Access::Write
        {
            let (buffer, last_step) = (buffer(), step);
            return Err(Error::ContentsGone { buffer, last_step });
        }
        match at.checked_sub(1).map(|before| sorted[before]) {
            Some((same, other)) if same == id => {
                if (access, other) != (Access::Read, Access::Read) {
                    return Err(Error::Twice { buffer: buffer() });
                }
            }
            _ => slots += entry.slot_count(),
        }
    }
    if slots > shared.memory.slots() {
        return Err(Error::OverBudget {
            needed_bytes: (slots * DeviceArena::SLOT_BYTES) as u64,
            budget_bytes: shared.budget_bytes(),
        });
    }
    Ok(())
}

/// A buffer that is read from a file without the lock.
struct Load {
    at: usize,
    id: usize,
    memory: DeviceBuffer<u8>,
}

/// Waits until the whole set can be had, brings in what is missing, and takes it.
pub(crate) fn acquire(shared: &Arc<Shared>, list: &List, call: &'static str) -> Result<Guards> {
    shared.check_process(call)?;
    // Dropped after the lock, which the drop of a guard takes.
    let mut held: SmallVec<[Option<Held>; 8]> = SmallVec::new();
    let mut loads = Vec::new();
    let mut state = shared.state.lock();
    let places = free_places(shared, &mut state, list, call)?;
    arrive(shared, &mut state, (list, &places), &mut loads)?;
    state.clock += 1;
    state.counters.stats.sets += 1;
    for &(id, access) in list {
        let clock = state.clock;
        let entry = state.entry(id);
        entry.used = clock;
        entry.next.pop_front();
        let writes = access != Access::Read;
        held.push(Held::take(shared, &mut state, (id, writes)));
    }
    // Its failures are those of buffers that other sets need: a later set meets them.
    let _ = look_ahead(shared, &mut state);
    drop(state);
    let loaded = read_files(shared, list, (loads, &mut held));
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
type Places = SmallVec<[(usize, usize); 8]>;

/// Waits until no guard is in the way, and there is room.
fn free_places(
    shared: &Shared,
    state: &mut MutexGuard<'_, State>,
    list: &List,
    call: &'static str,
) -> Result<Places> {
    loop {
        check(shared, state, list)?;
        for &(id, access) in list {
            if state.entry(id).lacks(access) {
                evict(shared, state, id)?;
            }
        }
        let is_busy = list
            .iter()
            .any(|&(id, access)| state.entry(id).is_busy_for(access));
        if !is_busy {
            if let Some(places) = places(shared, state, list, false) {
                return Ok(places);
            }
            if state.guards() == 0 {
                return pack(shared, state, list);
            }
        }
        wait(shared, state, call)?;
    }
}

/// Places for what is away; all other buffers of the set stay in their places. With `misses`, nothing of the set is in the arena.
fn places(shared: &Shared, state: &State, list: &List, all: bool) -> Option<Places> {
    let mut away: SmallVec<[(usize, usize); 8]> = SmallVec::new();
    for (at, &(id, _)) in list.iter().enumerate() {
        let entry = state.entries[id].as_ref()?;
        let is_first = list[..at].iter().all(|&(other, _)| other != id);
        if is_first && (all || entry.is_away()) {
            away.push((id, entry.slot_count()));
        }
    }
    if away.is_empty() {
        return Some(away);
    }
    let of_set = |id: usize| list.iter().any(|&(other, _)| other == id);
    let regions = state.regions(|id, _| !all && of_set(id));
    let needs: SmallVec<[usize; 8]> = away.iter().map(|(_, slots)| *slots).collect();
    let starts = choose(shared.memory.slots(), &regions, &needs)?;
    let ids = away.iter().map(|(id, _)| *id);
    Some(ids.zip(starts).collect())
}

/// Makes places for the whole set by moving those of its buffers that are in the way: they go home and come back.
fn pack(shared: &Shared, state: &mut State, list: &List) -> Result<Places> {
    let Some(places) = places(shared, state, list, true) else {
        // Forgotten guards have slots.
        let slots: usize = list
            .iter()
            .map(|&(id, _)| state.entry(id).slot_count())
            .sum();
        return Err(Error::OverBudget {
            needed_bytes: (slots * DeviceArena::SLOT_BYTES) as u64,
            budget_bytes: shared.budget_bytes() - state.lost_bytes(),
        });
    };
    for &(id, _) in &places {
        if !state.entry(id).is_away() {
            evict(shared, state, id)?;
        }
    }
    Ok(places)
}

/// Brings in what is away.
fn arrive(
    shared: &Shared,
    state: &mut State,
    (list, places): (&List, &Places),
    loads: &mut Vec<Load>,
) -> Result<()> {
    let arrived = (|| {
        for &(id, first) in places {
            let slots = first..first + state.entry(id).slot_count();
            make_room(shared, state, &slots)?;
            let at = list.iter().position(|&(other, _)| other == id);
            let Some(at) = at else { continue };
            let access = list[at].1;
            if let Some(memory) = bring_in(shared, state, (id, first), access)? {
                state.loading += 1;
                loads.push(Load { at, id, memory });
            }
        }
        Ok(())
    })();
    state.counters.stats.misses += places.len() as u64;
    state.counters.stats.hits += (list.len() - places.len()) as u64;
    if arrived.is_err() {
        for load in loads.drain(..) {
            state.left(load.id);
            state.loading -= 1;
        }
        for &(id, _) in places {
            let entry = state.entry(id);
            if entry.blank && matches!(entry.memory, Residence::Here(_)) {
                // Its contents are in the home.
                drop(state.left(id));
            }
        }
    }
    arrived
}

/// Reads files into the buffers that wait for it, without the lock, and takes them.
fn read_files(
    shared: &Arc<Shared>,
    list: &List,
    (loads, held): (Vec<Load>, &mut SmallVec<[Option<Held>; 8]>),
) -> Result<()> {
    let mut outcome = Ok(());
    for Load { at, id, memory } in loads {
        if outcome.is_err() {
            give_up(shared, id, memory);
            continue;
        }
        outcome = load_and(shared, (id, memory), |state| {
            for (at, &(other, access)) in list.iter().enumerate().skip(at) {
                if other == id {
                    let writes = access != Access::Read;
                    held[at] = Held::take(shared, state, (id, writes));
                }
            }
        });
    }
    outcome
}

/// Buffers that are read from files without the lock.
pub(crate) type Loads = Vec<(usize, DeviceBuffer<u8>)>;

/// Reads files into the buffers that were placed for them, without the lock; after an error, frees their slots.
pub(crate) fn load_all(shared: &Shared, mut outcome: Result<()>, loads: Loads) -> Result<()> {
    for (id, memory) in loads {
        match outcome {
            Ok(()) => outcome = load_and(shared, (id, memory), |_| ()),
            Err(_) => give_up(shared, id, memory),
        }
    }
    outcome
}

fn load_and(
    shared: &Shared,
    (id, mut memory): (usize, DeviceBuffer<u8>),
    then: impl FnOnce(&mut State),
) -> Result<()> {
    let home = Arc::clone(&shared.state.lock().entry(id).home);
    let read = home.lock().bring_in(&mut memory, shared.inbound.stream());
    if let Err(error) = read {
        give_up(shared, id, memory);
        return Err(error.into());
    }
    let mut state = shared.state.lock();
    state.loading -= 1;
    state.entry(id).memory = Residence::Here(Arc::new(memory));
    then(&mut state);
    drop(state);
    shared.released.notify_all();
    Ok(())
}

/// Frees the slots of a buffer whose file was not read.
fn give_up(shared: &Shared, id: usize, memory: DeviceBuffer<u8>) {
    drop(memory);
    let mut state = shared.state.lock();
    state.loading -= 1;
    state.left(id);
    drop(state);
    shared.released.notify_all();
}
