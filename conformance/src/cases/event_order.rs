//! The order that events create.

use super::prelude::*;
use cuda_um_sys as sys;

const UNTIMED: u32 = sys::cudaEventDisableTiming;

pub(super) const CASES: &[Case] = cases! {
    "event-order.wait" (wait):
        "Work after a wait begins when the work before the event is done.",
        sources::STREAM, &["cudaStreamWaitEvent", "cudaEventRecord"];
    "event-order.wait-does-not-block" (wait_does_not_block):
        "The stream waits, not the host, and only later work of the stream is held.",
        sources::STREAM, &["cudaStreamWaitEvent"];
    "event-order.wait-before-record" (wait_before_record):
        "A wait for an event that was never recorded holds no work, also if it is recorded later.",
        sources::EVENT, &["cudaStreamWaitEvent"];
    "event-order.wait-takes-what-was-recorded" (wait_takes_what_was_recorded):
        "A wait is for the state of the event when the wait was enqueued; later records do not change it.",
        sources::EVENT, &["cudaStreamWaitEvent", "cudaEventRecord"];
    "event-order.destroyed-event-orders" (destroyed_event_orders):
        "A wait stays valid if its event is destroyed.",
        sources::EVENT, &["cudaStreamWaitEvent", "cudaEventDestroy"];
    "event-order.chain" (chain):
        "Order is transitive over several streams.",
        sources::STREAM, &["cudaStreamWaitEvent"];
    "event-order.default-streams" (default_streams):
        "The default streams also wait for events.",
        sources::STREAM, &["cudaStreamWaitEvent"];
    "event-order.own-stream" (own_stream):
        "A stream that waits for its own event continues.",
        sources::STREAM, &["cudaStreamWaitEvent"];
};

fn wait(c: &Cuda<'_>) -> Verdict {
    let (memory, out) = (c.device_memory(64 * KIB)?, c.pinned(64 * KIB, 0)?);
    let (first, second, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    out.fill_all(0);
    let gate = c.gate(&first)?;
    c.ok(
        "cudaMemsetAsync",
        c.set_async(&memory, 0, memory.bytes(), &first),
    )?;
    c.add(&memory, 21, &first)?;
    c.ok("cudaEventRecord", event.record(&first))?;
    c.succeeds("cudaStreamWaitEvent", second.wait(&event))?;
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &second),
    )?;
    c.gives("the second stream", second.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("what the first wrote", out.value_all()?, 21)
}

fn wait_does_not_block(c: &Cuda<'_>) -> Verdict {
    let (first, second, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    let (before, seen) = (c.event(UNTIMED)?, c.pinned(4 * KIB, 0)?);
    seen.fill_all(0);
    let gate = c.gate(&first)?;
    c.ok("cudaEventRecord", event.record(&first))?;
    c.add(&seen, 2, &second)?;
    c.ok("cudaEventRecord", before.record(&second))?;
    c.succeeds("cudaStreamWaitEvent", second.wait(&event))?;
    c.succeeds("the work before the wait", before.synchronize())?;
    c.is("its result", seen.value_all()?, 2)?;
    c.add(&seen, 3, &second)?;
    c.gives("the waiting stream", second.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("the work behind it", seen.value_all()?, 5)
}

fn wait_before_record(c: &Cuda<'_>) -> Verdict {
    let (first, second, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    let gate = c.gate(&first)?;
    c.succeeds("cudaStreamWaitEvent", second.wait(&event))?;
    c.ok("cudaEventRecord", event.record(&first))?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.gives("the event", event.query(), Code::NOT_READY)?;
    gate.open()
}

fn wait_takes_what_was_recorded(c: &Cuda<'_>) -> Verdict {
    let (first, second, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    let (third, seen) = (c.stream()?, c.pinned(4 * KIB, 0)?);
    seen.fill_all(0);
    c.ok("cudaEventRecord", event.record(&third))?;
    let gate = c.gate(&first)?;
    c.ok("cudaStreamWaitEvent", second.wait(&event))?;
    c.ok("cudaEventRecord", event.record(&first))?;
    c.succeeds("recorded done, then not done", second.synchronize())?;
    // The other way round: the recorded work is not done, and the event is recorded again after finished work.
    c.ok("cudaStreamWaitEvent", second.wait(&event))?;
    c.add(&seen, 1, &second)?;
    c.ok("cudaEventRecord", event.record(&third))?;
    c.ok("cudaEventSynchronize", event.synchronize())?;
    c.gives(
        "recorded not done, then done",
        second.query(),
        Code::NOT_READY,
    )?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("the work", seen.value_all()?, 1)
}

fn destroyed_event_orders(c: &Cuda<'_>) -> Verdict {
    let (first, second, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    let seen = c.pinned(4 * KIB, 0)?;
    seen.fill_all(0);
    let gate = c.gate(&first)?;
    c.ok("cudaEventRecord", event.record(&first))?;
    c.ok("cudaStreamWaitEvent", second.wait(&event))?;
    c.succeeds("cudaEventDestroy", event.destroy())?;
    c.add(&seen, 1, &second)?;
    c.gives("the waiting stream", second.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())
}

fn chain(c: &Cuda<'_>) -> Verdict {
    let (memory, out) = (c.device_memory(64 * KIB)?, c.pinned(64 * KIB, 0)?);
    let streams = [c.stream()?, c.stream()?, c.stream()?, c.stream()?];
    let events = [c.event(UNTIMED)?, c.event(UNTIMED)?, c.event(UNTIMED)?];
    c.ok("cudaMemset", c.set(&memory, 0, memory.bytes()))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    let gate = c.gate(&streams[0])?;
    for (index, event) in events.iter().enumerate() {
        c.add(&memory, 1 << index, &streams[index])?;
        c.ok("cudaEventRecord", event.record(&streams[index]))?;
        c.ok("cudaStreamWaitEvent", streams[index + 1].wait(event))?;
    }
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(&out, &memory, kind::DEFAULT, &streams[3]),
    )?;
    c.gives("the last stream", streams[3].query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", streams[3].synchronize())?;
    c.is("all were before it", out.value_all()?, 7)
}

fn default_streams(c: &Cuda<'_>) -> Verdict {
    for raw in [LEGACY, PER_THREAD] {
        let (held, waiting, event) = (c.stream()?, c.default_stream(raw), c.event(UNTIMED)?);
        let seen = c.pinned(4 * KIB, 0)?;
        seen.fill_all(0);
        let gate = c.gate(&held)?;
        c.ok("cudaEventRecord", event.record(&held))?;
        c.succeeds("cudaStreamWaitEvent", waiting.wait(&event))?;
        c.add(&seen, 1, &waiting)?;
        c.gives("it waits", waiting.query(), Code::NOT_READY)?;
        gate.open()?;
        c.succeeds("cudaStreamSynchronize", waiting.synchronize())?;
    }
    Ok(())
}

fn own_stream(c: &Cuda<'_>) -> Verdict {
    let (stream, event, seen) = (c.stream()?, c.event(UNTIMED)?, c.pinned(4 * KIB, 0)?);
    seen.fill_all(0);
    c.add(&seen, 1, &stream)?;
    c.ok("cudaEventRecord", event.record(&stream))?;
    c.succeeds("cudaStreamWaitEvent", stream.wait(&event))?;
    c.add(&seen, 1, &stream)?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("the work", seen.value_all()?, 2)
}
