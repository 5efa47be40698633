//! The order that events create.

use super::*;

cases! {
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
            streams[index].add(&memory, 1 << index).record(&event);
            ok(streams[index + 1].wait(event));
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
