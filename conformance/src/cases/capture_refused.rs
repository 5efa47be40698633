//! Calls that a capture refuses.

use super::capture::invalidates;
use super::*;

cases! {
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
        let stream = c.stream();
        c.succeeds("cudaEventRecord", event.record(&stream));
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
