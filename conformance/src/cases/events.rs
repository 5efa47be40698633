//! The state of events.

use super::prelude::*;
use cuda_um_sys as sys;

const UNTIMED: u32 = sys::cudaEventDisableTiming;

pub(super) const CASES: &[Case] = cases! {
    "events.flags" (flags):
        "An event is created with blocking wait, without timing, or both; other flags, and interprocess with timing, are refused.",
        sources::EVENT, &["cudaEventCreateWithFlags", "cudaEventDestroy"];
    "events.unrecorded" (unrecorded):
        "An event that was never recorded is done: queries and waits succeed.",
        sources::EVENT, &["cudaEventQuery", "cudaEventSynchronize"];
    "events.query" (query):
        "An event is not ready until the work before it is done.",
        sources::EVENT, &["cudaEventRecord", "cudaEventQuery"];
    "events.synchronize-waits" (synchronize_waits):
        "Waiting for an event returns when the work before it is done, whether the thread sleeps or spins.",
        sources::EVENT, &["cudaEventSynchronize"];
    "events.captures-what-was-before" (captures_what_was_before):
        "An event does not wait for work that was enqueued after it.",
        sources::EVENT, &["cudaEventRecord", "cudaEventSynchronize"];
    "events.record-again" (record_again):
        "Recording an event again replaces its earlier record.",
        sources::EVENT, &["cudaEventRecord", "cudaEventQuery"];
    "events.destroy-pending" (destroy_pending):
        "An event that is not done is destroyed at once, and the work continues.",
        sources::EVENT, &["cudaEventDestroy"];
    "events.null" (null):
        "The null event cannot be queried, recorded, waited for or destroyed.",
        sources::EVENT, &["cudaEventQuery", "cudaEventRecord", "cudaEventSynchronize", "cudaEventDestroy"];
    "events.elapsed" (elapsed):
        "The time between two events of a stream is not negative, and zero between an event and itself.",
        sources::EVENT, &["cudaEventElapsedTime"];
    "events.elapsed-unrecorded" (elapsed_unrecorded):
        "The time to an event that was never recorded is an invalid handle.",
        sources::EVENT, &["cudaEventElapsedTime"];
    "events.elapsed-untimed" (elapsed_untimed):
        "The time to an event without timing is an invalid handle.",
        sources::EVENT, &["cudaEventElapsedTime"];
    "events.elapsed-pending" (elapsed_pending):
        "The time to an event that is not done is not ready.",
        sources::EVENT, &["cudaEventElapsedTime"];
};

fn flags(c: &Cuda<'_>) -> Verdict {
    for flags in 0..=3 {
        let event = c.event(flags)?;
        c.succeeds(&format!("cudaEventDestroy, flags {flags}"), event.destroy())?;
    }
    let (code, _) = c.try_event(64);
    c.gives("flags 64", code, Code::INVALID_VALUE)?;
    let (code, _) = c.try_event(4);
    c.refuses("shared with other processes, and with timing", code)
}

fn unrecorded(c: &Cuda<'_>) -> Verdict {
    for flags in [0, UNTIMED] {
        let event = c.event(flags)?;
        c.succeeds("cudaEventQuery", event.query())?;
        c.succeeds("cudaEventSynchronize", event.synchronize())?;
    }
    Ok(())
}

fn query(c: &Cuda<'_>) -> Verdict {
    let (stream, event) = (c.stream()?, c.event(UNTIMED)?);
    let gate = c.gate(&stream)?;
    c.succeeds("cudaEventRecord", event.record(&stream))?;
    c.gives("held", event.query(), Code::NOT_READY)?;
    gate.open()?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.succeeds("done", event.query())
}

fn synchronize_waits(c: &Cuda<'_>) -> Verdict {
    let (stream, seen) = (c.stream()?, c.pinned(4 * KIB, 0)?);
    for flags in [UNTIMED, UNTIMED | sys::cudaEventBlockingSync] {
        seen.fill_all(0);
        let event = c.event(flags)?;
        let gate = c.gate(&stream)?;
        c.add(&seen, 3, &stream)?;
        c.ok("cudaEventRecord", event.record(&stream))?;
        let (waited, code) = gate.across(|| event.synchronize());
        c.succeeds("cudaEventSynchronize", code)?;
        c.holds("it waited", waited)?;
        c.is("the work", seen.value_all()?, 3)?;
    }
    Ok(())
}

fn captures_what_was_before(c: &Cuda<'_>) -> Verdict {
    let (stream, seen, event) = (c.stream()?, c.pinned(4 * KIB, 0)?, c.event(UNTIMED)?);
    seen.fill_all(0);
    c.add(&seen, 3, &stream)?;
    c.ok("cudaEventRecord", event.record(&stream))?;
    let gate = c.gate(&stream)?;
    c.succeeds("cudaEventSynchronize", event.synchronize())?;
    c.is("the work before", seen.value_all()?, 3)?;
    c.gives("the stream", stream.query(), Code::NOT_READY)?;
    gate.open()
}

fn record_again(c: &Cuda<'_>) -> Verdict {
    let (stream, other, event) = (c.stream()?, c.stream()?, c.event(UNTIMED)?);
    c.ok("cudaEventRecord", event.record(&other))?;
    c.succeeds("cudaEventSynchronize", event.synchronize())?;
    let gate = c.gate(&stream)?;
    c.succeeds("cudaEventRecord again", event.record(&stream))?;
    c.gives("what it records now", event.query(), Code::NOT_READY)?;
    c.succeeds("cudaEventRecord once more", event.record(&other))?;
    c.succeeds(
        "cudaEventSynchronize, while the stream is held",
        event.synchronize(),
    )?;
    gate.open()
}

fn destroy_pending(c: &Cuda<'_>) -> Verdict {
    let (stream, seen, event) = (c.stream()?, c.pinned(4 * KIB, 0)?, c.event(UNTIMED)?);
    seen.fill_all(0);
    let gate = c.gate(&stream)?;
    c.add(&seen, 1, &stream)?;
    c.ok("cudaEventRecord", event.record(&stream))?;
    c.add(&seen, 2, &stream)?;
    c.gives("not done", event.query(), Code::NOT_READY)?;
    c.succeeds("cudaEventDestroy", event.destroy())?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("the work", seen.value_all()?, 3)
}

fn null(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    c.refuses("cudaEventQuery", c.no_event().query())?;
    c.refuses("cudaEventRecord", c.no_event().record(&stream))?;
    c.refuses("cudaEventSynchronize", c.no_event().synchronize())?;
    c.refuses("cudaStreamWaitEvent", stream.wait(&c.no_event()))?;
    c.refuses("cudaEventDestroy", c.no_event().destroy())
}

fn elapsed(c: &Cuda<'_>) -> Verdict {
    let (stream, memory) = (c.stream()?, c.device_memory(4 * MIB)?);
    let (start, end) = (c.event(0)?, c.event(0)?);
    c.ok("cudaEventRecord", start.record(&stream))?;
    c.add(&memory, 1, &stream)?;
    c.ok("cudaEventRecord", end.record(&stream))?;
    c.ok("cudaEventSynchronize", end.synchronize())?;
    let (code, milliseconds) = c.elapsed(&start, &end);
    c.succeeds("cudaEventElapsedTime", code)?;
    c.holds(
        "a kernel takes time",
        milliseconds > 0.0 && milliseconds < 10_000.0,
    )?;
    let (code, milliseconds) = c.elapsed(&end, &end);
    c.succeeds("to itself", code)?;
    c.holds("none", milliseconds == 0.0)
}

fn elapsed_unrecorded(c: &Cuda<'_>) -> Verdict {
    let (stream, recorded, unrecorded) = (c.stream()?, c.event(0)?, c.event(0)?);
    c.ok("cudaEventRecord", recorded.record(&stream))?;
    c.ok("cudaEventSynchronize", recorded.synchronize())?;
    c.gives(
        "to it",
        c.elapsed(&recorded, &unrecorded).0,
        Code::INVALID_HANDLE,
    )?;
    c.gives(
        "from it",
        c.elapsed(&unrecorded, &recorded).0,
        Code::INVALID_HANDLE,
    )
}

fn elapsed_untimed(c: &Cuda<'_>) -> Verdict {
    let (stream, timed, untimed) = (c.stream()?, c.event(0)?, c.event(UNTIMED)?);
    c.ok("cudaEventRecord", timed.record(&stream))?;
    c.ok("cudaEventRecord", untimed.record(&stream))?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.gives("to it", c.elapsed(&timed, &untimed).0, Code::INVALID_HANDLE)?;
    c.gives(
        "from it",
        c.elapsed(&untimed, &timed).0,
        Code::INVALID_HANDLE,
    )
}

fn elapsed_pending(c: &Cuda<'_>) -> Verdict {
    let (stream, start, end) = (c.stream()?, c.event(0)?, c.event(0)?);
    c.ok("cudaEventRecord", start.record(&stream))?;
    c.ok("cudaEventSynchronize", start.synchronize())?;
    let gate = c.gate(&stream)?;
    c.ok("cudaEventRecord", end.record(&stream))?;
    c.gives("to it", c.elapsed(&start, &end).0, Code::NOT_READY)?;
    gate.open()?;
    c.ok("cudaEventSynchronize", end.synchronize())?;
    c.succeeds("when it is done", c.elapsed(&start, &end).0)
}
