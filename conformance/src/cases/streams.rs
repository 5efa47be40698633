//! Streams that the program creates.

use super::prelude::*;
use crate::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const CASES: &[Case] = cases! {
    "streams.flags" (flags):
        "A stream is created with flags 0 or non-blocking; other flags are an invalid value.",
        sources::STREAM, &["cudaStreamCreateWithFlags", "cudaStreamDestroy"];
    "streams.query" (query):
        "A stream without work is done, a stream with pending work is not ready, and after a wait it is done.",
        sources::STREAM, &["cudaStreamQuery", "cudaStreamSynchronize"];
    "streams.not-ready-is-no-failure" (not_ready_is_no_failure):
        "A not-ready result has no effect: the stream's work continues, and more can be enqueued.",
        sources::TYPES, &["cudaStreamQuery"];
    "streams.in-order" (in_order):
        "Work of one stream runs in the order in which it was enqueued: memset, kernels and copies.",
        sources::STREAM, &["cudaMemsetAsync", "cuLaunchKernel", "cudaMemcpyAsync"];
    "streams.launch-does-not-wait" (launch_does_not_wait):
        "Kernels, and copies between pinned and device memory, are enqueued without waiting for the stream.",
        sources::API_SYNC, &["cuLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"];
    "streams.synchronize-waits" (synchronize_waits):
        "Synchronizing a stream returns when its work is done.",
        sources::STREAM, &["cudaStreamSynchronize"];
    "streams.synchronize-its-own" (synchronize_its_own):
        "Synchronizing a stream does not wait for another stream.",
        sources::STREAM, &["cudaStreamSynchronize", "cudaStreamQuery"];
    "streams.device-synchronize-waits" (device_synchronize_waits):
        "Synchronizing the device also waits for non-blocking streams.",
        sources::DEVICE, &["cudaDeviceSynchronize"];
    "streams.destroy-with-work" (destroy_with_work):
        "A stream with work is destroyed at once, and the work is still done.",
        sources::STREAM, &["cudaStreamDestroy"];
    "streams.null-not-destroyed" (null_not_destroyed):
        "The default stream cannot be destroyed.",
        sources::STREAM, &["cudaStreamDestroy"];
    "streams.priorities" (priorities):
        "A greater priority is a lower number; a stream can be created with any number, inside or outside of the range.",
        sources::STREAM, &["cudaDeviceGetStreamPriorityRange", "cudaStreamCreateWithPriority"];
    "streams.device" (device):
        "The device of a stream can be queried.",
        sources::STREAM, &["cudaStreamGetDevice"], needs(&[Need::Since(12, 8)]);
    "streams.host-function" (host_function):
        "A host function runs once, when the work before it is done.",
        sources::EXECUTION, &["cudaLaunchHostFunc"];
    "streams.write-value" (write_value):
        "A stream writes a value to pinned memory after its earlier work: a host that polls it sees what that work wrote.",
        sources::MEMOP, &["cuStreamWriteValue32"], needs(&[Need::MappedHost, Need::Since(12, 0)]);
};

fn write_value(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.device_memory(64 * KIB)?, c.stream()?);
    let (back, flag) = (c.pinned(64 * KIB, 0)?, c.pinned(4 * KIB, 0)?);
    flag.fill_all(0);
    back.fill_all(0);
    for turn in 1..=20 {
        c.ok("cudaMemset", c.set(&memory, turn, memory.bytes()))?;
        c.ok("cudaDeviceSynchronize", c.synchronize())?;
        let gate = c.gate(&stream)?;
        c.ok(
            "cudaMemcpyAsync",
            c.copy_async(&back, &memory, kind::DEFAULT, &stream),
        )?;
        let code = c.write_value((&flag, 7), turn as u32, &stream)?;
        c.succeeds("cuStreamWriteValue32", code)?;
        c.is("before", flag.value(7..8)?, turn as u32 - 1)?;
        gate.open()?;
        c.holds("the value arrives", flag.becomes(7, turn as u32))?;
        c.is("the copy", back.value_all()?, turn as u32 * 0x0101_0101)?;
    }
    c.is("the next word", flag.value(8..9)?, 0)
}

fn flags(c: &Cuda<'_>) -> Verdict {
    for flags in [0, 1] {
        let stream = c.stream_with(flags)?;
        c.succeeds(
            &format!("cudaStreamDestroy, flags {flags}"),
            stream.destroy(),
        )?;
    }
    for flags in [2, 64] {
        let (code, _) = c.try_stream(flags);
        c.gives(&format!("flags {flags}"), code, Code::INVALID_VALUE)?;
    }
    Ok(())
}

fn query(c: &Cuda<'_>) -> Verdict {
    let stream = c.stream()?;
    c.succeeds("without work", stream.query())?;
    let gate = c.gate(&stream)?;
    c.gives("held", stream.query(), Code::NOT_READY)?;
    c.gives("still held", stream.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.succeeds("done", stream.query())
}

fn not_ready_is_no_failure(c: &Cuda<'_>) -> Verdict {
    let (seen, stream) = (c.pinned(4 * KIB, 0)?, c.stream()?);
    seen.fill_all(1);
    c.last_error();
    let gate = c.gate(&stream)?;
    let code = stream.query();
    c.note(
        "the last error behind it",
        Value::Text(c.text(c.peek_error())),
    );
    c.gives("held", code, Code::NOT_READY)?;
    c.add(&seen, 4, &stream)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("the work", seen.value_all()?, 5)
}

fn in_order(c: &Cuda<'_>) -> Verdict {
    let (first, second) = (c.device_memory(256 * KIB)?, c.device_memory(256 * KIB)?);
    let (out, stream) = (c.pinned(256 * KIB, 0)?, c.stream()?);
    for round in 0..8 {
        c.ok(
            "cudaMemsetAsync",
            c.set_async(&first, 0, first.bytes(), &stream),
        )?;
        c.add(&first, 3 + round, &stream)?;
        c.ok(
            "cudaMemcpyAsync",
            c.copy_async(&second, &first, kind::DEFAULT, &stream),
        )?;
        c.add(&first, 100, &stream)?;
        c.add(&second, 4, &stream)?;
        c.ok(
            "cudaMemcpyAsync",
            c.copy_async(&out, &second, kind::DEFAULT, &stream),
        )?;
        c.ok("cudaStreamSynchronize", stream.synchronize())?;
        c.is("read back", out.value_all()?, 7 + round)?;
    }
    Ok(())
}

fn launch_does_not_wait(c: &Cuda<'_>) -> Verdict {
    let (memory, from, to) = (
        c.device_memory(64 * KIB)?,
        c.pinned(64 * KIB, 0)?,
        c.pinned(64 * KIB, 0)?,
    );
    from.fill_all(9);
    to.fill_all(0);
    let stream = c.stream()?;
    let gate = c.gate(&stream)?;
    c.succeeds(
        "cudaMemsetAsync",
        c.set_async(&memory, 1, memory.bytes(), &stream),
    )?;
    c.succeeds(
        "cudaMemcpyAsync in",
        c.copy_async(&memory, &from, kind::HOST_TO_DEVICE, &stream),
    )?;
    c.add(&memory, 2, &stream)?;
    c.succeeds(
        "cudaMemcpyAsync out",
        c.copy_async(&to, &memory, kind::DEVICE_TO_HOST, &stream),
    )?;
    c.gives("held", stream.query(), Code::NOT_READY)?;
    // This fails if the kernel reached its time limit before.
    gate.open()?;
    c.ok("cudaStreamSynchronize", stream.synchronize())?;
    c.is("read back", to.value_all()?, 11)
}

fn synchronize_waits(c: &Cuda<'_>) -> Verdict {
    let (seen, stream) = (c.pinned(4 * KIB, 0)?, c.stream()?);
    seen.fill_all(0);
    let gate = c.gate(&stream)?;
    c.add(&seen, 6, &stream)?;
    let (waited, code) = gate.across(|| stream.synchronize());
    c.succeeds("cudaStreamSynchronize", code)?;
    c.holds("it waited", waited)?;
    c.is("the work", seen.value_all()?, 6)
}

fn synchronize_its_own(c: &Cuda<'_>) -> Verdict {
    let (seen, held, free) = (c.pinned(4 * KIB, 0)?, c.stream()?, c.stream()?);
    seen.fill_all(0);
    let gate = c.gate(&held)?;
    c.add(&seen, 6, &free)?;
    c.succeeds("cudaStreamSynchronize", free.synchronize())?;
    c.is("the other stream's work", seen.value_all()?, 6)?;
    c.gives("the held stream", held.query(), Code::NOT_READY)?;
    gate.open()
}

fn device_synchronize_waits(c: &Cuda<'_>) -> Verdict {
    let (seen, stream) = (c.pinned(4 * KIB, 0)?, c.stream()?);
    seen.fill_all(0);
    let gate = c.gate(&stream)?;
    c.add(&seen, 6, &stream)?;
    let (waited, code) = gate.across(|| c.synchronize());
    c.succeeds("cudaDeviceSynchronize", code)?;
    c.holds("it waited", waited)?;
    c.is("the work", seen.value_all()?, 6)
}

fn destroy_with_work(c: &Cuda<'_>) -> Verdict {
    let (seen, stream) = (c.pinned(4 * KIB, 0)?, c.stream()?);
    seen.fill_all(0);
    let gate = c.gate(&stream)?;
    c.add(&seen, 8, &stream)?;
    c.succeeds("cudaStreamDestroy", stream.destroy())?;
    gate.open()?;
    c.succeeds("cudaDeviceSynchronize", c.synchronize())?;
    c.is("the work", seen.value_all()?, 8)
}

fn null_not_destroyed(c: &Cuda<'_>) -> Verdict {
    c.refuses("cudaStreamDestroy", c.destroy_null_stream())?;
    let memory = c.device_memory(4 * KIB)?;
    c.add(&memory, 0, &c.default_stream(0))?;
    c.succeeds("it works on", c.default_stream(0).synchronize())
}

fn priorities(c: &Cuda<'_>) -> Verdict {
    let (code, least, greatest) = c.priority_range();
    c.succeeds("cudaDeviceGetStreamPriorityRange", code)?;
    c.holds("greatest <= least", greatest <= least)?;
    let seen = c.pinned(4 * KIB, 0)?;
    for (priority, done) in [
        (least, 1),
        (greatest, 2),
        (greatest - 100, 3),
        (least + 100, 4),
    ] {
        seen.fill_all(done - 1);
        let stream = c.stream_with_priority(priority)?;
        c.add(&seen, 1, &stream)?;
        c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
        c.is("the work", seen.value_all()?, done)?;
    }
    Ok(())
}

fn device(c: &Cuda<'_>) -> Verdict {
    for device in (0..c.machine.facts.devices as i32).rev() {
        c.ok("cudaSetDevice", c.set_device(device))?;
        let stream = c.stream()?;
        c.ok("cudaSetDevice", c.set_device(0))?;
        let Some((code, told)) = c.device_of_stream(&stream) else {
            return fail("there is no cudaStreamGetDevice");
        };
        if (code, told) != (Code::SUCCESS, device) {
            return fail(format!(
                "{} and {told}, and not device {device}",
                c.text(code)
            ));
        }
    }
    Ok(())
}

fn host_function(c: &Cuda<'_>) -> Verdict {
    let (ran, stream) = (Arc::new(AtomicU32::new(0)), c.stream()?);
    let gate = c.gate(&stream)?;
    c.succeeds("cudaLaunchHostFunc", c.count_on(&ran, &stream))?;
    c.is("while the stream is held", ran.load(Ordering::SeqCst), 0)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("behind it", ran.load(Ordering::SeqCst), 1)
}
