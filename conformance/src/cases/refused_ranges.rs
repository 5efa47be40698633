//! Ranges that prefetch, advice and queries of range attributes refuse.

use super::*;

cases! {
    /// Prefetch, advice and range attributes refuse device memory.
    "refused_ranges.device-memory" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.device(2 * MIB);
        refused(c, memory.at()..memory.at() + 64 * KIB);
    }
    /// Prefetch, advice and range attributes refuse pinned memory.
    "refused_ranges.pinned" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent, NoPageableAccess) |c| {
        let memory = c.pinned(64 * KIB, 0);
        refused(c, memory.at()..memory.at() + 64 * KIB);
    }
    /// Prefetch, advice and range attributes refuse unknown memory, if the device cannot access pageable memory.
    "refused_ranges.pageable" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent, NoPageableAccess) |c| {
        let own = super::registered::pages(64 * KIB);
        let start = own.as_ptr() as usize;
        refused(c, start..start + 64 * KIB);
    }
    /// An empty range is an invalid value.
    "refused_ranges.empty" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        refused(c, memory.at()..memory.at());
    }
    /// Null is refused.
    "refused_ranges.null" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent, NoPageableAccess) |c| {
        refused(c, 0..64 * KIB);
    }
    /// A range that ends far beyond its allocation is refused, and no part of it is advised.
    "refused_ranges.beyond-the-end" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(2 * MIB);
        // Farther than any other allocation of this process.
        refused(c, memory.at()..memory.at() + (1 << 45));
        c.is("nothing is advised", c.told(&memory, ReadMostly), 0);
    }
    /// A range that ends beyond the last address is refused.
    "refused_ranges.overflow" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent) |c| {
        let memory = c.managed(2 * MIB);
        refused(c, memory.at()..usize::MAX);
        c.is("nothing is advised", c.told(&memory, ReadMostly), 0);
    }
    /// Freed managed memory is refused.
    "refused_ranges.freed" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise, cudaMemRangeGetAttribute] (Concurrent, NoPageableAccess) misuse |c| {
        let memory = c.managed(4 * MIB);
        let range = memory.at()..memory.at() + 4 * MIB;
        ok(memory.free());
        refused(c, range);
    }
}

/// Checks that all three calls refuse the range.
fn refused(c: &Cuda<'_>, range: Range<usize>) {
    let stream = c.stream();
    c.refuses("prefetch", c.prefetch(range.clone(), DEVICE, &stream));
    c.refuses("advice", c.advise(range.clone(), SET_READ_MOSTLY, DEVICE));
    c.refuses("attribute", c.range_attribute(range, ReadMostly, &mut [0]));
    stream.sync();
}
