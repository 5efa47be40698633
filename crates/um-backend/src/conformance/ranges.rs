//! Operations on ranges of one buffer.

use std::ops::Range;

use super::bounds::names_range;
use super::failure::{Rule, Verdict};
use super::sample::{made_with, sample};
use super::{LENGTHS, Make};
use crate::dtype::Element;

/// The start, the middle, the end, all elements, none.
fn parts(len: usize) -> [Range<usize>; 5] {
    [
        0..len / 2,
        len / 3..len - len / 3,
        len - len / 4..len,
        0..len,
        len..len,
    ]
}

/// Ranges that are not within the length.
#[allow(clippy::reversed_empty_ranges, reason = "the wrong input")]
fn outside(len: usize) -> [Range<usize>; 4] {
    [
        len..len + 1,
        0..len + 1,
        len + 1..len + 1,
        usize::MAX - 1..usize::MAX,
    ]
}

/// [`Rule::FillRange`].
pub fn fill_range<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::FillRange;
    for len in LENGTHS {
        let (mut buffer, mut elements) = made_with(rule, make, 1, len)?;
        for (number, part) in parts(len).into_iter().enumerate() {
            let when = format!("after {part:?} of {len} elements was filled");
            let value = sample(700 + number);
            rule.works("fill_range", buffer.fill_range(part.clone(), value))?;
            elements[part].fill(value);
            rule.has(&*buffer, &elements, &when)?;
        }
        for part in outside(len) {
            let call = format!("filling {part:?} of {len}");
            let outcome = buffer.fill_range(part.clone(), sample(3));
            rule.refused(&call, outcome, names_range(part.start, part.len(), len))?;
            rule.has(&*buffer, &elements, &format!("after {call}"))?;
        }
    }
    Ok(())
}

/// [`Rule::CopyWithin`].
pub fn copy_within<T: Element>(make: Make<'_, T>) -> Verdict {
    let rule = Rule::CopyWithin;
    for len in LENGTHS {
        let (mut buffer, mut elements) = made_with(rule, make, 1, len)?;
        // Apart, overlapping forwards, overlapping backwards, in place, nothing.
        let copies = [
            (0..len / 3, len - len / 3),
            (0..len - len / 5, len / 5),
            (len / 5..len, 0),
            (0..len, 0),
            (len..len, len),
        ];
        for (part, to) in copies {
            let when = format!("after {part:?} of {len} elements went to {to}");
            rule.works("copy_within", buffer.copy_within(part.clone(), to))?;
            elements.copy_within(part, to);
            rule.has(&*buffer, &elements, &when)?;
        }
        for part in outside(len) {
            let call = format!("copying {part:?} of {len} within the buffer");
            let outcome = buffer.copy_within(part.clone(), 0);
            rule.refused(&call, outcome, names_range(part.start, part.len(), len))?;
        }
        let outcome = buffer.copy_within(0..len, 1);
        if len > 0 {
            rule.refused(
                "copying all elements to 1",
                outcome,
                names_range(1, len, len),
            )?;
        }
        rule.has(
            &*buffer,
            &elements,
            "after refused copies within the buffer",
        )?;
    }
    Ok(())
}
