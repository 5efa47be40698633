//! The default streams: the streams that synchronize with them, and those that do not.

use super::prelude::*;

/// Flags of a stream that synchronizes with the legacy default stream.
const BLOCKING: u32 = 0;

pub(super) const CASES: &[Case] = cases! {
    "default-streams.legacy-waits-for-blocking" (legacy_waits_for_blocking):
        "Work of the legacy default stream begins when the blocking streams' work before it is done.",
        sources::STREAM_SYNC, &["cudaStreamCreateWithFlags", "cudaStreamQuery"];
    "default-streams.blocking-waits-for-legacy" (blocking_waits_for_legacy):
        "Work of a blocking stream begins when the legacy default stream's work before it is done.",
        sources::STREAM_SYNC, &["cudaStreamCreateWithFlags", "cudaStreamQuery"];
    "default-streams.non-blocking-goes-on" (non_blocking_goes_on):
        "A non-blocking stream does not wait for the legacy default stream.",
        sources::STREAM_SYNC, &["cudaStreamCreateWithFlags", "cudaStreamSynchronize"];
    "default-streams.legacy-passes-non-blocking" (legacy_passes_non_blocking):
        "The legacy default stream does not wait for a non-blocking stream.",
        sources::STREAM_SYNC, &["cudaStreamCreateWithFlags", "cudaStreamSynchronize"];
    "default-streams.null-is-legacy" (null_is_legacy):
        "The null stream and cudaStreamLegacy are the same stream.",
        sources::STREAM_SYNC, &["cudaStreamQuery"];
    "default-streams.per-thread-and-legacy" (per_thread_and_legacy):
        "A per-thread default stream and the legacy default stream synchronize with each other.",
        sources::STREAM_SYNC, &["cudaStreamQuery"];
    "default-streams.per-thread-and-blocking" (per_thread_and_blocking):
        "A per-thread default stream does not synchronize with blocking streams.",
        sources::STREAM_SYNC, &["cudaStreamSynchronize"];
    "default-streams.per-thread-is-the-threads" (per_thread_is_the_threads):
        "Each thread has its own per-thread default stream, which does not wait for another thread's.",
        sources::STREAM_SYNC, &["cudaStreamQuery", "cudaStreamSynchronize"];
    "default-streams.legacy-between" (legacy_between):
        "Blocking streams run concurrently, but with legacy work in between the later work waits for the earlier.",
        sources::STREAM_SYNC, &["cudaStreamQuery", "cudaStreamSynchronize"];
    "default-streams.copy-waits-for-blocking" (copy_waits_for_blocking):
        "A synchronous copy runs after work that was enqueued earlier on blocking streams.",
        sources::STREAM_SYNC, &["cudaMemcpy"];
    "default-streams.device" (device):
        "The legacy and the per-thread default stream are of the current device.",
        sources::STREAM, &["cudaStreamGetDevice"], needs(&[Need::Since(12, 8)]);
};

/// Holds the first stream, enqueues work on the second, and checks that it waits for the first.
fn waits(c: &Cuda<'_>, held: &Stream<'_>, other: &Stream<'_>) -> Verdict {
    let seen = c.pinned(4 * KIB, 0)?;
    seen.fill_all(1);
    let gate = c.gate(held)?;
    c.add(&seen, 1, other)?;
    c.gives(
        "the other stream, while the first is held",
        other.query(),
        Code::NOT_READY,
    )?;
    let (waited, code) = gate.across(|| other.synchronize());
    c.succeeds("cudaStreamSynchronize", code)?;
    c.holds("it waited", waited)?;
    c.is("the work", seen.value_all()?, 2)
}

/// Holds the first stream, enqueues work on the second, and waits for it while the first is held.
fn passes(c: &Cuda<'_>, held: &Stream<'_>, other: &Stream<'_>) -> Verdict {
    let seen = c.pinned(4 * KIB, 0)?;
    seen.fill_all(1);
    let gate = c.gate(held)?;
    c.add(&seen, 1, other)?;
    c.succeeds("cudaStreamSynchronize", other.synchronize())?;
    c.is("the work", seen.value_all()?, 2)?;
    c.gives("the held stream", held.query(), Code::NOT_READY)?;
    gate.open()
}

fn legacy_waits_for_blocking(c: &Cuda<'_>) -> Verdict {
    waits(c, &c.stream_with(BLOCKING)?, &c.default_stream(LEGACY))
}

fn blocking_waits_for_legacy(c: &Cuda<'_>) -> Verdict {
    waits(c, &c.default_stream(LEGACY), &c.stream_with(BLOCKING)?)
}

fn non_blocking_goes_on(c: &Cuda<'_>) -> Verdict {
    passes(c, &c.default_stream(LEGACY), &c.stream()?)
}

fn legacy_passes_non_blocking(c: &Cuda<'_>) -> Verdict {
    passes(c, &c.stream()?, &c.default_stream(LEGACY))
}

fn null_is_legacy(c: &Cuda<'_>) -> Verdict {
    waits(c, &c.default_stream(0), &c.default_stream(LEGACY))?;
    waits(c, &c.default_stream(LEGACY), &c.default_stream(0))
}

fn per_thread_and_legacy(c: &Cuda<'_>) -> Verdict {
    waits(c, &c.default_stream(PER_THREAD), &c.default_stream(LEGACY))?;
    waits(c, &c.default_stream(LEGACY), &c.default_stream(PER_THREAD))
}

fn per_thread_and_blocking(c: &Cuda<'_>) -> Verdict {
    passes(c, &c.stream_with(BLOCKING)?, &c.default_stream(PER_THREAD))
}

fn per_thread_is_the_threads(c: &Cuda<'_>) -> Verdict {
    let (machine, own) = (c.machine, c.default_stream(PER_THREAD));
    let there = |work: fn(&Cuda<'_>) -> Code| {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| work(&Cuda::new(machine)));
            thread
                .join()
                .map_err(|_| Failure("the thread panicked".to_owned()))
        })
    };
    let gate = c.gate(&own)?;
    let code = there(|c| c.default_stream(PER_THREAD).synchronize())?;
    c.succeeds("another thread's, synchronized", code)?;
    c.gives("this thread's", own.query(), Code::NOT_READY)?;
    gate.open()
}

fn legacy_between(c: &Cuda<'_>) -> Verdict {
    let (first, second) = (c.stream_with(BLOCKING)?, c.stream_with(BLOCKING)?);
    passes(c, &first, &second)?;
    let (seen, legacy) = (c.pinned(4 * KIB, 0)?, c.default_stream(LEGACY));
    seen.fill_all(0);
    let gate = c.gate(&first)?;
    c.add(&seen, 1, &legacy)?;
    c.add(&seen, 1, &second)?;
    c.gives("the later stream", second.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("both", seen.value_all()?, 2)
}

fn copy_waits_for_blocking(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(64 * KIB)?, c.stream_with(BLOCKING)?);
    c.ok("cudaMemset", c.set(&memory, 0, memory.bytes()))?;
    let gate = c.gate(&stream)?;
    c.add(&memory, 5, &stream)?;
    let mut out = vec![0; memory.len()];
    let (waited, code) = gate.across(|| c.copy_out(&mut out, &memory, kind::DEVICE_TO_HOST));
    c.succeeds("cudaMemcpy", code)?;
    c.holds("it waited", waited)?;
    c.holds("what the stream wrote", out.iter().all(|value| *value == 5))
}

fn device(c: &Cuda<'_>) -> Verdict {
    for device in (0..c.machine.facts.devices as i32).rev() {
        c.ok("cudaSetDevice", c.set_device(device))?;
        for raw in [0, LEGACY, PER_THREAD] {
            let Some((code, told)) = c.device_of_stream(&c.default_stream(raw)) else {
                return fail("there is no cudaStreamGetDevice");
            };
            c.ok("cudaStreamGetDevice", code)?;
            c.holds("the current device", told == device)?;
        }
    }
    Ok(())
}
