//! Stream capture and graphs.

use cuda_um_sys::{
    CUDA_KERNEL_NODE_PARAMS_v1, cudaConditionalNodeParams, cudaGraphExecUpdateResultInfo,
    cudaMemsetParams,
};

use super::guard::{entry_points, with_any_stream, with_state, with_work_stream};
use super::pointer::{Arguments, Array, Out};
use crate::engine::{
    CaptureInfo, CaptureMode, Code, Core, Direction, LaunchShape, ThreadState, UpdateFailure,
};
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
    fn cudaStreamBeginCapture(core, stream: usize, mode: u32) {
        let mode = CaptureMode::from_raw(mode)?;
        with_any_stream(core, stream, |state, stream| state.graphs.begin(stream, mode))
    }

    fn cudaStreamEndCapture(core, stream: usize, graph: Out<usize>) {
        graph.put(0)?;
        graph.put(with_any_stream(core, stream, |state, stream| state.end_capture(stream))?)
    }

    fn cudaStreamIsCapturing(core, stream: usize, status: Out<u32>) { status.put(info(core, stream)?.status) }

    fn cudaStreamGetCaptureInfo_v2(
        core, stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, count: Out<usize>,
    ) {
        let info = info(core, stream)?;
        status.put(info.status)?;
        put(id, info.id)?;
        put(graph, info.graph)?;
        put(nodes, info.after.0)?;
        put(count, info.after.1)
    }

    // No edge has data here.
    fn cudaStreamGetCaptureInfo_v3(
        core, stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>,
    ) {
        put(edges, 0)?;
        bodies::cudaStreamGetCaptureInfo_v2(core, stream, status, id, graph, nodes, count)
    }

    fn cudaStreamGetCaptureInfo_13 as "cudaStreamGetCaptureInfo" (
        core, stream: usize, status: Out<u32>, id: Out<u64>, graph: Out<usize>, nodes: Out<usize>, edges: Out<usize>, count: Out<usize>,
    ) {
        bodies::cudaStreamGetCaptureInfo_v3(core, stream, status, id, graph, nodes, edges, count)
    }

    fn cudaThreadExchangeStreamCaptureMode(core, mode: Out<u32>) {
        let new = CaptureMode::from_raw(mode.get()?)?;
        let old = ThreadState::with(core.id, |thread| std::mem::replace(&mut thread.capture_mode, new));
        mode.put(old as u32)
    }

    fn cudaGraphConditionalHandleCreate(core, handle: Out<u64>, graph: usize, _default: u32, flags: u32) {
        handle.put(core.state.lock().graphs.create_condition(graph, flags)?)
    }

    // Only nodes with a condition, and no edge has data.
    fn cudaGraphAddNode_v2 as "cudaGraphAddNode" (
        core, node: Out<usize>, graph: usize, after: Array<usize>, edges: Array<u8>, count: usize, params: Out<(u64, u64)>,
    ) {
        /// `cudaGraphNodeTypeConditional`, in a struct with two words before its union.
        const CONDITIONAL: u32 = 13;
        let condition = params.after().cast::<cudaConditionalNodeParams>();
        if params.cast::<u32>().get()? != CONDITIONAL || !edges.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        let mut given = condition.get()?;
        if given.type_.0 > 1 || given.size != 1 {
            return Err(Code::NOT_SUPPORTED);
        }
        let (after, repeats) = (after.to_vec(count)?, given.type_.0 == 1);
        let (added, body) = with_state(core, |state, device| {
            state.graphs.add_condition((graph, device), after, given.handle, repeats)
        })?;
        given.phGraph_out = std::ptr::with_exposed_provenance_mut(body);
        condition.put(given)?;
        node.put(added)
    }

    fn cudaStreamUpdateCaptureDependencies_v2 as "cudaStreamUpdateCaptureDependencies" (
        core, stream: usize, nodes: Array<usize>, edges: Array<u8>, count: usize, flags: u32,
    ) {
        /// `cudaStreamSetCaptureDependencies`: to add some is not simulated.
        const SET: u32 = 1;
        if flags != SET || !edges.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        let nodes = nodes.to_vec(count)?;
        with_any_stream(core, stream, |state, stream| state.graphs.set_dependencies(stream, &nodes))
    }

    fn cudaStreamBeginCaptureToGraph(
        core, stream: usize, graph: usize, _after: Array<usize>, _edges: Array<u8>, count: usize, mode: u32,
    ) {
        let mode = CaptureMode::from_raw(mode)?;
        if count != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        with_any_stream(core, stream, |state, stream| state.graphs.begin_to(stream, graph, mode))
    }

    fn cudaGraphDestroy(core, graph: usize) { core.state.lock().destroy_graph(graph) }

    fn cudaGraphGetNodes(core, graph: usize, nodes: Out<usize>, count: Out<usize>) {
        let found = core.state.lock().graphs.nodes(graph)?;
        if nodes.is_null() {
            return count.put(found.len());
        }
        let room = count.get()?;
        // Places beyond the last node are null.
        let padded = found.iter().copied().chain(std::iter::repeat(0));
        padded.take(room).enumerate().try_for_each(|(index, node)| nodes.put_at(index, node))?;
        count.put(room.min(found.len()))
    }

    fn cudaGraphNodeGetType(core, node: usize, kind: Out<u32>) { kind.put(core.state.lock().graphs.kind_of(node)?) }

    fn cudaGraphInstantiateWithFlags(core, exec: Out<usize>, graph: usize, flags: u64) {
        if exec.is_null() {
            return Err(Code::INVALID_VALUE);
        }
        exec.put(core.state.lock().instantiate(graph, flags)?)
    }

    // From CUDA 12 on.
    fn cudaGraphInstantiate(core, exec: Out<usize>, graph: usize, flags: u64) {
        bodies::cudaGraphInstantiateWithFlags(core, exec, graph, flags)
    }

    fn cudaGraphLaunch(core, exec: usize, stream: usize) {
        with_work_stream(core, stream, |state, stream| {
            // A graph as a node of another graph is not simulated.
            state.graphs.use_uncaptured(stream)?;
            state.launch_graph(core, stream, exec)
        })
    }

    fn cudaGraphExecDestroy(core, exec: usize) { core.state.lock().destroy_exec(exec) }

    fn cudaGraphExecUpdate(core, exec: usize, graph: usize, node: Out<usize>, result: Out<u32>) {
        let (outcome, failure) = update(core, exec, graph);
        put(node, failure.node)?;
        put(result, failure.result)?;
        outcome
    }

    fn cudaGraphExecUpdate_12 as "cudaGraphExecUpdate" (core, exec: usize, graph: usize, info: Out<cudaGraphExecUpdateResultInfo>) {
        let (outcome, failure) = update(core, exec, graph);
        info.put(cudaGraphExecUpdateResultInfo {
            result: cuda_um_sys::cudaGraphExecUpdateResult(failure.result),
            errorNode: std::ptr::without_provenance_mut(failure.node),
            errorFromNode: std::ptr::without_provenance_mut(failure.from),
        })?;
        outcome
    }

    fn cudaGraphExecMemsetNodeSetParams(core, exec: usize, node: usize, params: Out<cudaMemsetParams>) {
        let params = params.get()?;
        // Captured memsets have one row.
        if params.height > 1 {
            return Err(Code::INVALID_VALUE);
        }
        let size = (params.width, params.elementSize as usize);
        core.state.lock().set_memset_node((exec, node), params.dst as usize, params.value, size)
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(core, exec: usize, node: usize, to: usize, from: usize, bytes: usize, direction: u32) {
        let direction = Direction::from_raw(direction)?;
        core.state.lock().set_memcpy_node((exec, node), to, from, bytes, direction)
    }
}

/// `cuGraphExecKernelNodeSetParams`, for the table of the driver's functions.
pub(super) fn set_kernel_node(
    core: &Arc<Core>,
    exec: usize,
    node: usize,
    params: Out<CUDA_KERNEL_NODE_PARAMS_v1>,
) -> Result<(), Code> {
    let params = params.get()?;
    if !params.extra.is_null() {
        return Err(Code::NOT_SUPPORTED);
    }
    let function = core
        .state
        .lock()
        .modules
        .function(params.func as usize)?
        .clone();
    let parameters = Arguments::of(params.kernelParams).copy(&function.parameter_sizes(), &[])?;
    let shape = LaunchShape {
        grid: [params.gridDimX, params.gridDimY, params.gridDimZ],
        block: [params.blockDimX, params.blockDimY, params.blockDimZ],
        shared_bytes: params.sharedMemBytes,
        cooperative: false,
    };
    core.state
        .lock()
        .set_kernel_node((exec, node), &function, shape, parameters)
}
