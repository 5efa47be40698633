//! The order that events create.

use super::*;

cases! {
    /// Work after a wait begins when the work before the event is done.
    "event-order.wait" STREAM [cudaStreamWaitEvent, cudaEventRecord] |c| {
        let (memory, out) = (c.device(64 * KIB), c.pinned(64 * KIB, 0).filled(0));
        let (first, second, event) = (c.stream(), c.stream(), c.mark());
        let gate = c.gate(&first);
        ok(c.memset_async(&memory, 0, memory.bytes(), &first));
        c.add(&memory, 21, &first);
        ok(event.record(&first));
        c.succeeds("cudaStreamWaitEvent", second.wait(&event));
        ok(c.copy_async(&out, &memory, DEFAULT, &second));
        gate.opens("the second stream", second.query());
        c.ends(&second, "what the first wrote", &out, 21);
    }

    /// The stream waits, not the host, and only later work of the stream is held.
    "event-order.wait-does-not-block" STREAM [cudaStreamWaitEvent] |c| {
        let (first, second, event) = (c.stream(), c.stream(), c.mark());
        let (before, seen) = (c.mark(), c.pinned(4 * KIB, 0).filled(0));
        let gate = c.gate(&first);
        ok(event.record(&first));
        c.add(&seen, 2, &second);
        ok(before.record(&second));
        c.succeeds("cudaStreamWaitEvent", second.wait(&event));
        c.succeeds("the work before the wait", before.synchronize());
        c.is("its result", seen.value_all(), 2);
        c.add(&seen, 3, &second);
        gate.opens("the waiting stream", second.query());
        c.ends(&second, "the work behind it", &seen, 5);
    }

    /// A wait for an event that was never recorded holds no work, also if it is recorded later.
    "event-order.wait-before-record" EVENT [cudaStreamWaitEvent] |c| {
        let (first, second, event) = (c.stream(), c.stream(), c.mark());
        let gate = c.gate(&first);
        c.succeeds("cudaStreamWaitEvent", second.wait(&event));
        ok(event.record(&first));
        c.succeeds("cudaStreamSynchronize", second.synchronize());
        gate.opens("the event", event.query());
    }

    /// A wait is for the state of the event when the wait was enqueued; later records do not change it.
    "event-order.wait-takes-what-was-recorded" EVENT [cudaStreamWaitEvent, cudaEventRecord] |c| {
        let (first, second, event) = (c.stream(), c.stream(), c.mark());
        let (third, seen) = (c.stream(), c.pinned(4 * KIB, 0).filled(0));
        ok(event.record(&third));
        let gate = c.gate(&first);
        ok(second.wait(&event));
        ok(event.record(&first));
        c.succeeds("recorded done, then not done", second.synchronize());
        // The other way round: the recorded work is not done, and the event is recorded again after finished work.
        ok(second.wait(&event));
        c.add(&seen, 1, &second);
        ok(event.record(&third));
        ok(event.synchronize());
        gate.opens("recorded not done, then done", second.query());
        c.ends(&second, "the work", &seen, 1);
    }

    /// A wait stays valid if its event is destroyed.
    "event-order.destroyed-event-orders" EVENT [cudaStreamWaitEvent, cudaEventDestroy] |c| {
        let (first, second, event) = (c.stream(), c.stream(), c.mark());
        let seen = c.pinned(4 * KIB, 0).filled(0);
        let gate = c.gate(&first);
        ok(event.record(&first));
        ok(second.wait(&event));
        c.succeeds("cudaEventDestroy", event.destroy());
        c.add(&seen, 1, &second);
        gate.opens("the waiting stream", second.query());
        c.succeeds("cudaStreamSynchronize", second.synchronize());
    }

    /// Order is transitive over several streams.
    "event-order.chain" STREAM [cudaStreamWaitEvent] |c| {
        let (memory, out) = (c.device(64 * KIB).zeroed(), c.pinned(64 * KIB, 0));
        let streams = [c.stream(), c.stream(), c.stream(), c.stream()];
        let events = [c.mark(), c.mark(), c.mark()];
        let gate = c.gate(&streams[0]);
        for (index, event) in events.iter().enumerate() {
            c.add(&memory, 1 << index, &streams[index]);
            ok(event.record(&streams[index]));
            ok(streams[index + 1].wait(event));
        }
        ok(c.copy_async(&out, &memory, DEFAULT, &streams[3]));
        c.gives("the last stream", streams[3].query(), NOT_READY);
        gate.open();
        c.ends(&streams[3], "all were before it", &out, 7);
    }

    /// The default streams also wait for events.
    "event-order.default-streams" STREAM [cudaStreamWaitEvent] |c| {
        for raw in [LEGACY, PER_THREAD] {
            let (held, waiting, event) = (c.stream(), c.stream_at(raw), c.mark());
            let seen = c.pinned(4 * KIB, 0).filled(0);
            let gate = c.gate(&held);
            ok(event.record(&held));
            c.succeeds("cudaStreamWaitEvent", waiting.wait(&event));
            c.add(&seen, 1, &waiting);
            gate.opens("it waits", waiting.query());
            c.succeeds("cudaStreamSynchronize", waiting.synchronize());
        }
    }

    /// A stream that waits for its own event continues.
    "event-order.own-stream" STREAM [cudaStreamWaitEvent] |c| {
        let (stream, event, seen) = (c.stream(), c.mark(), c.pinned(4 * KIB, 0).filled(0));
        c.add(&seen, 1, &stream);
        ok(event.record(&stream));
        c.succeeds("cudaStreamWaitEvent", stream.wait(&event));
        c.add(&seen, 1, &stream);
        c.ends(&stream, "the work", &seen, 2);
    }
}
