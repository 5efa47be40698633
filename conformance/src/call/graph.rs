//! Stream capture and graphs.

use super::{At, Called, Calls, Code, Cuda, Event, Exec, Graph, Memory, Shape, Stream, ok, there};
use cuda_um_sys as sys;
use cuda_um_testkit::call;
use std::ptr::{null, null_mut};

/// `cudaStreamCaptureMode`
pub(crate) mod mode {
    pub(crate) const GLOBAL: u32 = 0;
    pub(crate) const THREAD_LOCAL: u32 = 1;
    pub(crate) const RELAXED: u32 = 2;
}

/// `cudaStreamCaptureStatus`
pub(crate) mod status {
    pub(crate) const NONE: u32 = 0;
    pub(crate) const ACTIVE: u32 = 1;
    pub(crate) const INVALIDATED: u32 = 2;
}

/// The answer of `cudaStreamGetCaptureInfo`.
pub(crate) struct Capture {
    pub(crate) status: u32,
    pub(crate) id: u64,
    pub(crate) graph: usize,
    /// The nodes that the next node comes after.
    pub(crate) after: Vec<usize>,
}

impl<'c> Cuda<'c> {
    /// An executable graph of the work on a stream.
    pub(crate) fn captured(
        &'c self,
        work: impl for<'s> FnOnce(&'s Stream<'c>) -> &'s Stream<'c>,
    ) -> Exec<'c> {
        self.graph_of(work).make()
    }

    /// A graph of the work on a stream.
    pub(crate) fn graph_of(
        &'c self,
        work: impl for<'s> FnOnce(&'s Stream<'c>) -> &'s Stream<'c>,
    ) -> Graph<'c> {
        let stream = self.stream();
        ok(stream.begin(mode::THREAD_LOCAL));
        work(&stream);
        stream.end_well()
    }
}

impl<'c> Stream<'c> {
    /// `cudaStreamEndCapture`: its result, and the graph, which it may also give with an error.
    pub(crate) fn end(&self) -> (Called, Option<Graph<'c>>) {
        let (end, mut graph) = (self.cuda.table().cudaStreamEndCapture, null_mut());
        let end = there(end, "cudaStreamEndCapture");
        let code = call!(end(self.at() as _, &mut graph));
        let graph = (!graph.is_null()).then(|| Graph::owned(self.cuda, graph as usize));
        (Code(code.0, "cudaStreamEndCapture").called(), graph)
    }

    /// The graph of a capture that must succeed.
    pub(crate) fn end_well(&self) -> Graph<'c> {
        let (got, graph) = self.end();
        ok(got);
        graph.expect("cudaStreamEndCapture gave no graph")
    }

    /// `cudaStreamIsCapturing`
    pub(crate) fn status(&self) -> u32 {
        ok(self.cuda.capture_status(self))
    }

    /// `cudaStreamGetCaptureInfo`
    pub(crate) fn capture(&self) -> Capture {
        let (mut status, mut id) = (sys::cudaStreamCaptureStatus(u32::MAX), 0);
        let (mut graph, mut nodes, mut count) = (null_mut(), null(), 0);
        let (table, raw) = (self.cuda.table(), self.at() as _);
        let (to, of) = (&mut status, &mut id);
        // SAFETY: every place is valid for the call.
        let code = unsafe {
            table.cudaStreamGetCaptureInfo(raw, to, of, &mut graph, &mut nodes, &mut count)
        };
        let code = there(code, "cudaStreamGetCaptureInfo");
        ok(Code(code.0, "cudaStreamGetCaptureInfo").called());
        // SAFETY: the list is valid until the next call on the stream.
        let node = |index| unsafe { *nodes.add(index) as usize };
        let after = (0..count).map(node).collect();
        Capture {
            status: status.0,
            id,
            graph: graph as usize,
            after,
        }
    }

    /// `cudaStreamWaitEvent` for an external event.
    pub(crate) fn wait_external(&self, event: &Event<'_>) -> Called {
        self.cuda
            .stream_wait(self, event, sys::cudaEventWaitExternal)
    }

    /// `cudaGraphConditionalHandleCreate`: a condition in the graph of the stream's capture.
    pub(crate) fn condition(&self) -> u64 {
        ok(self.cuda.condition_create(self.capture().graph))
    }

    /// `cudaGraphAddNode`: a node with a condition, in the capture of this stream; `work` is captured into its body.
    pub(crate) fn body(
        &self,
        condition: u64,
        repeats: bool,
        work: impl for<'s> FnOnce(&'s Stream<'c>) -> &'s Stream<'c>,
    ) {
        let (cuda, capture) = (self.cuda, self.capture());
        // `cudaGraphNodeParams`: the kind, three reserved numbers, the union.
        let mut params = [0u64; 32];
        params[0] = u64::from(sys::cudaGraphNodeType::cudaGraphNodeTypeConditional.0);
        params[2] = condition;
        params[3] = u64::from(repeats) | 1 << 32;
        let params_at = params.as_mut_ptr().cast();
        let node = ok(cuda.node_add(capture.graph, &capture.after, params_at));
        ok(cuda.set_dependency(self, node));
        // SAFETY: CUDA has written the address of an array with the graph of the body.
        let graph = unsafe { *(params[4] as *const usize) };
        let body = cuda.stream();
        ok(cuda.begin_capture_to(&body, graph, mode::THREAD_LOCAL));
        work(&body);
        // The graph belongs to the node, and is not destroyed.
        ok(cuda.end_capture(&body));
    }
}

impl Event<'_> {
    /// `cudaEventRecordWithFlags` of an external event.
    pub(crate) fn record_external(&self, stream: &Stream<'_>) -> Called {
        let external = sys::cudaEventRecordExternal;
        self.cuda.event_record_with_flags(self, stream, external)
    }
}

impl<'c> Graph<'c> {
    /// `cudaGraphGetNodes`
    pub(crate) fn nodes(&self) -> Vec<usize> {
        let mut nodes = vec![0; ok(self.cuda.graph_nodes(self, null_mut(), 0))];
        ok(self.cuda.graph_nodes(self, nodes.as_mut_ptr(), nodes.len()));
        nodes
    }

    /// The node of a type.
    pub(crate) fn node(&self, kind: u32) -> usize {
        let mut nodes = self.nodes().into_iter();
        let found = nodes.find(|node| ok(self.cuda.node_type(*node)) == kind);
        found.unwrap_or_else(|| panic!("no node of type {kind}"))
    }

    /// `cudaGraphInstantiateWithFlags`
    pub(crate) fn make(&self) -> Exec<'c> {
        Exec::owned(self.cuda, ok(self.cuda.instantiate(self)))
    }
}

impl Exec<'_> {
    super::forms! {
        launch(stream: &Stream<'_>): graph_launch;
    }

    /// `cudaGraphExecUpdate`: its result, `cudaGraphExecUpdateResult`, and the node.
    pub(crate) fn update(&self, graph: &Graph<'_>) -> (Called, u32, usize) {
        let mut info = sys::cudaGraphExecUpdateResultInfo::default();
        let (table, exec, graph) = (self.cuda.table(), self.at() as _, graph.at() as _);
        // SAFETY: live handles and a valid place.
        let code = unsafe { table.cudaGraphExecUpdate(exec, graph, &mut info) };
        let code = Code(there(code, "cudaGraphExecUpdate").0, "cudaGraphExecUpdate");
        (code.called(), info.result.0, info.errorNode as usize)
    }

    /// `cuGraphExecKernelNodeSetParams`: the kernel of [`Cuda::add`].
    pub(crate) fn set_add(&self, node: usize, memory: &Memory<'_>, mut amount: u32) -> Called {
        let (mut data, mut count) = (memory.at() as u64, memory.len() as u32);
        let (data, count) = ((&raw mut data).cast(), (&raw mut count).cast());
        let mut arguments = [data, count, (&raw mut amount).cast()];
        let shape = Shape::linear(memory.len());
        let params = sys::CUDA_KERNEL_NODE_PARAMS {
            func: self.cuda.kernel(c"conf_add") as _,
            gridDimX: shape.grid[0],
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.block[0],
            blockDimY: 1,
            blockDimZ: 1,
            kernelParams: arguments.as_mut_ptr(),
            ..Default::default()
        };
        self.cuda.exec_set_kernel(self, node, &params)
    }

    /// `cudaGraphExecMemsetNodeSetParams` of bytes.
    pub(crate) fn set_memset(&self, node: usize, memory: &Memory<'_>, value: u32) -> Called {
        let params = sys::cudaMemsetParams {
            dst: memory.at() as _,
            value,
            elementSize: 1,
            width: memory.bytes(),
            height: 1,
            ..Default::default()
        };
        self.cuda.exec_set_memset(self, node, &params)
    }
}
