//! Private streams, which CUDA captures.
#![allow(unsafe_code, reason = "passes the handle to CUDA")]

use crate::context::device::DeviceState;
use crate::context::stream::StreamInner;
use crate::context::stream_handle::StreamHandle;
use crate::driver::owned::Owned;
use crate::error::Result;
use cuda_um_sys::{cudaGraph_t, cudaGraphNode_t};
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

    /// CUDA's node of the last work of this captured stream.
    pub(super) fn captured_node(&self) -> Result<cudaGraphNode_t> {
        // SAFETY: the stream is live as long as `self`.
        unsafe { self.api().captured_node(self.ordinal(), self.raw()) }
    }
}
