//! The state of events, and the order that they create.

use super::*;

cases! {
    /// An event is created with blocking wait, without timing, or both; other flags, and interprocess with timing, are refused.
    "events.flags" EVENT [cudaEventCreateWithFlags, cudaEventDestroy] |c| {
        for flags in 0..=3 {
            c.succeeds(format!("cudaEventDestroy, flags {flags}"), c.event(flags).destroy());
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
        c.holds("none", c.succeeds("to itself", c.event_elapsed(&end, &end)) == 0.0);
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
    /// Work after a wait begins when the work before the event is done.
    "event-order.wait" STREAM [cudaStreamWaitEvent, cudaEventRecord] |c, first, second; event| {
        let (memory, out) = (c.device(64 * KIB), c.pinned(64 * KIB, 0).filled(0));
        let gate = c.gate(&first);
        first.set(&memory, 0).add(&memory, 21).record(&event);
        c.succeeds("cudaStreamWaitEvent", second.wait(&event));
        second.copy(&out, &memory);
        gate.opens("the second stream", second.query());
        second.ends("what the first wrote", &out, 21);
    }
    /// The stream waits, not the host, and only later work of the stream is held.
    "event-order.wait-does-not-block" STREAM [cudaStreamWaitEvent] |c, first, second; event, before| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&first);
        first.record(&event);
        second.add(&seen, 2).record(&before);
        c.succeeds("cudaStreamWaitEvent", second.wait(&event));
        c.succeeds("the work before the wait", before.synchronize());
        c.is("its result", seen.value_all(), 2);
        second.add(&seen, 3);
        gate.opens("the waiting stream", second.query());
        second.ends("the work behind it", &seen, 5);
    }
    /// A wait for an event that was never recorded holds no work, also if it is recorded later.
    "event-order.wait-before-record" EVENT [cudaStreamWaitEvent] |c, first, second; event| {
        let gate = c.gate(&first);
        c.succeeds("cudaStreamWaitEvent", second.wait(&event));
        first.record(&event);
        second.done("cudaStreamSynchronize");
        gate.opens("the event", event.query());
    }
    /// A wait is for the state of the event when the wait was enqueued; later records do not change it.
    "event-order.wait-takes-what-was-recorded" EVENT [cudaStreamWaitEvent, cudaEventRecord] |c, first, second, third; event| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        third.record(&event);
        let gate = c.gate(&first);
        second.join(&event);
        first.record(&event);
        second.done("recorded done, then not done");
        // The other way round: the recorded work is not done, and the event is recorded again after finished work.
        second.join(&event).add(&seen, 1);
        third.record(&event);
        ok(event.synchronize());
        gate.opens("recorded not done, then done", second.query());
        second.ends("the work", &seen, 1);
    }
    /// A wait stays valid if its event is destroyed.
    "event-order.destroyed-event-orders" EVENT [cudaStreamWaitEvent, cudaEventDestroy] |c, first, second; event| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&first);
        first.record(&event);
        second.join(&event);
        c.succeeds("cudaEventDestroy", event.destroy());
        second.add(&seen, 1);
        gate.opens("the waiting stream", second.query());
        second.done("cudaStreamSynchronize");
    }
    /// Order is transitive over several streams.
    "event-order.chain" STREAM [cudaStreamWaitEvent] |c| {
        let (memory, out) = (c.device(64 * KIB).zeroed(), c.pinned(64 * KIB, 0));
        let streams = [c.stream(), c.stream(), c.stream(), c.stream()];
        let events = [c.mark(), c.mark(), c.mark()];
        let gate = c.gate(&streams[0]);
        for (index, event) in events.iter().enumerate() {
            streams[index].add(&memory, 1 << index).record(event);
            streams[index + 1].join(event);
        }
        streams[3].copy(&out, &memory);
        c.gives("the last stream", streams[3].query(), NOT_READY);
        gate.open();
        streams[3].ends("all were before it", &out, 7);
    }
    /// The default streams also wait for events.
    "event-order.default-streams" STREAM [cudaStreamWaitEvent] |c| {
        for raw in [LEGACY, PER_THREAD] {
            let (held, waiting, event) = (c.stream(), c.stream_at(raw), c.mark());
            let seen = c.pinned(4 * KIB, 0).filled(0);
            let gate = c.gate(&held);
            held.record(&event);
            c.succeeds("cudaStreamWaitEvent", waiting.wait(&event));
            waiting.add(&seen, 1);
            gate.opens("it waits", waiting.query());
            waiting.done("cudaStreamSynchronize");
        }
    }
    /// A stream that waits for its own event continues.
    "event-order.own-stream" STREAM [cudaStreamWaitEvent] |c, stream; event| {
        let seen = c.pinned(4 * KIB, 0).filled(0);
        stream.add(&seen, 1).record(&event);
        c.succeeds("cudaStreamWaitEvent", stream.wait(&event));
        stream.add(&seen, 1).ends("the work", &seen, 2);
    }
}
