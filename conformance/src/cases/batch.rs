//! Batches of prefetches and discards.

use super::*;

cases! {
    /// A batch prefetches every range, and keeps the contents.
    "batch.prefetch" MEMORY [cudaMemPrefetchBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let all = [c.managed(64 * KIB), c.managed(2 * MIB), c.managed(3 * MIB)];
        all.iter().for_each(|memory| memory.fill_all(9));
        let ranges = [all[0].span(), all[1].span(), all[2].span()];
        let code = c.prefetch_batch(&ranges, &[(DEVICE, 0)], false, 0, &stream);
        c.succeeds("cudaMemPrefetchBatchAsync", code);
        stream.sync();
        for memory in &all {
            c.is("reported", c.told(memory, LastPrefetch), 0);
            c.is("contents", memory.value_all(), 9);
        }
    }
    /// Each location applies to the ranges from its index up to the index of the next location.
    "batch.places" MEMORY [cudaMemPrefetchBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let all = [c.managed(2 * MIB), c.managed(2 * MIB), c.managed(2 * MIB)];
        let ranges = [all[0].span(), all[1].span(), all[2].span()];
        let code = c.prefetch_batch(&ranges, &[(DEVICE, 0), (HOST, 2)], false, 0, &stream);
        c.succeeds("cudaMemPrefetchBatchAsync", code);
        stream.sync();
        for (memory, place) in all.iter().zip([0, 0, -1]) {
            c.is("reported", c.told(memory, LastPrefetch), place);
        }
    }
    /// Batches are refused in the legacy default stream.
    "batch.default-stream" MEMORY [cudaMemPrefetchBatchAsync, cudaMemDiscardBatchAsync] (Concurrent, Since(13, 0)) |c| {
        let memory = c.managed(2 * MIB);
        for raw in [0, LEGACY] {
            let stream = c.stream_at(raw);
            let code = c.prefetch_batch(&[memory.span()], &[(DEVICE, 0)], false, 0, &stream);
            c.gives(format!("prefetch, stream {raw}"), code, INVALID_VALUE);
            let code = c.discard_batch(&[memory.span()], 0, &stream);
            c.gives(format!("discard, stream {raw}"), code, INVALID_VALUE);
        }
    }
    /// Flags other than 0 are an invalid value.
    "batch.flags" MEMORY [cudaMemPrefetchBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.managed(2 * MIB);
        let code = c.prefetch_batch(&[memory.span()], &[(DEVICE, 0)], false, 1, &stream);
        c.gives("flags 1", code, INVALID_VALUE);
    }
    /// A batch without ranges, or without locations, is an invalid value.
    "batch.empty" MEMORY [cudaMemPrefetchBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.managed(2 * MIB);
        let code = c.prefetch_batch(&[], &[(DEVICE, 0)], false, 0, &stream);
        c.gives("no range", code, INVALID_VALUE);
        let code = c.prefetch_batch(&[memory.span()], &[], false, 0, &stream);
        c.gives("no place", code, INVALID_VALUE);
    }
    /// The indices of the locations begin at 0 and are below the number of ranges.
    "batch.indices" MEMORY [cudaMemPrefetchBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let (memory, other) = (c.managed(2 * MIB), c.managed(2 * MIB));
        let ranges = [memory.span(), other.span()];
        for (what, places) in
            [("not from 0", vec![(DEVICE, 1)]), ("beyond the ranges", vec![(DEVICE, 0), (HOST, 2)])]
        {
            c.gives(what, c.prefetch_batch(&ranges, &places, false, 0, &stream), INVALID_VALUE);
        }
    }
    /// A range of device memory is refused.
    "batch.foreign" MEMORY [cudaMemPrefetchBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.device(2 * MIB);
        let code = c.prefetch_batch(&[memory.span()], &[(DEVICE, 0)], false, 0, &stream);
        c.refuses("device memory", code);
    }
    /// Data written after a discard are kept; the discard is ordered in its stream.
    "batch.discard" MEMORY [cudaMemDiscardBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.managed(2 * MIB).filled(5);
        c.succeeds("cudaMemDiscardBatchAsync", c.discard_batch(&[memory.span()], 0, &stream));
        stream.set(&memory, 1).after("contents", &memory, 0x0101_0101);
    }
    /// A discard of a part does not change the rest.
    "batch.discard-leaves-the-rest" MEMORY [cudaMemDiscardBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.managed(6 * MIB).filled(5);
        let start = memory.at() + 2 * MIB;
        let middle = start..start + 2 * MIB;
        c.succeeds("cudaMemDiscardBatchAsync", c.discard_batch(&[middle], 0, &stream));
        stream.sync();
        let half = MIB / 2;
        c.is("before", memory.value(0..half), 5);
        c.is("behind", memory.value(2 * half..3 * half), 5);
    }
    /// A combined discard and prefetch is reported as a prefetch, and data that a kernel then writes are kept.
    "batch.discard-and-prefetch" MEMORY [cudaMemDiscardAndPrefetchBatchAsync] (Concurrent, Since(13, 0)) |c, stream| {
        let memory = c.managed(2 * MIB).filled(5);
        let code = c.prefetch_batch(&[memory.span()], &[(DEVICE, 0)], true, 0, &stream);
        c.succeeds("cudaMemDiscardAndPrefetchBatchAsync", code);
        stream.set(&memory, 2).sync();
        c.is("reported", c.told(&memory, LastPrefetch), 0);
        c.is("contents", memory.value_all(), 0x0202_0202);
    }
    /// Discarded memory is prefetched without moving its bytes.
    "batch.discard-moves-nothing" MEMORY [cudaMemDiscardAndPrefetchBatchAsync] (Migration, Counters, Since(13, 0)) |c, stream| {
        let memory = c.managed(4 * MIB).filled(5);
        counted(c, "to the device", exactly(0, 0), || {
            ok(c.prefetch_batch(&[memory.span()], &[(DEVICE, 0)], true, 0, &stream))
        });
    }
    /// Memory that is discarded on the device is prefetched to the host without moving its bytes.
    "batch.discard-moves-nothing-home" MEMORY [cudaMemDiscardAndPrefetchBatchAsync] (Migration, Counters, Since(13, 0)) |c, stream| {
        let memory = c.managed(4 * MIB);
        ok(c.prefetch_batch(&[memory.span()], &[(DEVICE, 0)], false, 0, &stream));
        stream.set(&memory, 2);
        counted(c, "to the host", exactly(0, 0), || {
            ok(c.prefetch_batch(&[memory.span()], &[(HOST, 0)], true, 0, &stream))
        });
    }
}
