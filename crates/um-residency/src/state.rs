//! The state of an arena: its buffers, their places, and the number of guards.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cuda_um_locks::Condvar;
use um_backend::cuda_um::{Device, Stream, fork, resource::DeviceArena};

use crate::entries::{Entries, Id};
use crate::entry::{Entry, Residence};
use crate::lane::Lane;
use crate::lock::{Lock, Locked};
use crate::pass::Pass;
use crate::place::Region;
use crate::stats::{Change, Counters};
use cuda_um_plan::Access;

/// An arena as its buffers and guards share it.
pub(crate) struct Shared {
    pub(crate) device: Device,
    pub(crate) memory: DeviceArena,
    pub(crate) slots: usize,
    /// Transfers to the arena, and from it.
    pub(crate) inbound: Lane,
    pub(crate) outbound: Lane,
    /// Zeros for scratch buffers, which do not need the link.
    pub(crate) zeros: Lane,
    pub(crate) state: Lock<State>,
    /// A guard was dropped, or a pin ended.
    pub(crate) released: Condvar,
    /// A pass is being recorded or run.
    pub(crate) has_pass: AtomicBool,
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
    /// The announced uses, in order: number, buffer and access.
    pub(crate) upcoming: VecDeque<(u64, Id, Access)>,
    pub(crate) announced: u64,
    /// Counts buffers, for their names.
    pub(crate) made: u64,
    pub(crate) counters: Counters,
    pub(crate) pass: Option<Box<Pass>>,
}

impl State {
    /// The entry of a live buffer.
    pub(crate) fn entry(&mut self, id: Id) -> &mut Entry {
        self.entries.get_mut(id).expect("the buffer is live")
    }

    /// Notes that a buffer is dropped, and removes it, unless it is pinned. Its memory is not written back.
    pub(crate) fn remove(&mut self, id: Id) -> Option<Entry> {
        self.upcoming.retain(|(_, of, _)| *of != id);
        let entry = self.entries.get_mut(id)?;
        entry.is_dropped = true;
        if entry.pins > 0 {
            return None;
        }
        let mut entry = self.entries.remove(id)?;
        if !entry.is_away() {
            if entry.bytes > 0 {
                self.regions.remove(&entry.first);
            }
            self.counters.note(Change::Drop, &entry);
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
        self.counters.note(change, entry);
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
        self.counters.note(Change::Drop, entry);
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

    /// Adds a later use of each buffer.
    pub(crate) fn announce(&mut self, list: &[(Id, Access)]) {
        self.announced += 1;
        let at = self.announced;
        for &(id, access) in list {
            self.entry(id).next.push_back(at);
            self.upcoming.push_back((at, id, access));
        }
    }

    pub(crate) fn forget_announced(&mut self) {
        for (_, id, _) in std::mem::take(&mut self.upcoming) {
            self.entry(id).next.clear();
        }
    }

    /// Whether a forgotten guard has one of these slots.
    pub(crate) fn is_lost(&self, slots: &std::ops::Range<usize>) -> bool {
        let overlaps = |lost: &Region| lost.slots.start < slots.end && slots.start < lost.slots.end;
        self.lost.iter().any(overlaps)
    }

    /// The slots of forgotten guards, in order.
    pub(crate) fn lost(&self) -> Vec<Region> {
        let mut lost = self.lost.clone();
        lost.sort_by_key(|region| region.slots.start);
        lost
    }
}
