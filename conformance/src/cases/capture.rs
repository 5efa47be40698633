//! Stream capture: how it begins and ends, what is part of it, and calls that it refuses.

use super::*;

cases! {
    /// Work that is pushed into a stream in capture mode is not executed, but captured into a graph.
    "capture.does-not-run" STREAM [cudaStreamBeginCapture, cudaStreamEndCapture, cudaStreamIsCapturing] |c, stream| {
        let memory = c.pinned(4 * KIB, 0).filled(5);
        c.is("before", stream.status(), status::NONE);
        c.succeeds("cudaStreamBeginCapture", stream.begin(mode::THREAD_LOCAL));
        c.is("during", stream.status(), status::ACTIVE);
        c.succeeds("cudaMemsetAsync", c.memset_async(&memory, 0, memory.bytes(), &stream));
        stream.add(&memory, 1);
        let (ended, graph) = stream.end();
        c.succeeds("cudaStreamEndCapture", ended);
        c.is("after", stream.status(), status::NONE);
        c.holds("a graph", graph.is_some());
        stream.after("the memory", &memory, 5);
    }
    /// The next node of a stream comes after the nodes that the information of its capture names; the id is unique.
    "capture.information" STREAM [cudaStreamGetCaptureInfo, cudaGraphGetNodes] |c, stream| {
        let memory = c.device(4 * KIB);
        c.is("no capture", stream.capture().status, status::NONE);
        ok(stream.begin(mode::THREAD_LOCAL));
        let first = stream.capture();
        stream.set(&memory, 0);
        let one = stream.capture();
        stream.add(&memory, 1);
        let two = stream.capture();
        let graph = stream.end_well();
        c.is("the status", first.status, status::ACTIVE);
        c.is("nodes at first", first.after.len(), 0);
        c.is("nodes", (one.after.len(), two.after.len()), (1, 1));
        c.holds("one capture", first.id == two.id && first.graph == two.graph && first.graph != 0);
        let nodes = graph.nodes();
        c.is("nodes of the graph", nodes.len(), 2);
        c.holds("they are those", nodes.contains(&one.after[0]) && nodes.contains(&two.after[0]));
        ok(stream.begin(mode::THREAD_LOCAL));
        let other = stream.capture();
        drop(stream.end_well());
        c.holds("another id", other.id != first.id);
    }
    /// A capture may not be initiated on the legacy default stream, but on the default stream of the thread.
    "capture.not-on-the-legacy-stream" STREAM [cudaStreamBeginCapture] |c| {
        for raw in [0, LEGACY] {
            c.refuses("the legacy stream", c.begin_capture(raw, mode::RELAXED));
        }
        let stream = c.stream_at(PER_THREAD);
        c.succeeds("the thread's stream", stream.begin(mode::RELAXED));
        stream.end_well();
    }
    /// A capture may only be initiated if the stream is not already in capture mode.
    "capture.not-twice" STREAM [cudaStreamBeginCapture] |c, stream| {
        ok(stream.begin(mode::THREAD_LOCAL));
        let again = stream.begin(mode::THREAD_LOCAL);
        let (ended, _graph) = stream.end();
        c.refuses("cudaStreamBeginCapture", again);
        c.succeeds("cudaStreamEndCapture", ended);
    }
    /// A capture must be ended on the stream in which it was initiated.
    "capture.ends-where-it-began" STREAM [cudaStreamEndCapture] |c, stream, other; event| {
        c.refuses("a stream that captures nothing", stream.end().0);
        ok(stream.begin(mode::THREAD_LOCAL));
        let forked = (code_of(&event.record(&stream)), code_of(&other.wait(&event)));
        let (ended, graph) = other.end();
        drop(stream.end());
        c.is("the fork", forked, (SUCCESS, SUCCESS));
        c.gives("cudaStreamEndCapture", ended, CAPTURE_UNMATCHED);
        c.holds("no graph", graph.is_none());
        c.is("the status", stream.status(), status::NONE);
    }
    /// A stream that waits for an event of a capture joins the capture, and must be joined before it ends.
    "capture.fork" GUIDE_GRAPHS [cudaStreamWaitEvent, cudaEventRecord] |c, stream, other; forked, joined| {
        let memory = c.device(4 * KIB);
        for joins in [true, false] {
            ok(stream.begin(mode::THREAD_LOCAL));
            let mut calls = vec![forked.record(&stream), other.wait(&forked)];
            let during = other.status();
            calls.push(c.memset_async(&memory, 0, memory.bytes(), &other));
            if joins {
                calls.extend([joined.record(&other), stream.wait(&joined)]);
            }
            let (ended, graph) = stream.end();
            c.holds("the calls", calls.iter().all(Called::is_ok));
            c.is("the other stream", during, status::ACTIVE);
            c.gives("cudaStreamEndCapture", ended, if joins { SUCCESS } else { CAPTURE_UNJOINED });
            c.is("a graph", graph.is_some(), joins);
            c.is("afterwards", other.status(), status::NONE);
        }
    }
    /// A wait for an event that was recorded outside of the capture is refused.
    "capture.isolation" GUIDE_GRAPHS [cudaStreamWaitEvent] |c, outside; event| {
        outside.record(&event);
        invalidates(c, mode::THREAD_LOCAL, CAPTURE_ISOLATION, |stream| stream.wait(&event));
    }
    /// Two captures must not be merged by a wait for an event.
    "capture.merge" GUIDE_GRAPHS [cudaStreamWaitEvent] |c, stream, other; event| {
        ok(stream.begin(mode::THREAD_LOCAL));
        ok(other.begin(mode::THREAD_LOCAL));
        stream.record(&event);
        let waited = other.wait(&event);
        let (ended, graph) = other.end();
        drop(stream.end());
        c.gives("cudaStreamWaitEvent", waited, CAPTURE_MERGE);
        c.gives("cudaStreamEndCapture", ended, CAPTURE_INVALIDATED);
        c.holds("no graph", graph.is_none());
    }
    /// Work on streams that are not in capture mode runs during a capture.
    "capture.other-streams" STREAM [cudaMemsetAsync, cuLaunchKernel] |c, stream, other| {
        let memory = c.pinned(4 * KIB, 0).filled(9);
        ok(stream.begin(mode::RELAXED));
        let set = c.memset_async(&memory, 0, memory.bytes(), &other);
        other.add(&memory, 3);
        let waited = other.synchronize();
        let seen = memory.value_all();
        drop(stream.end_well());
        c.succeeds("cudaMemsetAsync", set);
        c.succeeds("cudaStreamSynchronize", waited);
        c.is("the memory", seen, 3);
    }
    /// An invalidated stream refuses work until its capture is ended, which gives an error and no graph.
    "capture.invalid-until-it-ends" GUIDE_GRAPHS [cudaStreamEndCapture] |c, stream| {
        let memory = c.device(4 * KIB);
        ok(stream.begin(mode::RELAXED));
        let query = stream.query();
        let set = c.memset_async(&memory, 0, memory.bytes(), &stream);
        let (ended, graph) = stream.end();
        c.forget_error();
        c.holds("the query is refused", query.is_err());
        c.refuses("cudaMemsetAsync", set);
        c.gives("cudaStreamEndCapture", ended, CAPTURE_INVALIDATED);
        c.holds("no graph", graph.is_none());
        c.succeeds("cudaMemsetAsync", c.memset_async(&memory, 0, memory.bytes(), &stream));
        stream.done("cudaStreamSynchronize");
    }
    /// A capture must be ended by the thread that began it, unless its mode is relaxed.
    "capture.ends-on-its-thread" STREAM [cudaStreamEndCapture] |c| {
        let wrong = CAPTURE_WRONG_THREAD;
        for (chosen, code) in [(mode::THREAD_LOCAL, wrong), (mode::RELAXED, SUCCESS)] {
            let stream = c.stream();
            ok(stream.begin(chosen));
            let got = { let raw = stream.at(); c.elsewhere(move |c| c.stream_at(raw).end().0) };
            if stream.status() != status::NONE {
                drop(stream.end());
            }
            c.gives("cudaStreamEndCapture", got, code);
        }
    }
    /// The host cannot query an event that was last recorded in a capture, nor wait for it, until it is recorded again.
    "capture.captured-event" GUIDE_GRAPHS [cudaEventQuery, cudaEventSynchronize] |c; event| {
        for waits in [false, true] {
            invalidates(c, mode::RELAXED, CAPTURED_EVENT, |stream| {
                stream.record(&event);
                if waits { event.synchronize() } else { event.query() }
            });
        }
        c.succeeds("cudaEventRecord", event.record(&c.stream()));
        c.succeeds("cudaEventSynchronize", event.synchronize());
        c.succeeds("cudaEventQuery", event.query());
    }
    /// A stream in capture mode cannot be queried, and the host cannot wait for it or for its device.
    "capture.host-waits" GUIDE_GRAPHS [cudaStreamQuery, cudaStreamSynchronize, cudaDeviceSynchronize] |c| {
        let refused = CAPTURE_UNSUPPORTED;
        invalidates(c, mode::RELAXED, refused, |stream| stream.query());
        invalidates(c, mode::RELAXED, refused, |stream| stream.synchronize());
        invalidates(c, mode::RELAXED, refused, |_| c.synchronize());
    }
    /// Attaching managed memory to a stream in capture mode is refused.
    "capture.attach" GUIDE_GRAPHS [cudaStreamAttachMemAsync] (Managed) |c| {
        let memory = c.managed(4 * KIB);
        invalidates(c, mode::RELAXED, CAPTURE_UNSUPPORTED, |stream| {
            c.attach(stream, &memory, sys::cudaMemAttachHost)
        });
    }
    /// A prefetch in a stream in capture mode is refused, and so is a batch of prefetches.
    "capture.prefetch" GUIDE_GRAPHS [cudaMemPrefetchAsync] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        let refused = CAPTURE_UNSUPPORTED;
        invalidates(c, mode::RELAXED, refused, |stream| c.prefetch(&memory, DEVICE, stream));
        if Since(13, 0).is_met(&c.machine.facts) {
            invalidates(c, mode::RELAXED, refused, |stream| {
                c.prefetch_batch(&[memory.span()], &[(DEVICE, 0)], false, 0, stream)
            });
        }
    }
    /// Advice is refused while the thread captures.
    "capture.advice" STREAM [cudaMemAdvise] (Concurrent) |c| {
        let memory = c.managed(64 * KIB);
        invalidates(c, mode::THREAD_LOCAL, CAPTURE_UNSUPPORTED, |_| {
            c.advise(&memory, SET_READ_MOSTLY, DEVICE)
        });
    }
    /// A thread that captures may not allocate memory, unless the capture is relaxed.
    "capture.allocation" STREAM [cudaMalloc] |c| {
        for chosen in [mode::GLOBAL, mode::THREAD_LOCAL] {
            invalidates(c, chosen, CAPTURE_UNSUPPORTED, |_| c.malloc(4 * KIB));
        }
        let stream = c.stream();
        ok(stream.begin(mode::RELAXED));
        let memory = c.try_device(4 * KIB);
        drop(stream.end_well());
        c.holds("a relaxed capture", memory.is_ok());
    }
    /// Another thread may make unsafe calls during a capture of mode thread-local, during one of mode global only in another mode.
    "capture.other-threads" STREAM [cudaThreadExchangeStreamCaptureMode, cudaMalloc] |c| {
        c.is("the default", ok(c.exchange_mode(mode::GLOBAL)), mode::GLOBAL);
        for (capture, thread, refused) in [
            (mode::THREAD_LOCAL, mode::GLOBAL, false), (mode::GLOBAL, mode::THREAD_LOCAL, false),
            (mode::GLOBAL, mode::RELAXED, false), (mode::GLOBAL, mode::GLOBAL, true),
        ] {
            let (allocated, ended) = beside(c, capture, thread);
            let codes = match refused {
                true => [CAPTURE_UNSUPPORTED, CAPTURE_INVALIDATED],
                false => [SUCCESS; 2],
            };
            c.gives("the allocation", allocated, codes[0]);
            c.gives("cudaStreamEndCapture", ended, codes[1]);
        }
    }
    /// The legacy default stream and its status cannot be used while a blocking stream is in capture mode; beside a non-blocking one they can.
    "capture.legacy-stream" GUIDE_GRAPHS [cudaMemsetAsync, cudaStreamIsCapturing] |c| {
        let (memory, legacy) = (c.device(4 * KIB), c.stream_at(LEGACY));
        let stream = c.stream_with(sys::cudaStreamDefault);
        ok(stream.begin(mode::RELAXED));
        let asked = c.capture_status(&legacy);
        let after = stream.status();
        let set = c.memset_async(&memory, 0, memory.bytes(), &legacy);
        let (ended, graph) = stream.end();
        c.gives("cudaStreamIsCapturing", asked, CAPTURE_IMPLICIT);
        c.is("the capture", after, status::ACTIVE);
        c.gives("cudaMemsetAsync", set, CAPTURE_IMPLICIT);
        c.gives("cudaStreamEndCapture", ended, CAPTURE_INVALIDATED);
        c.holds("no graph", graph.is_none());
        let stream = c.stream();
        ok(stream.begin(mode::RELAXED));
        let set = c.memset_async(&memory, 0, memory.bytes(), &legacy);
        drop(stream.end_well());
        c.succeeds("beside a non-blocking stream", set);
    }
}

/// A call during a capture gives a code, and invalidates the capture.
fn invalidates<T>(
    c: &Cuda<'_>,
    mode: u32,
    code: Code,
    run: impl FnOnce(&Stream<'_>) -> Called<T>,
) {
    let stream = c.stream();
    ok(stream.begin(mode));
    let got = run(&stream);
    let after = stream.status();
    let (ended, graph) = stream.end();
    c.gives("the call", got, code);
    c.is("the status", after, status::INVALIDATED);
    c.gives("cudaStreamEndCapture", ended, CAPTURE_INVALIDATED);
    c.holds("no graph", graph.is_none())
}

/// Allocates on another thread in a mode, during a capture: the results of the allocation, and of the end of the capture.
fn beside(c: &Cuda<'_>, capture: u32, thread: u32) -> (Called, Called) {
    let stream = c.stream();
    ok(stream.begin(capture));
    let allocated = c.elsewhere(|c| {
        ok(c.exchange_mode(thread));
        c.malloc(4 * KIB)
    });
    let (ended, _graph) = stream.end();
    // Freed after the capture: a free is unsafe, too.
    ok(c.free(allocated.unwrap_or(0)));
    c.forget_error();
    (allocated.map(drop), ended)
}
