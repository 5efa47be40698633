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
    "events.query" EVENT [cudaEventRecord, cudaEventQuery] |c, stream; event| {
        let gate = c.gate(&stream);
        c.succeeds("cudaEventRecord", event.record(&stream));
        gate.opens("held", event.query());
        stream.sync();
        c.succeeds("done", event.query());
    }
    /// Waiting for an event returns when the work before it is done, whether the thread sleeps or spins.
    "events.synchronize-waits" EVENT [cudaEventSynchronize] |c, stream| {
        let seen = c.pinned(4 * KIB, 0);
        let untimed = sys::cudaEventDisableTiming;
        for flags in [untimed, untimed | sys::cudaEventBlockingSync] {
            seen.fill_all(0);
            let event = c.event(flags);
            let gate = c.gate(&stream);
            stream.add(&seen, 3).record(&event);
            gate.waits("cudaEventSynchronize", || event.synchronize());
            c.is("the work", seen.value_all(), 3);
        }
    }
    /// An event does not wait for work that was enqueued after it.
    "events.captures-what-was-before" EVENT [cudaEventRecord, cudaEventSynchronize] |c, stream; event| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        stream.add(&seen, 3).record(&event);
        let gate = c.gate(&stream);
        c.succeeds("cudaEventSynchronize", event.synchronize());
        c.is("the work before", seen.value_all(), 3);
        gate.opens("the stream", stream.query());
    }
    /// Recording an event again replaces its earlier record.
    "events.record-again" EVENT [cudaEventRecord, cudaEventQuery] |c, stream, other; event| {
        other.record(&event);
        c.succeeds("cudaEventSynchronize", event.synchronize());
        let gate = c.gate(&stream);
        c.succeeds("cudaEventRecord again", event.record(&stream));
        c.gives("what it records now", event.query(), NOT_READY);
        c.succeeds("cudaEventRecord once more", event.record(&other));
        c.succeeds("cudaEventSynchronize, while the stream is held", event.synchronize());
        gate.open();
    }
    /// An event that is not done is destroyed at once, and the work continues.
    "events.destroy-pending" EVENT [cudaEventDestroy] |c, stream; event| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&stream);
        stream.add(&seen, 1).record(&event).add(&seen, 2);
        c.gives("not done", event.query(), NOT_READY);
        c.succeeds("cudaEventDestroy", event.destroy());
        gate.open();
        stream.ends("the work", &seen, 3);
    }
    /// The null event cannot be queried, recorded, waited for or destroyed.
    "events.null" EVENT [cudaEventQuery, cudaEventRecord, cudaEventSynchronize, cudaEventDestroy] |c, stream| {
        c.refuses("cudaEventQuery", c.no_event().query());
        c.refuses("cudaEventRecord", c.no_event().record(&stream));
        c.refuses("cudaEventSynchronize", c.no_event().synchronize());
        c.refuses("cudaStreamWaitEvent", stream.wait(&c.no_event()));
        c.refuses("cudaEventDestroy", c.no_event().destroy());
    }
    /// The time between two events of a stream is not negative, and zero between an event and itself.
    "events.elapsed" EVENT [cudaEventElapsedTime] |c, stream| {
        let (memory, start, end) = (c.device(4 * MIB), c.event(0), c.event(0));
        stream.record(&start).add(&memory, 1).record(&end);
        end.sync();
        let milliseconds = c.succeeds("cudaEventElapsedTime", c.event_elapsed(&start, &end));
        c.holds("a kernel takes time", milliseconds > 0.0 && milliseconds < 10_000.0);
        let milliseconds = c.succeeds("to itself", c.event_elapsed(&end, &end));
        c.holds("none", milliseconds == 0.0);
    }
    /// The time to an event that was never recorded is an invalid handle.
    "events.elapsed-unrecorded" EVENT [cudaEventElapsedTime] |c, stream| {
        let (recorded, unrecorded) = (c.event(0), c.event(0));
        stream.record(&recorded);
        recorded.sync();
        c.gives("to it", c.event_elapsed(&recorded, &unrecorded), INVALID_HANDLE);
        c.gives("from it", c.event_elapsed(&unrecorded, &recorded), INVALID_HANDLE);
    }
    /// The time to an event without timing is an invalid handle.
    "events.elapsed-untimed" EVENT [cudaEventElapsedTime] |c, stream; untimed| {
        let timed = c.event(0);
        stream.record(&timed).record(&untimed).sync();
        c.gives("to it", c.event_elapsed(&timed, &untimed), INVALID_HANDLE);
        c.gives("from it", c.event_elapsed(&untimed, &timed), INVALID_HANDLE);
    }
    /// The time to an event that is not done is not ready.
    "events.elapsed-pending" EVENT [cudaEventElapsedTime] |c, stream| {
        let (start, end) = (c.event(0), c.event(0));
        stream.record(&start);
        start.sync();
        let gate = c.gate(&stream);
        stream.record(&end);
        c.gives("to it", c.event_elapsed(&start, &end), NOT_READY);
        gate.open();
        end.sync();
        c.succeeds("when it is done", c.event_elapsed(&start, &end));
    }
}
