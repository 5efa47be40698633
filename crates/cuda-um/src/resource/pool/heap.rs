//! The slabs of a pool, and how they are split into blocks.
#![allow(clippy::vec_box, reason = "a block goes to a buffer in its box")]

use crate::context::tracked::SlabInfo;
use crate::context::tracker::InFlight;
use crate::resource::allocation::Allocation;
use crate::resource::block::{Address, Block};
use crate::resource::pool::class::{CHUNK, Run};
use std::collections::{BTreeMap, BTreeSet};

/// All slabs.
#[derive(Default)]
pub(super) struct Heap {
    /// The slabs, by address.
    slabs: BTreeMap<usize, Slab>,
    /// The addresses of slabs with unsplit extents.
    open: BTreeSet<usize>,
    /// Free dedicated slabs, by size.
    dedicated: BTreeMap<usize, Vec<Box<Block>>>,
    pub(super) reserved_bytes: usize,
}

/// Memory from CUDA.
struct Slab {
    raw: Allocation,
    /// The unsplit extents, by offset. Adjacent extents are joined.
    extents: BTreeMap<usize, Box<Block>>,
    runs: BTreeMap<usize, Run>,
}

impl Block {
    /// All of a new slab.
    fn slab(raw: &Allocation) -> Box<Self> {
        let slab = Some(SlabInfo {
            buffer: raw.id(),
            address: raw.at(),
            bytes: raw.bytes(),
        });
        let address = Address {
            slab,
            ..raw.address
        };
        Self::new(address, raw.bytes())
    }

    /// A part of the memory, which all uses of the whole may use.
    pub(super) fn part(&self, from: usize, bytes: usize, class: Option<u16>) -> Box<Self> {
        Box::new(Self {
            address: self.address.offset(from),
            bytes,
            reserved_bytes: bytes,
            class,
            is_away: self.is_away,
            departures: self.departures,
            in_flight: InFlight::inherited(&self.in_flight),
        })
    }

    /// Joins the memory that follows.
    fn join(&mut self, next: &Self) {
        self.in_flight.inherit(&next.in_flight);
        self.bytes += next.bytes;
        self.is_away |= next.is_away;
    }
}

/// Leaks the slabs that are left: a slab that was not taken out before has lost a block, or a panic came first. Releases everything else.
impl Drop for Heap {
    fn drop(&mut self) {
        let slabs = std::mem::take(&mut self.slabs);
        slabs.into_values().for_each(|slab| slab.raw.leak());
    }
}

impl Heap {
    /// Adds a slab to be split into blocks.
    pub(super) fn add(&mut self, raw: Allocation) {
        let all = Block::slab(&raw);
        self.open.insert(all.at());
        self.insert(raw, BTreeMap::from([(0, all)]));
    }

    /// Adds a dedicated slab and takes it.
    pub(super) fn add_dedicated(&mut self, raw: Allocation) -> Box<Block> {
        let all = Block::slab(&raw);
        self.insert(raw, BTreeMap::new());
        all
    }

    fn insert(&mut self, raw: Allocation, extents: BTreeMap<usize, Box<Block>>) {
        self.reserved_bytes += raw.bytes();
        let (at, runs) = (raw.at(), BTreeMap::new());
        self.slabs.insert(at, Slab { raw, extents, runs });
    }

    /// Takes a free dedicated slab of at least `bytes`, and at most a quarter more.
    pub(super) fn take_dedicated(&mut self, bytes: usize) -> Option<Box<Block>> {
        let most = bytes.saturating_add(bytes / 4);
        let (&size, _) = self.dedicated.range(bytes..=most).next()?;
        self.pop_dedicated(size)
    }

    fn pop_dedicated(&mut self, size: usize) -> Option<Box<Block>> {
        let blocks = self.dedicated.get_mut(&size)?;
        let block = blocks.pop();
        if blocks.is_empty() {
            self.dedicated.remove(&size);
        }
        block
    }

    /// Takes a dedicated slab back, and returns the slabs that exceed `keep` bytes together, the largest first.
    pub(super) fn give_dedicated(&mut self, free: Box<Block>, keep: usize) -> Vec<Allocation> {
        self.dedicated.entry(free.bytes).or_default().push(free);
        let (_, mut kept) = self.free_dedicated();
        let mut excess = Vec::new();
        while kept > keep
            && let Some((&size, _)) = self.dedicated.last_key_value()
        {
            kept -= size;
            let largest = self.pop_dedicated(size);
            excess.extend(largest.and_then(|free| self.take_slab(&free)));
        }
        excess
    }

    /// Splits a run off the first extent that has room for it.
    pub(super) fn split(&mut self, run: Run) -> Option<Box<Block>> {
        let (slab_at, extent_at) = self.open.iter().find_map(|slab_at| {
            let mut extents = self.slabs[slab_at].extents.iter();
            let (at, _) = extents.find(|(at, extent)| {
                at.next_multiple_of(run.align) + run.bytes <= **at + extent.bytes
            })?;
            Some((*slab_at, *at))
        })?;
        let slab = self.slabs.get_mut(&slab_at)?;
        let extent = slab.extents.remove(&extent_at)?;
        let start = extent_at.next_multiple_of(run.align);
        let (split, end) = (start - extent_at, start - extent_at + run.bytes);
        for (from, to) in [(0, split), (end, extent.bytes)] {
            if from < to {
                let rest = extent.part(from, to - from, None);
                slab.extents.insert(extent_at + from, rest);
            }
        }
        if slab.extents.is_empty() {
            self.open.remove(&slab_at);
        }
        slab.runs.insert(start, run);
        Some(extent.part(split, run.bytes, None))
    }

    /// Coalesces the runs whose blocks are all in the list into extents; returns the other blocks.
    pub(super) fn coalesce(&mut self, mut blocks: Vec<Box<Block>>) -> Vec<Box<Block>> {
        blocks.sort_unstable_by_key(|free| free.at());
        let mut rest = Vec::new();
        let mut blocks = blocks.into_iter().peekable();
        while let Some(first) = blocks.next() {
            let Some((slab, offset, run)) = self.run_of(first.at()) else {
                rest.push(first);
                continue;
            };
            let end = slab + offset + run.bytes;
            let mut of_run = vec![first];
            while let Some(free) = blocks.next_if(|free| free.at() < end) {
                of_run.push(free);
            }
            match of_run.len() < run.count {
                true => rest.append(&mut of_run),
                false => self.coalesce_run((slab, offset), &of_run),
            }
        }
        rest
    }

    fn run_of(&self, address: usize) -> Option<(usize, usize, Run)> {
        let (at, slab) = self.slabs.range(..=address).next_back()?;
        let (offset, run) = slab.runs.range(..=address - at).next_back()?;
        Some((*at, *offset, *run))
    }

    fn coalesce_run(&mut self, (slab_at, offset): (usize, usize), blocks: &[Box<Block>]) {
        let Some(slab) = self.slabs.get_mut(&slab_at) else {
            return;
        };
        let Some(run) = slab.runs.remove(&offset) else {
            return;
        };
        let before = slab.extents.range(..offset).next_back();
        let before = before.and_then(|(&at, extent)| {
            let touches = at + extent.bytes == offset;
            touches.then_some(at)
        });
        let after = slab.extents.remove(&(offset + run.bytes));
        let (start, mut joined) = match before.and_then(|at| slab.extents.remove_entry(&at)) {
            Some(before) => before,
            None => (offset, blocks[0].part(0, 0, None)),
        };
        blocks.iter().for_each(|next| joined.join(next));
        // The blocks may not fill the run.
        joined.bytes = offset + run.bytes - start;
        after.iter().for_each(|next| joined.join(next));
        // Neighbours of small blocks may have left the device.
        joined.is_away |= run.bytes < CHUNK;
        slab.extents.insert(start, joined);
        self.open.insert(slab_at);
    }

    /// Takes out the slabs of which no buffer has a part. Each keeps the uses that may still run.
    pub(super) fn take_empty(&mut self) -> Vec<Allocation> {
        let dedicated = std::mem::take(&mut self.dedicated).into_values();
        let mut empty: Vec<_> = dedicated.flatten().collect();
        for slab in self.slabs.values_mut() {
            if slab.runs.is_empty() {
                empty.extend(slab.extents.pop_first().map(|(_, all)| all));
            }
        }
        let empty = empty.iter();
        empty.filter_map(|all| self.take_slab(all)).collect()
    }

    /// Takes an empty slab out, with the work that may use it.
    fn take_slab(&mut self, all: &Block) -> Option<Allocation> {
        let at = all.at();
        self.open.remove(&at);
        let slab = self.slabs.remove(&at)?;
        self.reserved_bytes -= slab.raw.bytes();
        slab.raw.in_flight.inherit(&all.in_flight);
        Some(slab.raw)
    }

    /// The number of free dedicated slabs, and their size.
    fn free_dedicated(&self) -> (usize, usize) {
        let sizes = self.dedicated.iter();
        sizes.fold((0, 0), |(count, bytes), (size, blocks)| {
            (count + blocks.len(), bytes + size * blocks.len())
        })
    }

    /// The number of dedicated slabs that buffers own, and their size.
    pub(super) fn live_dedicated(&self) -> (usize, usize) {
        let slabs = self.slabs.values();
        let dedicated = slabs.filter(|slab| slab.runs.is_empty() && slab.extents.is_empty());
        let all = dedicated.fold((0, 0), |(count, bytes), slab| {
            (count + 1, bytes + slab.raw.bytes())
        });
        let free = self.free_dedicated();
        (all.0 - free.0, all.1 - free.1)
    }

    pub(super) fn slab_count(&self) -> usize {
        self.slabs.len()
    }
}
