//! Stream capture: how it begins and ends, and what is part of it.

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
            let expected = if joins { SUCCESS } else { CAPTURE_UNJOINED };
            c.gives("cudaStreamEndCapture", ended, expected);
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
}

/// A call during a capture gives a code, and invalidates the capture.
pub(super) fn invalidates<T>(
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
