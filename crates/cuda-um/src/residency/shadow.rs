//! The residency shadow: what the library remembers of where a buffer's pages are, so that it need not ask for what is so already.
//!
//! Nothing depends on it but which prefetches are left out. It counts what this library does: prefetches set it, host guards, kernels on
//! other devices, copies and advice clear it, in part or wholly. What is done past the library it does not see; where that matters,
//! `UnifiedBuffer::forget_residency` clears it.

use super::neighbours::{BLOCK, Neighbours, Stamp, User};
use crate::location::Location;
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
    /// All of it is read-mostly: reads leave the pages where they are.
    read_mostly: bool,
}

/// By blocks of 2 MiB of addresses, of which the first and the last may belong to other buffers, too.
#[derive(Default)]
enum Known {
    #[default]
    Nothing,
    /// All of it is there, unless something has happened to the first or last block since.
    Whole(Place, [Stamp; 2]),
    Blocks(Vec<Option<(Place, Stamp)>>),
}

/// The addresses of a buffer, and what others do with the blocks that it shares.
#[derive(Clone)]
pub(crate) struct Extent<'a> {
    pub(crate) addresses: Range<usize>,
    pub(crate) neighbours: &'a Neighbours,
}

impl Extent<'_> {
    fn first_block(&self) -> usize {
        self.addresses.start / BLOCK
    }

    /// The numbers of the blocks.
    fn blocks(&self) -> Range<usize> {
        self.first_block()..self.addresses.end.div_ceil(BLOCK)
    }

    /// Its parts of all blocks.
    pub(crate) fn parts(&self) -> Vec<Range<usize>> {
        self.blocks().map(|block| self.part(block)).collect()
    }

    /// Its part of a block.
    fn part(&self, block: usize) -> Range<usize> {
        let start = (block * BLOCK).max(self.addresses.start);
        start..((block + 1) * BLOCK).min(self.addresses.end)
    }

    /// The blocks that it may share.
    fn edges(&self) -> [usize; 2] {
        let blocks = self.blocks();
        [blocks.start, blocks.end.saturating_sub(1)]
    }

    fn stamps(&self) -> [Stamp; 2] {
        self.edges().map(|block| self.neighbours.stamp(block))
    }

    /// Tells the neighbours of a part of the buffer.
    fn touch(&self, part: &Range<usize>, place: Option<Place>, user: &User<'_>) {
        let blocks = part.start / BLOCK..part.end.div_ceil(BLOCK);
        let [first, last] = self.edges();
        for edge in [Some(first), (last != first).then_some(last)] {
            if let Some(edge) = edge.filter(|edge| blocks.contains(edge)) {
                self.neighbours.touch(edge, place, user);
            }
        }
    }
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
            let at = blocks[block - extent.first_block()];
            at.is_some_and(|(at, stamp)| at == place && extent.is_current(block, stamp))
        };
        let mut missing: SmallVec<[Range<usize>; 1]> = SmallVec::new();
        for block in range.start / BLOCK..range.end.div_ceil(BLOCK) {
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
        extent.touch(&range, Some(place), user);
        let is_settled =
            |block: usize| !extent.edges().contains(&block) || extent.neighbours.is_settled(block);
        if range == extent.addresses && extent.edges().into_iter().all(is_settled) {
            state.known = Known::Whole(place, extent.stamps());
            return;
        }
        let is_ordered = user.after_own || (user.after_all)();
        let blocks = state.known.as_blocks(extent);
        for block in range.start / BLOCK..range.end.div_ceil(BLOCK) {
            let part = extent.part(block);
            let entry = &mut blocks[block - extent.first_block()];
            let whole = range.start <= part.start && part.end <= range.end;
            if !is_settled(block) || !is_ordered {
                *entry = None;
            } else if whole {
                *entry = Some((place, extent.neighbours.stamp(block)));
            } else if entry.is_none_or(|(at, _)| at != place) {
                *entry = None;
            }
        }
    }

    /// Somebody uses the buffer, and may move any part of it.
    pub(crate) fn touched(&self, extent: &Extent<'_>, by: By, user: &User<'_>) {
        let mut state = self.state.lock();
        let stays = match by {
            By::Reader(_) if state.read_mostly => return,
            By::Reader(place) | By::Writer(place) => Some(place),
            By::Unknown => None,
        };
        state.known.keep(stays);
        extent.touch(&extent.addresses, stays, user);
    }

    /// All of the buffer is read-mostly from now on, or some of it may not be.
    pub(crate) fn set_read_mostly(&self, read_mostly: bool) {
        self.state.lock().read_mostly = read_mostly;
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

    /// The driver says where each block is.
    pub(crate) fn correct(&self, extent: &Extent<'_>, places: &[Option<Place>]) {
        let blocks = extent.blocks().zip(places);
        self.state.lock().known = Known::Blocks(
            blocks
                .map(|(block, place)| place.map(|place| (place, extent.neighbours.stamp(block))))
                .collect(),
        );
    }
}

impl Extent<'_> {
    /// Whether nothing has happened to a block since; to those in the middle nothing of others can.
    fn is_current(&self, block: usize, stamp: Stamp) -> bool {
        !self.edges().contains(&block) || self.neighbours.stamp(block) == stamp
    }
}

impl Known {
    fn as_blocks(&mut self, extent: &Extent<'_>) -> &mut Vec<Option<(Place, Stamp)>> {
        let blocks = extent.blocks();
        let unfolded = match self {
            Self::Nothing => Some(vec![None; blocks.len()]),
            Self::Whole(place, [first, last]) => {
                let mut all = vec![Some((*place, *first)); blocks.len()];
                if let Some(entry) = all.last_mut() {
                    *entry = Some((*place, if blocks.len() > 1 { *last } else { *first }));
                }
                Some(all)
            }
            Self::Blocks(_) => None,
        };
        if let Some(blocks) = unfolded {
            *self = Self::Blocks(blocks);
        }
        match self {
            Self::Blocks(blocks) => blocks,
            _ => unreachable!("unfolded above"),
        }
    }

    /// Forgets what is not at this place.
    fn keep(&mut self, place: Option<Place>) {
        match self {
            Self::Nothing => {}
            Self::Whole(at, _) if Some(*at) == place => {}
            Self::Whole(..) => *self = Self::Nothing,
            Self::Blocks(blocks) => {
                for entry in blocks {
                    *entry = entry.filter(|(at, _)| Some(*at) == place);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(
        clippy::single_range_in_vec_init,
        reason = "ranges are what is compared"
    )]

    use super::*;

    const GPU: Place = Place::Device(0);

    impl Shadow {
        fn is_there(&self, extent: &Extent<'_>, range: Range<usize>, place: Place) -> bool {
            self.missing(extent, range, place).is_empty()
        }
    }

    /// A user that nothing runs beside.
    const ALONE: User<'static> = User {
        buffer: 1,
        after_own: true,
        after_all: &|| true,
    };

    fn extent(neighbours: &Neighbours, addresses: Range<usize>) -> Extent<'_> {
        Extent {
            addresses,
            neighbours,
        }
    }

    #[test]
    fn what_was_moved_is_there_until_somebody_else_touches_it() {
        let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
        let of = extent(&neighbours, BLOCK..4 * BLOCK);
        let all = of.addresses.clone();
        assert!(!shadow.is_there(&of, all.clone(), GPU));
        shadow.moved(&of, all.clone(), GPU, &ALONE);
        assert!(shadow.is_there(&of, all.clone(), GPU));
        assert!(!shadow.is_there(&of, all.clone(), Place::Host));
        for (by, stays) in [
            (By::Reader(GPU), true),
            (By::Writer(GPU), true),
            (By::Reader(Place::Device(1)), false),
            (By::Reader(Place::Host), false),
            (By::Writer(Place::Host), false),
            (By::Unknown, false),
        ] {
            shadow.moved(&of, all.clone(), GPU, &ALONE);
            shadow.touched(&of, by, &ALONE);
            assert_eq!(shadow.is_there(&of, all.clone(), GPU), stays, "{by:?}");
        }
    }

    #[test]
    fn only_what_is_missing_is_named() {
        let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
        let of = extent(&neighbours, BLOCK / 2..5 * BLOCK + 100);
        shadow.moved(&of, 2 * BLOCK..3 * BLOCK, GPU, &ALONE);
        shadow.moved(&of, 3 * BLOCK..3 * BLOCK + 10, GPU, &ALONE);
        assert_eq!(
            *shadow.missing(&of, of.addresses.clone(), GPU),
            [BLOCK / 2..2 * BLOCK, 3 * BLOCK..5 * BLOCK + 100],
            "half a block is not known to be there"
        );
        assert_eq!(
            *shadow.missing(&of, 2 * BLOCK + 5..3 * BLOCK + 5, GPU),
            [3 * BLOCK..3 * BLOCK + 5]
        );
        shadow.moved(&of, of.addresses.clone(), GPU, &ALONE);
        shadow.moved(&of, 4 * BLOCK..5 * BLOCK, Place::Host, &ALONE);
        assert_eq!(
            *shadow.missing(&of, of.addresses.clone(), GPU),
            [4 * BLOCK..5 * BLOCK]
        );
        shadow.touched(&of, By::Writer(GPU), &ALONE);
        assert_eq!(
            *shadow.missing(&of, of.addresses.clone(), GPU),
            [4 * BLOCK..5 * BLOCK]
        );
    }

    #[test]
    fn neighbours_in_a_block_count_and_others_do_not() {
        let neighbours = Neighbours::default();
        let (a, b, c) = (Shadow::default(), Shadow::default(), Shadow::default());
        let of_a = extent(&neighbours, BLOCK..BLOCK + 4096);
        let of_b = extent(&neighbours, BLOCK + 4096..BLOCK + 8192);
        let of_c = extent(&neighbours, 7 * BLOCK..8 * BLOCK);
        let there =
            |shadow: &Shadow, of: &Extent<'_>| shadow.is_there(of, of.addresses.clone(), GPU);
        for (shadow, of) in [(&a, &of_a), (&b, &of_b), (&c, &of_c)] {
            shadow.moved(of, of.addresses.clone(), GPU, &ALONE);
        }
        assert!(there(&a, &of_a) && there(&b, &of_b) && there(&c, &of_c));
        // The CPU may have taken all of the block along.
        b.touched(&of_b, By::Reader(Place::Host), &ALONE);
        assert!(!there(&a, &of_a) && there(&c, &of_c));
    }

    #[test]
    fn what_a_neighbour_may_still_take_is_not_known_to_be_there() {
        let (neighbours, a, b) = (Neighbours::default(), Shadow::default(), Shadow::default());
        let of_a = extent(&neighbours, BLOCK..BLOCK + 4096);
        let of_b = extent(&neighbours, BLOCK + 4096..BLOCK + 8192);
        let all = of_b.addresses.clone();
        let user = |buffer, after_all| User {
            buffer,
            after_own: true,
            after_all,
        };
        a.touched(&of_a, By::Reader(Place::Device(1)), &user(1, &|| false));
        for _ in 0..2 {
            b.moved(&of_b, all.clone(), GPU, &user(2, &|| false));
            assert!(
                !b.is_there(&of_b, all.clone(), GPU),
                "the read may come later"
            );
        }
        b.moved(&of_b, all.clone(), GPU, &user(2, &|| true));
        assert!(b.is_there(&of_b, all.clone(), GPU));
    }

    #[test]
    fn reads_beside_a_move_of_the_buffer_count() {
        let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
        let of = extent(&neighbours, BLOCK..4 * BLOCK);
        let all = of.addresses.clone();
        let user = |after_own| User {
            buffer: 1,
            after_own,
            after_all: &|| false,
        };
        shadow.touched(&of, By::Reader(Place::Device(1)), &user(true));
        shadow.moved(&of, all.clone(), GPU, &user(false));
        assert!(
            !shadow.is_there(&of, 2 * BLOCK..3 * BLOCK, GPU),
            "not even the middle"
        );
        shadow.moved(&of, all.clone(), GPU, &user(true));
        assert!(shadow.is_there(&of, all, GPU));
    }

    #[test]
    fn reading_read_mostly_memory_moves_nothing() {
        let (neighbours, shadow) = (Neighbours::default(), Shadow::default());
        let of = extent(&neighbours, 0..BLOCK);
        shadow.set_read_mostly(true);
        shadow.moved(&of, 0..BLOCK, GPU, &ALONE);
        shadow.touched(&of, By::Reader(Place::Host), &ALONE);
        assert!(shadow.is_there(&of, 0..BLOCK, GPU));
        shadow.touched(&of, By::Writer(Place::Host), &ALONE);
        assert!(!shadow.is_there(&of, 0..BLOCK, GPU));
    }
}
