//! Ranges that prefetch, advice and queries of range attributes refuse.

use super::prelude::*;
use std::ops::Range;

const CALLS: &[&str] = &[
    "cudaMemPrefetchAsync",
    "cudaMemAdvise",
    "cudaMemRangeGetAttribute",
];

pub(super) const CASES: &[Case] = cases! {
    "refused_ranges.device-memory" (device_memory):
        "Prefetch, advice and range attributes refuse device memory.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent]);
    "refused_ranges.pinned" (pinned):
        "Prefetch, advice and range attributes refuse pinned memory.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent, Need::NoPageableAccess]);
    "refused_ranges.pageable" (pageable):
        "Prefetch, advice and range attributes refuse unknown memory, if the device cannot access pageable memory.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent, Need::NoPageableAccess]);
    "refused_ranges.empty" (empty):
        "An empty range is an invalid value.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent]);
    "refused_ranges.null" (null):
        "Null is refused.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent, Need::NoPageableAccess]);
    "refused_ranges.beyond-the-end" (beyond_the_end):
        "A range that ends far beyond its allocation is refused, and no part of it is advised.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent]);
    "refused_ranges.overflow" (overflow):
        "A range that ends beyond the last address is refused.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent]);
    "refused_ranges.freed" (freed):
        "Freed managed memory is refused.",
        sources::MEMORY, CALLS, needs(&[Need::Concurrent, Need::NoPageableAccess]), misuse();
};

/// Checks that all three calls refuse the range.
fn refused(c: &Cuda<'_>, range: Range<usize>) -> Verdict {
    let stream = c.stream()?;
    c.refuses("prefetch", c.prefetch_range(range.clone(), DEVICE, &stream))?;
    c.refuses(
        "advice",
        c.advise_range(range.clone(), advice::SET_READ_MOSTLY, DEVICE),
    )?;
    c.refuses(
        "attribute",
        c.range_attribute(range, Attribute::ReadMostly, &mut [0]),
    )?;
    c.ok("the stream works on", stream.synchronize())
}

fn device_memory(c: &Cuda<'_>) -> Verdict {
    let memory = c.device_memory(2 * MIB)?;
    refused(c, memory.address()..memory.address() + 64 * KIB)
}

fn pinned(c: &Cuda<'_>) -> Verdict {
    let memory = c.pinned(64 * KIB, 0)?;
    refused(c, memory.address()..memory.address() + 64 * KIB)
}

fn pageable(c: &Cuda<'_>) -> Verdict {
    let own = super::registered::pages(64 * KIB);
    let start = own.as_ptr() as usize;
    refused(c, start..start + 64 * KIB)
}

fn empty(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    refused(c, memory.address()..memory.address())
}

fn null(c: &Cuda<'_>) -> Verdict {
    refused(c, 0..64 * KIB)
}

fn beyond_the_end(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(2 * MIB)?;
    // Farther than any other allocation of this process.
    refused(c, memory.address()..memory.address() + (1 << 45))?;
    c.is(
        "nothing is advised",
        c.attribute_of(&memory, Attribute::ReadMostly)?,
        0,
    )
}

fn overflow(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(2 * MIB)?;
    refused(c, memory.address()..usize::MAX)?;
    c.is(
        "nothing is advised",
        c.attribute_of(&memory, Attribute::ReadMostly)?,
        0,
    )
}

fn freed(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(4 * MIB)?;
    let range = memory.address()..memory.address() + 4 * MIB;
    c.ok("cudaFree", memory.free())?;
    refused(c, range)
}
