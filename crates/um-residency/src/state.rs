//! The state of an arena: its buffers, their places, and the number of guards.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Condvar, Mutex};
use um_backend::cuda_um::DeviceArena;
use um_backend::{BufferDevice, CudaDevice};

use crate::entry::{Entry, Residence};
use crate::lanes::Lanes;
use crate::pass::Pass;
use crate::place::Region;
use crate::stats::{Change, Counters};
use cuda_um_plan::Access;

/// An arena as its buffers and guards share it.
pub(crate) struct Shared {
    pub(crate) device: BufferDevice,
    pub(crate) cuda: Arc<CudaDevice>,
    pub(crate) memory: DeviceArena,
    /// Transfers to the arena, and from it.
    pub(crate) inbound: Lanes,
    pub(crate) outbound: Lanes,
    pub(crate) state: Mutex<State>,
    /// A guard was dropped.
    pub(crate) released: Condvar,
    /// A pass is being recorded or run.
    pub(crate) has_pass: AtomicBool,
}

impl Shared {
    /// Refuses a child made by `fork`. Comes before the lock.
    pub(crate) fn check_process(&self, call: &'static str) -> um_backend::Result<()> {
        match self.cuda.as_cuda_um().runtime().is_inherited() {
            true => Err(um_backend::Error::Forked { call }.into()),
            false => Ok(()),
        }
    }

    pub(crate) fn budget_bytes(&self) -> u64 {
        (self.memory.slots() * DeviceArena::SLOT_BYTES) as u64
    }
}

/// A buffer, for requests.
#[derive(Clone, Copy)]
pub(crate) struct Handle<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) id: usize,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) entries: Vec<Option<Entry>>,
    /// Numbers of entries that can be used again.
    free: Vec<usize>,
    /// The slots that are not free, by the first one.
    regions: BTreeMap<usize, usize>,
    /// Slots of forgotten guards of dropped buffers.
    lost: Vec<Region>,
    /// The guards of all threads.
    pub(crate) held: usize,
    /// The buffers that are being read from files.
    pub(crate) loading: usize,
    /// Counts uses.
    pub(crate) clock: u64,
    /// The announced uses, in order: number, buffer and access.
    pub(crate) upcoming: VecDeque<(u64, usize, Access)>,
    pub(crate) announced: u64,
    /// Counts buffers, for their names.
    pub(crate) made: u64,
    pub(crate) counters: Counters,
    pub(crate) pass: Option<Pass>,
}

impl State {
    pub(crate) fn add(&mut self, entry: Entry) -> usize {
        match self.free.pop() {
            Some(id) => {
                self.entries[id] = Some(entry);
                id
            }
            None => {
                self.entries.push(Some(entry));
                self.entries.len() - 1
            }
        }
    }

    /// The entry of a live buffer.
    pub(crate) fn entry(&mut self, id: usize) -> &mut Entry {
        self.entries[id].as_mut().expect("the buffer is live")
    }

    /// Removes a dropped buffer. Its memory is not written back.
    pub(crate) fn remove(&mut self, id: usize) -> Option<Entry> {
        let mut entry = self.entries[id].take()?;
        if !entry.is_away() {
            if entry.bytes > 0 {
                self.regions.remove(&entry.first);
            }
            self.counters.note(Change::Drop, &entry);
        }
        if entry.is_held() {
            // Only a forgotten guard outlives its buffer.
            let (slots, urgency) = (entry.slots(), None);
            self.lost.push(Region { slots, urgency });
        }
        // Before the lock is free: these slots are free for others then.
        drop(std::mem::replace(&mut entry.memory, Residence::Away));
        self.upcoming.retain(|(_, of, _)| *of != id);
        // A pass knows its buffers by number.
        if self.pass.is_none() {
            self.free.push(id);
        }
        Some(entry)
    }

    /// Notes that a buffer is in the arena from this slot on.
    pub(crate) fn arrived(
        &mut self,
        id: usize,
        first: usize,
        (memory, change): (Residence, Change),
    ) {
        let entry = self.entries[id].as_mut().expect("the buffer is live");
        (entry.first, entry.memory) = (first, memory);
        self.counters.note(change, entry);
        if entry.bytes > 0 {
            self.regions.insert(first, id);
        }
    }

    /// Notes that a buffer left the arena, and returns its memory.
    pub(crate) fn left(&mut self, id: usize) -> Residence {
        let entry = self.entries[id].as_mut().expect("the buffer is live");
        if entry.bytes > 0 {
            self.regions.remove(&entry.first);
        }
        self.counters.note(Change::Drop, entry);
        entry.blank = false;
        std::mem::replace(&mut entry.memory, Residence::Away)
    }

    /// The slots that are not free, in order. `stays` tells which buffers cannot leave although no guard has them.
    pub(crate) fn regions(&self, stays: impl Fn(usize, &Entry) -> bool) -> Vec<Region> {
        let of = |&id: &usize| {
            let entry = self.entries[id].as_ref()?;
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

    /// The buffers in these slots.
    pub(crate) fn in_slots(&self, slots: &std::ops::Range<usize>) -> Vec<usize> {
        let below = self.regions.range(..slots.end);
        let of = |(_, &id): (&usize, &usize)| {
            let entry = self.entries[id].as_ref()?;
            (entry.slots().end > slots.start).then_some(id)
        };
        below.filter_map(of).collect()
    }

    /// The guards of all threads, and the buffers that will be one.
    pub(crate) fn guards(&self) -> usize {
        self.held + self.loading
    }

    /// Adds a later use of each buffer.
    pub(crate) fn announce(&mut self, list: &[(usize, Access)]) {
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

    /// Bytes in slots of forgotten guards.
    pub(crate) fn lost_bytes(&self) -> u64 {
        let slots: usize = self.lost.iter().map(|lost| lost.slots.len()).sum();
        (slots * DeviceArena::SLOT_BYTES) as u64
    }
}
