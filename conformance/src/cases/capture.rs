//! Stream capture: how it begins and ends, and what is part of it.

use super::prelude::*;
use crate::Failure;
use crate::call::{Graph, mode, status};
use cuda_um_sys as sys;

pub(super) const CASES: &[Case] = cases! {
    "capture.does-not-run" (does_not_run):
        "Work that is pushed into a stream in capture mode is not executed, but captured into a graph.",
        sources::STREAM, &["cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaStreamIsCapturing"];
    "capture.information" (information):
        "The next node of a stream comes after the nodes that the information of its capture names; the id is unique.",
        sources::STREAM, &["cudaStreamGetCaptureInfo", "cudaGraphGetNodes"];
    "capture.not-on-the-legacy-stream" (not_on_the_legacy_stream):
        "A capture may not be initiated on the legacy default stream, but on the default stream of the thread.",
        sources::STREAM, &["cudaStreamBeginCapture"];
    "capture.not-twice" (not_twice):
        "A capture may only be initiated if the stream is not already in capture mode.",
        sources::STREAM, &["cudaStreamBeginCapture"];
    "capture.ends-where-it-began" (ends_where_it_began):
        "A capture must be ended on the stream in which it was initiated.",
        sources::STREAM, &["cudaStreamEndCapture"];
    "capture.fork" (fork):
        "A stream that waits for an event of a capture joins the capture, and must be joined before it ends.",
        sources::GUIDE_GRAPHS, &["cudaStreamWaitEvent", "cudaEventRecord"];
    "capture.isolation" (isolation):
        "A wait for an event that was recorded outside of the capture is refused.",
        sources::GUIDE_GRAPHS, &["cudaStreamWaitEvent"];
    "capture.merge" (merge):
        "Two captures must not be merged by a wait for an event.",
        sources::GUIDE_GRAPHS, &["cudaStreamWaitEvent"];
    "capture.other-streams" (other_streams):
        "Work on streams that are not in capture mode runs during a capture.",
        sources::STREAM, &["cudaMemsetAsync", "cuLaunchKernel"];
    "capture.invalid-until-it-ends" (invalid_until_it_ends):
        "An invalidated stream refuses work until its capture is ended, which gives an error and no graph.",
        sources::GUIDE_GRAPHS, &["cudaStreamEndCapture"];
};

const UNTIMED: u32 = sys::cudaEventDisableTiming;

/// The graph of a capture that must succeed.
pub(super) fn end<'c>(c: &Cuda<'c>, stream: &Stream<'c>) -> Result<Graph<'c>, Failure> {
    let (code, graph) = stream.end()?;
    c.ok("cudaStreamEndCapture", code)?;
    graph.map_or_else(|| fail("no graph"), Ok)
}

pub(super) fn begin(c: &Cuda<'_>, stream: &Stream<'_>, mode: u32) -> Verdict {
    c.ok("cudaStreamBeginCapture", stream.begin(mode)?)
}

pub(super) fn status_of(c: &Cuda<'_>, stream: &Stream<'_>) -> Result<u32, Failure> {
    let (code, status) = stream.is_capturing()?;
    c.ok("cudaStreamIsCapturing", code)?;
    Ok(status)
}

/// A call during a capture gives a code, and invalidates the capture.
pub(super) fn invalidates(
    c: &Cuda<'_>,
    mode: u32,
    code: Code,
    run: impl FnOnce(&Stream<'_>) -> Result<Code, Failure>,
) -> Verdict {
    let stream = c.stream()?;
    begin(c, &stream, mode)?;
    let got = run(&stream);
    let after = status_of(c, &stream);
    let (ended, graph) = stream.end()?;
    c.gives("the call", got?, code)?;
    c.is("the status", after?, status::INVALIDATED)?;
    c.gives("cudaStreamEndCapture", ended, Code::CAPTURE_INVALIDATED)?;
    c.holds("no graph", graph.is_none())
}

fn does_not_run(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.pinned(4 * KIB, 0)?, c.stream()?);
    memory.fill_all(5);
    c.is("before", status_of(c, &stream)?, status::NONE)?;
    c.succeeds("cudaStreamBeginCapture", stream.begin(mode::THREAD_LOCAL)?)?;
    c.is("during", status_of(c, &stream)?, status::ACTIVE)?;
    c.succeeds(
        "cudaMemsetAsync",
        c.set_async(&memory, 0, memory.bytes(), &stream),
    )?;
    c.add(&memory, 1, &stream)?;
    let (code, graph) = stream.end()?;
    c.succeeds("cudaStreamEndCapture", code)?;
    c.is("after", status_of(c, &stream)?, status::NONE)?;
    c.holds("a graph", graph.is_some())?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("the memory", memory.value_all()?, 5)
}

fn information(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(4 * KIB)?, c.stream()?);
    c.is("no capture", stream.capture()?.status, status::NONE)?;
    begin(c, &stream, mode::THREAD_LOCAL)?;
    let first = stream.capture()?;
    let set = c.set_async(&memory, 0, memory.bytes(), &stream);
    let one = stream.capture()?;
    let added = c.add(&memory, 1, &stream);
    let two = stream.capture()?;
    let graph = end(c, &stream)?;
    c.ok("cudaMemsetAsync", set)?;
    added?;
    c.is("the status", first.status, status::ACTIVE)?;
    c.is("nodes at first", first.after.len(), 0)?;
    c.is("nodes", (one.after.len(), two.after.len()), (1, 1))?;
    c.holds(
        "one capture",
        first.id == two.id && first.graph == two.graph && first.graph != 0,
    )?;
    let nodes = graph.nodes()?;
    c.is("nodes of the graph", nodes.len(), 2)?;
    c.holds(
        "they are those",
        nodes.contains(&one.after[0]) && nodes.contains(&two.after[0]),
    )?;
    begin(c, &stream, mode::THREAD_LOCAL)?;
    let other = stream.capture()?;
    drop(end(c, &stream)?);
    c.holds("another id", other.id != first.id)
}

fn not_on_the_legacy_stream(c: &Cuda<'_>) -> Verdict {
    for raw in [0, LEGACY] {
        let stream = c.default_stream(raw);
        c.refuses("the legacy stream", stream.begin(mode::RELAXED)?)?;
    }
    let stream = c.default_stream(PER_THREAD);
    c.succeeds("the thread's stream", stream.begin(mode::RELAXED)?)?;
    end(c, &stream).map(drop)
}

fn not_twice(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    begin(c, &stream, mode::THREAD_LOCAL)?;
    let again = stream.begin(mode::THREAD_LOCAL)?;
    let (code, _graph) = stream.end()?;
    c.refuses("cudaStreamBeginCapture", again)?;
    c.gives("cudaStreamEndCapture", code, Code::SUCCESS)
}

fn ends_where_it_began(c: &Cuda<'_>) -> Verdict {
    let (stream, other, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    c.refuses("a stream that captures nothing", stream.end()?.0)?;
    begin(c, &stream, mode::THREAD_LOCAL)?;
    let forked = (event.record(&stream), other.wait(&event));
    let (code, graph) = other.end()?;
    drop(stream.end()?);
    c.is("the fork", forked, (Code::SUCCESS, Code::SUCCESS))?;
    c.gives("cudaStreamEndCapture", code, Code::CAPTURE_UNMATCHED)?;
    c.holds("no graph", graph.is_none())?;
    c.is("the status", status_of(c, &stream)?, status::NONE)
}

fn fork(c: &Cuda<'_>) -> Verdict {
    let (stream, other, memory) = (c.stream()?, c.stream()?, c.device_memory(4 * KIB)?);
    let (forked, joined) = (c.event(UNTIMED)?, c.event(UNTIMED)?);
    for joins in [true, false] {
        begin(c, &stream, mode::THREAD_LOCAL)?;
        let mut codes = vec![forked.record(&stream), other.wait(&forked)];
        let during = status_of(c, &other)?;
        codes.push(c.set_async(&memory, 0, memory.bytes(), &other));
        if joins {
            codes.extend([joined.record(&other), stream.wait(&joined)]);
        }
        let (code, graph) = stream.end()?;
        c.holds("the calls", codes.iter().all(|code| *code == Code::SUCCESS))?;
        c.is("the other stream", during, status::ACTIVE)?;
        let expected = if joins {
            Code::SUCCESS
        } else {
            Code::CAPTURE_UNJOINED
        };
        c.gives("cudaStreamEndCapture", code, expected)?;
        c.is("a graph", graph.is_some(), joins)?;
        c.is("afterwards", status_of(c, &other)?, status::NONE)?;
    }
    Ok(())
}

fn isolation(c: &Cuda<'_>) -> Verdict {
    let (outside, event) = (c.stream()?, c.event(UNTIMED)?);
    c.ok("cudaEventRecord", event.record(&outside))?;
    invalidates(c, mode::THREAD_LOCAL, Code::CAPTURE_ISOLATION, |stream| {
        Ok(stream.wait(&event))
    })
}

fn merge(c: &Cuda<'_>) -> Verdict {
    let (stream, other, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    begin(c, &stream, mode::THREAD_LOCAL)?;
    begin(c, &other, mode::THREAD_LOCAL)?;
    let recorded = event.record(&stream);
    let waited = other.wait(&event);
    let (code, graph) = other.end()?;
    drop(stream.end()?);
    c.ok("cudaEventRecord", recorded)?;
    c.gives("cudaStreamWaitEvent", waited, Code::CAPTURE_MERGE)?;
    c.gives("cudaStreamEndCapture", code, Code::CAPTURE_INVALIDATED)?;
    c.holds("no graph", graph.is_none())
}

fn other_streams(c: &Cuda<'_>) -> Verdict {
    let (stream, other, memory) = (c.stream()?, c.stream()?, c.pinned(4 * KIB, 0)?);
    memory.fill_all(9);
    begin(c, &stream, mode::RELAXED)?;
    let set = c.set_async(&memory, 0, memory.bytes(), &other);
    let added = c.add(&memory, 3, &other);
    let waited = other.synchronize();
    let seen = memory.value_all()?;
    drop(end(c, &stream)?);
    c.succeeds("cudaMemsetAsync", set)?;
    added?;
    c.succeeds("cudaStreamSynchronize", waited)?;
    c.is("the memory", seen, 3)
}

fn invalid_until_it_ends(c: &Cuda<'_>) -> Verdict {
    let (stream, memory) = (c.stream()?, c.device_memory(4 * KIB)?);
    begin(c, &stream, mode::RELAXED)?;
    let query = stream.query();
    let set = c.set_async(&memory, 0, memory.bytes(), &stream);
    let (code, graph) = stream.end()?;
    c.forget_error();
    c.holds("the query is refused", query != Code::SUCCESS)?;
    c.refuses("cudaMemsetAsync", set)?;
    c.gives("cudaStreamEndCapture", code, Code::CAPTURE_INVALIDATED)?;
    c.holds("no graph", graph.is_none())?;
    c.succeeds(
        "cudaMemsetAsync",
        c.set_async(&memory, 0, memory.bytes(), &stream),
    )?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())
}
