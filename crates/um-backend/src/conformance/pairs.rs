//! Copies from one implementation to another.

use std::ops::Range;

use cuda_um::Error;

use super::bounds::{names_lengths, names_range};
use super::failure::{Rule, Verdict};
use super::sample::{made_with, samples};
use super::{LENGTHS, Make};
use crate::dtype::Element;

/// [`Rule::CopyWhole`].
pub fn copy_whole<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    let rule = Rule::CopyWhole;
    for len in LENGTHS {
        let (mut target, _) = made_with(rule, target, 300, len)?;
        let (source, elements) = made_with(rule, source, 1, len)?;
        rule.works("copy_from_buffer", target.copy_from_buffer(&*source))?;
        rule.has(&*target, &elements, "in the target")?;
        rule.has(&*source, &elements, "in the source, after the copy")?;
    }
    Ok(())
}

/// [`Rule::CopyRange`].
pub fn copy_range<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    let rule = Rule::CopyRange;
    let (target_len, source_len) = (1000, 4097);
    let (mut target, mut expected) = made_with(rule, target, 300, target_len)?;
    let (source, elements) = made_with(rule, source, 1, source_len)?;
    let copies = [
        (0, 0..1),
        (1, 4000..4097),
        (999, 7..8),
        (500, 33..533),
        (0, 3097..4097),
        (1000, 5..5),
    ];
    for (offset, range) in copies {
        let when = format!("after {range:?} of {source_len} went to {offset} of {target_len}");
        let copied = target.copy_from_buffer_at(offset, &*source, range.clone());
        rule.works("copy_from_buffer_at", copied)?;
        expected[offset..offset + range.len()].copy_from_slice(&elements[range]);
        rule.has(&*target, &expected, &when)?;
    }
    rule.has(&*source, &elements, "in the source, after the copy")
}

/// [`Rule::SourceIsFree`].
pub fn source_is_free<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    let rule = Rule::SourceIsFree;
    for len in LENGTHS {
        let (mut first, _) = made_with(rule, target, 300, len)?;
        let (mut second, _) = made_with(rule, target, 400, len)?;
        let (mut source, elements) = made_with(rule, source, 1, len)?;
        rule.works("copy_from_buffer", first.copy_from_buffer(&*source))?;
        rule.works("set_zero of the source", source.set_zero())?;
        let others = samples(800, len);
        rule.works("copy_from_host", source.copy_from_host(&others))?;
        rule.works("copy_from_buffer", second.copy_from_buffer(&*source))?;
        drop(source);
        rule.has(&*first, &elements, "after the source was written")?;
        rule.has(&*second, &others, "after the source was dropped")?;
    }
    Ok(())
}

/// [`Rule::PairBounds`].
pub fn pair_bounds<T: Element>(target: Make<'_, T>, source: Make<'_, T>) -> Verdict {
    let rule = Rule::PairBounds;
    let (target_len, source_len) = (3, 5);
    let (mut target, unchanged) = made_with(rule, target, 300, target_len)?;
    let (source, _) = made_with(rule, source, 1, source_len)?;

    let call = format!("copying a buffer of {source_len} elements to one of {target_len}");
    let outcome = target.copy_from_buffer(&*source);
    rule.refused(&call, outcome, names_lengths(target_len, source_len))?;
    rule.has(&*target, &unchanged, &format!("after {call}"))?;

    let beyond_source = [(4, 6), (5, 6), (6, 6), (2, 1), (usize::MAX, usize::MAX)];
    for (start, end) in beyond_source {
        let call = format!("copying {start}..{end} of {source_len}");
        let outcome = target.copy_from_buffer_at(0, &*source, Range { start, end });
        rule.refused(&call, outcome, |error| {
            matches!(*error, Error::RangeOutOfBounds { start: s, end: e, len }
                if (s, e, len) == (start, end, source_len))
        })?;
        rule.has(&*target, &unchanged, &format!("after {call}"))?;
    }

    for (offset, count) in [(0, 4), (2, 2), (3, 1), (4, 0), (usize::MAX, 1)] {
        let call = format!("copying {count} elements to {offset} of {target_len}");
        let outcome = target.copy_from_buffer_at(offset, &*source, 0..count);
        rule.refused(&call, outcome, names_range(offset, count, target_len))?;
        rule.has(&*target, &unchanged, &format!("after {call}"))?;
    }
    Ok(())
}
