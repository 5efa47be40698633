//! Prefetches: their reports, their order, and refused prefetches; ranges that prefetch, advice and queries refuse.

use super::*;

cases! {
    /// The destination of the last prefetch is reported.
    "prefetch.reported" MEMORY [cudaMemPrefetchAsync] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB);
        for (what, place, number) in [("the device", DEVICE, 0), ("the host", HOST, CPU)] {
            c.succeeds(what, c.prefetch(&memory, place, &stream));
            stream.sync();
            c.is("reported", c.told(&memory, LastPrefetch), number);
        }
    }
    /// The destination is reported from the call on, before the prefetch has begun.
    "prefetch.reported-at-once" MEMORY [cudaMemPrefetchAsync] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB);
        let gate = c.gate(&stream);
        c.succeeds("prefetch", c.prefetch(&memory, DEVICE, &stream));
        c.is("reported", c.told(&memory, LastPrefetch), 0);
        gate.open();
        stream.sync();
    }
    /// A prefetch of a part is reported only for that part, rounded outwards to pages.
    "prefetch.part-reported" MEMORY [cudaMemPrefetchAsync] (Concurrent) |c, stream| {
        let memory = c.managed(4 * MIB).filled(1);
        let page = memory.at() + 2 * MIB;
        c.succeeds("prefetch of 100 bytes", c.prefetch(page + 100..page + 200, DEVICE, &stream));
        stream.sync();
        c.is("its page", c.told(page..page + 4 * KIB, LastPrefetch), 0);
        c.is("before", c.told(memory.at()..page, LastPrefetch), NONE);
    }
    /// Prefetches do not change the contents, in either direction and with any number of repetitions.
    "prefetch.keeps-contents" MEMORY [cudaMemPrefetchAsync] (Concurrent) |c, stream| {
        let memory = c.managed(3 * MIB + 4 * KIB).filled(41);
        memory.fill(100..200, 42);
        for place in [DEVICE, HOST, DEVICE, DEVICE, HOST, HOST] {
            c.succeeds("prefetch", c.prefetch(&memory, place, &stream));
        }
        stream.sync();
        c.is("before", memory.value(0..100), 41);
        c.is("between", memory.value(100..200), 42);
        c.is("behind", memory.value(200..memory.len()), 41);
    }
    /// A prefetch is ordered in its stream: after earlier work, and before later work.
    "prefetch.in-order" MEMORY [cudaMemPrefetchAsync] (Concurrent) |c, stream| {
        let memory = c.managed(2 * MIB).filled(0);
        let gate = c.gate(&stream);
        for place in [DEVICE, HOST, DEVICE, HOST] {
            stream.prefetch(&memory, place).add(&memory, 1);
        }
        gate.opens("cudaStreamQuery", stream.query());
        stream.after("contents", &memory, 4);
    }
    /// Prefetches can also be enqueued in the default streams.
    "prefetch.default-streams" MEMORY [cudaMemPrefetchAsync] (Concurrent) |c| {
        let memory = c.managed(2 * MIB);
        for raw in [0, LEGACY, PER_THREAD] {
            let stream = c.stream_at(raw);
            memory.fill_all(raw as u32);
            c.succeeds(format!("stream {raw}"), c.prefetch(&memory, DEVICE, &stream));
            stream.add(&memory, 1).sync();
            c.is("contents", memory.value_all(), raw as u32 + 1);
        }
    }
    /// A prefetch to a device that does not exist is refused, and not reported.
    "prefetch.unknown-device" MEMORY [cudaMemPrefetchAsync] (Concurrent) |c, stream| {
        let memory = c.managed(64 * KIB);
        c.gives("device 64", c.prefetch(&memory, Place::device(64), &stream), INVALID_DEVICE);
        c.is("reported", c.told(&memory, LastPrefetch), NONE);
    }
    /// Flags other than 0 are an invalid value.
    "prefetch.flags" MEMORY [cudaMemPrefetchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.managed(64 * KIB);
        for flags in [1, 1 << 31] {
            let refused = c.prefetch_flagged(memory.span(), DEVICE, flags, &stream);
            c.gives(format!("flags {flags}"), refused, INVALID_VALUE);
        }
    }
    /// A location type that does not exist is an invalid value.
    "prefetch.unknown-place" MEMORY [cudaMemPrefetchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.managed(64 * KIB);
        for kind in [0, 77] {
            let code = c.prefetch(&memory, Place { kind, id: 0 }, &stream);
            c.gives(format!("kind {kind}"), code, INVALID_VALUE);
        }
    }
    /// A prefetch to the host's NUMA node works, and is reported with this location.
    "prefetch.numa-node" MEMORY [cudaMemPrefetchAsync] (Migration, Since(13, 0)) |c, stream| {
        let memory = c.managed(2 * MIB).filled(6);
        stream.prefetch(&memory, DEVICE);
        c.succeeds("prefetch", c.prefetch(&memory, Place::numa(0), &stream));
        stream.sync();
        let kind = c.told(&memory, LastPrefetchType);
        c.is("kind of place", kind, 3);
        let number = c.told(&memory, LastPrefetchId);
        c.is("number", number, 0);
        c.is("contents", memory.value_all(), 6);
    }
    /// The stream may belong to a device other than the destination.
    "prefetch.other-device" MEMORY [cudaMemPrefetchAsync] (Concurrent, Devices(2)) |c, stream| {
        let memory = c.managed(2 * MIB).filled(6);
        c.succeeds("prefetch", c.prefetch(&memory, Place::device(1), &stream));
        stream.sync();
        c.is("reported", c.told(&memory, LastPrefetch), 1);
        c.is("contents", memory.value_all(), 6);
    }
    /// A prefetch to a device without concurrent managed access is refused as an invalid device.
    "prefetch.without-faults" MEMORY [cudaMemPrefetchAsync] (NoConcurrent) |c, stream| {
        let memory = c.managed(64 * KIB).filled(6);
        c.gives("prefetch", c.prefetch(&memory, DEVICE, &stream), INVALID_DEVICE);
        c.is("contents", memory.value_all(), 6);
    }
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
        let own = super::pinned::pages(64 * KIB);
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
