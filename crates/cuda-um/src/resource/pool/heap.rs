//! The slabs of a pool, and how they are split into blocks.

use crate::context::tracked::SlabInfo;
use crate::context::tracker::InFlight;
use crate::resource::allocation::Allocation;
use crate::resource::block::Address;
use crate::resource::pool::class::{CHUNK, Run};
use crate::resource::pool::free_block::FreeBlock;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// All slabs.
#[derive(Default)]
pub(super) struct Heap {
    /// The slabs, by address.
    slabs: BTreeMap<usize, Slab>,
    /// The addresses of slabs with unsplit extents.
    open: BTreeSet<usize>,
    /// Free dedicated slabs, by size.
    dedicated: BTreeMap<usize, Vec<FreeBlock>>,
    pub(super) reserved_bytes: usize,
    /// The dedicated slabs that buffers own.
    pub(super) live_dedicated: Live,
}

/// A number of blocks, and their total size.
#[derive(Clone, Copy, Default)]
pub(super) struct Live {
    pub(super) count: usize,
    pub(super) bytes: usize,
}

/// Memory from CUDA.
struct Slab {
    raw: Allocation,
    /// The unsplit extents, by offset. Adjacent extents are joined.
    extents: BTreeMap<usize, Extent>,
    runs: BTreeMap<usize, Run>,
}

struct Extent {
    bytes: usize,
    in_flight: InFlight,
    is_away: bool,
}

/// A run that was split off: its first block, and the work that may use any of its blocks.
pub(super) struct SplitRun {
    start: Address,
    in_flight: InFlight,
    is_away: bool,
}

impl SplitRun {
    /// The free block at `index` in the run.
    pub(super) fn block(&self, index: usize, size: usize) -> FreeBlock {
        let mut in_flight = InFlight::default();
        in_flight.inherit(&self.in_flight);
        FreeBlock {
            address: self.start.offset(index * size),
            in_flight: in_flight.take(),
            is_away: self.is_away,
            departures: 0,
        }
    }
}

fn address(raw: &Allocation) -> Address {
    Address {
        host: raw.pointer(),
        device: raw.device_pointer(),
        slab: Some(SlabInfo {
            buffer: raw.id(),
            address: addresses(raw).start,
            bytes: raw.bytes(),
        }),
    }
}

/// The addresses of a slab.
pub(super) fn addresses(raw: &Allocation) -> Range<usize> {
    let start = raw.pointer().as_ptr().addr();
    start..start + raw.bytes()
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
        let (range, bytes) = (addresses(&raw), raw.bytes());
        let all = Extent {
            bytes,
            in_flight: InFlight::default(),
            // No page is there yet.
            is_away: true,
        };
        self.open.insert(range.start);
        self.insert(range.start, raw, BTreeMap::from([(0, all)]));
    }

    /// Adds a dedicated slab and takes it.
    pub(super) fn add_dedicated(&mut self, raw: Allocation) -> FreeBlock {
        let (at, address, bytes) = (addresses(&raw).start, address(&raw), raw.bytes());
        self.insert(at, raw, BTreeMap::new());
        self.live_dedicated.count += 1;
        self.live_dedicated.bytes += bytes;
        FreeBlock {
            address,
            in_flight: None,
            is_away: true,
            departures: 0,
        }
    }

    fn insert(&mut self, at: usize, raw: Allocation, extents: BTreeMap<usize, Extent>) {
        self.reserved_bytes += raw.bytes();
        let runs = BTreeMap::new();
        self.slabs.insert(at, Slab { raw, extents, runs });
    }

    /// Takes a free dedicated slab of at least `bytes`, and at most a quarter more.
    pub(super) fn take_dedicated(&mut self, bytes: usize) -> Option<(usize, FreeBlock)> {
        let most = bytes.saturating_add(bytes / 4);
        let (&size, blocks) = self.dedicated.range_mut(bytes..=most).next()?;
        let block = blocks.pop();
        if blocks.is_empty() {
            self.dedicated.remove(&size);
        }
        self.live_dedicated.count += 1;
        self.live_dedicated.bytes += size;
        block.map(|block| (size, block))
    }

    fn free_dedicated_bytes(&self) -> usize {
        let sizes = self.dedicated.iter();
        sizes.map(|(size, blocks)| size * blocks.len()).sum()
    }

    /// Takes a dedicated slab back, and returns the slabs that exceed `keep` bytes together, the largest first.
    pub(super) fn give_dedicated(
        &mut self,
        bytes: usize,
        block: FreeBlock,
        keep: usize,
    ) -> Vec<Allocation> {
        self.live_dedicated.count -= 1;
        self.live_dedicated.bytes -= bytes;
        self.dedicated.entry(bytes).or_default().push(block);
        let mut excess = Vec::new();
        while self.free_dedicated_bytes() > keep
            && let Some(mut largest) = self.dedicated.last_entry()
        {
            let block = largest.get_mut().pop();
            if largest.get().is_empty() {
                largest.remove();
            }
            excess.extend(block.and_then(|block| self.take_slab(block.at(), block.left())));
        }
        excess
    }

    /// Splits a run off the first extent that has room for it.
    pub(super) fn split(&mut self, run: Run) -> Option<SplitRun> {
        let (slab_at, extent_at) = self.open.iter().find_map(|slab_at| {
            let fits = |(at, extent): &(&usize, &Extent)| {
                at.next_multiple_of(run.align) + run.bytes <= **at + extent.bytes
            };
            let mut extents = self.slabs[slab_at].extents.iter();
            extents.find(fits).map(|(at, _)| (*slab_at, *at))
        })?;
        let slab = self.slabs.get_mut(&slab_at)?;
        let extent = slab.extents.remove(&extent_at)?;
        let (start, end) = (
            extent_at.next_multiple_of(run.align),
            extent_at + extent.bytes,
        );
        for (from, to) in [(extent_at, start), (start + run.bytes, end)] {
            if from < to {
                let in_flight = InFlight::default();
                in_flight.inherit(&extent.in_flight);
                let rest = Extent {
                    bytes: to - from,
                    in_flight,
                    is_away: extent.is_away,
                };
                slab.extents.insert(from, rest);
            }
        }
        if slab.extents.is_empty() {
            self.open.remove(&slab_at);
        }
        slab.runs.insert(start, run);
        Some(SplitRun {
            start: address(&slab.raw).offset(start),
            in_flight: extent.in_flight,
            is_away: extent.is_away,
        })
    }

    /// Coalesces the runs whose blocks are all in the list into extents; returns the other blocks.
    pub(super) fn coalesce(&mut self, mut blocks: Vec<FreeBlock>) -> Vec<FreeBlock> {
        blocks.sort_unstable_by_key(FreeBlock::at);
        let mut rest = Vec::new();
        let mut blocks = blocks.into_iter().peekable();
        while let Some(first) = blocks.next() {
            let Some((slab, offset, run)) = self.run_of(first.at()) else {
                rest.push(first);
                continue;
            };
            let end = slab + offset + run.bytes;
            let mut of_run = vec![first];
            while let Some(block) = blocks.next_if(|block| block.at() < end) {
                of_run.push(block);
            }
            if of_run.len() < run.count {
                rest.append(&mut of_run);
                continue;
            }
            let in_flight = InFlight::default();
            of_run
                .iter()
                .filter_map(|block| block.in_flight.as_deref())
                .for_each(|left| in_flight.inherit(left));
            // Neighbours of small blocks may have left the device.
            let is_away = run.bytes < CHUNK || of_run.iter().any(|block| block.is_away);
            self.coalesce_run(slab, offset, (in_flight, is_away));
        }
        rest
    }

    fn run_of(&self, address: usize) -> Option<(usize, usize, Run)> {
        let (at, slab) = self.slabs.range(..=address).next_back()?;
        let (offset, run) = slab.runs.range(..=address - at).next_back()?;
        Some((*at, *offset, *run))
    }

    fn coalesce_run(
        &mut self,
        slab_at: usize,
        offset: usize,
        (in_flight, mut is_away): (InFlight, bool),
    ) {
        let Some(slab) = self.slabs.get_mut(&slab_at) else {
            return;
        };
        let Some(run) = slab.runs.remove(&offset) else {
            return;
        };
        let (mut start, mut end) = (offset, offset + run.bytes);
        let before = slab.extents.range(..start).next_back();
        if let Some(at) =
            before.and_then(|(&at, extent)| (at + extent.bytes == start).then_some(at))
            && let Some(extent) = slab.extents.remove(&at)
        {
            in_flight.inherit(&extent.in_flight);
            is_away |= extent.is_away;
            start = at;
        }
        if let Some(extent) = slab.extents.remove(&end) {
            in_flight.inherit(&extent.in_flight);
            is_away |= extent.is_away;
            end += extent.bytes;
        }
        let joined = Extent {
            bytes: end - start,
            in_flight,
            is_away,
        };
        slab.extents.insert(start, joined);
        self.open.insert(slab_at);
    }

    /// Takes out the slabs of which no buffer has a part. Each keeps the uses that may still run.
    pub(super) fn take_empty(&mut self) -> Vec<Allocation> {
        let mut empty: Vec<_> = std::mem::take(&mut self.dedicated)
            .into_values()
            .flatten()
            .map(|block| (block.at(), block.left()))
            .collect();
        for (at, slab) in &mut self.slabs {
            if slab.runs.is_empty()
                && let Some((_, extent)) = slab.extents.pop_first()
            {
                empty.push((*at, extent.in_flight));
            }
        }
        let take = |(at, in_flight)| self.take_slab(at, in_flight);
        empty.into_iter().filter_map(take).collect()
    }

    /// Takes an empty slab out, with the work that may use it.
    fn take_slab(&mut self, at: usize, in_flight: InFlight) -> Option<Allocation> {
        self.open.remove(&at);
        let slab = self.slabs.remove(&at)?;
        self.reserved_bytes -= slab.raw.bytes();
        slab.raw.in_flight.inherit(&in_flight);
        Some(slab.raw)
    }

    pub(super) fn slab_count(&self) -> usize {
        self.slabs.len()
    }

    /// The largest extent or free dedicated slab, in bytes.
    pub(super) fn largest_free(&self) -> usize {
        let extents = self.slabs.values().flat_map(|slab| slab.extents.values());
        let dedicated = self
            .dedicated
            .last_key_value()
            .map_or(0, |(&bytes, _)| bytes);
        extents
            .map(|extent| extent.bytes)
            .fold(dedicated, usize::max)
    }
}
