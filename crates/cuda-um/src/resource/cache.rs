//! The residency cache: the location of a buffer's pages, as known from the library's own calls. A prefetch of pages that are at their
//! destination is elided.
//!
//! A mistake costs only time: the cache only decides which prefetches are elided. Prefetches fill it; host guards, kernels on other
//! devices, copies and advice clear it, in part or completely. Work outside the library is not tracked.
//!
//! It tracks the blocks of 2 MiB that belong completely to the buffer. The location of a shared block is never known, because other buffers
//! may move its pages. The prefetch of such a block is enqueued each time, which takes about 2 microseconds.

pub(crate) mod extent;
#[cfg(all(test, not(cuda_um_loom)))]
mod properties;
#[cfg(all(test, not(cuda_um_loom)))]
mod tests;

use crate::context::tracked::Pages;
use crate::context::tracker::Access;
use crate::driver::advice::Advice;
use crate::driver::location::Location;
use crate::resource::cache::extent::{Extent, blocks_of};
use crate::sync::Mutex;
use cuda_um_sys::cudaMemoryAdvise;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// A known location of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host,
    Device(u32),
}

impl Place {
    /// `None` for NUMA nodes, which the cache does not distinguish from the host.
    pub(crate) fn of(location: Location) -> Option<Self> {
        match location {
            Location::Host => Some(Self::Host),
            Location::Device(ordinal) => Some(Self::Device(ordinal)),
            Location::HostNuma(_) | Location::HostNumaCurrent => None,
        }
    }
}

/// A use of a buffer that may move its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A processor reads.
    Reader(Place),
    /// A processor writes.
    Writer(Place),
    /// Advice, or work that the library does not see.
    Unknown,
}

impl By {
    /// The use by a processor; `None` for a prefetch, which moves the pages itself.
    pub(crate) fn of(place: Place, access: Access) -> Option<Self> {
        match access {
            Access::Read => Some(Self::Reader(place)),
            Access::Write | Access::WritePart => Some(Self::Writer(place)),
            Access::Move => None,
        }
    }
}

/// The residency cache of one buffer.
pub(crate) struct Cache {
    state: Mutex<State>,
}

struct State {
    known: Known,
    /// The device where the memory was allocated, and whether pages may be elsewhere. In contrast to `known` it is a guess for all pages, the
    /// shared ones as well, and a pool keeps it for the next buffer.
    home: Place,
    is_away: bool,
    /// Counts all changes of the cache.
    changes: u64,
    /// True if the whole buffer is read-mostly: reads leave the pages in place.
    read_mostly: bool,
    /// The advice that the program has set for the buffer, or for parts of it.
    advice: Vec<(cudaMemoryAdvise, Location)>,
    /// The number of live host guards.
    guards: usize,
}

/// Known locations of the tracked blocks.
#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    /// All blocks are at one place.
    Whole(Place),
    Blocks(Vec<Option<Place>>),
}

/// The state of a buffer when the driver was queried for its location.
pub(crate) struct Asked {
    changes: u64,
    /// True if no other use of the buffer may still run.
    is_last: bool,
}

impl Cache {
    pub(crate) fn new(home: Place, is_away: bool) -> Self {
        Self {
            state: Mutex::new(State {
                known: Known::Nothing,
                home,
                is_away,
                changes: 0,
                read_mostly: false,
                advice: Vec::new(),
                guards: 0,
            }),
        }
    }

    /// Returns true if pages may not be on the device where the memory was allocated.
    pub(crate) fn is_away(&self) -> bool {
        self.state.lock().is_away
    }

    /// The parts of a range of addresses in the buffer that are not known to be at the place. Adjacent blocks are joined.
    pub(crate) fn missing(
        &self,
        extent: &Extent,
        range: Range<usize>,
        place: Place,
    ) -> SmallVec<[Range<usize>; 1]> {
        let state = self.state.lock();
        let blocks = blocks_of(&range);
        let is_tracked = extent.tracks(&blocks);
        match &state.known {
            Known::Nothing => return smallvec![range],
            Known::Whole(at) if *at != place => return smallvec![range],
            Known::Whole(_) if is_tracked => return SmallVec::new(),
            Known::Whole(_) | Known::Blocks(_) => {}
        }
        let mut missing: SmallVec<[Range<usize>; 1]> = SmallVec::new();
        for block in blocks {
            if state.known.at(extent, block) == Some(place) {
                continue;
            }
            let part = extent.part(block);
            let part = part.start.max(range.start)..part.end.min(range.end);
            match missing.last_mut() {
                Some(last) if last.end == part.start => last.end = part.end,
                _ => missing.push(part),
            }
        }
        missing
    }

    /// Records that the prefetch of a range to a place was enqueued. Unless it `is_last`, a read of the buffer may run after it and move
    /// the pages, so the location is not known.
    pub(crate) fn moved(&self, extent: &Extent, range: Range<usize>, place: Place, is_last: bool) {
        let mut state = self.state.lock();
        state.changes += 1;
        let stays = is_last && state.stays(place);
        if !stays || place != state.home {
            state.is_away = true;
        } else if range == extent.addresses {
            state.is_away = false;
        }
        if stays && range == extent.addresses {
            state.known = Known::Whole(place);
            return;
        }
        let known = state.known.as_blocks(extent);
        for block in extent.tracked_of(&blocks_of(&range)) {
            let part = extent.part(block);
            let is_whole = range.start <= part.start && part.end <= range.end;
            let entry = &mut known[extent.index(block)];
            match stays {
                true if is_whole => *entry = Some(place),
                true if *entry == Some(place) => {}
                _ => *entry = None,
            }
        }
    }

    /// Records a use of the buffer that may move any part of it.
    pub(crate) fn touched(&self, by: By) {
        self.state.lock().touched(by);
    }

    /// Records that the host may access the buffer from now on, until `let_go`.
    pub(crate) fn held(&self, by: By) {
        let mut state = self.state.lock();
        state.guards += 1;
        state.touched(by);
    }

    /// Returns true if nothing but the program may move the pages: it has given advice for a part of the buffer, or a host guard lives.
    pub(crate) fn is_left_to_program(&self) -> bool {
        let state = self.state.lock();
        state.guards > 0 || !state.advice.is_empty()
    }

    /// What is known of the pages, for observers.
    pub(crate) fn pages(&self) -> Pages {
        let state = self.state.lock();
        Pages {
            are_advised: !state.advice.is_empty(),
            are_held: state.guards > 0,
            have_left: state.is_away,
        }
    }

    /// Records advice of the program. Only advice for the whole buffer ends earlier advice.
    pub(crate) fn advised(&self, advice: Advice, is_whole: bool) {
        let (number, location) = advice.to_sys();
        // Odd numbers set advice; the even number that follows unsets it.
        let set = cudaMemoryAdvise(number.0 - u32::from(number.0.is_multiple_of(2)));
        let by_location = set == cudaMemoryAdvise::cudaMemAdviseSetAccessedBy;
        let list = &mut self.state.lock().advice;
        let is_same = |old: &(_, _)| old.0 == set && (!by_location || old.1 == location);
        if is_whole {
            list.retain(|old| !is_same(old));
        }
        if set == number && !list.contains(&(set, location)) {
            list.push((set, location));
        }
    }

    /// Takes back [`advised`](Self::advised): CUDA gives no advice for the memory.
    pub(crate) fn refused(&self, advice: Advice) {
        let refused = advice.to_sys();
        self.state.lock().advice.retain(|old| *old != refused);
    }

    /// Records that a host guard was dropped.
    pub(crate) fn let_go(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        state.guards -= 1;
    }

    /// Records that the whole buffer is read-mostly.
    pub(crate) fn set_read_mostly(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        state.read_mostly = true;
    }

    /// Records that a part of the buffer may no longer be read-mostly, and may be at any place.
    pub(crate) fn unset_read_mostly(&self) {
        let mut state = self.state.lock();
        state.read_mostly = false;
        state.touched(By::Unknown);
    }

    /// The known location of each block of the extent, tracked or not.
    pub(crate) fn locations(&self, extent: &Extent) -> Vec<Option<Place>> {
        let state = self.state.lock();
        let blocks = extent.blocks();
        blocks.map(|block| state.known.at(extent, block)).collect()
    }

    /// Must be called before the driver is queried for the location of each block.
    pub(crate) fn ask(&self, is_last: bool) -> Asked {
        Asked {
            changes: self.state.lock().changes,
            is_last,
        }
    }

    /// Stores the driver's answer for each block of the extent, unless the buffer was used after the query.
    pub(crate) fn correct(&self, extent: &Extent, asked: &Asked, places: &[Option<Place>]) {
        let mut state = self.state.lock();
        if state.changes != asked.changes {
            return;
        }
        state.changes += 1;
        let tracked = extent.blocks().zip(places);
        let tracked = tracked.filter(|(block, _)| extent.tracks(&(*block..*block + 1)));
        let known = tracked
            .map(|(_, place)| place.filter(|place| asked.is_last && state.stays(*place)))
            .collect();
        state.known = Known::Blocks(known);
    }
}

impl State {
    /// Returns true if pages that move to a place stay there while the host has its guards.
    fn stays(&self, place: Place) -> bool {
        place == Place::Host || self.guards == 0 || self.read_mostly
    }

    fn touched(&mut self, by: By) {
        self.changes += 1;
        match by {
            By::Reader(_) if self.read_mostly => {}
            By::Reader(place) | By::Writer(place) => {
                self.is_away |= place != self.home;
                self.known.keep(Some(place));
            }
            By::Unknown => {
                self.is_away = true;
                self.known.keep(None);
            }
        }
    }
}

impl Known {
    fn at(&self, extent: &Extent, block: usize) -> Option<Place> {
        match self {
            _ if !extent.tracks(&(block..block + 1)) => None,
            Self::Nothing => None,
            Self::Whole(place) => Some(*place),
            Self::Blocks(blocks) => blocks[extent.index(block)],
        }
    }

    fn as_blocks(&mut self, extent: &Extent) -> &mut Vec<Option<Place>> {
        let all = |place| vec![place; extent.tracked_blocks()];
        match self {
            Self::Nothing => *self = Self::Blocks(all(None)),
            Self::Whole(place) => *self = Self::Blocks(all(Some(*place))),
            Self::Blocks(_) => {}
        }
        match self {
            Self::Blocks(blocks) => blocks,
            _ => unreachable!("unfolded above"),
        }
    }

    /// Clears all blocks that are not at this place.
    fn keep(&mut self, place: Option<Place>) {
        match self {
            Self::Nothing => {}
            Self::Whole(at) if Some(*at) == place => {}
            Self::Whole(_) => *self = Self::Nothing,
            Self::Blocks(blocks) => {
                for at in blocks {
                    *at = at.filter(|at| Some(*at) == place);
                }
            }
        }
    }
}
