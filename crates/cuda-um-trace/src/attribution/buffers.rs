//! Buffers by address and time.

use super::Piece;
use crate::Buffer;
use std::collections::{BTreeMap, HashSet};
use std::ops::Bound::{Excluded, Unbounded};

/// Faults are told by page: a buffer may begin later on the same one.
const PAGE: u64 = 4096;

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
            leaves: Layer::new(buffers, inner),
            slabs: Layer::new(buffers, outer),
        }
    }

    /// Cuts a record at the borders of buffers; the pieces' bytes and times add up to the record's.
    pub(super) fn cut(
        &self,
        address: u64,
        bytes: u64,
        time: u64,
        nanoseconds: u64,
        pieces: &mut Vec<Piece>,
    ) {
        let begin = pieces.len();
        let end = address.saturating_add(bytes);
        if end == address {
            pieces.push(Piece {
                buffer: self.at_page(address, time),
                address,
                bytes,
                nanoseconds,
                first: true,
            });
            return;
        }
        let mut position = address;
        while position < end {
            let buffer = self.at(position, time);
            let border = buffer
                .map_or(u64::MAX, |index| end_of(&self.buffers[index]))
                .min(self.next_begin(position))
                .min(end);
            match pieces[begin..].last_mut() {
                // What lies behind a buffer and is nobody's moved along with it.
                Some(last) if last.buffer == buffer || buffer.is_none() => {
                    last.bytes += border - position;
                }
                // … as did what lies before it.
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
        // Bytes that a saturated end would have lost.
        let cut: u64 = pieces[begin..].iter().map(|piece| piece.bytes).sum();
        if let Some(last) = pieces.last_mut() {
            last.bytes += bytes - cut;
        }
        share_time(&mut pieces[begin..], bytes, nanoseconds);
    }

    fn at(&self, address: u64, time: u64) -> Option<usize> {
        self.leaves
            .at(self.buffers, address, time)
            .or_else(|| self.slabs.at(self.buffers, address, time))
    }

    /// Like `at`; where only a slab, or nothing, is, a buffer that begins on the same page comes first.
    fn at_page(&self, address: u64, time: u64) -> Option<usize> {
        let leaf = self.leaves.at(self.buffers, address, time);
        let near = || {
            let begin = self.leaves.next_begin(address)?;
            (begin / PAGE == address / PAGE).then(|| self.leaves.at(self.buffers, begin, time))?
        };
        leaf.or_else(near)
            .or_else(|| self.slabs.at(self.buffers, address, time))
    }

    fn next_begin(&self, address: u64) -> u64 {
        let next = [&self.leaves, &self.slabs].map(|layer| layer.next_begin(address));
        next.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}

/// Buffers that do not overlap at any one time.
struct Layer {
    /// By first byte, in order of time.
    begins: BTreeMap<u64, Vec<usize>>,
    /// The longest buffer ever.
    longest: u64,
}

impl Layer {
    fn new(buffers: &[Buffer], mut indices: Vec<usize>) -> Self {
        indices.sort_by_key(|&index| (buffers[index].allocated, index));
        let mut begins: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for &index in &indices {
            begins
                .entry(buffers[index].address)
                .or_default()
                .push(index);
        }
        let longest = indices.iter().map(|&index| buffers[index].bytes).max();
        Self {
            begins,
            longest: longest.unwrap_or(0),
        }
    }

    fn at(&self, buffers: &[Buffer], address: u64, time: u64) -> Option<usize> {
        let reach = address.saturating_sub(self.longest)..=address;
        let mut groups = self.begins.range(reach).rev();
        groups.find_map(|(_, group)| {
            // At one address lifetimes follow each other: only the last one that was made by then can be alive.
            let made = group.partition_point(|&index| buffers[index].allocated <= Some(time));
            let last = *group.get(made.checked_sub(1)?)?;
            let buffer = &buffers[last];
            let alive = buffer.freed.is_none_or(|freed| time < freed);
            (alive && address < end_of(buffer)).then_some(last)
        })
    }

    fn next_begin(&self, address: u64) -> Option<u64> {
        let mut later = self.begins.range((Excluded(address), Unbounded));
        later.next().map(|(&begin, _)| begin)
    }
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
