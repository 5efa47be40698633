//! What a capture refuses, and what invalidates it.

use std::ptr::null_mut;

use cuda_um_sys::{
    cudaError, cudaMemcpyKind, cudaStream_t, cudaStreamCaptureMode, cudaStreamCaptureStatus,
};

use super::graph_call;
use crate::support::{Cuda, bytes, call, h200, ok};

const UNSUPPORTED: cudaError = cudaError::cudaErrorStreamCaptureUnsupported;
const INVALIDATED: cudaError = cudaError::cudaErrorStreamCaptureInvalidated;
const CAPTURED: cudaError = cudaError::cudaErrorCapturedEvent;
const GLOBAL: cudaStreamCaptureMode = cudaStreamCaptureMode::cudaStreamCaptureModeGlobal;
const LOCAL: cudaStreamCaptureMode = cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal;
const RELAXED: cudaStreamCaptureMode = cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;

impl Cuda {
    fn blocking_stream(&self) -> cudaStream_t {
        let mut stream = null_mut();
        ok(call!(self.table, cudaStreamCreateWithFlags(&mut stream, 0)));
        stream
    }

    fn exchange(&self, mut mode: cudaStreamCaptureMode) -> cudaStreamCaptureMode {
        ok(graph_call!(
            self,
            cudaThreadExchangeStreamCaptureMode(&mut mode)
        ));
        mode
    }

    fn allocate(&self) -> cudaError {
        let mut pointer = null_mut();
        call!(self.table, cudaMalloc(&mut pointer, 64))
    }

    /// A call during a capture in this mode fails with `error`, and the capture is then invalid.
    #[track_caller]
    fn invalidates(
        &self,
        mode: cudaStreamCaptureMode,
        error: cudaError,
        run: impl FnOnce(cudaStream_t) -> cudaError,
    ) {
        let stream = self.stream();
        self.begin_as(stream, mode);
        assert_eq!(run(stream), error);
        let status = cudaStreamCaptureStatus::cudaStreamCaptureStatusInvalidated;
        assert_eq!(self.status(stream), status);
        let (data, event) = (self.pointers().0, self.event());
        assert_eq!(self.set_on(data, 0, 1, stream), INVALIDATED);
        assert_eq!(self.record(event, stream), INVALIDATED);
        assert_eq!(self.end_fails(stream), INVALIDATED);
        ok(self.set_on(data, 0, 1, stream));
        self.sync(stream);
    }

    /// Device memory and managed memory, made in relaxed mode.
    fn pointers(&self) -> (*mut u8, *mut u8) {
        let mode = self.exchange(RELAXED);
        let pointers = (self.device(64), self.managed(64));
        self.exchange(mode);
        pointers
    }
}

/// Uses a stream on another thread.
fn elsewhere<R: Send>(stream: cudaStream_t, work: impl FnOnce(cudaStream_t) -> R + Send) -> R {
    let stream = stream as usize;
    std::thread::scope(|scope| {
        scope
            .spawn(move || work(stream as cudaStream_t))
            .join()
            .unwrap()
    })
}

#[test]
fn calls_that_no_graph_repeats_are_refused_in_every_mode() {
    let cuda = h200();
    let managed = cuda.managed(1 << 20);
    for mode in [GLOBAL, LOCAL, RELAXED] {
        cuda.invalidates(mode, UNSUPPORTED, |stream| {
            cuda.prefetch(managed, 64, 0, stream)
        });
        cuda.invalidates(mode, UNSUPPORTED, |stream| {
            let (mut pointer, mut bytes, mut place) =
                (managed.cast(), 64, crate::support::location(0));
            let mut index = 0;
            let batch = cuda.table.cudaMemPrefetchBatchAsync.unwrap();
            call!(batch(
                &mut pointer,
                &mut bytes,
                1,
                &mut place,
                &mut index,
                1,
                0,
                stream
            ))
        });
        cuda.invalidates(mode, UNSUPPORTED, |stream| {
            let (mut pointer, mut bytes) = (managed.cast(), 64);
            let discard = cuda.table.cudaMemDiscardBatchAsync.unwrap();
            call!(discard(&mut pointer, &mut bytes, 1, 0, stream))
        });
        cuda.invalidates(mode, UNSUPPORTED, |stream| {
            call!(
                cuda.table,
                cudaStreamAttachMemAsync(stream, managed.cast(), 0, 1)
            )
        });
        cuda.invalidates(mode, UNSUPPORTED, |stream| {
            call!(cuda.table, cudaStreamSynchronize(stream))
        });
        cuda.invalidates(mode, UNSUPPORTED, |stream| {
            call!(cuda.table, cudaStreamQuery(stream))
        });
        cuda.invalidates(mode, UNSUPPORTED, |_| {
            call!(cuda.table, cudaDeviceSynchronize())
        });
    }
    assert_eq!(cuda.sim.misuse(), []);
}

#[test]
fn unsafe_calls_are_refused_as_the_modes_of_the_capture_and_of_the_thread_say() {
    let cuda = h200();
    let (device, managed) = (cuda.device(64), cuda.managed(64));
    for mode in [GLOBAL, LOCAL] {
        cuda.invalidates(mode, UNSUPPORTED, |_| cuda.allocate());
        cuda.invalidates(mode, UNSUPPORTED, |_| {
            call!(cuda.table, cudaFree(device.cast()))
        });
        cuda.invalidates(mode, UNSUPPORTED, |_| cuda.advise(managed, 64, 1, 0));
        cuda.invalidates(mode, UNSUPPORTED, |_| {
            let kind = cudaMemcpyKind::cudaMemcpyDefault;
            call!(
                cuda.table,
                cudaMemcpy(device.cast(), managed.cast(), 64, kind)
            )
        });
        cuda.invalidates(mode, UNSUPPORTED, |_| {
            call!(cuda.table, cudaMemset(device.cast(), 0, 64))
        });
        let event = cuda.event();
        cuda.invalidates(mode, UNSUPPORTED, |_| {
            call!(cuda.table, cudaEventQuery(event))
        });
    }
    let stream = cuda.stream();
    cuda.begin_as(stream, RELAXED);
    ok(cuda.allocate());
    cuda.end(stream);

    // The mode of another thread decides only over captures of mode "global".
    for (capture, thread, refused) in [
        (GLOBAL, GLOBAL, true),
        (GLOBAL, LOCAL, false),
        (GLOBAL, RELAXED, false),
        (LOCAL, GLOBAL, false),
        (RELAXED, GLOBAL, false),
    ] {
        cuda.begin_as(stream, capture);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(cuda.exchange(thread), GLOBAL, "the default");
                let expected = if refused {
                    UNSUPPORTED
                } else {
                    cudaError::cudaSuccess
                };
                assert_eq!(cuda.allocate(), expected, "{capture:?} {thread:?}");
            });
        });
        match refused {
            true => assert_eq!(cuda.end_fails(stream), INVALIDATED),
            false => _ = cuda.end(stream),
        }
    }
}

#[test]
fn a_captured_event_is_no_event_for_the_host() {
    let cuda = h200();
    let event = cuda.event();
    let record = |stream| ok(cuda.record(event, stream));
    cuda.invalidates(LOCAL, CAPTURED, |stream| {
        record(stream);
        call!(cuda.table, cudaEventQuery(event))
    });
    cuda.invalidates(RELAXED, CAPTURED, |stream| {
        record(stream);
        call!(cuda.table, cudaEventSynchronize(event))
    });
    let stream = cuda.stream();
    cuda.begin(stream);
    record(stream);
    cuda.end(stream);
    assert_eq!(call!(cuda.table, cudaEventQuery(event)), CAPTURED);
    record(stream);
    ok(call!(cuda.table, cudaEventSynchronize(event)));
}

#[test]
fn no_dependency_crosses_the_border_of_a_capture() {
    let cuda = h200();
    let (outside, event) = (cuda.stream(), cuda.event());
    ok(cuda.record(event, outside));
    let isolation = cudaError::cudaErrorStreamCaptureIsolation;
    cuda.invalidates(LOCAL, isolation, |stream| cuda.wait(stream, event));

    // Two captures do not merge.
    let (first, second) = (cuda.stream(), cuda.stream());
    cuda.begin(first);
    cuda.begin(second);
    ok(cuda.record(event, first));
    assert_eq!(
        cuda.wait(second, event),
        cudaError::cudaErrorStreamCaptureMerge
    );
    assert_eq!(cuda.end_fails(first), INVALIDATED);
    assert_eq!(cuda.end_fails(second), INVALIDATED);
}

#[test]
fn the_legacy_stream_is_out_of_use_while_a_blocking_stream_is_captured() {
    let cuda = h200();
    let data = cuda.device(64);
    let implicit = cudaError::cudaErrorStreamCaptureImplicit;
    let stream = cuda.blocking_stream();
    cuda.begin_as(stream, RELAXED);
    let mut status = cudaStreamCaptureStatus(9);
    assert_eq!(
        graph_call!(cuda, cudaStreamIsCapturing(null_mut(), &mut status)),
        implicit
    );
    let active = cudaStreamCaptureStatus::cudaStreamCaptureStatusActive;
    assert_eq!(
        cuda.status(stream),
        active,
        "the question invalidates nothing"
    );
    assert_eq!(cuda.set_on(data, 0, 64, null_mut()), implicit);
    assert_eq!(cuda.end_fails(stream), INVALIDATED);
    cuda.begin_as(stream, RELAXED);
    assert_eq!(call!(cuda.table, cudaMemset(data.cast(), 0, 64)), implicit);
    assert_eq!(cuda.end_fails(stream), INVALIDATED);

    let stream = cuda.stream();
    cuda.begin_as(stream, RELAXED);
    ok(cuda.set_on(data, 0, 64, null_mut()));
    cuda.sync(null_mut());
    cuda.end(stream);
    assert_eq!(
        graph_call!(cuda, cudaStreamBeginCapture(null_mut(), LOCAL)),
        UNSUPPORTED
    );
}

#[test]
fn a_capture_ends_on_its_stream_and_thread_with_its_branches_joined() {
    let cuda = h200();
    let (stream, other) = (cuda.stream(), cuda.stream());
    let (event, data) = (cuda.event(), cuda.device(64));
    let illegal = cudaError::cudaErrorIllegalState;
    assert_eq!(cuda.end_fails(stream), illegal);
    cuda.begin_as(stream, LOCAL);
    assert_eq!(
        graph_call!(cuda, cudaStreamBeginCapture(stream, LOCAL)),
        illegal
    );
    ok(cuda.record(event, stream));
    ok(cuda.wait(other, event));
    assert_eq!(
        cuda.end_fails(other),
        cudaError::cudaErrorStreamCaptureUnmatched
    );
    let wrong = elsewhere(stream, |stream| cuda.end_fails(stream));
    assert_eq!(wrong, cudaError::cudaErrorStreamCaptureWrongThread);
    ok(cuda.set_on(data, 3, 64, other));
    assert_eq!(
        cuda.end_fails(stream),
        cudaError::cudaErrorStreamCaptureUnjoined
    );

    // The streams work again; in relaxed mode another thread may end the capture.
    ok(cuda.set_on(data, 3, 64, other));
    let out = cuda.pinned(64);
    ok(cuda.copy_on(out, data, 64, other));
    cuda.sync(other);
    assert_eq!(bytes(out, 64)[63], 3);
    cuda.begin_as(stream, RELAXED);
    elsewhere(stream, |stream| _ = cuda.end(stream));
}
