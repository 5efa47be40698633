//! Conditions in graphs.

use super::driver::linear;
use super::graph::{call_late, mode};
use super::{Cuda, Memory, Stream};
use crate::Failure;
use cuda_um_sys as sys;
use std::ptr::{null, null_mut};

impl<'c> Cuda<'c> {
    /// `cuLaunchKernel`: sets a condition to the first element of `memory`.
    pub(crate) fn set_condition(
        &self,
        memory: &Memory<'_>,
        condition: u64,
        stream: &Stream<'_>,
    ) -> Result<(), Failure> {
        let data = memory.address() as u64;
        let arguments = [(&raw const data).cast(), (&raw const condition).cast()];
        let code = self.launch("conf_set_condition", linear(1), stream, arguments)?;
        self.ok("cuLaunchKernel conf_set_condition", code)
    }
}

impl<'c> Stream<'c> {
    /// `cudaGraphConditionalHandleCreate`: a condition in the graph of the stream's capture.
    pub(crate) fn condition(&self) -> Result<u64, Failure> {
        let (cuda, graph, mut handle) = (self.cuda(), self.capture()?.graph, 0);
        let code = call_late!(
            cuda,
            cudaGraphConditionalHandleCreate(&mut handle, graph as _, 0, 0)
        );
        cuda.ok("cudaGraphConditionalHandleCreate", code)?;
        Ok(handle)
    }

    /// `cudaGraphAddNode`: a node with a condition, in the capture of this stream; `work` is captured into its body.
    pub(crate) fn body(
        &self,
        condition: u64,
        repeats: bool,
        work: impl FnOnce(&Stream<'c>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (cuda, capture) = (self.cuda(), self.capture()?);
        // `cudaGraphNodeParams`: the kind, three reserved numbers, the union.
        let mut params = [0u64; 32];
        params[0] = u64::from(sys::cudaGraphNodeType::cudaGraphNodeTypeConditional.0);
        params[2] = condition;
        params[3] = u64::from(repeats) | 1 << 32;
        let (graph, mut node) = (capture.graph as _, null_mut());
        let (after, count) = (capture.after.as_ptr().cast(), capture.after.len());
        let params_at = params.as_mut_ptr().cast();
        let code = call_late!(
            cuda,
            cudaGraphAddNode_v13(&mut node, graph, after, null(), count, params_at)
        );
        cuda.ok("cudaGraphAddNode", code)?;
        let code = call_late!(
            cuda,
            cudaStreamUpdateCaptureDependencies_v13(self.raw() as _, &mut node, null(), 1, 1)
        );
        cuda.ok("cudaStreamUpdateCaptureDependencies", code)?;
        // SAFETY: CUDA has written the address of an array with the graph of the body.
        let graph = unsafe { *(params[4] as *const sys::cudaGraph_t) };
        let (body, mode) = (
            cuda.stream()?,
            sys::cudaStreamCaptureMode(mode::THREAD_LOCAL),
        );
        let code = call_late!(
            cuda,
            cudaStreamBeginCaptureToGraph(body.raw() as _, graph, null(), null(), 0, mode)
        );
        cuda.ok("cudaStreamBeginCaptureToGraph", code)?;
        let worked = work(&body);
        let mut ended = null_mut();
        // The graph belongs to the node, and is not destroyed.
        let code = call_late!(cuda, cudaStreamEndCapture(body.raw() as _, &mut ended));
        worked?;
        cuda.ok("cudaStreamEndCapture", code)
    }
}
