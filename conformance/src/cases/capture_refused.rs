//! Calls that a capture refuses.

use super::capture::{begin, end, invalidates, status_of};
use super::prelude::*;
use crate::Failure;
use crate::call::{mode, status, whole};
use cuda_um_sys as sys;

pub(super) const CASES: &[Case] = cases! {
    "capture.ends-on-its-thread" (ends_on_its_thread):
        "A capture must be ended by the thread that began it, unless its mode is relaxed.",
        sources::STREAM, &["cudaStreamEndCapture"];
    "capture.captured-event" (captured_event):
        "The host cannot query an event that was last recorded in a capture, nor wait for it, until it is recorded again.",
        sources::GUIDE_GRAPHS, &["cudaEventQuery", "cudaEventSynchronize"];
    "capture.host-waits" (host_waits):
        "A stream in capture mode cannot be queried, and the host cannot wait for it or for its device.",
        sources::GUIDE_GRAPHS, &["cudaStreamQuery", "cudaStreamSynchronize", "cudaDeviceSynchronize"];
    "capture.attach" (attach):
        "Attaching managed memory to a stream in capture mode is refused.",
        sources::GUIDE_GRAPHS, &["cudaStreamAttachMemAsync"], needs(&[Need::Managed]);
    "capture.prefetch" (prefetch):
        "A prefetch in a stream in capture mode is refused, and so is a batch of prefetches.",
        sources::GUIDE_GRAPHS, &["cudaMemPrefetchAsync"], needs(&[Need::Concurrent]);
    "capture.advice" (advice_is_refused):
        "Advice is refused while the thread captures.",
        sources::STREAM, &["cudaMemAdvise"], needs(&[Need::Concurrent]);
    "capture.allocation" (allocation):
        "A thread that captures may not allocate memory, unless the capture is relaxed.",
        sources::STREAM, &["cudaMalloc"];
    "capture.other-threads" (other_threads):
        "Another thread may make unsafe calls during a capture of mode thread-local, during one of mode global only in another mode.",
        sources::STREAM, &["cudaThreadExchangeStreamCaptureMode", "cudaMalloc"];
    "capture.legacy-stream" (legacy_stream):
        "The legacy default stream and its status cannot be used while a blocking stream is in capture mode; beside a non-blocking one they can.",
        sources::GUIDE_GRAPHS, &["cudaMemsetAsync", "cudaStreamIsCapturing"];
};

const UNTIMED: u32 = sys::cudaEventDisableTiming;

fn ends_on_its_thread(c: &Cuda<'_>) -> Verdict {
    for (chosen, code) in [
        (mode::THREAD_LOCAL, Code::CAPTURE_WRONG_THREAD),
        (mode::RELAXED, Code::SUCCESS),
    ] {
        let stream = c.stream()?;
        begin(c, &stream, chosen)?;
        let got = elsewhere(c, stream.raw(), |stream| Ok(stream.end()?.0))?;
        if status_of(c, &stream)? != status::NONE {
            drop(stream.end()?);
        }
        c.gives("cudaStreamEndCapture", got, code)?;
    }
    Ok(())
}

/// Runs a part of a case on another thread, with a stream of this one.
fn elsewhere<R: Send>(
    c: &Cuda<'_>,
    stream: usize,
    work: impl FnOnce(&Stream<'_>) -> Result<R, Failure> + Send,
) -> Result<R, Failure> {
    let machine = c.machine;
    let run = move || {
        let c = Cuda::new(machine);
        c.with_stream(stream, work)
    };
    std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| fail("panicked"))
}

fn captured_event(c: &Cuda<'_>) -> Verdict {
    let event = c.event(UNTIMED)?;
    for waits in [false, true] {
        invalidates(c, mode::RELAXED, Code::CAPTURED_EVENT, |stream| {
            c.ok("cudaEventRecord", event.record(stream))?;
            Ok(if waits {
                event.synchronize()
            } else {
                event.query()
            })
        })?;
    }
    let stream = c.stream()?;
    c.succeeds("cudaEventRecord", event.record(&stream))?;
    c.succeeds("cudaEventSynchronize", event.synchronize())?;
    c.succeeds("cudaEventQuery", event.query())
}

fn host_waits(c: &Cuda<'_>) -> Verdict {
    let refused = Code::CAPTURE_UNSUPPORTED;
    invalidates(c, mode::RELAXED, refused, |stream| Ok(stream.query()))?;
    invalidates(c, mode::RELAXED, refused, |stream| Ok(stream.synchronize()))?;
    invalidates(c, mode::RELAXED, refused, |_| Ok(c.synchronize()))
}

fn attach(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(4 * KIB)?;
    invalidates(c, mode::RELAXED, Code::CAPTURE_UNSUPPORTED, |stream| {
        Ok(c.attach(stream, &memory, sys::cudaMemAttachHost))
    })
}

fn prefetch(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    let refused = Code::CAPTURE_UNSUPPORTED;
    invalidates(c, mode::RELAXED, refused, |stream| {
        Ok(c.prefetch(&memory, DEVICE, stream))
    })?;
    if !Need::Since(13, 0).is_met(&c.machine.facts) {
        return Ok(());
    }
    invalidates(c, mode::RELAXED, refused, |stream| {
        let ranges = [whole(&memory)];
        let code = c.prefetch_batch(&ranges, &[(DEVICE, 0)], false, 0, stream);
        code.map_or_else(|| fail("there is no cudaMemPrefetchBatchAsync"), Ok)
    })
}

fn advice_is_refused(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    invalidates(c, mode::THREAD_LOCAL, Code::CAPTURE_UNSUPPORTED, |_| {
        Ok(c.advise(&memory, advice::SET_READ_MOSTLY, DEVICE))
    })
}

fn allocation(c: &Cuda<'_>) -> Verdict {
    for chosen in [mode::GLOBAL, mode::THREAD_LOCAL] {
        invalidates(c, chosen, Code::CAPTURE_UNSUPPORTED, |_| {
            Ok(c.try_device(4 * KIB).0)
        })?;
    }
    let stream = c.stream()?;
    begin(c, &stream, mode::RELAXED)?;
    let memory = c.device_memory(4 * KIB);
    drop(end(c, &stream)?);
    c.holds("a relaxed capture", memory.is_ok())
}

/// Allocates on another thread in a mode, during a capture; the code of the allocation, and of the end of the capture.
fn beside(c: &Cuda<'_>, capture: u32, thread: u32) -> Result<(Code, Code), Failure> {
    let stream = c.stream()?;
    begin(c, &stream, capture)?;
    let machine = c.machine;
    let allocate = move || {
        let c = Cuda::new(machine);
        c.exchange_mode(thread)?;
        let (code, address) = c.try_device(4 * KIB);
        // Freed after the capture: a free is unsafe, too.
        Ok::<_, Failure>((code, address))
    };
    let allocated = std::thread::scope(|scope| scope.spawn(allocate).join());
    let (code, _graph) = stream.end()?;
    let (allocated, address) = allocated.unwrap_or_else(|_| fail("panicked"))?;
    c.ok("cudaFree", c.free_address(address))?;
    c.forget_error();
    Ok((allocated, code))
}

fn other_threads(c: &Cuda<'_>) -> Verdict {
    c.is("the default", c.exchange_mode(mode::GLOBAL)?, mode::GLOBAL)?;
    for (capture, thread, refused) in [
        (mode::THREAD_LOCAL, mode::GLOBAL, false),
        (mode::GLOBAL, mode::THREAD_LOCAL, false),
        (mode::GLOBAL, mode::RELAXED, false),
        (mode::GLOBAL, mode::GLOBAL, true),
    ] {
        let (allocated, ended) = beside(c, capture, thread)?;
        let codes = match refused {
            true => [Code::CAPTURE_UNSUPPORTED, Code::CAPTURE_INVALIDATED],
            false => [Code::SUCCESS; 2],
        };
        c.gives("the allocation", allocated, codes[0])?;
        c.gives("cudaStreamEndCapture", ended, codes[1])?;
    }
    Ok(())
}

fn legacy_stream(c: &Cuda<'_>) -> Verdict {
    let (memory, legacy) = (c.device_memory(4 * KIB)?, c.default_stream(LEGACY));
    let stream = c.stream_with(sys::cudaStreamDefault)?;
    begin(c, &stream, mode::RELAXED)?;
    let (asked, _) = legacy.is_capturing()?;
    let after = status_of(c, &stream);
    let set = c.set_async(&memory, 0, memory.bytes(), &legacy);
    let (code, graph) = stream.end()?;
    c.gives("cudaStreamIsCapturing", asked, Code::CAPTURE_IMPLICIT)?;
    c.is("the capture", after?, status::ACTIVE)?;
    c.gives("cudaMemsetAsync", set, Code::CAPTURE_IMPLICIT)?;
    c.gives("cudaStreamEndCapture", code, Code::CAPTURE_INVALIDATED)?;
    c.holds("no graph", graph.is_none())?;

    let stream = c.stream()?;
    begin(c, &stream, mode::RELAXED)?;
    let set = c.set_async(&memory, 0, memory.bytes(), &legacy);
    drop(end(c, &stream)?);
    c.succeeds("beside a non-blocking stream", set)
}
