//! An order of working sets that repeats: which buffers stay between their uses, and which ones come back.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use smallvec::SmallVec;

use crate::access::Access;
use crate::entries::Id;
use crate::entry::Due;
use crate::error::Result;
use crate::place::choose;
use crate::set::List;
use crate::state::{Shared, State};
use crate::transfer::{bring_in, make_room};

/// The sets with transfers ahead of them, at most. Each one takes memory from buffers that would stay.
const SETS_AHEAD: usize = 12;
/// What a byte costs that is transferred to the device, and one that is written back: transfers in both directions overlap, and there are
/// more of the former.
const IN: u64 = 5;
const OUT: u64 = 3;

pub(crate) struct Cycle {
    sets: Vec<Set>,
    /// The number of the last set; set `n` is `sets[n % sets.len()]`.
    at: u64,
    /// The sets before this number have their buffers.
    complete: u64,
    /// The numbers of later sets with buffers that were brought in for them.
    ahead: Vec<u64>,
}

pub(crate) struct Set {
    list: List,
    /// Each buffer once.
    pub(crate) uses: SmallVec<[Use; 4]>,
}

pub(crate) struct Use {
    pub(crate) id: Id,
    access: Access,
    slots: usize,
    /// The number of sets until the next use.
    next: usize,
    /// The next use needs the contents.
    is_read: bool,
    /// The buffer stays in the arena until the next use.
    stays: bool,
}

impl Use {
    pub(crate) fn due(&self, at: u64) -> Due {
        let (at, stays) = (at + self.next as u64, self.stays);
        Due { at, stays }
    }
}

impl Cycle {
    /// The order of these sets, the last of which is the current one; `None` if `slots_of` does not know a buffer.
    pub(crate) fn new(
        lists: Vec<List>,
        slots: usize,
        slots_of: impl Fn(Id) -> Option<usize>,
    ) -> Option<Self> {
        let mut sets = Vec::with_capacity(lists.len());
        for list in lists {
            let mut uses: SmallVec<[Use; 4]> = SmallVec::new();
            for &(id, access) in &list {
                if uses.iter().all(|other| other.id != id) {
                    uses.push(Use {
                        id,
                        access,
                        slots: slots_of(id)?,
                        next: 0,
                        is_read: false,
                        stays: false,
                    });
                }
            }
            sets.push(Set { list, uses });
        }
        link(&mut sets);
        choose_what_stays(&mut sets, slots);
        let at = sets.len() as u64 - 1;
        Some(Self {
            sets,
            at,
            complete: at + 1,
            ahead: Vec::new(),
        })
    }

    /// The sets, from number 0 on.
    pub(crate) fn sets(&self) -> &[Set] {
        &self.sets
    }

    fn set(&self, number: u64) -> &Set {
        &self.sets[(number % self.sets.len() as u64) as usize]
    }

    /// Goes on to the next set, if it is this one. Returns its number and its uses.
    pub(crate) fn next(&mut self, list: &List) -> Option<(u64, &[Use])> {
        if self.set(self.at + 1).list != *list {
            return None;
        }
        self.at += 1;
        Some((self.at, &self.set(self.at).uses))
    }

    /// Notes that a buffer left the arena that the set with this number uses.
    pub(crate) fn misses(&mut self, number: u64) {
        self.complete = self.complete.min(number);
    }

    /// Brings in the buffers of the next sets, in the place of those that come back for a later one. Files are read when their set asks for them.
    pub(crate) fn read_ahead(&mut self, shared: &Shared, state: &mut State) -> Result<()> {
        let at = self.at;
        self.ahead.retain(|&number| number > at);
        self.complete = self.complete.max(at + 1);
        while self.complete < at + self.sets.len() as u64 {
            let number = self.complete;
            let uses = &self.sets[(number % self.sets.len() as u64) as usize].uses;
            for &Use {
                id, access, slots, ..
            } in uses
            {
                let entry = state.entry(id);
                let is_first = entry.due.is_some_and(|due| due.at == number);
                let can_come = entry.is_away() && !entry.in_file && entry.pins == 0;
                if access == Access::Write || !is_first || !can_come {
                    continue;
                }
                let is_new = !self.ahead.contains(&number);
                if is_new && self.ahead.len() == SETS_AHEAD {
                    return Ok(());
                }
                // The first of these sets takes the place of a buffer that should stay, if the others leave too small pieces: it would at its turn.
                let may_all = self.ahead.iter().all(|&other| other == number);
                let regions = state.regions(|_, entry| {
                    let is_needed = |due: Due| due.at <= number || (due.stays && !may_all);
                    entry.due.is_some_and(is_needed) || entry.needs_flush()
                });
                let Some(places) = choose(state.slots(shared), &regions, &[slots]) else {
                    return Ok(());
                };
                make_room(shared, state, &(places[0]..places[0] + slots))?;
                bring_in(shared, state, id, places[0], access)?;
                if is_new {
                    self.ahead.push(number);
                }
            }
            self.complete += 1;
        }
        Ok(())
    }
}

/// Finds the next use after each use.
fn link(sets: &mut [Set]) {
    let period = sets.len();
    let mut later: HashMap<Id, (usize, Access)> = HashMap::new();
    for at in (0..2 * period).rev() {
        for of in &mut sets[at % period].uses {
            let next = later.insert(of.id, (at, of.access));
            if let Some((next, access)) = next {
                (of.next, of.is_read) = (next - at, access != Access::Write);
            }
        }
    }
}

/// Chooses which buffers stay between two uses, so that the others cause the fewest transfers: as Belady's rule does, those with a near next
/// use stay. Of equal ones, those stay that are spread evenly, so that the link is busy all the time.
fn choose_what_stays(sets: &mut [Set], slots: usize) {
    let period = sets.len();
    let slots_of = |set: &Set| set.uses.iter().map(|of| of.slots).sum::<usize>();
    let all = sets.iter().flat_map(|set| &set.uses);
    let sizes: HashMap<Id, usize> = all.clone().map(|of| (of.id, of.slots)).collect();
    if sizes.values().sum::<usize>() <= slots {
        // Nothing has to leave.
        let all = sets.iter_mut().flat_map(|set| &mut set.uses);
        return all.for_each(|of| of.stays = true);
    }
    let written: HashSet<Id> = all
        .clone()
        .filter(|of| of.access != Access::Read)
        .map(|of| of.id)
        .collect();
    // A set must have room to come while others are used.
    let mut arriving = vec![0; period];
    for (at, set) in sets.iter().enumerate() {
        for of in set.uses.iter().filter(|of| of.is_read && of.next > 1) {
            arriving[(at + of.next) % period] += of.slots;
        }
    }
    let room = slots.saturating_sub(arriving.into_iter().max().unwrap_or(0));
    let mut used: Vec<usize> = sets.iter().map(slots_of).collect();
    let mut order: Vec<_> = (0..period)
        .flat_map(|at| (0..sets[at].uses.len()).map(move |of| (at, of)))
        .collect();
    order.sort_by_cached_key(|&(at, of)| {
        let of = &sets[at].uses[of];
        let saved = IN * u64::from(of.is_read) + OUT * u64::from(written.contains(&of.id));
        let worth = (saved << 32) / of.next as u64;
        // The numbers with small reversed bits are spread evenly.
        (Reverse(worth), at.reverse_bits())
    });
    for (at, of) in order {
        let of = &mut sets[at].uses[of];
        let between = || (at + 1..at + of.next).map(|at| at % period);
        of.stays = between().all(|at| used[at] + of.slots <= room);
        if of.stays {
            between().for_each(|at| used[at] += of.slots);
        }
    }
}
