//! Captures of streams, and graphs.

use crate::driver::api::Api;
use crate::driver::call::How::On;
use crate::driver::call::calls;
use crate::driver::check::Subject;
use crate::error::Result;
use cuda_um_sys::{
    self as sys, cudaError, cudaGraph_t as Graph, cudaGraphExec_t as GraphExec,
    cudaGraphNode_t as Node, cudaStream_t as Stream, cudaStreamCaptureMode,
    cudaStreamCaptureStatus,
};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// The configuration and the parameters of a kernel's node.
pub(crate) struct KernelParameters<'a> {
    pub(crate) function: sys::CUfunction,
    /// Grid, block, and bytes of shared memory.
    pub(crate) shape: ([u32; 3], [u32; 3], u32),
    pub(crate) values: &'a mut [*mut c_void],
}

calls! {
    /// # Safety: the stream is live. A call of `stream_end_capture` follows, also after an error: the capture may have begun.
    unsafe fn stream_begin_capture(ordinal, stream: Stream)
        => newer.cudaStreamBeginCapture(
            stream,
            cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed,
        );

    /// # Safety: this thread captures the stream, or tried to.
    unsafe fn stream_end_capture(ordinal, stream: Stream) -> graph: Graph
        => newer.cudaStreamEndCapture(stream, &mut graph);

    /// Makes an executable graph.
    /// # Safety: the graph is live, and no other thread uses it.
    unsafe fn graph_instantiate(ordinal, graph: Graph) -> exec: GraphExec
        => newer.cudaGraphInstantiateWithFlags(&mut exec, graph, 0);

    /// Enqueues a launch of an executable graph.
    /// # Safety: the executable graph and the stream are live, no other thread uses the executable graph, and all memory that its nodes use
    /// stays valid until the launch is complete.
    #[inline]
    unsafe fn graph_launch(ordinal, exec: GraphExec, stream: Stream)
        => newer.cudaGraphLaunch(exec, stream);

    /// # Safety: the executable graph is live and no other thread uses it; the node is one of a kernel, in the graph that it was made from; the
    /// function is loaded, and the values fit its parameters.
    unsafe fn graph_set_node(
        ordinal,
        exec: GraphExec,
        node: Node,
        parameters: &sys::CUDA_KERNEL_NODE_PARAMS,
    )
        // The runtime's and the driver's handles are the same.
        => newer_driver.cuGraphExecKernelNodeSetParams(exec.cast(), node.cast(), parameters);

    /// # Safety: the graph is live and destroyed once.
    unsafe fn graph_destroy(ordinal, graph: Graph)
        => [Releases] newer.cudaGraphDestroy(graph);

    /// # Safety: the executable graph is live and destroyed once.
    unsafe fn graph_exec_destroy(ordinal, exec: GraphExec)
        => [Releases] newer.cudaGraphExecDestroy(exec);
}

impl Api {
    /// Begins to capture the stream, when no thread waits for a device. Other streams are not affected: the mode is "relaxed". A call of
    /// [`end_capture`](Self::end_capture) must follow, also after an error: the capture may have begun.
    /// # Safety: the stream is live.
    pub(crate) unsafe fn begin_capture(&self, ordinal: u32, stream: Stream) -> Result<()> {
        self.count_capture(ordinal)?;
        // SAFETY: guaranteed by the caller.
        unsafe { self.stream_begin_capture(ordinal, stream) }
    }

    /// Ends the capture of the stream.
    /// # Safety: this thread captures the stream, or tried to.
    pub(crate) unsafe fn end_capture(&self, ordinal: u32, stream: Stream) -> Result<Graph> {
        // SAFETY: guaranteed by the caller.
        let graph = unsafe { self.stream_end_capture(ordinal, stream) };
        self.uncount_capture(ordinal);
        graph
    }

    /// The node that the next work of a captured stream runs after; null if there is none.
    /// # Safety: the stream is live, and captured.
    pub(crate) unsafe fn captured_node(&self, ordinal: u32, stream: Stream) -> Result<Node> {
        let mut status = cudaStreamCaptureStatus::cudaStreamCaptureStatusNone;
        let (mut graph, mut nodes, mut count) = (null_mut(), null(), 0);
        let call = self.begin("cudaStreamGetCaptureInfo")?;
        let ask = || {
            let (status, graph) = (&mut status, &mut graph);
            let (nodes, count) = (&mut nodes, &mut count);
            // SAFETY: each pointer is valid for one write, or null; the rest is guaranteed by the caller.
            let told = unsafe {
                let table = &self.table;
                table.cudaStreamGetCaptureInfo(stream, status, null_mut(), graph, nodes, count)
            };
            told.unwrap_or(cudaError::cudaErrorNotSupported)
        };
        call.run(On(ordinal), ask, || Subject::device(ordinal))?;
        if nodes.is_null() || count == 0 {
            return Ok(null_mut());
        }
        // SAFETY: CUDA has written the array's address and length; it stays until the next call on the stream.
        Ok(unsafe { *nodes })
    }

    /// Sets the configuration and the parameters of a kernel's node, for later launches.
    /// # Safety: as for [`graph_set_node`](Self::graph_set_node).
    pub(crate) unsafe fn graph_set_kernel(
        &self,
        ordinal: u32,
        exec: GraphExec,
        node: Node,
        kernel: KernelParameters<'_>,
    ) -> Result<()> {
        let (grid, block, shared_bytes) = kernel.shape;
        let parameters = sys::CUDA_KERNEL_NODE_PARAMS {
            func: kernel.function,
            gridDimX: grid[0],
            gridDimY: grid[1],
            gridDimZ: grid[2],
            blockDimX: block[0],
            blockDimY: block[1],
            blockDimZ: block[2],
            sharedMemBytes: shared_bytes,
            kernelParams: kernel.values.as_mut_ptr(),
            // SAFETY: the type is plain old data, for which zeros are valid: the fields that newer versions add are not read if `func` is set.
            ..unsafe { std::mem::zeroed() }
        };
        // SAFETY: guaranteed by the caller.
        unsafe { self.graph_set_node(ordinal, exec, node, &parameters) }
    }
}
