//! Checks of lengths and ranges for memory that CUDA does not manage. `cuda_um` checks its own buffers in the same words.

use std::ops::Range;

use cuda_um::{Error, Result};

/// A range of elements within `0..len`.
pub(crate) fn check(range: Range<usize>, len: usize) -> Result<Range<usize>> {
    let Range { start, end } = range;
    if start <= end && end <= len {
        Ok(range)
    } else {
        Err(Error::RangeOutOfBounds { start, end, len })
    }
}

/// The range `offset..offset + count` within `0..len`.
pub(crate) fn check_at(offset: usize, count: usize, len: usize) -> Result<Range<usize>> {
    match offset.checked_add(count) {
        Some(end) => check(offset..end, len),
        None => Err(Error::RangeOutOfBounds {
            start: offset,
            end: usize::MAX,
            len,
        }),
    }
}

/// Refuses two lengths that differ.
pub(crate) fn same_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        Ok(())
    } else {
        Err(Error::LengthMismatch {
            what,
            expected,
            found,
        })
    }
}
