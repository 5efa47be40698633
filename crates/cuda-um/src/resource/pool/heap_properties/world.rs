//! A heap beside lists: what is split, who has it, and whose work may still use each page.

use crate::context::device::Device;
use crate::context::stream::Stream;
use crate::context::tracker::{Access, Finished, InFlight};
use crate::resource::allocation::Allocation;
use crate::resource::block;
use crate::resource::memory_resource::MemoryResource;
use crate::resource::pool::class::{CHUNK, Classes};
use crate::resource::pool::heap::Heap;
use crate::resource::pool::heap_properties::Step;
use crate::resource::separate::ManagedMemory;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::iter::once;
use std::ops::Range;
use std::sync::Arc;

/// The last piece of work on each stream, 0 for none.
type Notes = [u64; 3];

/// What may still be done with 4 KiB of a slab.
const GRAIN: usize = 4 << 10;

struct Slab {
    bytes: usize,
    is_whole: bool,
    notes: Vec<Notes>,
    /// The most that was ever noted in it.
    most: Notes,
}

/// A block that was split, or a dedicated slab, by its address.
struct Block {
    bytes: usize,
    is_whole: bool,
    /// True if no buffer has it.
    is_free: bool,
    /// `None` for a dedicated slab that the heap has.
    raw: Option<Box<block::Block>>,
}

pub(super) struct World<'a> {
    device: &'a Device,
    streams: &'a [Stream; 3],
    heap: Heap,
    classes: Classes,
    slabs: BTreeMap<usize, Slab>,
    blocks: BTreeMap<usize, Block>,
    /// The bytes of each run of blocks, by its address.
    runs: BTreeMap<usize, usize>,
    /// Numbers of work that no thread waits for.
    number: u64,
}

impl<'a> World<'a> {
    pub(super) fn new(device: &'a Device, streams: &'a [Stream; 3]) -> Self {
        Self {
            device,
            streams,
            heap: Heap::default(),
            classes: Classes::new(2 * CHUNK),
            slabs: BTreeMap::new(),
            blocks: BTreeMap::new(),
            runs: BTreeMap::new(),
            number: 0,
        }
    }

    /// All goes back: then every slab is one piece again, and can be freed.
    pub(super) fn end(&mut self) -> Result<(), TestCaseError> {
        let taken = self.blocks_that(|block| !block.is_free);
        taken.into_iter().for_each(|at| self.give(at, at % 3));
        self.coalesce(usize::MAX)?;
        self.check()?;
        self.trim()?;
        prop_assert_eq!((self.heap.slab_count(), self.heap.reserved_bytes), (0, 0));
        Ok(())
    }

    /// The addresses of these blocks.
    fn blocks_that(&self, is_one: impl Fn(&Block) -> bool) -> Vec<usize> {
        let found = self.blocks.iter().filter(|(_, block)| is_one(block));
        found.map(|(at, _)| *at).collect()
    }

    fn slab(&mut self, chunks: usize, is_whole: bool) -> Allocation {
        let bytes = chunks * CHUNK;
        let raw = ManagedMemory::new(self.device).allocate(bytes).unwrap();
        let slab = Slab {
            bytes,
            is_whole,
            notes: vec![[0; 3]; bytes / GRAIN],
            most: [0; 3],
        };
        self.slabs.insert(raw.at(), slab);
        raw
    }

    /// The slab that holds a range.
    fn slab_of(&self, range: &Range<usize>) -> Option<(usize, &Slab)> {
        let (&at, slab) = self.slabs.range(..=range.start).next_back()?;
        (range.end <= at + slab.bytes).then_some((at, slab))
    }

    /// Parts of slabs that are not split, as long as they can be.
    fn gaps(&self) -> Vec<Range<usize>> {
        let slabs = self.slabs.iter().filter(|(_, slab)| !slab.is_whole);
        let gaps = slabs.flat_map(|(&at, slab)| {
            let end = at + slab.bytes;
            let runs = self.runs.range(at..end);
            let starts = once(at).chain(runs.clone().map(|(start, bytes)| start + bytes));
            let ends = runs.map(|(start, _)| *start).chain(once(end));
            starts.zip(ends).map(|(start, end)| start..end)
        });
        gaps.filter(|gap| !gap.is_empty()).collect()
    }

    fn noted(&self, left: &InFlight) -> Notes {
        let mut notes = [0; 3];
        for used in left.before(Access::Read) {
            let stream = self
                .streams
                .iter()
                .position(|stream| Arc::ptr_eq(stream.inner(), &used.stream));
            notes[stream.unwrap()] = used.seq;
        }
        notes
    }

    /// Memory with these notes knows all work that may still use it, and none that never was near.
    fn check_notes(&self, range: &Range<usize>, found: Notes) -> Result<(), TestCaseError> {
        let (at, slab) = self.slab_of(range).unwrap();
        for notes in &slab.notes[(range.start - at) / GRAIN..(range.end - at).div_ceil(GRAIN)] {
            prop_assert!(
                notes.iter().zip(found).all(|(left, found)| *left <= found),
                "{:?} of {:?} at {:?}",
                found,
                notes,
                range
            );
        }
        prop_assert!(
            found
                .iter()
                .zip(slab.most)
                .all(|(found, most)| *found <= most),
            "{:?} is not this slab's",
            found
        );
        Ok(())
    }

    /// A buffer's work on some stream, which the block goes back with.
    fn note_use(&mut self, range: &Range<usize>, stream: usize) {
        self.number += 1;
        let at = self.slab_of(range).unwrap().0;
        let slab = self.slabs.get_mut(&at).unwrap();
        for notes in &mut slab.notes[(range.start - at) / GRAIN..(range.end - at).div_ceil(GRAIN)] {
            notes[stream] = self.number;
        }
        slab.most[stream] = self.number;
        let stream = self.streams[stream].inner();
        let block = self.blocks[&range.start].raw.as_ref();
        let left = &block.expect("a buffer has it").in_flight;
        left.record(stream, self.number, Access::Move, &mut Finished::new());
    }

    pub(super) fn run(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::AddSlab(chunks) => {
                let raw = self.slab(chunks, false);
                self.heap.add(raw);
            }
            Step::AddWhole(chunks) => {
                let raw = self.slab(chunks, true);
                let raw = self.heap.add_dedicated(raw);
                let at = raw.at();
                let block = Block {
                    bytes: chunks * CHUNK,
                    is_whole: true,
                    is_free: false,
                    raw: Some(raw),
                };
                self.blocks.insert(at, block);
            }
            Step::TakeWhole(chunks) => {
                let wanted = chunks * CHUNK;
                let fits = |block: &Block| {
                    block.is_whole
                        && block.is_free
                        && (wanted..=wanted + wanted / 4).contains(&block.bytes)
                };
                let fitting = self.blocks.values().filter(|block| fits(block));
                let smallest = fitting.map(|block| block.bytes).min();
                let taken = self.heap.take_dedicated(wanted);
                prop_assert_eq!(taken.as_ref().map(|taken| taken.bytes), smallest);
                if let Some(block) = taken {
                    self.check_notes(&block.addresses(), self.noted(&block.in_flight))?;
                    let known = self.blocks.get_mut(&block.at()).unwrap();
                    prop_assert!(known.is_free, "it was not free");
                    (known.is_free, known.raw) = (false, Some(block));
                }
            }
            Step::Carve(class) => self.split(class)?,
            Step::Take(block) => {
                let free = self.blocks_that(|block| !block.is_whole && block.is_free);
                if let Some(at) = free.get(block % free.len().max(1)) {
                    self.blocks.get_mut(at).unwrap().is_free = false;
                }
            }
            Step::Give(block, stream) => {
                let taken = self.blocks_that(|block| !block.is_free);
                if let Some(&at) = taken.get(block % taken.len().max(1)) {
                    self.give(at, stream);
                }
            }
            Step::Uncarve(keep_every) => self.coalesce(keep_every)?,
            Step::Trim => self.trim()?,
        }
        self.check()
    }

    fn split(&mut self, class: usize) -> Result<(), TestCaseError> {
        // Smaller ones share pages, of which notes are kept here.
        let first = self.classes.of(GRAIN).unwrap();
        let class = first + class % (self.classes.count() - first);
        let (run, size) = (self.classes.run(class), self.classes.size(class));
        let room = self
            .gaps()
            .iter()
            .any(|gap| gap.start.next_multiple_of(run.align) + run.bytes <= gap.end);
        let split = self.heap.split(run);
        prop_assert_eq!(split.is_some(), room);
        let Some(split) = split else { return Ok(()) };
        let start = split.at();
        let range = start..start + run.bytes;
        prop_assert!(start.is_multiple_of(run.align));
        prop_assert!(
            self.slab_of(&range).is_some_and(|(_, slab)| !slab.is_whole),
            "within one slab"
        );
        let inside = |gap: &Range<usize>| gap.start <= range.start && range.end <= gap.end;
        prop_assert!(
            self.gaps().iter().any(inside),
            "in memory that is not split"
        );
        for index in 0..run.count {
            let block = split.part(index * size, size, Some(run.class as u16));
            let at = block.at();
            let of_block = at..at + size;
            prop_assert_eq!(of_block.start, start + index * size);
            prop_assert!(of_block.end <= range.end);
            self.check_notes(&of_block, self.noted(&block.in_flight))?;
            let block = Block {
                bytes: size,
                is_whole: false,
                // The first one is for a buffer.
                is_free: index > 0,
                raw: Some(block),
            };
            self.blocks.insert(of_block.start, block);
        }
        self.runs.insert(start, run.bytes);
        Ok(())
    }

    fn give(&mut self, at: usize, stream: usize) {
        let (bytes, is_whole) = (self.blocks[&at].bytes, self.blocks[&at].is_whole);
        self.note_use(&(at..at + bytes), stream);
        let known = self.blocks.get_mut(&at).unwrap();
        known.is_free = true;
        let raw = known.raw.as_mut().expect("a buffer has it");
        (raw.bytes, raw.is_away) = (bytes, false);
        raw.in_flight.retire();
        if let Some(slab) = known.raw.take_if(|_| is_whole) {
            let excess = self.heap.give_dedicated(slab, usize::MAX);
            assert!(excess.is_empty(), "there is no bound");
        }
    }

    fn coalesce(&mut self, keep_every: usize) -> Result<(), TestCaseError> {
        let mut given = Vec::new();
        let blocks = self.blocks.values_mut();
        let free = blocks.filter(|block| !block.is_whole && block.is_free);
        for (index, block) in free.enumerate() {
            if index % keep_every != keep_every - 1 {
                given.extend(block.raw.take());
            }
        }
        // In no order.
        let half = given.len() / 2;
        given.rotate_left(half);
        let mut here: BTreeSet<usize> = given.iter().map(|free| free.at()).collect();
        let rest = self.heap.coalesce(given);
        self.runs.retain(|&start, &mut bytes| {
            let of_run = self.blocks.range(start..start + bytes);
            let of_run: Vec<usize> = of_run.map(|(at, _)| *at).collect();
            let is_joined = of_run.iter().all(|block| here.contains(block));
            for block in of_run.iter().filter(|_| is_joined) {
                self.blocks.remove(block);
                here.remove(block);
            }
            !is_joined
        });
        let back: BTreeSet<usize> = rest.iter().map(|free| free.at()).collect();
        prop_assert_eq!(back, here, "blocks of runs that are not all there");
        for block in rest {
            let at = block.at();
            let bytes = self.blocks[&at].bytes;
            self.check_notes(&(at..at + bytes), self.noted(&block.in_flight))?;
            self.blocks.get_mut(&at).unwrap().raw = Some(block);
        }
        Ok(())
    }

    fn trim(&mut self) -> Result<(), TestCaseError> {
        let empty = self.heap.take_empty();
        let freed: BTreeSet<usize> = empty.iter().map(|raw| raw.at()).collect();
        let is_unused = |at: usize, slab: &Slab| match slab.is_whole {
            true => self.blocks[&at].is_free,
            false => self.gaps().contains(&(at..at + slab.bytes)),
        };
        let unused = self.slabs.iter().filter(|(at, slab)| is_unused(**at, slab));
        let unused: BTreeSet<usize> = unused.map(|(at, _)| *at).collect();
        prop_assert_eq!(freed, unused, "the unused slabs, and no others");
        for mut raw in empty {
            let range = raw.addresses();
            self.check_notes(&range, self.noted(&raw.in_flight))?;
            // Nobody runs that work.
            raw.in_flight = InFlight::default();
            self.slabs.remove(&range.start);
            self.blocks.remove(&range.start);
        }
        Ok(())
    }

    /// What the heap says of itself.
    fn check(&self) -> Result<(), TestCaseError> {
        let bytes: usize = self.slabs.values().map(|slab| slab.bytes).sum();
        prop_assert_eq!(
            (self.heap.slab_count(), self.heap.reserved_bytes),
            (self.slabs.len(), bytes)
        );
        let whole = |is_free: bool| {
            let blocks = self.blocks.values();
            blocks.filter(move |block| block.is_whole && block.is_free == is_free)
        };
        let live: usize = whole(false).map(|block| block.bytes).sum();
        prop_assert_eq!(self.heap.live_dedicated(), (whole(false).count(), live));
        Ok(())
    }
}
