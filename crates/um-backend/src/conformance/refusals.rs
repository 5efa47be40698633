//! Lengths and ranges that must be refused.

use std::ops::Range;

use cuda_um::{Advice, Location};

use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample, samples};
use super::{LENGTHS, Make};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result};

const RULE: Rule = Rule::Refusals;

type Call<T> = fn(&mut dyn Buffer<T>, Range<usize>) -> Result<()>;

/// Calls with so many elements, all or those of a range.
fn calls<T: Element>() -> [(&'static str, Call<T>); 10] {
    let from_host: Call<T> = |b, r| b.copy_from_host_at(r.start, &samples(50, r.len()));
    let to_host: Call<T> = |b, r| unwritten(r.len(), |target| b.copy_to_host_at(r.start, target));
    let advise: Call<T> = |b, r| b.advise_range(r, Advice::SetReadMostly).map(drop);
    let prefetch: Call<T> = |b, r| b.prefetch_range(r, Location::Host).map(drop);
    [
        ("copy_from_host", |b, r| {
            b.copy_from_host(&samples(50, r.len()))
        }),
        ("copy_to_host", |b, r| {
            unwritten(r.len(), |target| b.copy_to_host(target))
        }),
        ("copy_from_host_at", from_host),
        ("copy_to_host_at", to_host),
        ("fill_range", |b, r| b.fill_range(r, sample(3))),
        ("copy_within", |b, r| b.copy_within(r, 0)),
        ("write_to", |b, r| b.write_to(&mut Vec::new(), r)),
        ("read_from", |b, r| b.read_from(&mut &[][..], r)),
        ("advise_range", advise),
        ("prefetch_range", prefetch),
    ]
}

pub(super) fn of_one<T: Element>(make: Make<'_, T>) -> Verdict {
    for len in LENGTHS {
        let buffer = &mut *made_with(RULE, make, 1, len)?.0;
        let (of_length, of_range) = (&calls()[..2], &calls()[2..]);
        for other in [len + 1, 2 * len + 7, len.saturating_sub(1), 0] {
            for (name, call) in of_length.iter().filter(|_| other != len) {
                let what = format!("{name} with {other}");
                RULE.refused(&what, buffer, |b| call(b, 0..other), lengths(len, other))?;
            }
        }
        let last = len.saturating_sub(1);
        for (at, count) in [
            (len, 1),
            (last, 2),
            (0, len + 1),
            (len + 1, 0),
            (usize::MAX, 1),
        ] {
            for (name, call) in of_range.iter().filter(|_| at >= len || count > len - at) {
                let what = format!("{name} of {count} at {at}");
                let wrong = at..at.saturating_add(count);
                RULE.refused(
                    &what,
                    buffer,
                    |b| call(b, wrong.clone()),
                    range(wrong.clone(), len),
                )?;
            }
        }
        let clone = |b: &mut dyn Buffer<T>| b.clone_empty(usize::MAX).map(drop);
        RULE.refused("clone_empty(usize::MAX)", buffer, clone, |error| {
            matches!(
                error,
                CudaError::TooLarge { .. } | CudaError::OutOfMemory { .. }
            )
        })?;
        if len > 0 {
            let within = |b: &mut dyn Buffer<T>| b.copy_within(0..len, 1);
            RULE.refused("copy_within to 1", buffer, within, range(1..len + 1, len))?;
            // The elements before the early end may be written: they are the same.
            let (file, bytes) = (samples::<T>(1, len), len * size_of::<T>());
            let mut short = &bytemuck::cast_slice::<T, u8>(&file)[..bytes - 1];
            let read = |b: &mut dyn Buffer<T>| b.read_from(&mut short, 0..len);
            RULE.refused(
                "read_from a short file",
                buffer,
                read,
                |error| matches!(error, CudaError::Io { total_bytes, .. } if *total_bytes == bytes),
            )?;
        }
    }
    Ok(())
}

pub(super) fn of_pair<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    let (len, source_len) = (3, 5);
    let target = &mut *made_with(RULE, target, 1, len)?.0;
    let source = made_with(RULE, source, 2, source_len)?.0;
    let copy = |b: &mut dyn Buffer<T>| b.copy_from_buffer(&*source);
    RULE.refused("copy_from_buffer", target, copy, lengths(len, source_len))?;
    #[allow(clippy::reversed_empty_ranges, reason = "the wrong input")]
    let beyond_source = [4..6, 5..6, 6..6, 2..1, usize::MAX..usize::MAX];
    for from in beyond_source {
        let what = format!("copy_from_buffer_at from {from:?}");
        let copy = |b: &mut dyn Buffer<T>| b.copy_from_buffer_at(0, &*source, from.clone());
        RULE.refused(&what, target, copy, range(from.clone(), source_len))?;
    }
    for (at, count) in [(0, 4), (2, 2), (3, 1), (4, 0), (usize::MAX, 1)] {
        let what = format!("copy_from_buffer_at of {count} to {at}");
        let copy = |b: &mut dyn Buffer<T>| b.copy_from_buffer_at(at, &*source, 0..count);
        RULE.refused(
            &what,
            target,
            copy,
            range(at..at.saturating_add(count), len),
        )?;
    }
    Ok(())
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

fn lengths(buffer: usize, other: usize) -> impl FnOnce(&CudaError) -> bool {
    move |error| {
        matches!(*error, CudaError::LengthMismatch { expected, found, .. }
            if (expected, found) == (buffer, other))
    }
}

fn range(range: Range<usize>, of: usize) -> impl FnOnce(&CudaError) -> bool {
    move |error| {
        matches!(*error, CudaError::RangeOutOfBounds { start, end, len }
            if (start..end, len) == (range, of))
    }
}
