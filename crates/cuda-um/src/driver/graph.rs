//! Captures of streams, and graphs.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::driver::owned::Handle;
use crate::error::Result;
use cuda_um_sys as sys;
use smallvec::SmallVec;
use std::ffi::c_void;

/// CUDA's nodes.
pub(crate) type Nodes = SmallVec<[sys::cudaGraphNode_t; 2]>;

/// A graph that cannot replace the one of an executable graph.
pub(crate) struct UpdateRefused {
    /// The node that differs, in one of the graphs; null if CUDA names none.
    pub(crate) node: sys::cudaGraphNode_t,
    pub(crate) result: sys::cudaGraphExecUpdateResult,
}

/// The configuration and the parameters of a kernel's node.
pub(crate) struct KernelParameters<'a> {
    pub(crate) function: sys::CUfunction,
    /// Grid, block, and bytes of shared memory.
    pub(crate) shape: ([u32; 3], [u32; 3], u32),
    pub(crate) values: &'a mut [*mut c_void],
}

impl Api {
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
        let call = "cudaStreamBeginCapture";
        let begin = self.late(call, self.table.cudaStreamBeginCapture)?;
        let mode = sys::cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;
        self.captures.begin(ordinal)?;
        self.on(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: guaranteed by the caller.
                unsafe { begin(stream, mode) }
            },
        )
    }

    /// Ends the capture of the stream.
    ///
    /// # Safety
    ///
    /// This thread captures the stream.
    pub(crate) unsafe fn end_capture(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<sys::cudaGraph_t> {
        let call = "cudaStreamEndCapture";
        let end = self.late(call, self.table.cudaStreamEndCapture)?;
        let mut graph = std::ptr::null_mut();
        let ended = self.on(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: the pointer is valid for one write; the rest is guaranteed by the caller.
                unsafe { end(stream, &mut graph) }
            },
        );
        self.captures.end(ordinal);
        ended.map(|()| graph)
    }

    /// The nodes that the next work of a captured stream runs after.
    ///
    /// # Safety
    ///
    /// The stream is live, and captured.
    pub(crate) unsafe fn captured_nodes(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
    ) -> Result<Nodes> {
        let call = "cudaStreamGetCaptureInfo";
        let mut status = sys::cudaStreamCaptureStatus::cudaStreamCaptureStatusNone;
        let (mut nodes, mut count) = (std::ptr::null(), 0);
        let (id, graph) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (edges, subject) = (std::ptr::null_mut(), || Subject::device(ordinal));
        match self.table.cudaStreamGetCaptureInfo_v3 {
            Some(ask) => self.on(ordinal, call, subject, |_| {
                // SAFETY: each pointer is valid for one write, or null; the rest is guaranteed by the caller.
                unsafe {
                    ask(
                        stream,
                        &mut status,
                        id,
                        graph,
                        &mut nodes,
                        edges,
                        &mut count,
                    )
                }
            }),
            None => {
                let ask = self.late(call, self.table.cudaStreamGetCaptureInfo_v2)?;
                self.on(ordinal, call, subject, |_| {
                    // SAFETY: as above.
                    unsafe { ask(stream, &mut status, id, graph, &mut nodes, &mut count) }
                })
            }
        }?;
        if nodes.is_null() || count == 0 {
            return Ok(Nodes::new());
        }
        // SAFETY: CUDA has written the array's address and length; it stays until the next call on the stream.
        Ok(Nodes::from_slice(unsafe {
            std::slice::from_raw_parts(nodes, count)
        }))
    }

    /// The number of nodes of a graph.
    ///
    /// # Safety
    ///
    /// The graph is live, and no other thread uses it.
    pub(crate) unsafe fn graph_nodes(
        &self,
        ordinal: u32,
        graph: sys::cudaGraph_t,
    ) -> Result<usize> {
        let call = "cudaGraphGetNodes";
        let ask = self.late(call, self.table.cudaGraphGetNodes)?;
        let mut count = 0;
        self.on(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: without an array CUDA writes only the number; the rest is guaranteed by the caller.
                unsafe { ask(graph, std::ptr::null_mut(), &mut count) }
            },
        )?;
        Ok(count)
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
        let call = "cudaGraphInstantiateWithFlags";
        let make = self.late(call, self.table.cudaGraphInstantiateWithFlags)?;
        let mut exec = std::ptr::null_mut();
        self.on(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: the pointer is valid for one write; the rest is guaranteed by the caller.
                unsafe { make(&mut exec, graph, 0) }
            },
        )?;
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
        let call = "cudaGraphLaunch";
        let launch = self.late(call, self.table.cudaGraphLaunch)?;
        self.on(
            ordinal,
            call,
            || Subject::device(ordinal),
            |_| {
                // SAFETY: guaranteed by the caller.
                unsafe { launch(exec, stream) }
            },
        )
    }

    /// Replaces the work of an executable graph by that of a graph of the same shape.
    ///
    /// # Safety
    ///
    /// Both are live, and no other thread uses them.
    pub(crate) unsafe fn graph_update(
        &self,
        ordinal: u32,
        exec: sys::cudaGraphExec_t,
        graph: sys::cudaGraph_t,
    ) -> Result<std::result::Result<(), UpdateRefused>> {
        let call = "cudaGraphExecUpdate";
        let mut refused = UpdateRefused {
            node: std::ptr::null_mut(),
            result: sys::cudaGraphExecUpdateResult::cudaGraphExecUpdateSuccess,
        };
        let mut failed = false;
        let mut told = |code| {
            failed = code == sys::cudaError::cudaErrorGraphExecUpdateFailure;
            match failed {
                true => sys::cudaError::cudaSuccess,
                false => code,
            }
        };
        let subject = || Subject::device(ordinal);
        if let Some(update) = self.table.cudaGraphExecUpdate_v13 {
            let mut info = sys::cudaGraphExecUpdateResultInfo {
                result: refused.result,
                errorNode: refused.node,
                errorFromNode: std::ptr::null_mut(),
            };
            self.on(ordinal, call, subject, |_| {
                // SAFETY: the pointer is valid for one write; the rest is guaranteed by the caller.
                told(unsafe { update(exec, graph, &mut info) })
            })?;
            (refused.node, refused.result) = (info.errorNode, info.result);
        } else {
            let update = self.late(call, self.table.cudaGraphExecUpdate_v11)?;
            let UpdateRefused { node, result } = &mut refused;
            self.on(ordinal, call, subject, |_| {
                // SAFETY: as above.
                told(unsafe { update(exec, graph, node, result) })
            })?;
        }
        if !failed {
            return Ok(Ok(()));
        }
        self.clear_last_error();
        Ok(Err(refused))
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
