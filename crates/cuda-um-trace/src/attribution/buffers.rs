//! Finds buffers by address, for increasing times.

use super::Piece;
use crate::Buffer;
use std::collections::{BTreeSet, HashSet};
use std::iter::Peekable;
use std::vec::IntoIter;

/// Faults are reported by page: a buffer may begin later on the same page.
const PAGE: u64 = 4096;
/// The driver's unit of migration, at which the blocks of pools begin.
const BLOCK: u64 = 2 << 20;

pub(super) struct BufferIndex<'a> {
    buffers: &'a [Buffer],
    leaves: Layer,
    slabs: Layer,
}

impl<'a> BufferIndex<'a> {
    pub(super) fn new(buffers: &'a [Buffer]) -> Self {
        let slabs: HashSet<u64> = buffers.iter().filter_map(|buffer| buffer.slab).collect();
        let (outer, inner): (Vec<usize>, Vec<usize>) = (0..buffers.len())
            .filter(|&index| buffers[index].bytes > 0)
            .partition(|&index| slabs.contains(&buffers[index].id));
        Self {
            buffers,
            leaves: Layer::new(buffers, &inner),
            slabs: Layer::new(buffers, &outer),
        }
    }

    /// Advances to a time.
    pub(super) fn advance(&mut self, time: u64) {
        self.leaves.advance(self.buffers, time);
        self.slabs.advance(self.buffers, time);
    }

    /// Splits a record of this time at the borders of buffers. The bytes and times of the pieces add up to those of the record.
    pub(super) fn cut(&self, address: u64, bytes: u64, nanoseconds: u64, pieces: &mut Vec<Piece>) {
        let begin = pieces.len();
        let end = address.saturating_add(bytes);
        if end == address {
            pieces.push(Piece {
                buffer: self.at_page(address),
                address,
                bytes,
                nanoseconds,
                first: true,
            });
            return;
        }
        let mut position = address;
        while position < end {
            let buffer = self.at(position);
            let border = self.border(position, buffer, end);
            match pieces[begin..].last_mut() {
                // Memory behind a buffer that belongs to no buffer moved with it,
                Some(last) if last.buffer == buffer || buffer.is_none() => {
                    last.bytes += border - position;
                }
                // and so did memory before it.
                Some(last) if last.buffer.is_none() => {
                    last.buffer = buffer;
                    last.bytes += border - position;
                }
                _ => pieces.push(Piece {
                    buffer,
                    address: position,
                    bytes: border - position,
                    nanoseconds: 0,
                    first: position == address,
                }),
            }
            position = border;
        }
        // Bytes that were lost because the end address saturated.
        let cut: u64 = pieces[begin..].iter().map(|piece| piece.bytes).sum();
        if let Some(last) = pieces.last_mut() {
            last.bytes += bytes - cut;
        }
        share_time(&mut pieces[begin..], bytes, nanoseconds);
    }

    /// The next border behind an address in `buffer`; `end` if there is none.
    fn border(&self, address: u64, buffer: Option<usize>, end: u64) -> u64 {
        let end_of_buffer = |index| match end_of(&self.buffers[index]) {
            end if end > address => end,
            end => end.next_multiple_of(BLOCK),
        };
        let border = buffer.map_or(u64::MAX, end_of_buffer);
        border.min(self.next_begin(address)).min(end)
    }

    fn at(&self, address: u64) -> Option<usize> {
        self.leaves
            .at(address)
            .or_else(|| self.before(address))
            .or_else(|| self.slabs.at(address))
    }

    /// The buffer that ends in the same block of a slab before an address that belongs to no buffer: its pages move together with the rest of
    /// the block, which the pool gave to it or to none.
    fn before(&self, address: u64) -> Option<usize> {
        let slab = self.buffers[self.slabs.at(address)?].id;
        let index = self.leaves.before(address)?;
        let is_near = end_of(&self.buffers[index]).next_multiple_of(BLOCK) > address;
        (is_near && self.buffers[index].slab == Some(slab)).then_some(index)
    }

    /// Like `at`. If there is no buffer, or only a slab, a buffer that begins on the same page comes first.
    fn at_page(&self, address: u64) -> Option<usize> {
        let leaf = self.leaves.at(address);
        let near = || {
            let begin = self.leaves.next_begin(address)?;
            (begin / PAGE == address / PAGE).then(|| self.leaves.at(begin))?
        };
        leaf.or_else(near).or_else(|| self.at(address))
    }

    fn next_begin(&self, address: u64) -> u64 {
        let next = [&self.leaves, &self.slabs].map(|layer| layer.next_begin(address));
        next.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}

/// Buffers of one level. If some overlap at the same time, the one that begins last counts.
struct Layer {
    /// First bytes, in ascending order.
    begins: Vec<u64>,
    /// The live buffers at each of these addresses by the time of their allocation; the newest counts. There are several if memory is
    /// imported while another buffer has it.
    alive: Vec<BTreeSet<(Option<u64>, usize)>>,
    /// The end of the newest live buffer at each address.
    ends: Vec<u64>,
    /// Future events by time: allocations, and frees.
    made: Peekable<IntoIter<(Option<u64>, usize)>>,
    freed: Peekable<IntoIter<(u64, usize)>>,
}

impl Layer {
    fn new(buffers: &[Buffer], indices: &[usize]) -> Self {
        let mut begins: Vec<u64> = indices.iter().map(|&at| buffers[at].address).collect();
        begins.sort_unstable();
        begins.dedup();
        let made = indices.iter().map(|&at| (buffers[at].allocated, at));
        let freed = indices.iter().filter_map(|&at| {
            let freed = buffers[at].freed?;
            Some((freed.max(buffers[at].allocated.unwrap_or(0)), at))
        });
        Self {
            alive: vec![BTreeSet::new(); begins.len()],
            ends: vec![0; begins.len()],
            made: sorted(made),
            freed: sorted(freed),
            begins,
        }
    }

    /// The live buffer that begins last before an address.
    fn before(&self, address: u64) -> Option<usize> {
        let end = self.begins.partition_point(|&begin| begin <= address);
        self.newest(self.last_above(end, 0)?)
    }

    fn advance(&mut self, buffers: &[Buffer], time: u64) {
        let begins = &self.begins;
        let place = |index: usize| begins.partition_point(|&begin| begin < buffers[index].address);
        while let Some((at, index)) = self.made.next_if(|&(at, _)| at <= Some(time)) {
            let place = place(index);
            self.alive[place].insert((at, index));
            self.ends[place] = end_of(&buffers[index]);
        }
        while let Some((_, index)) = self.freed.next_if(|&(at, _)| at <= time) {
            let place = place(index);
            self.alive[place].remove(&(buffers[index].allocated, index));
            let newest = self.newest(place);
            self.ends[place] = newest.map_or(0, |newest| end_of(&buffers[newest]));
        }
    }

    /// The last place before `behind` whose newest live buffer ends above a limit.
    fn last_above(&self, behind: usize, limit: u64) -> Option<usize> {
        self.ends[..behind].iter().rposition(|&end| end > limit)
    }

    fn newest(&self, place: usize) -> Option<usize> {
        self.alive[place].last().map(|&(_, index)| index)
    }

    fn at(&self, address: u64) -> Option<usize> {
        let behind = self.begins.partition_point(|&begin| begin <= address);
        self.newest(self.last_above(behind, address)?)
    }

    /// The address at which the next live buffer begins.
    fn next_begin(&self, address: u64) -> Option<u64> {
        let behind = self.begins.partition_point(|&begin| begin <= address);
        let place = self.ends[behind..].iter().position(|&end| end > 0)?;
        Some(self.begins[behind + place])
    }
}

fn sorted<T: Ord>(all: impl Iterator<Item = T>) -> Peekable<IntoIter<T>> {
    let mut all: Vec<T> = all.collect();
    all.sort_unstable();
    all.into_iter().peekable()
}

fn end_of(buffer: &Buffer) -> u64 {
    buffer.address.saturating_add(buffer.bytes)
}

fn share_time(pieces: &mut [Piece], bytes: u64, nanoseconds: u64) {
    let until =
        |sum: u64| (u128::from(nanoseconds) * u128::from(sum) / u128::from(bytes.max(1))) as u64;
    let mut sum = 0;
    for piece in pieces {
        let before = until(sum);
        sum += piece.bytes;
        piece.nanoseconds = until(sum) - before;
    }
}
