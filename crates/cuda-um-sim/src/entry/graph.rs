//! Stream capture and graphs.

use cuda_um_sys::cudaGraphExecUpdateResultInfo;

use super::guard::{entry_points, with_any_stream, with_work_stream};
use super::pointer::{Array, Out};
use crate::engine::{CaptureInfo, CaptureMode, Code, Core, ThreadState, UpdateFailure};
use std::sync::Arc;

/// The state of a stream's capture. The legacy stream has none, and cannot be used while a blocking stream is capturing.
fn info(core: &Arc<Core>, stream: usize) -> Result<CaptureInfo, Code> {
    with_any_stream(core, stream, |state, stream| {
        match state.graphs.has_implicit(stream) {
            true => Err(Code::STREAM_CAPTURE_IMPLICIT),
            false => Ok(state.graphs.info(stream)),
        }
    })
}

/// Writes a result that the caller may leave out.
fn put<T>(out: Out<T>, value: T) -> Result<(), Code> {
    if out.is_null() {
        Ok(())
    } else {
        out.put(value)
    }
}

/// Updates an executable graph; returns the failure if the graphs do not match.
fn update(core: &Arc<Core>, exec: usize, graph: usize) -> (Result<(), Code>, UpdateFailure) {
    let failed = |code| {
        (
            Err(code),
            UpdateFailure {
                result: 1,
                ..UpdateFailure::default()
            },
        )
    };
    match core.state.lock().update_exec(exec, graph) {
        Ok(Ok(())) => (Ok(()), UpdateFailure::default()),
        Ok(Err(failure)) => (Err(Code::GRAPH_EXEC_UPDATE_FAILURE), failure),
        Err(code) => failed(code),
    }
}

entry_points! { Runtime;
    fn cudaStreamBeginCapture(core, stream: usize, mode: u32) = cuStreamBeginCapture_v2 {
        let mode = CaptureMode::from_raw(mode)?;
        with_any_stream(core, stream, |state, stream| state.graphs.begin(stream, mode))
    }

    fn cudaStreamEndCapture(core, stream: usize, graph: Out<usize>) = cuStreamEndCapture {
        put(graph, 0)?;
        put(graph, with_any_stream(core, stream, |state, stream| state.end_capture(stream))?)
    }

    fn cudaStreamIsCapturing(core, stream: usize, status: Out<u32>) = cuStreamIsCapturing { status.put(info(core, stream)?.status) }

    fn cudaStreamGetCaptureInfo_v2(
        core, stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>,
    ) = cuStreamGetCaptureInfo_v2 {
        let info = info(core, stream)?;
        status.put(info.status)?;
        put(id, info.id)?;
        put(graph, info.graph)?;
        put(nodes, info.after.0)?;
        put(count, info.after.1)
    }

    fn cudaStreamGetCaptureInfo_v3(
        core, stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>,
    ) = cuStreamGetCaptureInfo_v3 {
        put(edges, info(core, stream)?.edges)?;
        bodies::cudaStreamGetCaptureInfo_v2(core, stream, status, id, graph, nodes, count)
    }

    fn cudaStreamGetCaptureInfo_13(
        core, stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>,
    ) as "cudaStreamGetCaptureInfo" {
        bodies::cudaStreamGetCaptureInfo_v3(core, stream, status, id, graph, nodes, edges, count)
    }

    fn cudaThreadExchangeStreamCaptureMode(core, mode: Out<u32>) = cuThreadExchangeStreamCaptureMode {
        let new = CaptureMode::from_raw(mode.get()?)?;
        let old = ThreadState::with(core.id, |thread| std::mem::replace(&mut thread.capture_mode, new));
        mode.put(old as u32)
    }

    fn cudaStreamUpdateCaptureDependencies(core, stream: usize, nodes: Array<usize>, count: usize, flags: u32) = cuStreamUpdateCaptureDependencies {
        bodies::cudaStreamUpdateCaptureDependencies_v2(core, stream, nodes, Array::at(0), count, flags)
    }

    fn cudaStreamUpdateCaptureDependencies_v2(
        core, stream: usize, nodes: Array<usize>, _edges: Array<u8>, count: usize, flags: u32,
    ) as "cudaStreamUpdateCaptureDependencies" = cuStreamUpdateCaptureDependencies_v2 {
        /// `cudaStreamSetCaptureDependencies`: to add some is not simulated.
        const SET: u32 = 1;
        if flags != SET {
            return Err(Code::NOT_SUPPORTED);
        }
        let nodes = nodes.to_vec(count)?;
        with_any_stream(core, stream, |state, stream| state.graphs.set_dependencies(stream, &nodes))
    }

    fn cudaStreamBeginCaptureToGraph(
        core, stream: usize, graph: usize, _after: Array<usize>, _edges: Array<u8>, count: usize, mode: u32,
    ) = cuStreamBeginCaptureToGraph {
        let mode = CaptureMode::from_raw(mode)?;
        if count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        with_any_stream(core, stream, |state, stream| state.graphs.begin_to(stream, graph, mode))
    }

    fn cudaGraphDestroy(core, graph: usize) = cuGraphDestroy { core.state.lock().destroy_graph(graph) }

    fn cudaGraphInstantiateWithFlags(core, exec: Out<usize>, graph: usize, flags: u64) = cuGraphInstantiateWithFlags {
        if exec.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        exec.put(core.state.lock().instantiate(graph, flags)?)
    }

    // From CUDA 12 on.
    fn cudaGraphInstantiate(core, exec: Out<usize>, graph: usize, flags: u64) {
        bodies::cudaGraphInstantiateWithFlags(core, exec, graph, flags)
    }

    fn cudaGraphLaunch(core, exec: usize, stream: usize) = cuGraphLaunch {
        with_work_stream(core, stream, |state, stream| {
            // A graph as a node of another graph is not simulated.
            state.graphs.use_uncaptured(stream)?;
            state.launch_graph(core, stream, exec)
        })
    }

    // Nothing has to be moved to the device.
    fn cudaGraphUpload(core, exec: usize, stream: usize) = cuGraphUpload {
        with_any_stream(core, stream, |state, _| state.exec_flags(exec).map(drop))
    }

    // Flags, a stream for the upload, and answers: the node that failed, and the result.
    fn cudaGraphInstantiateWithParams(core, exec: Out<usize>, graph: usize, params: Out<[u64; 4]>) = cuGraphInstantiateWithParams {
        /// `cudaGraphInstantiateError`.
        const FAILED: u64 = 1;
        let [flags, upload, ..] = params.get()?;
        let made = bodies::cudaGraphInstantiateWithFlags(core, exec, graph, flags);
        params.put([flags, upload, 0, if made.is_ok() { 0 } else { FAILED }])?;
        made
    }

    fn cudaGraphExecGetFlags(core, exec: usize, flags: Out<u64>) = cuGraphExecGetFlags { flags.put(core.state.lock().exec_flags(exec)?) }

    fn cudaGraphExecDestroy(core, exec: usize) = cuGraphExecDestroy { core.state.lock().destroy_exec(exec) }

    fn cudaGraphExecUpdate(core, exec: usize, graph: usize, node: Out<usize>, result: Out<u32>) {
        let (outcome, failure) = update(core, exec, graph);
        put(node, failure.node)?;
        put(result, failure.result)?;
        outcome
    }

    fn cudaGraphExecUpdate_12(core, exec: usize, graph: usize, info: Out<cudaGraphExecUpdateResultInfo>) as "cudaGraphExecUpdate" = cuGraphExecUpdate_v2 {
        let (outcome, failure) = update(core, exec, graph);
        info.put(cudaGraphExecUpdateResultInfo {
            result: cuda_um_sys::cudaGraphExecUpdateResult(failure.result),
            errorNode: std::ptr::without_provenance_mut(failure.node),
            errorFromNode: std::ptr::without_provenance_mut(failure.from),
        })?;
        outcome
    }

    // Memory that graphs allocate is used until a trim after its end, and nothing beyond it is reserved.
    fn cudaDeviceGetGraphMemAttribute(core, device: i32, attribute: u32, value: Out<u64>) = cuDeviceGetGraphMemAttribute {
        let state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        if attribute > 3 {
            return Err(Code::INVALID_VALUE);
        }
        value.put(state.graphs.memory_bytes(device, attribute % 2 == 1) as u64)
    }

    fn cudaDeviceSetGraphMemAttribute(core, device: i32, attribute: u32, value: Out<u64>) = cuDeviceSetGraphMemAttribute {
        let mut state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        // Only the most bytes so far can be set, to 0.
        if !matches!(attribute, 1 | 3) || value.get()? != 0 {
            return Err(Code::INVALID_VALUE);
        }
        state.graphs.reset_memory_high(device);
        Ok(())
    }

    fn cudaDeviceGraphMemTrim(core, device: i32) = cuDeviceGraphMemTrim {
        let mut state = core.state.lock();
        let device = state.devices.ordinal(device)?;
        state.graphs.trim_memory(device);
        Ok(())
    }
}
