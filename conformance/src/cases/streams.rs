//! Streams that the program creates, and the default streams: which streams synchronize with them, and which do not.

use super::*;

/// Flags of a stream that synchronizes with the legacy default stream.
const BLOCKING: u32 = 0;

cases! {
    /// A stream is created with flags 0 or non-blocking; other flags are an invalid value.
    "streams.flags" STREAM [cudaStreamCreateWithFlags, cudaStreamDestroy] |c| {
        for flags in [0, 1] {
            c.succeeds(format!("cudaStreamDestroy, flags {flags}"), c.stream_with(flags).destroy());
        }
        for flags in [2, 64] {
            c.gives(format!("flags {flags}"), c.stream_create(flags), INVALID_VALUE);
        }
    }
    /// A stream without work is done, a stream with pending work is not ready, and after a wait it is done.
    "streams.query" STREAM [cudaStreamQuery, cudaStreamSynchronize] |c, stream| {
        c.succeeds("without work", stream.query());
        let gate = c.gate(&stream);
        stream.pending("held");
        gate.opens("still held", stream.query());
        stream.done("cudaStreamSynchronize");
        c.succeeds("done", stream.query());
    }
    /// A not-ready result has no effect: the stream's work continues, and more can be enqueued.
    "streams.not-ready-is-no-failure" TYPES [cudaStreamQuery] |c, stream| {
        let seen = c.pinned(4 * KIB, 0).filled(1);
        c.last_error();
        let gate = c.gate(&stream);
        let code = stream.query();
        c.note("the last error behind it", Value::Text(c.text(c.peek_error())));
        c.gives("held", code, NOT_READY);
        stream.add(&seen, 4);
        gate.open();
        stream.ends("the work", &seen, 5);
    }
    /// Work of one stream runs in the order in which it was enqueued: memset, kernels and copies.
    "streams.in-order" STREAM [cudaMemsetAsync, cuLaunchKernel, cudaMemcpyAsync] |c, stream| {
        let (first, second) = (c.device(256 * KIB), c.device(256 * KIB));
        let out = c.pinned(256 * KIB, 0);
        for round in 0..8 {
            stream.set(&first, 0).add(&first, 3 + round).copy(&second, &first).add(&first, 100);
            stream.add(&second, 4).copy(&out, &second).after("read back", &out, 7 + round);
        }
    }
    /// Kernels, and copies between pinned and device memory, are enqueued without waiting for the stream.
    "streams.launch-does-not-wait" API_SYNC [cuLaunchKernel, cudaMemcpyAsync, cudaMemsetAsync] |c| {
        let (memory, from, to) = (c.device(64 * KIB), c.pinned(64 * KIB, 0), c.pinned(64 * KIB, 0));
        from.fill_all(9);
        to.fill_all(0);
        let stream = c.stream();
        let gate = c.gate(&stream);
        c.succeeds("cudaMemsetAsync", c.memset_async(&memory, 1, memory.bytes(), &stream));
        c.succeeds("cudaMemcpyAsync in", c.copy_async(&memory, &from, HOST_TO_DEVICE, &stream));
        stream.add(&memory, 2);
        c.succeeds("cudaMemcpyAsync out", c.copy_async(&to, &memory, DEVICE_TO_HOST, &stream));
        stream.pending("held");
        // This fails if the kernel reached its time limit before.
        gate.open();
        stream.after("read back", &to, 11);
    }
    /// Synchronizing a stream returns when its work is done.
    "streams.synchronize-waits" STREAM [cudaStreamSynchronize] |c, stream| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&stream);
        stream.add(&seen, 6);
        gate.waits("cudaStreamSynchronize", || stream.synchronize());
        c.is("the work", seen.value_all(), 6);
    }
    /// Synchronizing a stream does not wait for another stream.
    "streams.synchronize-its-own" STREAM [cudaStreamSynchronize, cudaStreamQuery] |c, held, free| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&held);
        free.add(&seen, 6).ends("the other stream's work", &seen, 6);
        gate.opens("the held stream", held.query());
    }
    /// Synchronizing the device also waits for non-blocking streams.
    "streams.device-synchronize-waits" DEVICE [cudaDeviceSynchronize] |c, stream| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&stream);
        stream.add(&seen, 6);
        gate.waits("cudaDeviceSynchronize", || c.synchronize());
        c.is("the work", seen.value_all(), 6);
    }
    /// A stream with work is destroyed at once, and the work is still done.
    "streams.destroy-with-work" STREAM [cudaStreamDestroy] |c, stream| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&stream);
        stream.add(&seen, 8);
        c.succeeds("cudaStreamDestroy", stream.destroy());
        gate.open();
        c.succeeds("cudaDeviceSynchronize", c.synchronize());
        c.is("the work", seen.value_all(), 8);
    }
    /// The default stream cannot be destroyed.
    "streams.null-not-destroyed" STREAM [cudaStreamDestroy] |c| {
        c.refuses("cudaStreamDestroy", c.stream_destroy(0));
        let memory = c.device(4 * KIB);
        c.add(&memory, 0, &c.stream_at(0));
        c.succeeds("it works on", c.stream_at(0).synchronize());
    }
    /// A greater priority is a lower number; a stream can be created with any number, inside or outside of the range.
    "streams.priorities" STREAM [cudaDeviceGetStreamPriorityRange, cudaStreamCreateWithPriority] |c| {
        let range = c.priority_range();
        let (least, greatest) = c.succeeds("cudaDeviceGetStreamPriorityRange", range);
        c.holds("greatest <= least", greatest <= least);
        let seen = c.pinned(4 * KIB, 0);
        for (priority, done) in [(least, 1), (greatest, 2), (greatest - 100, 3), (least + 100, 4)] {
            seen.fill_all(done - 1);
            let stream = c.stream_create_with_priority(sys::cudaStreamNonBlocking, priority);
            let stream = Stream::owned(c, ok(stream));
            stream.add(&seen, 1).ends("the work", &seen, done);
        }
    }
    /// The device of a stream can be queried.
    "streams.device" STREAM [cudaStreamGetDevice] (Since(12, 8)) |c| {
        for device in (0..c.machine.facts.devices as i32).rev() {
            ok(c.set_device(device));
            let stream = c.stream();
            ok(c.set_device(0));
            assert_eq!(c.stream_device(&stream), Ok(device));
        }
    }
    /// A host function runs once, when the work before it is done.
    "streams.host-function" EXECUTION [cudaLaunchHostFunc] |c, stream| {
        let ran = counter();
        let gate = c.gate(&stream);
        c.succeeds("cudaLaunchHostFunc", c.count_on(ran, &stream));
        c.is("while the stream is held", ran.load(Ordering::SeqCst), 0);
        gate.open();
        stream.done("cudaStreamSynchronize");
        c.is("behind it", ran.load(Ordering::SeqCst), 1);
    }
    /// A stream writes a value to pinned memory after its earlier work: a host that polls it sees what that work wrote.
    "streams.write-value" MEMOP [cuStreamWriteValue32] (MappedHost, Since(12, 0)) |c, stream| {
        let memory = c.device(64 * KIB);
        let (back, flag) = (c.pinned(64 * KIB, 0).filled(0), c.pinned(4 * KIB, 0).filled(0));
        for turn in 1..=20 {
            ok(c.memset(&memory, turn, memory.bytes()));
            ok(c.synchronize());
            let gate = c.gate(&stream);
            stream.copy(&back, &memory);
            let written = c.write_value(&stream, flag.at() + 7 * 4, turn as u32);
            c.succeeds("cuStreamWriteValue32", written);
            c.is("before", flag.value(7..8), turn as u32 - 1);
            gate.open();
            c.holds("the value arrives", flag.becomes(7, turn as u32));
            c.is("the copy", back.value_all(), turn as u32 * 0x0101_0101);
        }
        c.is("the next word", flag.value(8..9), 0);
    }
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
