//! Conditions in graphs: a node whose body CUDA runs if, or as long as, a value on the device is not 0.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::Result;
use cuda_um_sys as sys;

/// The parameters of a new node, as CUDA lays them out: the kind of the node, and a union for the kinds.
#[repr(C)]
struct Parameters {
    kind: sys::cudaGraphNodeType,
    reserved: [i32; 3],
    condition: sys::cudaConditionalNodeParams,
    /// The rest of the union, and a word that is reserved.
    rest: [u64; 27],
}

const _: () = assert!(size_of::<Parameters>() == 256);

impl Api {
    /// Makes the handle of a condition in a graph: kernels set its value, which is 0 at first.
    ///
    /// # Safety
    ///
    /// The graph is live, and no other thread uses it.
    pub(crate) unsafe fn graph_condition(
        &self,
        ordinal: u32,
        graph: sys::cudaGraph_t,
    ) -> Result<sys::cudaGraphConditionalHandle> {
        let name = "cudaGraphConditionalHandleCreate";
        let make = self.late(name, self.table.cudaGraphConditionalHandleCreate)?;
        let mut handle = 0;
        self.on(
            ordinal,
            name,
            || Subject::device(ordinal),
            // SAFETY: the pointer is valid for one write; the rest is guaranteed by the caller.
            |_| unsafe { make(&mut handle, graph, 0, 0) },
        )?;
        Ok(handle)
    }

    /// Adds a node with a condition to a graph; returns the graph of its body, which belongs to the node.
    ///
    /// # Safety
    ///
    /// The graph is live, no other thread uses it, and it has the nodes and the condition, which no other node has.
    pub(crate) unsafe fn graph_add_condition(
        &self,
        ordinal: u32,
        (graph, after): (sys::cudaGraph_t, &[sys::cudaGraphNode_t]),
        handle: sys::cudaGraphConditionalHandle,
        repeats: bool,
    ) -> Result<(sys::cudaGraphNode_t, sys::cudaGraph_t)> {
        use sys::cudaGraphConditionalNodeType as Kind;
        let name = "cudaGraphAddNode";
        let add = self.late(name, self.table.cudaGraphAddNode_v13)?;
        let mut parameters = Parameters {
            kind: sys::cudaGraphNodeType::cudaGraphNodeTypeConditional,
            reserved: [0; 3],
            condition: sys::cudaConditionalNodeParams {
                handle,
                type_: match repeats {
                    true => Kind::cudaGraphCondTypeWhile,
                    false => Kind::cudaGraphCondTypeIf,
                },
                size: 1,
                phGraph_out: std::ptr::null_mut(),
            },
            rest: [0; 27],
        };
        let mut node = std::ptr::null_mut();
        self.on(
            ordinal,
            name,
            || Subject::device(ordinal),
            // SAFETY: both places are valid for writes, and the array has as many nodes; the rest is guaranteed by the caller.
            |_| unsafe {
                add(
                    &mut node,
                    graph,
                    after.as_ptr(),
                    std::ptr::null(),
                    after.len(),
                    (&raw mut parameters).cast(),
                )
            },
        )?;
        // SAFETY: CUDA has written the address of an array with one graph, which lives as long as the node.
        Ok((node, unsafe { *parameters.condition.phGraph_out }))
    }

    /// Sets the nodes that the next work of a captured stream runs after.
    ///
    /// # Safety
    ///
    /// The stream is live, and captured into the graph of the nodes.
    pub(crate) unsafe fn set_captured_nodes(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
        nodes: &mut [sys::cudaGraphNode_t],
    ) -> Result<()> {
        /// `cudaStreamSetCaptureDependencies`.
        const REPLACE: u32 = 1;
        let name = "cudaStreamUpdateCaptureDependencies";
        let set = self.late(name, self.table.cudaStreamUpdateCaptureDependencies_v13)?;
        let (count, nodes) = (nodes.len(), nodes.as_mut_ptr());
        self.on(
            ordinal,
            name,
            || Subject::device(ordinal),
            // SAFETY: guaranteed by the caller; the data of edges may be null.
            |_| unsafe { set(stream, nodes, std::ptr::null(), count, REPLACE) },
        )
    }

    /// Begins to capture the stream into the body of a condition. A call of [`end_body`](Self::end_body) must follow, also after an error.
    ///
    /// # Safety
    ///
    /// The stream and the graph are live, and this thread captures the graph that the body belongs to.
    pub(crate) unsafe fn begin_body(
        &self,
        ordinal: u32,
        stream: sys::cudaStream_t,
        body: sys::cudaGraph_t,
    ) -> Result<()> {
        let name = "cudaStreamBeginCaptureToGraph";
        let begin = self.late(name, self.table.cudaStreamBeginCaptureToGraph)?;
        let mode = sys::cudaStreamCaptureMode::cudaStreamCaptureModeRelaxed;
        let none = std::ptr::null;
        self.on(
            ordinal,
            name,
            || Subject::device(ordinal),
            // SAFETY: guaranteed by the caller.
            |_| unsafe { begin(stream, body, none(), std::ptr::null(), 0, mode) },
        )
    }
}
