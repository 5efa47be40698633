//! The residency shadow: what the library remembers of where a buffer's pages are, so that it need not ask for what is so already.
//!
//! Nothing depends on it but which prefetches are left out. It counts what this library does: prefetches set it, host guards, kernels on
//! other devices, copies and advice clear it, in part or wholly. What is done past the library it does not see; where that matters,
//! `UnifiedBuffer::forget_residency` clears it.

pub(crate) mod extent;
mod known;
pub(crate) mod neighbours;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use crate::driver::location::Location;
use crate::resource::cache::extent::{Extent, blocks_of};
use crate::resource::cache::known::Known;
use crate::resource::cache::neighbours::{Found, Later, Seen, Stamp, User};
use crate::sync::Mutex;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;

/// A place that pages are known to be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Host,
    Device(u32),
}

impl Place {
    /// NUMA nodes are not told apart from the host, so they are no place here.
    pub(crate) fn of(location: Location) -> Option<Self> {
        match location {
            Location::Host => Some(Self::Host),
            Location::Device(ordinal) => Some(Self::Device(ordinal)),
            Location::HostNuma(_) | Location::HostNumaCurrent => None,
        }
    }
}

/// Who uses a buffer, in a way that may move its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// A processor reads.
    Reader(Place),
    /// A processor writes.
    Writer(Place),
    /// Advice, or somebody whom the library does not see.
    Unknown,
}

/// What is known of one buffer.
#[derive(Default)]
pub(crate) struct Shadow {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: Known,
    /// How often anything happened.
    changes: u64,
    /// All of it is read-mostly: reads leave the pages where they are.
    read_mostly: bool,
    /// Host guards that live.
    guards: usize,
    /// What those do moves pages, so the neighbours on a block were told.
    holds: bool,
}

/// How a buffer was when the driver was asked where it is.
pub(crate) struct Asked {
    changes: u64,
    /// Of the first and the last block.
    edges: [Seen; 2],
    buffer: u64,
    after_own: bool,
    after_all: bool,
}

impl Shadow {
    /// Of a range of addresses in the buffer, what is not known to be at the place: neighbouring blocks joined.
    pub(crate) fn missing(
        &self,
        extent: &Extent<'_>,
        range: Range<usize>,
        place: Place,
    ) -> SmallVec<[Range<usize>; 1]> {
        let state = self.state.lock();
        let blocks = match &state.known {
            Known::Nothing => return smallvec![range],
            Known::Whole(at, stamps) if *at == place && *stamps == extent.stamps() => {
                return SmallVec::new();
            }
            Known::Whole(..) => return smallvec![range],
            Known::Blocks(blocks) => blocks,
        };
        let is_there = |block: usize| {
            let at = blocks[extent.index(block)];
            at.is_some_and(|(at, stamp)| at == place && extent.is_current(block, stamp))
        };
        let mut missing: SmallVec<[Range<usize>; 1]> = SmallVec::new();
        for block in blocks_of(&range) {
            if is_there(block) {
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

    /// A range moves to a place: enqueued, so everybody who looks comes after it. Where other work may come after it too, and take the
    /// range elsewhere, it is not known to be there.
    pub(crate) fn moved(
        &self,
        extent: &Extent<'_>,
        range: Range<usize>,
        place: Place,
        user: &User<'_>,
    ) {
        let mut state = self.state.lock();
        state.changes += 1;
        let touched = blocks_of(&range);
        let touch = |edge: usize| {
            let touched = touched.contains(&edge).then_some(edge)?;
            extent.neighbours.touch(touched, Some(place), user)
        };
        let [first, last] = extent.edges();
        let at_first = touch(first);
        let at_last = if last == first { at_first } else { touch(last) };
        let stays = state.stays(place) && (user.after_own || (user.after_all)());
        if range == extent.addresses
            && stays
            && let (Some(first), Some(last)) = (at_first, at_last)
        {
            state.known = Known::Whole(place, [first, last]);
            return;
        }
        let blocks = state.known.as_blocks(extent);
        for block in touched.clone() {
            let stamp = match block {
                _ if !stays => None,
                block if block == first => at_first,
                block if block == last => at_last,
                _ => Some(Stamp::default()),
            };
            let part = extent.part(block);
            let entry = &mut blocks[extent.index(block)];
            let whole = range.start <= part.start && part.end <= range.end;
            let was_there = entry.is_some_and(|(at, _)| at == place);
            match stamp {
                Some(stamp) if whole => *entry = Some((place, stamp)),
                Some(_) if was_there => {}
                _ => *entry = None,
            }
        }
    }

    /// Somebody uses the buffer, and may move any part of it.
    pub(crate) fn touched(&self, extent: &Extent<'_>, by: By, user: &User<'_>) {
        self.state.lock().touched(extent, by, user);
    }

    /// The host may touch the buffer from now on, until `let_go`.
    pub(crate) fn held(&self, extent: &Extent<'_>, by: By, user: &User<'_>) {
        let mut state = self.state.lock();
        state.guards += 1;
        if !(state.read_mostly && matches!(by, By::Reader(_))) {
            state.hold(extent);
        }
        state.touched(extent, by, user);
    }

    /// A guard of the host is gone.
    pub(crate) fn let_go(&self, extent: &Extent<'_>) {
        let mut state = self.state.lock();
        state.changes += 1;
        state.guards -= 1;
        if state.guards == 0 && std::mem::take(&mut state.holds) {
            extent
                .each_edge()
                .for_each(|edge| extent.neighbours.release(edge));
        }
    }

    /// All of the buffer is read-mostly from now on.
    pub(crate) fn set_read_mostly(&self) {
        let mut state = self.state.lock();
        state.changes += 1;
        state.read_mostly = true;
    }

    /// Some of the buffer may not be read-mostly any more, and be anywhere.
    pub(crate) fn unset_read_mostly(&self, extent: &Extent<'_>, user: &User<'_>) {
        let mut state = self.state.lock();
        state.read_mostly = false;
        if state.guards > 0 {
            state.hold(extent);
        }
        state.touched(extent, By::Unknown, user);
    }

    /// What is known of each block: the addresses of the buffer's part, and the place.
    pub(crate) fn known(&self, extent: &Extent<'_>) -> Vec<(Range<usize>, Option<Place>)> {
        let mut state = self.state.lock();
        let blocks = state.known.as_blocks(extent);
        let current = |block: usize, at: &Option<(Place, Stamp)>| {
            at.filter(|(_, stamp)| extent.is_current(block, *stamp))
                .map(|(place, _)| place)
        };
        extent
            .blocks()
            .zip(blocks.iter())
            .map(|(block, at)| (extent.part(block), current(block, at)))
            .collect()
    }

    /// The driver is going to be asked where each block is.
    pub(crate) fn ask(&self, extent: &Extent<'_>, user: &User<'_>) -> Asked {
        // In this order: what comes in between changes the blocks.
        let changes = self.state.lock().changes;
        let edges = extent.edges().map(|edge| extent.neighbours.see(edge));
        Asked {
            changes,
            edges,
            buffer: user.buffer,
            after_own: user.after_own,
            after_all: (user.after_all)(),
        }
    }

    /// What the driver said. Where work may still take a block elsewhere, or something has happened since, nothing is known by that.
    /// Whether it pays to ask once more: others were thought to be elsewhere, and what they do in the meantime would not have shown.
    pub(crate) fn correct(
        &self,
        extent: &Extent<'_>,
        asked: &Asked,
        places: &[Option<Place>],
    ) -> bool {
        let mut state = self.state.lock();
        if state.changes != asked.changes {
            return false;
        }
        state.changes += 1;
        let user = User {
            buffer: asked.buffer,
            after_own: asked.after_own,
            after_all: &|| asked.after_all,
            before: Later::All,
        };
        let [first, last] = extent.edges();
        let mut again = false;
        let mut found = |(block, place): (usize, &Option<Place>)| {
            let is_ordered = asked.after_own || asked.after_all;
            let place = place.filter(|place| is_ordered && state.stays(*place))?;
            let seen = match block {
                block if block == first => &asked.edges[0],
                block if block == last => &asked.edges[1],
                _ => return Some((place, Stamp::default())),
            };
            match extent.neighbours.found(block, seen, place, &user) {
                Found::There(stamp) => Some((place, stamp)),
                Found::AskAgain => {
                    again = true;
                    None
                }
                Found::Nothing => None,
            }
        };
        let known = extent.blocks().zip(places).map(&mut found).collect();
        state.known = Known::Blocks(known);
        again
    }
}

impl State {
    /// Whether what goes to a place is not taken back by the host at any time.
    fn stays(&self, place: Place) -> bool {
        place == Place::Host || self.guards == 0 || self.read_mostly
    }

    fn touched(&mut self, extent: &Extent<'_>, by: By, user: &User<'_>) {
        self.changes += 1;
        let stays = match by {
            By::Reader(_) if self.read_mostly => return,
            By::Reader(place) | By::Writer(place) => Some(place),
            By::Unknown => None,
        };
        self.known.keep(stays);
        extent.each_edge().for_each(|edge| {
            extent.neighbours.touch(edge, stays, user);
        });
    }

    /// Tells the neighbours, before they are told where the blocks go.
    fn hold(&mut self, extent: &Extent<'_>) {
        if !std::mem::replace(&mut self.holds, true) {
            extent
                .each_edge()
                .for_each(|edge| extent.neighbours.hold(edge));
        }
    }
}
