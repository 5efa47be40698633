//! Lengths and ranges that must be refused.

use std::ops::Range;

use cuda_um::{Advice, Location};

use super::failure::{Rule, Verdict};
use super::sample::{made_with, samples};
use super::{LENGTHS, Make};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};

/// A call, its name, and the buffer that it writes.
type Row<T, A> = (&'static str, fn(&mut dyn Buffer<T>, A) -> Result<()>);

pub(super) fn of_one<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::Refusals;
    let of_lengths: [Row<T, usize>; 2] = [
        ("copy_from_host", |b, len| {
            b.copy_from_host(&samples(50, len))
        }),
        ("copy_to_host", |b, len| {
            unwritten(len, |target| b.copy_to_host(target))
        }),
    ];
    let of_ranges: [Row<T, Range<usize>>; 10] = [
        ("copy_from_host_at", |b, range| {
            b.copy_from_host_at(range.start, &samples(50, count(&range)))
        }),
        ("copy_to_host_at", |b, range| {
            let at = range.start;
            unwritten(count(&range), |target| b.copy_to_host_at(at, target))
        }),
        ("fill_range", |b, range| {
            b.fill_range(range, samples(3, 1)[0])
        }),
        ("copy_within from", |b, range| b.copy_within(range, 0)),
        ("copy_within to", |b, range| {
            // Longer than the buffer, the source is refused.
            b.copy_within(0..range.len(), range.start)
        }),
        ("write_to", |b, range| b.write_to(&mut Vec::new(), range)),
        ("read_from", |b, range| b.read_from(&mut &[][..], range)),
        ("advise_range", |b, range| {
            b.advise_range(range, Advice::SetReadMostly).map(drop)
        }),
        ("prefetch_range", |b, range| {
            b.prefetch_range(range, Location::Host).map(drop)
        }),
        ("read_one", |b, range| b.read_one(range.start).map(drop)),
    ];
    for len in LENGTHS {
        let mut buffer = made_with(rule, make, 1, len)?.0;
        for other in others(len) {
            for (name, call) in of_lengths {
                let what = format!("{name} with {other}");
                rule.refused(
                    &what,
                    &mut *buffer,
                    |b| call(b, other),
                    names_lengths(len, other),
                )?;
            }
        }
        for range in outside(len) {
            for (name, call) in of_ranges {
                let names = match name {
                    "copy_within to" if range.len() > len => 0..range.len(),
                    "read_one" if range.start < len => continue,
                    "read_one" => range.start..range.start.saturating_add(1),
                    _ => range.clone(),
                };
                let what = format!("{name} with {range:?}");
                rule.refused(
                    &what,
                    &mut *buffer,
                    |b| call(b, range.clone()),
                    names_range(&names, len),
                )?;
            }
        }
        let too_long = |error: &CudaError| {
            matches!(
                error,
                CudaError::TooLarge { .. } | CudaError::OutOfMemory { .. }
            )
        };
        let clone = |b: &mut dyn Buffer<T>| b.clone_empty(usize::MAX).map(drop);
        rule.refused("clone_empty(usize::MAX)", &mut *buffer, clone, too_long)?;
        let bytes = len * size_of::<T>();
        if len > 0 {
            // The elements before the early end may be written: they are the same.
            let file = samples::<T>(1, len);
            let mut short = &bytemuck::cast_slice::<T, u8>(&file)[..bytes - 1];
            let ends_early = |error: &CudaError| matches!(error, CudaError::Io { total_bytes, .. } if *total_bytes == bytes);
            let read = |b: &mut dyn Buffer<T>| b.read_from(&mut short, 0..len);
            rule.refused("read_from a short file", &mut *buffer, read, ends_early)?;
        }
    }
    Ok(())
}

pub(super) fn of_pair<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    let (rule, len, source_len) = (Rule::Refusals, 3, 5);
    let mut target = made_with(rule, target, 1, len)?.0;
    let source = made_with(rule, source, 2, source_len)?.0;
    let copy = |b: &mut dyn Buffer<T>| b.copy_from_buffer(&*source);
    rule.refused(
        "copy_from_buffer",
        &mut *target,
        copy,
        names_lengths(len, source_len),
    )?;
    #[allow(clippy::reversed_empty_ranges, reason = "the wrong input")]
    let beyond_source = [4..6, 5..6, 6..6, 2..1, usize::MAX..usize::MAX];
    for range in beyond_source {
        let what = format!("copy_from_buffer_at from {range:?}");
        let copy = |b: &mut dyn Buffer<T>| b.copy_from_buffer_at(0, &*source, range.clone());
        rule.refused(&what, &mut *target, copy, names_range(&range, source_len))?;
    }
    for (at, count) in [(0, 4), (2, 2), (3, 1), (4, 0), (usize::MAX, 1)] {
        let what = format!("copy_from_buffer_at of {count} to {at}");
        let copy = |b: &mut dyn Buffer<T>| b.copy_from_buffer_at(at, &*source, 0..count);
        let names = at..at.saturating_add(count);
        rule.refused(&what, &mut *target, copy, names_range(&names, len))?;
    }
    Ok(())
}

/// Lengths that are not that of the buffer.
fn others(len: usize) -> impl Iterator<Item = usize> {
    let others = [len + 1, 2 * len + 7, len.saturating_sub(1), 0];
    others.into_iter().filter(move |other| *other != len)
}

/// Ranges that are not within the length.
fn outside(len: usize) -> [Range<usize>; 6] {
    [
        len..len + 1,
        len.saturating_sub(1)..len + 1,
        0..len + 1,
        len + 1..len + 1,
        usize::MAX - 1..usize::MAX,
        usize::MAX..usize::MAX,
    ]
}

/// The elements of a range. At the last address there is one, whose end no number has.
fn count(range: &Range<usize>) -> usize {
    range.len().max(usize::from(range.start == usize::MAX))
}

/// The outcome of a copy to the host; `Ok` if it wrote, so that it counts as not refused.
fn unwritten<T: Element>(len: usize, copy: impl FnOnce(&mut [T]) -> Result<()>) -> Result<()> {
    let mut target = samples(50, len);
    let outcome = copy(&mut target);
    match target == samples(50, len) {
        true => outcome,
        false => Ok(()),
    }
}

/// [`CudaError::LengthMismatch`] with these lengths.
fn names_lengths(buffer: usize, other: usize) -> impl FnOnce(&CudaError) -> bool {
    move |error| {
        matches!(*error, CudaError::LengthMismatch { expected, found, .. }
            if (expected, found) == (buffer, other))
    }
}

/// [`CudaError::RangeOutOfBounds`] with these values.
fn names_range(range: &Range<usize>, of: usize) -> impl FnOnce(&CudaError) -> bool {
    let expected = (range.start, range.end, of);
    move |error| {
        matches!(*error, CudaError::RangeOutOfBounds { start, end, len }
            if (start, end, len) == expected)
    }
}
