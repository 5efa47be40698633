//! Captures of streams, and graphs.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::driver::owned::Handle;
use crate::error::Result;
use cuda_um_sys as sys;
use std::ffi::c_void;

/// The configuration and the parameters of a kernel's node.
pub(crate) struct KernelParameters<'a> {
    pub(crate) function: sys::CUfunction,
    /// Grid, block, and bytes of shared memory.
    pub(crate) shape: ([u32; 3], [u32; 3], u32),
    pub(crate) values: &'a mut [*mut c_void],
}

impl Api {
    /// Calls a function of graphs, which not every table has.
    #[inline]
    fn on_graph<F>(
        &self,
        ordinal: u32,
        name: &'static str,
        function: Option<F>,
        call: impl FnOnce(F) -> sys::cudaError_t,
    ) -> Result<()> {
        let function = self.late(name, function)?;
        let subject = || Subject::device(ordinal);
        self.on(ordinal, name, subject, |_| call(function))
    }

    /// Begins to capture the stream, when no thread waits for a device. Other streams are not affected: the mode is "relaxed". A call of
    /// [`end_capture`](Self::end_capture) must follow, also after an error: the capture may have begun.
    ///
    /// # Safety
    ///
    /// The stream is live.
    pub(crate) unsafe fn begin_capture(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        self.count_capture(ordinal)?;
        let (name, begin) = ("cudaStreamBeginCapture", self.table.cudaStreamBeginCapture);
        let mode = sys::cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;
        // SAFETY: guaranteed by the caller.
        self.on_graph(ordinal, name, begin, |begin| unsafe { begin(stream, mode) })
    }

    /// Ends the capture of the stream.
    ///
    /// # Safety
    ///
    /// This thread captures the stream, or tried to.
    pub(crate) unsafe fn end_capture(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<sys::cudaGraph_t> {
        let (name, end) = ("cudaStreamEndCapture", self.table.cudaStreamEndCapture);
        let mut graph = std::ptr::null_mut();
        // SAFETY: the pointer is valid for one write; the rest is guaranteed by the caller.
        let ended = self.on_graph(ordinal, name, end, |end| unsafe { end(stream, &mut graph) });
        self.uncount_capture(ordinal);
        ended.map(|()| graph)
    }

    /// The node that the next work of a captured stream runs after; null if there is none.
    ///
    /// # Safety
    ///
    /// The stream is live, and captured.
    pub(crate) unsafe fn captured_node(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<sys::cudaGraphNode_t> {
        let name = "cudaStreamGetCaptureInfo";
        let mut status = sys::cudaStreamCaptureStatus::cudaStreamCaptureStatusNone;
        let (mut nodes, mut count) = (std::ptr::null(), 0);
        let (id, mut graph) = (std::ptr::null_mut(), std::ptr::null_mut());
        let mut is_missing = false;
        self.on(
            ordinal,
            name,
            || Subject::device(ordinal),
            |table| {
                // SAFETY: each pointer is valid for one write, or null; the rest is guaranteed by the caller.
                let told = unsafe {
                    table.cudaStreamGetCaptureInfo(
                        stream,
                        &mut status,
                        id,
                        &mut graph,
                        &mut nodes,
                        &mut count,
                    )
                };
                is_missing = told.is_none();
                told.unwrap_or(sys::cudaError::cudaSuccess)
            },
        )?;
        if is_missing {
            return Err(self.missing_function(name));
        }
        if nodes.is_null() || count == 0 {
            return Ok(std::ptr::null_mut());
        }
        // SAFETY: CUDA has written the array's address and length; it stays until the next call on the stream.
        Ok(unsafe { *nodes })
    }

    /// Makes an executable graph.
    ///
    /// # Safety
    ///
    /// The graph is live, and no other thread uses it.
    pub(crate) unsafe fn graph_instantiate(
        &self,
        ordinal: u32,
        graph: sys::cudaGraph_t,
    ) -> Result<sys::cudaGraphExec_t> {
        let name = "cudaGraphInstantiateWithFlags";
        let make = self.table.cudaGraphInstantiateWithFlags;
        let mut exec = std::ptr::null_mut();
        // SAFETY: the pointer is valid for one write; the rest is guaranteed by the caller.
        self.on_graph(ordinal, name, make, |make| unsafe {
            make(&mut exec, graph, 0)
        })?;
        Ok(exec)
    }

    /// Enqueues a launch of an executable graph.
    ///
    /// # Safety
    ///
    /// The executable graph and the stream are live, no other thread uses the executable graph, and all memory that its nodes use stays
    /// valid until the launch is complete.
    #[inline]
    pub(crate) unsafe fn graph_launch(
        &self,
        ordinal: u32,
        exec: sys::cudaGraphExec_t,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        let (name, launch) = ("cudaGraphLaunch", self.table.cudaGraphLaunch);
        // SAFETY: guaranteed by the caller.
        self.on_graph(ordinal, name, launch, |launch| unsafe {
            launch(exec, stream)
        })
    }

    /// Sets the configuration and the parameters of a kernel's node, for later launches.
    ///
    /// # Safety
    ///
    /// The executable graph is live and no other thread uses it; the node is one of a kernel, in the graph that it was made from; the function
    /// is loaded, and the values fit its parameters.
    pub(crate) unsafe fn graph_set_kernel(
        &self,
        ordinal: u32,
        exec: sys::cudaGraphExec_t,
        node: sys::cudaGraphNode_t,
        KernelParameters {
            function,
            shape,
            values,
        }: KernelParameters<'_>,
    ) -> Result<()> {
        let call = "cuGraphExecKernelNodeSetParams";
        let set = self.late(call, self.driver()?.cuGraphExecKernelNodeSetParams)?;
        let (grid, block, shared_bytes) = shape;
        // SAFETY: the type is plain old data, for which zeros are valid: the fields that newer versions add are not read if `func` is set.
        let mut parameters: sys::CUDA_KERNEL_NODE_PARAMS = unsafe { std::mem::zeroed() };
        parameters.func = function;
        [
            parameters.gridDimX,
            parameters.gridDimY,
            parameters.gridDimZ,
        ] = grid;
        [
            parameters.blockDimX,
            parameters.blockDimY,
            parameters.blockDimZ,
        ] = block;
        parameters.sharedMemBytes = shared_bytes;
        parameters.kernelParams = values.as_mut_ptr();
        self.on_driver(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: the runtime's and the driver's handles are the same; the rest is guaranteed by the caller.
                unsafe { set(exec.cast(), node.cast(), &parameters) }
            },
        )
    }
}

impl Handle for sys::cudaGraph_t {
    const NAME: &'static str = "a graph";

    unsafe fn destroy(self, api: &Api, ordinal: u32) -> Result<()> {
        let call = "cudaGraphDestroy";
        let destroy = api.late(call, api.table.cudaGraphDestroy)?;
        api.on_release(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: guaranteed by the caller.
                unsafe { destroy(self) }
            },
        )
    }
}

impl Handle for sys::cudaGraphExec_t {
    const NAME: &'static str = "an executable graph";

    unsafe fn destroy(self, api: &Api, ordinal: u32) -> Result<()> {
        let call = "cudaGraphExecDestroy";
        let destroy = api.late(call, api.table.cudaGraphExecDestroy)?;
        api.on_release(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: guaranteed by the caller.
                unsafe { destroy(self) }
            },
        )
    }
}
