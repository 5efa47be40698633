//! Private streams, which CUDA captures.
#![allow(unsafe_code, reason = "passes the handle to CUDA")]

use crate::context::device::DeviceState;
use crate::context::stream::StreamInner;
use crate::context::stream_handle::StreamHandle;
use crate::driver::graph::Nodes;
use crate::driver::owned::Owned;
use crate::error::Result;
use cuda_um_sys::{cudaGraph_t, cudaGraphConditionalHandle, cudaGraphNode_t};
use std::sync::Arc;

impl StreamInner {
    /// Creates a stream that is in no list, because the others would query it: CUDA captures it.
    pub(crate) fn create_private(device: &Arc<DeviceState>) -> Result<Arc<Self>> {
        let raw = device.api.stream_create(device.ordinal)?;
        // SAFETY: the stream is new. It is dropped with the last reference, after its capture has ended.
        let raw = unsafe { Owned::new(&device.api, device.ordinal, raw) };
        Ok(Self::unlisted(device, StreamHandle::own(raw)))
    }

    /// Begins to capture this stream, which is a private one.
    pub(crate) fn begin_capture(&self) -> Result<()> {
        // SAFETY: the stream is live as long as `self`.
        unsafe { self.api().begin_capture(self.ordinal(), self.raw()) }
    }

    /// Ends the capture of this stream, which this thread began.
    pub(crate) fn end_capture(&self) -> Result<Owned<cudaGraph_t>> {
        let (api, ordinal) = (self.api(), self.ordinal());
        // SAFETY: this thread began the capture.
        let graph = unsafe { api.end_capture(ordinal, self.raw()) }?;
        // SAFETY: the graph is new.
        Ok(unsafe { Owned::new(api, ordinal, graph) })
    }

    /// CUDA's nodes that the next work of this captured stream runs after.
    pub(crate) fn captured_nodes(&self) -> Result<Nodes> {
        // SAFETY: the stream is live as long as `self`.
        let captured = unsafe { self.api().captured(self.ordinal(), self.raw()) };
        captured.map(|(_, nodes)| nodes)
    }

    /// Makes a condition in the graph that this stream is captured into.
    pub(super) fn condition(&self) -> Result<cudaGraphConditionalHandle> {
        let (api, ordinal) = (self.api(), self.ordinal());
        // SAFETY: the stream is live as long as `self`; this thread captures it, so no other one uses the graph.
        unsafe { api.graph_condition(ordinal, api.captured(ordinal, self.raw())?.0) }
    }

    /// Adds a node with the condition: after all work of this captured stream, and before its later work. Returns the nodes before it, and it.
    /// `body`, a new private stream, is captured into its body until [`end_body`](Self::end_body).
    pub(super) fn add_condition(
        &self,
        handle: cudaGraphConditionalHandle,
        repeats: bool,
        body: &Self,
    ) -> Result<(Nodes, cudaGraphNode_t)> {
        let (api, ordinal, raw) = (self.api(), self.ordinal(), self.raw());
        // SAFETY: both streams are live; this thread captures this one, so no other thread uses the graph, which has the nodes and the condition.
        unsafe {
            let (graph, after) = api.captured(ordinal, raw)?;
            let (node, graph) =
                api.graph_add_condition(ordinal, (graph, &after), handle, repeats)?;
            api.set_captured_nodes(ordinal, raw, &mut [node])?;
            let begun = api.begin_body(ordinal, body.raw(), graph);
            begun.inspect_err(|_| drop(body.end_body()))?;
            Ok((after, node))
        }
    }

    /// Ends the capture of this stream into a body.
    pub(super) fn end_body(&self) -> Result<()> {
        // SAFETY: this thread began the capture.
        let end = || unsafe { self.api().end_body(self.ordinal(), self.raw()) };
        // If the first call did not end the capture, the second one does.
        end().inspect_err(|_| drop(end())).map(drop)
    }
}
