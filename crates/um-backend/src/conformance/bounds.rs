//! Lengths and ranges that must be refused.

use cuda_um::Error;

use super::failure::{Rule, Verdict};
use super::sample::{made_with, samples};
use super::{LENGTHS, Make};
use crate::dtype::Element;
use crate::error::CudaError;

/// [`Rule::LengthsMustMatch`].
pub fn lengths_must_match<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::LengthsMustMatch;
    for len in LENGTHS {
        let (mut buffer, elements) = made_with(rule, make, 1, len)?;
        for other in [len + 1, 2 * len + 7, len.saturating_sub(1), 0] {
            if other == len {
                continue;
            }
            let call = format!("copying {other} elements from the host to {len}");
            let outcome = buffer.copy_from_host(&samples(50, other));
            rule.refused(&call, outcome, names_lengths(len, other))?;
            rule.has(&*buffer, &elements, &format!("after {call}"))?;

            let call = format!("copying {len} elements to {other} on the host");
            let mut target = samples(50, other);
            let outcome = buffer.copy_to_host(&mut target);
            rule.refused(&call, outcome, names_lengths(len, other))?;
            rule.equal(
                &target,
                &samples(50, other),
                &format!("on the host after {call}"),
            )?;
        }
    }
    Ok(())
}

/// [`Rule::RangesMustBeWithin`].
pub fn ranges_must_be_within<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::RangesMustBeWithin;
    for len in LENGTHS {
        let (mut buffer, elements) = made_with(rule, make, 1, len)?;
        let outside = [
            (len, 1),
            (len.saturating_sub(1), 2),
            (0, len + 1),
            (len + 1, 0),
            (usize::MAX, 1),
            (usize::MAX, 0),
        ];
        for (offset, count) in outside {
            let call = format!("copying {count} elements from the host to {offset} of {len}");
            let outcome = buffer.copy_from_host_at(offset, &samples(50, count));
            rule.refused(&call, outcome, names_range(offset, count, len))?;
            rule.has(&*buffer, &elements, &format!("after {call}"))?;

            let call = format!("copying {count} elements from {offset} of {len} to the host");
            let mut target = samples(50, count);
            let outcome = buffer.copy_to_host_at(offset, &mut target);
            rule.refused(&call, outcome, names_range(offset, count, len))?;
            rule.equal(
                &target,
                &samples(50, count),
                &format!("on the host after {call}"),
            )?;
        }
    }
    Ok(())
}

/// [`Error::LengthMismatch`] with these lengths.
pub(super) fn names_lengths(buffer: usize, other: usize) -> impl FnOnce(&CudaError) -> bool {
    move |error| {
        matches!(*error, Error::LengthMismatch { expected, found, .. }
            if (expected, found) == (buffer, other))
    }
}

/// [`Error::RangeOutOfBounds`] with these values.
pub(super) fn names_range(
    offset: usize,
    count: usize,
    of: usize,
) -> impl FnOnce(&CudaError) -> bool {
    move |error| {
        matches!(*error, Error::RangeOutOfBounds { start, end, len }
            if (start, end, len) == (offset, offset.saturating_add(count), of))
    }
}
