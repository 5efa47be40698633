//! Stream capture and graphs.

mod memory;
mod nodes;
mod owned;
mod refused;

use std::ptr::null_mut;

use cuda_um_sim::{Fail, Leak, Misuse};
use cuda_um_sys::{
    cudaError, cudaEvent_t, cudaGraph_t, cudaGraphExec_t, cudaMemcpyKind, cudaStream_t,
    cudaStreamCaptureMode, cudaStreamCaptureStatus,
};

use crate::support::{Cuda, MIB, bytes, call, h200, ok};

/// Calls an optional function of the table.
macro_rules! graph_call {
    ($cuda:expr, $name:ident($($argument:expr),*)) => {{
        let function = $cuda.table.$name.unwrap();
        call!(function($($argument),*))
    }};
}
use graph_call;

impl Cuda {
    /// Begins a capture in which the thread may load modules.
    fn begin(&self, stream: cudaStream_t) {
        self.begin_as(stream, cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed);
    }

    fn begin_as(&self, stream: cudaStream_t, mode: cudaStreamCaptureMode) {
        ok(graph_call!(self, cudaStreamBeginCapture(stream, mode)));
    }

    fn end(&self, stream: cudaStream_t) -> cudaGraph_t {
        let mut graph = null_mut();
        ok(graph_call!(self, cudaStreamEndCapture(stream, &mut graph)));
        assert!(!graph.is_null());
        graph
    }

    /// The error of `cudaStreamEndCapture`, which gives no graph.
    fn end_fails(&self, stream: cudaStream_t) -> cudaError {
        let mut graph = std::ptr::dangling_mut();
        let error = graph_call!(self, cudaStreamEndCapture(stream, &mut graph));
        assert!(graph.is_null());
        assert_ne!(error, cudaError::cudaSuccess);
        error
    }

    fn status(&self, stream: cudaStream_t) -> cudaStreamCaptureStatus {
        let mut status = cudaStreamCaptureStatus(9);
        ok(graph_call!(
            self,
            cudaStreamIsCapturing(stream, &mut status)
        ));
        status
    }

    fn instantiate(&self, graph: cudaGraph_t) -> cudaGraphExec_t {
        let mut exec = null_mut();
        ok(graph_call!(
            self,
            cudaGraphInstantiateWithFlags(&mut exec, graph, 0)
        ));
        exec
    }

    fn launch_graph(&self, exec: cudaGraphExec_t, stream: cudaStream_t) {
        ok(graph_call!(self, cudaGraphLaunch(exec, stream)));
    }

    fn copy_on(&self, to: *mut u8, from: *const u8, len: usize, stream: cudaStream_t) -> cudaError {
        let kind = cudaMemcpyKind::cudaMemcpyDefault;
        call!(
            self.table,
            cudaMemcpyAsync(to.cast(), from.cast(), len, kind, stream)
        )
    }

    fn set_on(&self, to: *mut u8, value: i32, len: usize, stream: cudaStream_t) -> cudaError {
        call!(self.table, cudaMemsetAsync(to.cast(), value, len, stream))
    }

    fn record(&self, event: cudaEvent_t, stream: cudaStream_t) -> cudaError {
        call!(self.table, cudaEventRecord(event, stream))
    }

    /// An executable graph of what `work` does on a stream.
    fn captured(&self, work: impl FnOnce(cudaStream_t)) -> cudaGraphExec_t {
        let stream = self.stream();
        self.begin(stream);
        work(stream);
        let graph = self.end(stream);
        let exec = self.instantiate(graph);
        ok(graph_call!(self, cudaGraphDestroy(graph)));
        exec
    }
}

#[test]
fn a_graph_does_at_each_launch_what_was_captured() {
    let cuda = h200();
    let (data, out, device) = (cuda.managed(MIB), cuda.pinned(MIB), cuda.device(MIB));
    bytes(data, MIB).fill(1);
    let stream = cuda.stream();
    let exec = cuda.captured(|stream| {
        cuda.launch("add", data, MIB, stream);
        ok(cuda.copy_on(device, data, MIB, stream));
        cuda.launch("add", device, MIB, stream);
        ok(cuda.copy_on(out, device, MIB, stream));
        ok(cuda.set_on(device, 9, MIB, stream));
    });
    assert_eq!(cuda.sim.counters().kernels, 0, "nothing ran");
    assert_eq!(bytes(data, MIB)[7], 1);
    cuda.launch_graph(exec, stream);
    cuda.sync(stream);
    let counters = cuda.sim.counters();
    assert_eq!((counters.kernels, counters.gpu_faults > 0), (2, true));
    assert_eq!(
        counters.bytes_to_device, MIB as u64,
        "faults, as for a launch"
    );
    assert_eq!((bytes(data, MIB)[7], bytes(out, MIB)[7]), (2, 3));
    bytes(data, MIB).fill(40);
    for _ in 0..2 {
        cuda.launch_graph(exec, stream);
    }
    ok(graph_call!(cuda, cudaGraphExecDestroy(exec)));
    cuda.sync(stream);
    assert_eq!(
        (bytes(data, MIB)[7], bytes(out, MIB)[7]),
        (42, 43),
        "it ran though it was destroyed"
    );
    assert_eq!(cuda.sim.misuse(), []);
}

#[test]
fn a_kernel_of_a_graph_faults_as_any_kernel() {
    let cuda = h200();
    let data = cuda.device(64);
    let exec = cuda.captured(|stream| cuda.launch("read", data, 1 << 20, stream));
    let stream = cuda.stream();
    cuda.launch_graph(exec, stream);
    let error = call!(cuda.table, cudaStreamSynchronize(stream));
    assert_eq!(error, cudaError::cudaErrorIllegalAddress);
    assert!(matches!(
        cuda.sim.misuse()[..],
        [Misuse::KernelFault { .. }]
    ));
}

#[test]
fn each_call_can_be_made_to_fail() {
    let cuda = h200();
    let (stream, data) = (cuda.stream(), cuda.device(64));
    let fail = |call| cuda.sim.fail(Fail::call(call));
    let unknown = cudaError::cudaErrorUnknown;
    let mode = cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;
    fail("cudaStreamBeginCapture");
    assert_eq!(
        graph_call!(cuda, cudaStreamBeginCapture(stream, mode)),
        unknown
    );
    cuda.begin(stream);
    ok(cuda.set_on(data, 1, 64, stream));
    fail("cudaStreamEndCapture");
    let mut graph = null_mut();
    assert_eq!(
        graph_call!(cuda, cudaStreamEndCapture(stream, &mut graph)),
        unknown
    );
    let graph = cuda.end(stream);
    fail("cudaGraphInstantiateWithFlags");
    let mut exec = null_mut();
    assert_eq!(
        graph_call!(cuda, cudaGraphInstantiateWithFlags(&mut exec, graph, 0)),
        unknown
    );
    let exec = cuda.instantiate(graph);
    let leaks = cuda.sim.leaks();
    assert!(leaks.contains(&Leak::Graph) && leaks.contains(&Leak::GraphExec));
    fail("cudaGraphLaunch");
    assert_eq!(graph_call!(cuda, cudaGraphLaunch(exec, stream)), unknown);
    fail("cudaGraphDestroy");
    assert_eq!(graph_call!(cuda, cudaGraphDestroy(graph)), unknown);
    fail("cudaGraphExecDestroy");
    assert_eq!(graph_call!(cuda, cudaGraphExecDestroy(exec)), unknown);
    ok(graph_call!(cuda, cudaGraphDestroy(graph)));
    ok(graph_call!(cuda, cudaGraphExecDestroy(exec)));
    let refused = cudaError::cudaErrorInvalidValue;
    assert_eq!(graph_call!(cuda, cudaGraphDestroy(graph)), refused);
    assert_eq!(graph_call!(cuda, cudaGraphLaunch(exec, stream)), refused);
}
