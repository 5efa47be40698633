//! The state of an arena: its buffers, their places, and the number of guards.

use std::collections::BTreeMap;
use std::sync::Arc;

use cuda_um_sys::locks::Condvar;
use um_backend::cuda_um::{Device, Stream, fork, resource::DeviceArena};

use crate::entries::{Entries, Id};
use crate::entry::{Entry, Residence};
use crate::lane::Lane;
use crate::lock::{Lock, Locked};
use crate::order::Order;
use crate::place::{Region, Slots};
use crate::stats::{Change, Stats};

/// An arena as its buffers and guards share it.
pub(crate) struct Shared {
    pub(crate) device: Device,
    pub(crate) memory: DeviceArena,
    pub(crate) slots: usize,
    /// Transfers to the arena, and from it.
    pub(crate) inbound: Lane,
    pub(crate) outbound: Lane,
    pub(crate) state: Lock<State>,
    /// A guard was dropped, or a pin ended.
    pub(crate) released: Condvar,
}

impl Shared {
    /// Refuses a child made by `fork`. Comes before the lock.
    pub(crate) fn check_process(&self, call: &'static str) -> um_backend::Result<()> {
        fork::check(call)
    }

    /// Refuses a stream of another runtime.
    pub(crate) fn check_stream(&self, stream: &Stream) -> um_backend::Result<()> {
        let runtime = self.device.runtime();
        match runtime.is_same(stream.runtime()) {
            true => Ok(()),
            false => Err(um_backend::cuda_um::Error::RuntimeMismatch { what: "the stream" }),
        }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        (self.slots * DeviceArena::SLOT_BYTES) as u64
    }
}

/// A buffer, for requests.
#[derive(Clone, Copy)]
pub(crate) struct Handle<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) id: Id,
}

/// The state while its lock is held.
pub(crate) type Guarded<'a> = Locked<'a, State>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) entries: Entries,
    /// The slots that are not free, by the first one.
    regions: BTreeMap<usize, Id>,
    /// Slots of forgotten guards of dropped buffers.
    lost: Vec<Region>,
    /// The guards of all threads.
    pub(crate) held: usize,
    /// The pins of all buffers, and how many have ended.
    pub(crate) pins: usize,
    pub(crate) unpinned: u64,
    /// Counts uses.
    pub(crate) clock: u64,
    /// The slots of the largest buffer so far.
    pub(crate) largest: usize,
    /// Counts buffers, for their names.
    pub(crate) made: u64,
    pub(crate) stats: Stats,
    pub(crate) order: Order,
}

impl State {
    /// The entry of a live buffer.
    pub(crate) fn entry(&mut self, id: Id) -> &mut Entry {
        self.entries.get_mut(id).expect("the buffer is live")
    }

    /// Notes that a buffer is dropped, and removes it, unless it is pinned. Its memory is not written back.
    pub(crate) fn remove(&mut self, id: Id) -> Option<Entry> {
        let entry = self.entries.get_mut(id)?;
        entry.is_dropped = true;
        if entry.due.is_some() {
            self.stop_following();
        }
        let entry = self.entry(id);
        if entry.pins > 0 {
            return None;
        }
        let mut entry = self.entries.remove(id)?;
        if !entry.is_away() {
            if entry.bytes > 0 {
                self.regions.remove(&entry.first);
            }
            self.stats.note(Change::Drop, &entry);
        }
        if entry.is_held() {
            // Only a forgotten guard outlives its buffer.
            self.held -= entry.readers.max(1);
            let (slots, urgency) = (entry.slots(), None);
            self.lost.push(Region { slots, urgency });
        }
        // Before the lock is free: these slots are free for others then.
        drop(std::mem::replace(&mut entry.memory, Residence::Away));
        Some(entry)
    }

    /// Keeps a buffer where it is until [`unpin`](Self::unpin).
    pub(crate) fn pin(&mut self, id: Id) {
        self.entry(id).pins += 1;
        self.pins += 1;
    }

    /// Ends a pin. Returns the buffer if it was dropped meanwhile. The caller notifies waiting threads.
    pub(crate) fn unpin(&mut self, id: Id) -> Option<Entry> {
        self.pins -= 1;
        self.unpinned += 1;
        let entry = self.entry(id);
        entry.pins -= 1;
        match entry.is_dropped {
            true => self.remove(id),
            false => None,
        }
    }

    /// Notes that a buffer is in the arena from this slot on.
    pub(crate) fn arrived(&mut self, id: Id, first: usize, memory: Residence, change: Change) {
        let entry = self.entries.get_mut(id).expect("the buffer is live");
        (entry.first, entry.memory) = (first, memory);
        self.stats.note(change, entry);
        if entry.bytes > 0 {
            self.regions.insert(first, id);
        }
    }

    /// Notes that a buffer left the arena, and returns its memory.
    pub(crate) fn left(&mut self, id: Id) -> Residence {
        let entry = self.entries.get_mut(id).expect("the buffer is live");
        if entry.bytes > 0 {
            self.regions.remove(&entry.first);
        }
        self.stats.note(Change::Drop, entry);
        if let Some(due) = entry.due {
            self.order.misses(due.at);
        }
        std::mem::replace(&mut entry.memory, Residence::Away)
    }

    /// The slots that are not free, in order. `stays` tells which buffers cannot leave although no guard has them.
    pub(crate) fn regions(&self, stays: impl Fn(Id, &Entry) -> bool) -> Vec<Region> {
        let of = |&id: &Id| {
            let entry = self.entries.get(id)?;
            let urgency = entry.urgency().filter(|_| !stays(id, entry));
            let slots = entry.slots();
            Some(Region { slots, urgency })
        };
        let mut regions: Vec<_> = self.regions.values().filter_map(of).collect();
        if !self.lost.is_empty() {
            regions.extend(self.lost.iter().cloned());
            regions.sort_by_key(|region| region.slots.start);
        }
        regions
    }

    /// The buffers in these slots, the last one first.
    pub(crate) fn in_slots(&self, slots: &std::ops::Range<usize>) -> Vec<Id> {
        let below = self.regions.range(..slots.end).rev();
        let of = |(_, &id): (&usize, &Id)| {
            let entry = self.entries.get(id)?;
            (entry.slots().end > slots.start).then_some(id)
        };
        // Regions are apart, so those before the first one that ends too early do so as well.
        below.map_while(of).collect()
    }

    /// The guards of all threads, and what ends without them.
    pub(crate) fn guards(&self) -> usize {
        self.held + self.pins
    }

    pub(crate) fn slots(&self, shared: &Shared) -> Slots {
        let (total, largest) = (shared.slots, self.largest);
        Slots { total, largest }
    }

    /// The slots of forgotten guards, in order.
    pub(crate) fn lost(&self) -> Vec<Region> {
        let mut lost = self.lost.clone();
        lost.sort_by_key(|region| region.slots.start);
        lost
    }
}
