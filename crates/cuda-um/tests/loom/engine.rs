//! The state of the played CUDA: a device that does its work as late as it may, in a wait for it. So a missing wait shows.

use crate::sync::{Mutex, global};
use cuda_um_sys::cudaError;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

global! {
    static ENGINE: Mutex<Engine> = Mutex::new(Engine::new(0, true));
}

/// Calls the engine of this model. Each call takes the one lock, so that loom tries them in every order.
pub(crate) fn engine<R>(call: impl FnOnce(&mut Engine) -> R) -> R {
    call(&mut ENGINE.lock())
}

/// A call that can be told to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Copy,
    Record,
    /// For an event.
    Wait,
}

/// The numbers of a stream and of work on it.
type Position = (usize, u64);

pub(crate) struct Engine {
    pub(super) has_concurrent_access: bool,
    /// The streams by their handles, destroyed ones too: their work goes on.
    streams: BTreeMap<usize, Stream>,
    /// The events by their handles, and where they were recorded last.
    events: BTreeMap<usize, Option<Position>>,
    /// Vectors, because a move of a box would invalidate the addresses that copies have.
    /// By address, aligned as words: the library writes flags there.
    pinned: BTreeMap<usize, Vec<u64>>,
    /// Device memory: addresses that no code reads or writes.
    free_bytes: usize,
    slabs: BTreeMap<usize, usize>,
    /// The parts of device memory that the model uses.
    in_use: BTreeMap<usize, usize>,
    next: usize,
    /// The call that fails, and how often it works before.
    fails: Option<(Call, usize)>,
    /// The first wrong use of CUDA. A panic in a function of C would end the process.
    misuse: Option<&'static str>,
}

#[derive(Default)]
struct Stream {
    is_destroyed: bool,
    done: u64,
    work: VecDeque<Work>,
}

enum Work {
    Copy(Copy),
    /// Waits for work of another stream.
    Wait(Position),
}

pub(super) struct Copy {
    pub(super) to: *mut u8,
    pub(super) from: *const u8,
    pub(super) bytes: usize,
}

#[allow(unsafe_code, reason = "addresses")]
// SAFETY: the engine's lock guards them, and the models keep what is at them.
unsafe impl Send for Copy {}

impl Copy {
    fn uses(&self, memory: &Range<usize>) -> bool {
        // Copies of no bytes count as copies of one.
        let within = |start| start < memory.end && memory.start < start + self.bytes.max(1);
        within(self.to.addr()) || within(self.from.addr())
    }

    #[allow(unsafe_code, reason = "copies by address")]
    fn run(&self) {
        // SAFETY: the caller of the enqueue promised that both sides are valid until it is done; pinned memory is not freed before (`free_pinned`),
        // and the models keep the device's side.
        unsafe { self.to.copy_from(self.from, self.bytes) };
    }
}

fn overlaps(ranges: &BTreeMap<usize, usize>, range: &Range<usize>) -> bool {
    let before = ranges.range(..range.end).next_back();
    before.is_some_and(|(_, &end)| end > range.start)
}

/// What the models see and do.
impl Engine {
    /// With so many bytes of device memory.
    pub(crate) const fn new(bytes: usize, has_concurrent_access: bool) -> Self {
        Self {
            has_concurrent_access,
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            pinned: BTreeMap::new(),
            free_bytes: bytes,
            slabs: BTreeMap::new(),
            in_use: BTreeMap::new(),
            next: 1 << 20,
            fails: None,
            misuse: None,
        }
    }

    /// The call fails once, after it has worked so often.
    pub(crate) fn fail(&mut self, call: Call, after: usize) {
        self.fails = Some((call, after));
    }

    fn copies(&self) -> impl Iterator<Item = &Copy> {
        let work = self.streams.values().flat_map(|stream| &stream.work);
        work.filter_map(|work| match work {
            Work::Copy(copy) => Some(copy),
            Work::Wait(_) => None,
        })
    }

    pub(crate) fn copies_in_flight(&mut self) -> usize {
        self.copies().count()
    }

    /// The number of pieces of pinned memory.
    pub(crate) fn pinned(&mut self) -> usize {
        self.pinned.len()
    }

    /// The number of allocations of device memory.
    pub(crate) fn slabs(&mut self) -> usize {
        self.slabs.len()
    }

    /// The number of streams that are not destroyed.
    pub(crate) fn live_streams(&mut self) -> usize {
        let streams = self.streams.values();
        streams.filter(|stream| !stream.is_destroyed).count()
    }

    /// Returns true if no copy to this address is in flight.
    pub(crate) fn is_done(&self, to: usize) -> bool {
        !self.copies().any(|copy| copy.to.addr() == to)
    }

    /// Returns true if the copy to this address is done, or if what is enqueued on the stream now comes after it.
    pub(crate) fn comes_after(&self, stream: usize, to: usize) -> bool {
        self.is_done(to) || self.is_before(to, (stream, u64::MAX))
    }

    fn is_before(&self, to: usize, (stream, end): Position) -> bool {
        let stream = &self.streams[&stream];
        let mut work = (stream.done..end).zip(&stream.work);
        work.any(|(_, work)| match work {
            Work::Wait(position) => self.is_before(to, *position),
            Work::Copy(copy) => copy.to.addr() == to,
        })
    }

    /// The device does all work of the stream, and what that waits for. Other work is left.
    pub(crate) fn run(&mut self, stream: usize) {
        self.stream(stream);
        self.run_to((stream, u64::MAX));
    }

    /// The model has got this block of device memory.
    pub(crate) fn take(&mut self, block: Range<usize>) {
        let is_taken = overlaps(&self.in_use, &block);
        self.misused(is_taken, "a block is had twice");
        self.in_use.insert(block.start, block.end);
    }

    /// The model gives the block back to its pool; the slab must be there still.
    pub(crate) fn give(&mut self, block: Range<usize>) {
        let slab = self.slabs.range(..=block.start).next_back();
        let is_gone = slab.is_none_or(|(_, &end)| block.end > end);
        self.misused(is_gone, "a block is given back whose slab is freed");
        self.in_use.remove(&block.start);
    }

    /// The first wrong use of CUDA, or of the pool's blocks.
    pub(crate) fn misuse(&mut self) -> Option<&'static str> {
        self.misuse
    }
}

/// What the functions of the table do.
impl Engine {
    pub(super) fn check(&mut self, call: Call) -> Result<(), cudaError> {
        match &mut self.fails {
            Some((fails, 0)) if *fails == call => {
                self.fails = None;
                Err(cudaError::cudaErrorInvalidValue)
            }
            Some((fails, before)) if *fails == call => {
                *before -= 1;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn misused(&mut self, is_misused: bool, how: &'static str) {
        if is_misused {
            self.misuse.get_or_insert(how);
        }
    }

    fn handle(&mut self) -> usize {
        self.next += 16;
        self.next
    }

    pub(super) fn create_stream(&mut self) -> usize {
        let stream = self.handle();
        self.streams.insert(stream, Stream::default());
        stream
    }

    pub(super) fn destroy_stream(&mut self, stream: usize) {
        self.stream(stream).is_destroyed = true;
    }

    fn stream(&mut self, stream: usize) -> &mut Stream {
        let known = self.streams.get(&stream);
        let is_gone = known.is_none_or(|stream| stream.is_destroyed);
        self.misused(is_gone, "a stream is used that there is not");
        self.streams.entry(stream).or_default()
    }

    fn enqueue(&mut self, stream: usize, work: Work) {
        self.stream(stream).work.push_back(work);
    }

    pub(super) fn copy(&mut self, stream: usize, copy: Copy) -> Result<(), cudaError> {
        self.check(Call::Copy)?;
        self.enqueue(stream, Work::Copy(copy));
        Ok(())
    }

    pub(super) fn create_event(&mut self) -> usize {
        let event = self.handle();
        self.events.insert(event, None);
        event
    }

    pub(super) fn destroy_event(&mut self, event: usize) {
        let destroyed = self.events.remove(&event);
        self.misused(destroyed.is_none(), "an event is destroyed twice");
    }

    pub(super) fn record(&mut self, event: usize, stream: usize) -> Result<(), cudaError> {
        self.check(Call::Record)?;
        let of = self.stream(stream);
        let position = (stream, of.done + of.work.len() as u64);
        let before = self.events.insert(event, Some(position));
        self.misused(before.is_none(), "an event is recorded that there is not");
        Ok(())
    }

    /// `None`: the event was not recorded, so it is complete.
    fn recorded(&mut self, event: usize) -> Option<Position> {
        let found = self.events.get(&event).copied();
        self.misused(found.is_none(), "an event is used that there is not");
        found.flatten()
    }

    pub(super) fn wait_in_stream(&mut self, stream: usize, event: usize) {
        if let Some(position) = self.recorded(event) {
            self.enqueue(stream, Work::Wait(position));
        }
    }

    pub(super) fn is_stream_done(&mut self, stream: usize) -> bool {
        self.stream(stream).work.is_empty()
    }

    pub(super) fn is_event_done(&mut self, event: usize) -> bool {
        let position = self.recorded(event);
        position.is_none_or(|(stream, to)| self.streams[&stream].done >= to)
    }

    pub(super) fn wait_for_event(&mut self, event: usize) -> Result<(), cudaError> {
        self.check(Call::Wait)?;
        if let Some(position) = self.recorded(event) {
            self.run_to(position);
        }
        Ok(())
    }

    pub(super) fn wait_for_all(&mut self) {
        let streams: Vec<usize> = self.streams.keys().copied().collect();
        let all = streams.into_iter().map(|stream| (stream, u64::MAX));
        all.for_each(|position| self.run_to(position));
    }

    fn run_to(&mut self, (stream, to): Position) {
        while let Some(of) = self.streams.get_mut(&stream)
            && of.done < to
            && let Some(work) = of.work.pop_front()
        {
            match work {
                Work::Copy(copy) => copy.run(),
                Work::Wait(position) => self.run_to(position),
            }
            if let Some(of) = self.streams.get_mut(&stream) {
                of.done += 1;
            }
        }
    }

    pub(super) fn allocate_pinned(&mut self, bytes: usize) -> *mut u8 {
        let mut memory = vec![0; bytes.div_ceil(size_of::<u64>())];
        let address = memory.as_mut_ptr().cast::<u8>();
        self.pinned.insert(address.addr(), memory);
        address
    }

    pub(super) fn free_pinned(&mut self, start: usize) {
        let memory = self.pinned.get(&start);
        let range = start..start + memory.map_or(0, |memory| size_of_val(&memory[..]));
        self.misused(range.is_empty(), "pinned memory is freed twice");
        let is_used = self.has_copy_of(&range);
        self.misused(is_used, "pinned memory is freed under a copy");
        // The copy runs later, so its memory stays.
        if !is_used {
            self.pinned.remove(&start);
        }
    }

    fn has_copy_of(&self, range: &Range<usize>) -> bool {
        self.copies().any(|copy| copy.uses(range))
    }

    pub(super) fn allocate(&mut self, bytes: usize) -> Result<usize, cudaError> {
        let left = self.free_bytes.checked_sub(bytes);
        self.free_bytes = left.ok_or(cudaError::cudaErrorMemoryAllocation)?;
        let start = self.next.next_multiple_of(1 << 20);
        self.next = start + bytes;
        self.slabs.insert(start, start + bytes);
        Ok(start)
    }

    pub(super) fn free(&mut self, start: usize) {
        let end = self.slabs.remove(&start);
        self.misused(end.is_none(), "device memory is freed twice");
        let range = start..end.unwrap_or(start);
        self.free_bytes += range.len();
        let is_used = overlaps(&self.in_use, &range) || self.has_copy_of(&range);
        self.misused(is_used, "device memory is freed in use");
    }
}
