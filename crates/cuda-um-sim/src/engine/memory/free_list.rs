//! Free addresses. Allocations take them in rotation, so that a freed address is reused as late as possible.

use std::collections::BTreeMap;

/// Free ranges by start, as offsets into the address space.
#[derive(Debug)]
pub(crate) struct FreeList {
    free: BTreeMap<usize, usize>,
    cursor: usize,
}

impl FreeList {
    /// All of `0..len` is free.
    pub(crate) fn new(len: usize) -> FreeList {
        FreeList {
            free: BTreeMap::from([(0, len)]),
            cursor: 0,
        }
    }

    /// Takes `len` bytes at a multiple of `align`: the first that fit after the range that was taken last.
    pub(crate) fn take(&mut self, len: usize, align: usize) -> Option<usize> {
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
            .or_else(|| self.free.iter().find_map(|piece| fits(piece, 0)));
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

    #[test]
    fn a_freed_range_is_reused_only_after_the_rest() {
        let mut list = FreeList::new(4096);
        let first = list.take(1024, 1024).unwrap();
        list.give(first, 1024);
        assert_eq!(list.take(1024, 1024), Some(1024));
        assert_eq!(list.take(1024, 1024), Some(2048));
        assert_eq!(list.take(1024, 1024), Some(3072));
        assert_eq!(list.take(1024, 1024), Some(0));
        assert_eq!(list.take(1024, 1024), None);
    }

    #[test]
    fn freed_neighbours_join() {
        let mut list = FreeList::new(4096);
        for _ in 0..4 {
            list.take(1024, 1024).unwrap();
        }
        list.give(0, 1024);
        list.give(2048, 1024);
        list.give(1024, 1024);
        assert_eq!(list.take(3072, 1024), Some(0));
    }

    #[test]
    fn alignment_is_kept() {
        let mut list = FreeList::new(1 << 20);
        list.take(100, 1).unwrap();
        assert_eq!(list.take(100, 4096), Some(4096));
    }
}
