//! The default streams: the streams that synchronize with them, and those that do not.

use super::*;

/// Flags of a stream that synchronizes with the legacy default stream.
const BLOCKING: u32 = 0;

cases! {
    /// Work of the legacy default stream begins when the blocking streams' work before it is done.
    "default-streams.legacy-waits-for-blocking" STREAM_SYNC [cudaStreamCreateWithFlags, cudaStreamQuery] |c| {
        waits(c, &c.stream_with(BLOCKING), &c.stream_at(LEGACY));
    }
    /// Work of a blocking stream begins when the legacy default stream's work before it is done.
    "default-streams.blocking-waits-for-legacy" STREAM_SYNC [cudaStreamCreateWithFlags, cudaStreamQuery] |c| {
        waits(c, &c.stream_at(LEGACY), &c.stream_with(BLOCKING));
    }
    /// A non-blocking stream does not wait for the legacy default stream.
    "default-streams.non-blocking-goes-on" STREAM_SYNC [cudaStreamCreateWithFlags, cudaStreamSynchronize] |c| {
        passes(c, &c.stream_at(LEGACY), &c.stream());
    }
    /// The legacy default stream does not wait for a non-blocking stream.
    "default-streams.legacy-passes-non-blocking" STREAM_SYNC [cudaStreamCreateWithFlags, cudaStreamSynchronize] |c| {
        passes(c, &c.stream(), &c.stream_at(LEGACY));
    }
    /// The null stream and cudaStreamLegacy are the same stream.
    "default-streams.null-is-legacy" STREAM_SYNC [cudaStreamQuery] |c| {
        waits(c, &c.stream_at(0), &c.stream_at(LEGACY));
        waits(c, &c.stream_at(LEGACY), &c.stream_at(0));
    }
    /// A per-thread default stream and the legacy default stream synchronize with each other.
    "default-streams.per-thread-and-legacy" STREAM_SYNC [cudaStreamQuery] |c| {
        waits(c, &c.stream_at(PER_THREAD), &c.stream_at(LEGACY));
        waits(c, &c.stream_at(LEGACY), &c.stream_at(PER_THREAD));
    }
    /// A per-thread default stream does not synchronize with blocking streams.
    "default-streams.per-thread-and-blocking" STREAM_SYNC [cudaStreamSynchronize] |c| {
        passes(c, &c.stream_with(BLOCKING), &c.stream_at(PER_THREAD));
    }
    /// Each thread has its own per-thread default stream, which does not wait for another thread's.
    "default-streams.per-thread-is-the-threads" STREAM_SYNC [cudaStreamQuery, cudaStreamSynchronize] |c| {
        let own = c.stream_at(PER_THREAD);
        let gate = c.gate(&own);
        let there = c.elsewhere(|c| c.stream_synchronize(PER_THREAD));
        c.succeeds("another thread's, synchronized", there);
        gate.opens("this thread's", own.query());
    }
    /// Blocking streams run concurrently, but with legacy work in between the later work waits for the earlier.
    "default-streams.legacy-between" STREAM_SYNC [cudaStreamQuery, cudaStreamSynchronize] |c| {
        let (first, second) = (c.stream_with(BLOCKING), c.stream_with(BLOCKING));
        passes(c, &first, &second);
        let (seen, legacy) = (c.pinned(4 * KIB, 0).filled(0), c.stream_at(LEGACY));
        let gate = c.gate(&first);
        legacy.add(&seen, 1);
        second.add(&seen, 1);
        gate.opens("the later stream", second.query());
        second.ends("both", &seen, 2);
    }
    /// A synchronous copy runs after work that was enqueued earlier on blocking streams.
    "default-streams.copy-waits-for-blocking" STREAM_SYNC [cudaMemcpy] |c| {
        let (memory, stream) = (c.device(64 * KIB), c.stream_with(BLOCKING));
        ok(c.memset(&memory, 0, memory.bytes()));
        let gate = c.gate(&stream);
        stream.add(&memory, 5);
        let mut out = vec![0; memory.len()];
        gate.waits("cudaMemcpy", || c.copy(&mut out, &memory, DEVICE_TO_HOST));
        c.holds("what the stream wrote", out.iter().all(|value| *value == 5));
    }
    /// The legacy and the per-thread default stream are of the current device.
    "default-streams.device" STREAM [cudaStreamGetDevice] (Since(12, 8)) |c| {
        for device in (0..c.machine.facts.devices as i32).rev() {
            ok(c.set_device(device));
            for raw in [0, LEGACY, PER_THREAD] {
                c.holds("the current device", ok(c.stream_device(raw)) == device);
            }
        }
    }
}

/// Holds the first stream, enqueues work on the second, and checks that it waits for the first.
fn waits(c: &Cuda<'_>, held: &Stream<'_>, other: &Stream<'_>) {
    let seen = c.pinned(4 * KIB, 0).filled(1);
    let gate = c.gate(held);
    other.add(&seen, 1).pending("the other stream, while the first is held");
    gate.waits("cudaStreamSynchronize", || other.synchronize());
    c.is("the work", seen.value_all(), 2);
}

/// Holds the first stream, enqueues work on the second, and waits for it while the first is held.
fn passes(c: &Cuda<'_>, held: &Stream<'_>, other: &Stream<'_>) {
    let seen = c.pinned(4 * KIB, 0).filled(1);
    let gate = c.gate(held);
    other.add(&seen, 1).ends("the work", &seen, 2);
    gate.opens("the held stream", held.query());
}
