//! The state of events.

use super::*;

cases! {
    /// An event is created with blocking wait, without timing, or both; other flags, and interprocess with timing, are refused.
    "events.flags" EVENT [cudaEventCreateWithFlags, cudaEventDestroy] |c| {
        for flags in 0..=3 {
            let event = c.event(flags);
            c.succeeds(format!("cudaEventDestroy, flags {flags}"), event.destroy());
        }
        c.gives("flags 64", c.event_create(64), INVALID_VALUE);
        c.refuses("shared with other processes, and with timing", c.event_create(4));
    }

    /// An event that was never recorded is done: queries and waits succeed.
    "events.unrecorded" EVENT [cudaEventQuery, cudaEventSynchronize] |c| {
        for flags in [0, sys::cudaEventDisableTiming] {
            let event = c.event(flags);
            c.succeeds("cudaEventQuery", event.query());
            c.succeeds("cudaEventSynchronize", event.synchronize());
        }
    }

    /// An event is not ready until the work before it is done.
    "events.query" EVENT [cudaEventRecord, cudaEventQuery] |c| {
        let (stream, event) = (c.stream(), c.mark());
        let gate = c.gate(&stream);
        c.succeeds("cudaEventRecord", event.record(&stream));
        gate.opens("held", event.query());
        ok(stream.synchronize());
        c.succeeds("done", event.query());
    }

    /// Waiting for an event returns when the work before it is done, whether the thread sleeps or spins.
    "events.synchronize-waits" EVENT [cudaEventSynchronize] |c| {
        let (stream, seen) = (c.stream(), c.pinned(4 * KIB, 0));
        let untimed = sys::cudaEventDisableTiming;
        for flags in [untimed, untimed | sys::cudaEventBlockingSync] {
            seen.fill_all(0);
            let event = c.event(flags);
            let gate = c.gate(&stream);
            c.add(&seen, 3, &stream);
            ok(event.record(&stream));
            gate.waits("cudaEventSynchronize", || event.synchronize());
            c.is("the work", seen.value_all(), 3);
        }
    }

    /// An event does not wait for work that was enqueued after it.
    "events.captures-what-was-before" EVENT [cudaEventRecord, cudaEventSynchronize] |c| {
        let (stream, seen, event) = (c.stream(), c.pinned(4 * KIB, 0).filled(0), c.mark());
        c.add(&seen, 3, &stream);
        ok(event.record(&stream));
        let gate = c.gate(&stream);
        c.succeeds("cudaEventSynchronize", event.synchronize());
        c.is("the work before", seen.value_all(), 3);
        gate.opens("the stream", stream.query());
    }

    /// Recording an event again replaces its earlier record.
    "events.record-again" EVENT [cudaEventRecord, cudaEventQuery] |c| {
        let (stream, other, event) = (c.stream(), c.stream(), c.mark());
        ok(event.record(&other));
        c.succeeds("cudaEventSynchronize", event.synchronize());
        let gate = c.gate(&stream);
        c.succeeds("cudaEventRecord again", event.record(&stream));
        c.gives("what it records now", event.query(), NOT_READY);
        c.succeeds("cudaEventRecord once more", event.record(&other));
        c.succeeds("cudaEventSynchronize, while the stream is held", event.synchronize());
        gate.open();
    }

    /// An event that is not done is destroyed at once, and the work continues.
    "events.destroy-pending" EVENT [cudaEventDestroy] |c| {
        let (stream, seen, event) = (c.stream(), c.pinned(4 * KIB, 0).filled(0), c.mark());
        let gate = c.gate(&stream);
        c.add(&seen, 1, &stream);
        ok(event.record(&stream));
        c.add(&seen, 2, &stream);
        c.gives("not done", event.query(), NOT_READY);
        c.succeeds("cudaEventDestroy", event.destroy());
        gate.open();
        c.ends(&stream, "the work", &seen, 3);
    }

    /// The null event cannot be queried, recorded, waited for or destroyed.
    "events.null" EVENT [cudaEventQuery, cudaEventRecord, cudaEventSynchronize, cudaEventDestroy] |c| {
        let stream = c.stream();
        c.refuses("cudaEventQuery", c.no_event().query());
        c.refuses("cudaEventRecord", c.no_event().record(&stream));
        c.refuses("cudaEventSynchronize", c.no_event().synchronize());
        c.refuses("cudaStreamWaitEvent", stream.wait(&c.no_event()));
        c.refuses("cudaEventDestroy", c.no_event().destroy());
    }

    /// The time between two events of a stream is not negative, and zero between an event and itself.
    "events.elapsed" EVENT [cudaEventElapsedTime] |c| {
        let (stream, memory) = (c.stream(), c.device(4 * MIB));
        let (start, end) = (c.event(0), c.event(0));
        ok(start.record(&stream));
        c.add(&memory, 1, &stream);
        ok(end.record(&stream));
        ok(end.synchronize());
        let milliseconds = c.succeeds("cudaEventElapsedTime", c.event_elapsed(&start, &end));
        c.holds("a kernel takes time", milliseconds > 0.0 && milliseconds < 10_000.0);
        let milliseconds = c.succeeds("to itself", c.event_elapsed(&end, &end));
        c.holds("none", milliseconds == 0.0);
    }

    /// The time to an event that was never recorded is an invalid handle.
    "events.elapsed-unrecorded" EVENT [cudaEventElapsedTime] |c| {
        let (stream, recorded, unrecorded) = (c.stream(), c.event(0), c.event(0));
        ok(recorded.record(&stream));
        ok(recorded.synchronize());
        c.gives("to it", c.event_elapsed(&recorded, &unrecorded), INVALID_HANDLE);
        c.gives("from it", c.event_elapsed(&unrecorded, &recorded), INVALID_HANDLE);
    }

    /// The time to an event without timing is an invalid handle.
    "events.elapsed-untimed" EVENT [cudaEventElapsedTime] |c| {
        let (stream, timed, untimed) = (c.stream(), c.event(0), c.mark());
        ok(timed.record(&stream));
        ok(untimed.record(&stream));
        ok(stream.synchronize());
        c.gives("to it", c.event_elapsed(&timed, &untimed), INVALID_HANDLE);
        c.gives("from it", c.event_elapsed(&untimed, &timed), INVALID_HANDLE);
    }

    /// The time to an event that is not done is not ready.
    "events.elapsed-pending" EVENT [cudaEventElapsedTime] |c| {
        let (stream, start, end) = (c.stream(), c.event(0), c.event(0));
        ok(start.record(&stream));
        ok(start.synchronize());
        let gate = c.gate(&stream);
        ok(end.record(&stream));
        c.gives("to it", c.event_elapsed(&start, &end), NOT_READY);
        gate.open();
        ok(end.synchronize());
        c.succeeds("when it is done", c.event_elapsed(&start, &end));
    }
}
