//! Checks of lengths and ranges, which all pointer arithmetic of this crate relies on.

use crate::error::{Error, Result};
use std::ops::{Bound, Range, RangeBounds};

/// The size of `len` elements in bytes.
///
/// # Errors
///
/// [`Error::TooLarge`].
pub fn size_bytes<T>(len: usize) -> Result<usize> {
    // Rust's limit for the size of an object: the memory must be usable as a slice.
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) if isize::try_from(bytes).is_ok() => Ok(bytes),
        _ => Err(Error::TooLarge {
            len,
            element_bytes: size_of::<T>(),
        }),
    }
}

/// Checks that a range of elements is within `0..len`.
///
/// # Errors
///
/// [`Error::RangeOutOfBounds`].
pub fn check(range: impl RangeBounds<usize>, len: usize) -> Result<Range<usize>> {
    let start = match range.start_bound() {
        Bound::Included(&start) => Some(start),
        Bound::Excluded(&before) => before.checked_add(1),
        Bound::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.checked_add(1),
        Bound::Excluded(&end) => Some(end),
        Bound::Unbounded => Some(len),
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= len => Ok(start..end),
        // A bound that exceeds `usize` is reported as `usize::MAX`.
        _ => Err(Error::RangeOutOfBounds {
            start: start.unwrap_or(usize::MAX),
            end: end.unwrap_or(usize::MAX),
            len,
        }),
    }
}

/// Checks that `offset..offset + count` is within `0..len`, and returns it.
///
/// # Errors
///
/// [`Error::RangeOutOfBounds`].
pub fn check_at(offset: usize, count: usize, len: usize) -> Result<Range<usize>> {
    match offset.checked_add(count) {
        Some(end) => check(offset..end, len),
        None => Err(Error::RangeOutOfBounds {
            start: offset,
            end: usize::MAX,
            len,
        }),
    }
}

/// Converts a checked range of elements to bytes.
///
/// # Panics
///
/// If the bytes exceed `usize`: the range was not checked against the length of a buffer that [`size_bytes`] accepted.
pub fn to_bytes<T>(range: &Range<usize>) -> Range<usize> {
    let bytes = |elements: usize| {
        let bytes = elements.checked_mul(size_of::<T>());
        bytes.expect("a range within a buffer")
    };
    bytes(range.start)..bytes(range.end)
}

/// Refuses two lengths that differ.
///
/// # Errors
///
/// [`Error::LengthMismatch`].
pub fn same_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
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

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Small numbers, and numbers near the limits.
    fn number() -> impl Strategy<Value = usize> {
        let near = |end: usize| (0..5_usize).prop_map(move |by| end.saturating_sub(by));
        prop_oneof![
            0..10_usize,
            any::<usize>(),
            near(usize::MAX),
            near(isize::MAX as usize + 3),
            near(isize::MAX as usize / 4 + 3),
        ]
    }

    fn bound() -> impl Strategy<Value = Bound<usize>> {
        prop_oneof![
            Just(Bound::Unbounded),
            number().prop_map(Bound::Included),
            number().prop_map(Bound::Excluded),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: crate::cases::cases(20_000), failure_persistence: None, ..ProptestConfig::default() })]

        /// claim 5
        #[test]
        fn ranges_are_what_arithmetic_without_end_says(start in bound(), end in bound(), len in number()) {
            let from = match start {
                Bound::Included(start) => start as u128,
                Bound::Excluded(before) => before as u128 + 1,
                Bound::Unbounded => 0,
            };
            let to = match end {
                Bound::Included(last) => last as u128 + 1,
                Bound::Excluded(end) => end as u128,
                Bound::Unbounded => len as u128,
            };
            if let (Bound::Included(at), Bound::Excluded(end)) = (start, end) && at <= end {
                prop_assert_eq!(check_at(at, end - at, len).ok(), check(at..end, len).ok());
            }
            match check((start, end), len) {
                Ok(range) => {
                    prop_assert!(from <= to && to <= len as u128);
                    prop_assert_eq!((range.start as u128, range.end as u128), (from, to));
                }
                Err(Error::RangeOutOfBounds { start, end, len: of }) => {
                    prop_assert!(from > to || to > len as u128);
                    let most = usize::MAX as u128;
                    prop_assert_eq!((start as u128, end as u128, of), (from.min(most), to.min(most), len));
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }

        #[test]
        fn sizes_are_what_arithmetic_without_end_says(len in number(), start in number(), end in number()) {
            fn sizes<T>(len: usize, start: usize, end: usize) -> Result<(), TestCaseError> {
                let bytes = len as u128 * size_of::<T>() as u128;
                let Ok(found) = size_bytes::<T>(len) else {
                    prop_assert!(bytes > isize::MAX as u128);
                    return Ok(());
                };
                prop_assert!(bytes <= isize::MAX as u128);
                prop_assert_eq!(found as u128, bytes);
                // Within a valid buffer, no range in bytes overflows.
                if let Ok(range) = check(start..end, len) {
                    let in_bytes = to_bytes::<T>(&range);
                    prop_assert_eq!(in_bytes.start as u128, range.start as u128 * size_of::<T>() as u128);
                    prop_assert!(in_bytes.start <= in_bytes.end && in_bytes.end <= found);
                }
                Ok(())
            }
            sizes::<u8>(len, start, end)?;
            sizes::<u32>(len, start, end)?;
            sizes::<[u8; 12]>(len, start, end)?;
            sizes::<[u64; 512]>(len, start, end)?;
        }
    }

    #[test]
    fn an_offset_beyond_the_address_space_is_out_of_bounds() {
        let end = usize::MAX;
        let refused = check_at(3, end, end);
        assert!(
            matches!(refused, Err(Error::RangeOutOfBounds { start: 3, end: found, .. }) if found == end)
        );
    }

    #[test]
    #[should_panic(expected = "a range within a buffer")]
    fn a_range_of_no_buffer_does_not_wrap_around() {
        to_bytes::<u64>(&(0..usize::MAX / 8 + 1));
    }
}
