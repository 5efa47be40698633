//! Functions of graphs whose signature changed, in one form for all versions.
//!
//! `cuGraphExecKernelNodeSetParams` needs no form of its own: libcudart returns its first version before 12.0 and `_v2` from then on. The
//! struct of `_v2`, [`CUDA_KERNEL_NODE_PARAMS`](crate::CUDA_KERNEL_NODE_PARAMS), serves for both: it begins with the fields of the first
//! version, and `kern` and `ctx` are not read if `func` is set.
#![allow(non_snake_case, reason = "C names")]

use crate::bindings::common::*;
use crate::table::Functions;
use std::ffi::c_ulonglong;
use std::ptr::null_mut;

impl Functions {
    /// `cudaStreamGetCaptureInfo` of CUDA 13, without the data of edges. `None` if the library has no form of it.
    ///
    /// # Safety
    /// As CUDA documents; the outputs may be null, except `status`.
    pub unsafe fn cudaStreamGetCaptureInfo(
        &self,
        stream: cudaStream_t,
        status: *mut cudaStreamCaptureStatus,
        id: *mut c_ulonglong,
        graph: *mut cudaGraph_t,
        dependencies: *mut *const cudaGraphNode_t,
        count: *mut usize,
    ) -> Option<cudaError_t> {
        if let Some(function) = self.cudaStreamGetCaptureInfo_v2 {
            // SAFETY: required of the caller.
            return Some(unsafe { function(stream, status, id, graph, dependencies, count) });
        }
        let function = self.cudaStreamGetCaptureInfo_v3?;
        // SAFETY: required of the caller; the data of edges may be null.
        Some(unsafe { function(stream, status, id, graph, dependencies, null_mut(), count) })
    }

    /// `cudaGraphExecUpdate` of CUDA 12. `None` if the library has no form of it. CUDA 11 does not report `errorFromNode`: it is null.
    ///
    /// # Safety
    /// As CUDA documents.
    pub unsafe fn cudaGraphExecUpdate(
        &self,
        exec: cudaGraphExec_t,
        graph: cudaGraph_t,
        info: &mut cudaGraphExecUpdateResultInfo,
    ) -> Option<cudaError_t> {
        if let Some(function) = self.cudaGraphExecUpdate_v13 {
            // SAFETY: required of the caller.
            return Some(unsafe { function(exec, graph, info) });
        }
        let function = self.cudaGraphExecUpdate_v11?;
        info.errorFromNode = null_mut();
        let (node, result) = (&mut info.errorNode, &mut info.result);
        // SAFETY: required of the caller.
        Some(unsafe { function(exec, graph, node, result) })
    }
}
