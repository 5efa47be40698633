//! Calls that a capture refuses, beside those of the conformance cases `capture.*`.

use std::ptr::null_mut;

use cuda_um_sys::{
    cudaError, cudaMemcpyKind, cudaStream_t, cudaStreamCaptureMode, cudaStreamCaptureStatus,
};

use super::graph_call;
use crate::support::{Cuda, call, h200, ok};

const UNSUPPORTED: cudaError = cudaError::cudaErrorStreamCaptureUnsupported;
const INVALIDATED: cudaError = cudaError::cudaErrorStreamCaptureInvalidated;
const LOCAL: cudaStreamCaptureMode = cudaStreamCaptureMode::cudaStreamCaptureModeThreadLocal;
const RELAXED: cudaStreamCaptureMode = cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;

impl Cuda {
    /// A call during a capture in this mode is refused, and the capture is then invalid.
    #[track_caller]
    fn invalidates(
        &self,
        mode: cudaStreamCaptureMode,
        run: impl FnOnce(cudaStream_t) -> cudaError,
    ) {
        let (stream, data, event) = (self.stream(), self.device(64), self.event());
        self.begin_as(stream, mode);
        assert_eq!(run(stream), UNSUPPORTED);
        let status = cudaStreamCaptureStatus::cudaStreamCaptureStatusInvalidated;
        assert_eq!(self.status(stream), status);
        assert_eq!(self.set_on(data, 0, 1, stream), INVALIDATED);
        assert_eq!(self.record(event, stream), INVALIDATED);
        assert_eq!(self.end_fails(stream), INVALIDATED);
        ok(self.set_on(data, 0, 1, stream));
        self.sync(stream);
    }
}

#[test]
fn what_the_simulator_takes_for_unsafe_is_refused() {
    let cuda = h200();
    let (device, managed, event) = (cuda.device(64), cuda.managed(64), cuda.event());
    let pinned = cuda.pinned(64);
    let (other, mut pointer) = (cuda.stream(), null_mut());
    let table = &cuda.table;
    let driver = table.driver().unwrap();
    let kind = cudaMemcpyKind::cudaMemcpyDefault;
    cuda.invalidates(LOCAL, |_| {
        call!(table, cudaMallocManaged(&mut pointer, 64, 1))
    });
    cuda.invalidates(LOCAL, |_| call!(table, cudaHostAlloc(&mut pointer, 64, 0)));
    cuda.invalidates(LOCAL, |_| call!(table, cudaFree(device.cast())));
    cuda.invalidates(LOCAL, |_| call!(table, cudaFreeHost(pinned.cast())));
    cuda.invalidates(LOCAL, |_| {
        call!(table, cudaMemcpy(device.cast(), managed.cast(), 64, kind))
    });
    cuda.invalidates(LOCAL, |_| call!(table, cudaMemset(device.cast(), 0, 64)));
    cuda.invalidates(LOCAL, |_| call!(table, cudaEventQuery(event)));
    cuda.invalidates(LOCAL, |_| call!(table, cudaEventSynchronize(event)));
    cuda.invalidates(LOCAL, |_| call!(table, cudaStreamQuery(other)));
    cuda.invalidates(LOCAL, |_| call!(table, cudaStreamSynchronize(other)));
    cuda.invalidates(LOCAL, |_| {
        let mut module = null_mut();
        let image = c".version 6.4\n.target sm_60\n";
        cudaError(call!(driver, cuModuleLoadData(&mut module, image.as_ptr().cast())).0)
    });
}

#[test]
fn work_that_is_no_node_is_refused_in_every_mode() {
    let cuda = h200();
    let managed = cuda.managed(1 << 20);
    cuda.invalidates(RELAXED, |stream| {
        let (mut pointer, mut bytes) = (managed.cast(), 64);
        let discard = cuda.table.cudaMemDiscardBatchAsync.unwrap();
        call!(discard(&mut pointer, &mut bytes, 1, 0, stream))
    });
    cuda.invalidates(RELAXED, |stream| {
        call!(cuda.table, cudaStreamDestroy(stream))
    });
    // A graph as a node of another graph is not simulated.
    let exec = cuda.captured(|_| {});
    cuda.invalidates(RELAXED, |stream| {
        graph_call!(cuda, cudaGraphLaunch(exec, stream))
    });
    assert_eq!(cuda.sim.misuse(), []);
}
