//! Free addresses. Allocations take them in rotation, so that a freed address is reused as late as possible.

use std::collections::BTreeMap;
use std::ops::Range;

/// Free ranges by start.
#[derive(Debug, Default)]
pub(crate) struct FreeList {
    free: BTreeMap<usize, usize>,
    cursor: usize,
}

impl FreeList {
    /// Adds addresses that were never taken, which the next allocations take.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        self.cursor = range.start;
        self.free.insert(range.start, range.end);
    }

    /// Takes `len` bytes at a multiple of `align`: the first that fit after the range that was taken last, or otherwise, with `again`, the
    /// first that fit.
    pub(crate) fn take(&mut self, len: usize, align: usize, again: bool) -> Option<usize> {
        let fits = |(&start, &end): (&usize, &usize), from: usize| {
            let at = start.max(from).next_multiple_of(align);
            (at.checked_add(len)? <= end).then_some((start, end, at))
        };
        let cursor = self.cursor;
        // The piece that contains the cursor starts before it.
        let inside = self
            .free
            .range(..cursor)
            .next_back()
            .and_then(|piece| fits(piece, cursor));
        let found = inside
            .or_else(|| self.free.range(cursor..).find_map(|piece| fits(piece, 0)))
            .or_else(|| {
                self.free
                    .iter()
                    .filter(|_| again)
                    .find_map(|piece| fits(piece, 0))
            });
        let (start, end, at) = found?;
        self.free.remove(&start);
        if start < at {
            self.free.insert(start, at);
        }
        if at + len < end {
            self.free.insert(at + len, end);
        }
        self.cursor = at + len;
        Some(at)
    }

    /// Returns a range that was taken.
    pub(crate) fn give(&mut self, at: usize, len: usize) {
        let (mut start, mut end) = (at, at + len);
        if let Some((&before, &before_end)) = self.free.range(..at).next_back()
            && before_end == at
        {
            self.free.remove(&before);
            start = before;
        }
        if let Some(&after_end) = self.free.get(&end) {
            self.free.remove(&end);
            end = after_end;
        }
        self.free.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_of(len: usize) -> FreeList {
        let mut list = FreeList::default();
        list.add(0..len);
        list
    }

    #[test]
    fn a_freed_range_is_reused_only_after_the_rest() {
        let mut list = list_of(4096);
        let first = list.take(1024, 1024, true).unwrap();
        list.give(first, 1024);
        assert_eq!(list.take(1024, 1024, true), Some(1024));
        assert_eq!(list.take(1024, 1024, true), Some(2048));
        assert_eq!(list.take(1024, 1024, true), Some(3072));
        assert_eq!(list.take(1024, 1024, false), None);
        assert_eq!(list.take(1024, 1024, true), Some(0));
        assert_eq!(list.take(1024, 1024, true), None);
    }

    #[test]
    fn freed_neighbours_join() {
        let mut list = list_of(4096);
        for _ in 0..4 {
            list.take(1024, 1024, true).unwrap();
        }
        list.give(0, 1024);
        list.give(2048, 1024);
        list.give(1024, 1024);
        assert_eq!(list.take(3072, 1024, true), Some(0));
    }

    #[test]
    fn alignment_is_kept() {
        let mut list = list_of(1 << 20);
        list.take(100, 1, true).unwrap();
        assert_eq!(list.take(100, 4096, true), Some(4096));
    }
}
