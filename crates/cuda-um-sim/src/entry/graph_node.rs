//! The nodes of graphs: they are added, and get parameters.

use std::sync::Arc;

use cuda_um_sys::cudaConditionalNodeParams;

use super::guard::{Outcome, with_state};
use super::node_params::{
    ALLOCATE, Api, CONDITIONAL, COPY, HOST, KERNEL, SET, read, write, write_pointer,
};
use super::pointer::{Array, Out};
use crate::engine::{Code, ConditionKind, Core, Direction, NodeParams, Pitched};

/// Where a node is added: the graph, and the nodes that it comes after.
pub(super) type Place = (usize, Array<usize>, usize);

/// Adds a node.
pub(super) fn add(core: &Arc<Core>, node: Out<usize>, place: Place, params: NodeParams) -> Outcome {
    let (graph, after, count) = place;
    let after = after.to_vec(count)?;
    node.put(with_state(core, |state, device| {
        state.add_to_graph((graph, device), after, params)
    })?)
}

/// Adds a node that a struct describes.
pub(super) fn add_kind(
    core: &Arc<Core>,
    node: Out<usize>,
    place: Place,
    (kind, params, api): (u32, Out<u8>, Api),
) -> Outcome {
    add(core, node, place, read(core, kind, params, api)?)?;
    if kind != ALLOCATE {
        return Ok(());
    }
    let added = core.state.lock().params_of(node.get()?)?;
    match added {
        NodeParams::Allocate { base, .. } => write_pointer(params, base),
        _ => Err(Code::UNKNOWN),
    }
}

/// The kind of `cudaGraphNodeParams`, and the address of its union, which is behind two words.
fn union(params: Out<u8>) -> Result<(u32, Out<u8>), Code> {
    let kind = params.cast::<u32>().get()?;
    Ok((kind, params.cast::<[u64; 2]>().after().cast()))
}

/// The params of a node of any kind, apart from conditions.
pub(super) fn read_any(core: &Arc<Core>, params: Out<u8>, api: Api) -> Result<NodeParams, Code> {
    let (kind, params) = union(params)?;
    let word = params.cast::<usize>();
    Ok(match kind {
        // Flags, and the context, are before the copy.
        COPY => read(core, kind, params.cast::<[u64; 2]>().after().cast(), api)?,
        4 => NodeParams::Child(word.get()?),
        5 => NodeParams::Empty,
        6 => NodeParams::Wait(word.get()?),
        7 => NodeParams::Record(word.get()?),
        11 => NodeParams::Free(word.get()?),
        kind => read(core, kind, params, api)?,
    })
}

/// Adds a node of any kind.
pub(super) fn add_any(
    core: &Arc<Core>,
    node: Out<usize>,
    place: Place,
    params: Out<u8>,
    api: Api,
) -> Outcome {
    let (kind, inner) = union(params)?;
    match kind {
        CONDITIONAL => add_condition(core, node, place, inner.cast()),
        ALLOCATE => add_kind(core, node, place, (kind, inner, api)),
        _ => add(core, node, place, read_any(core, params, api)?),
    }
}

fn add_condition(
    core: &Arc<Core>,
    node: Out<usize>,
    (graph, after, count): Place,
    params: Out<cudaConditionalNodeParams>,
) -> Outcome {
    let mut given = params.get()?;
    let bodies = given.size as usize;
    let kind = match (given.type_.0, bodies) {
        (0, 1 | 2) => ConditionKind::If,
        (1, 1) => ConditionKind::While,
        (2, 1..) => ConditionKind::Switch,
        _ => return Err(Code::INVALID_VALUE),
    };
    let after = after.to_vec(count)?;
    let (added, bodies) = with_state(core, |state, device| {
        let (place, graphs) = ((graph, device), &mut state.graphs);
        graphs.add_condition(place, after, given.handle, (kind, bodies))
    })?;
    given.phGraph_out = std::ptr::with_exposed_provenance_mut(bodies);
    params.put(given)?;
    node.put(added)
}

/// Gives a node of a graph other parameters.
pub(super) fn set(core: &Arc<Core>, node: usize, params: NodeParams) -> Outcome {
    core.state.lock().set_in_graph(node, params)
}

/// The same for a node of an executable graph.
pub(super) fn set_exec(core: &Arc<Core>, exec: usize, node: usize, params: NodeParams) -> Outcome {
    core.state.lock().set_in_exec((exec, node), params)
}

/// The word that a node has as its parameters.
fn word(core: &Arc<Core>, node: usize, kind: u32) -> Result<usize, Code> {
    let state = core.state.lock();
    match (state.graphs.kind_of(node)?, state.params_of(node)?) {
        (
            found,
            NodeParams::Child(word)
            | NodeParams::Wait(word)
            | NodeParams::Record(word)
            | NodeParams::Free(word),
        ) if found == kind => Ok(word),
        _ => Err(Code::INVALID_VALUE),
    }
}

/// A copy of one row.
fn row(to: usize, from: usize, bytes: usize, direction: u32) -> Result<NodeParams, Code> {
    let direction = Direction::from_raw(direction)?;
    Ok(NodeParams::Copy(Pitched::row(to, from, bytes, direction)))
}

/// Defines the functions of kinds of nodes: those that add one, and that get and set its parameters.
macro_rules! node_functions {
    ($level:ident $api:ident;
        add { $($add:ident $add_kind:ident)* } get { $($get:ident $get_kind:ident)* }
        set { $($set:ident $set_kind:ident)* } set_exec { $($set_exec:ident $exec_kind:ident)* }
        $($rest:tt)*
    ) => {
        $crate::entry::guard::entry_points! { $level;
            $(fn $add(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, params: Out<u8>) {
                add_kind(core, node, (graph, after, count), ($add_kind, params, Api::$api))
            })*
            $(fn $get(core, node: usize, params: Out<u8>) { write(core, node, $get_kind, params, Api::$api) })*
            $(fn $set(core, node: usize, params: Out<u8>) { set(core, node, read(core, $set_kind, params, Api::$api)?) })*
            $(fn $set_exec(core, exec: usize, node: usize, params: Out<u8>) {
                set_exec(core, exec, node, read(core, $exec_kind, params, Api::$api)?)
            })*
            $($rest)*
        }
    };
}
pub(super) use node_functions;

node_functions! { Runtime Runtime;
    add {
        cudaGraphAddKernelNode KERNEL cudaGraphAddMemcpyNode COPY cudaGraphAddMemsetNode SET cudaGraphAddHostNode HOST
        cudaGraphAddMemAllocNode ALLOCATE
    }
    get {
        cudaGraphKernelNodeGetParams KERNEL cudaGraphMemcpyNodeGetParams COPY cudaGraphMemsetNodeGetParams SET
        cudaGraphHostNodeGetParams HOST cudaGraphMemAllocNodeGetParams ALLOCATE
    }
    set {
        cudaGraphKernelNodeSetParams KERNEL cudaGraphMemcpyNodeSetParams COPY cudaGraphMemsetNodeSetParams SET
        cudaGraphHostNodeSetParams HOST
    }
    set_exec {
        cudaGraphExecKernelNodeSetParams KERNEL cudaGraphExecMemcpyNodeSetParams COPY cudaGraphExecMemsetNodeSetParams SET
        cudaGraphExecHostNodeSetParams HOST
    }

    fn cudaGraphCreate(core, graph: Out<usize>, flags: u32) = cuGraphCreate {
        if flags == 0 { graph.put(core.state.lock().graphs.create()) } else { Err(Code::INVALID_VALUE) }
    }

    fn cudaGraphAddMemcpyNode1D(
        core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, to: usize, from: usize, bytes: usize, direction: u32,
    ) {
        add(core, node, (graph, after, count), row(to, from, bytes, direction)?)
    }

    fn cudaGraphMemcpyNodeSetParams1D(core, node: usize, to: usize, from: usize, bytes: usize, direction: u32) {
        set(core, node, row(to, from, bytes, direction)?)
    }

    fn cudaGraphExecMemcpyNodeSetParams1D(core, exec: usize, node: usize, to: usize, from: usize, bytes: usize, direction: u32) {
        set_exec(core, exec, node, row(to, from, bytes, direction)?)
    }

    fn cudaGraphAddEmptyNode(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize) = cuGraphAddEmptyNode {
        add(core, node, (graph, after, count), NodeParams::Empty)
    }

    fn cudaGraphAddChildGraphNode(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, child: usize) = cuGraphAddChildGraphNode {
        add(core, node, (graph, after, count), NodeParams::Child(child))
    }

    fn cudaGraphAddEventRecordNode(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, event: usize) = cuGraphAddEventRecordNode {
        add(core, node, (graph, after, count), NodeParams::Record(event))
    }

    fn cudaGraphAddEventWaitNode(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, event: usize) = cuGraphAddEventWaitNode {
        add(core, node, (graph, after, count), NodeParams::Wait(event))
    }

    fn cudaGraphAddMemFreeNode(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, pointer: usize) = cuGraphAddMemFreeNode {
        add(core, node, (graph, after, count), NodeParams::Free(pointer))
    }

    fn cudaGraphChildGraphNodeGetGraph(core, node: usize, graph: Out<usize>) = cuGraphChildGraphNodeGetGraph { graph.put(word(core, node, 4)?) }

    fn cudaGraphEventWaitNodeGetEvent(core, node: usize, event: Out<usize>) = cuGraphEventWaitNodeGetEvent { event.put(word(core, node, 6)?) }

    fn cudaGraphEventRecordNodeGetEvent(core, node: usize, event: Out<usize>) = cuGraphEventRecordNodeGetEvent { event.put(word(core, node, 7)?) }

    fn cudaGraphMemFreeNodeGetParams(core, node: usize, pointer: Out<usize>) = cuGraphMemFreeNodeGetParams { pointer.put(word(core, node, 11)?) }

    fn cudaGraphEventWaitNodeSetEvent(core, node: usize, event: usize) = cuGraphEventWaitNodeSetEvent { set(core, node, NodeParams::Wait(event)) }

    fn cudaGraphEventRecordNodeSetEvent(core, node: usize, event: usize) = cuGraphEventRecordNodeSetEvent { set(core, node, NodeParams::Record(event)) }

    fn cudaGraphExecEventWaitNodeSetEvent(core, exec: usize, node: usize, event: usize) = cuGraphExecEventWaitNodeSetEvent {
        set_exec(core, exec, node, NodeParams::Wait(event))
    }

    fn cudaGraphExecEventRecordNodeSetEvent(core, exec: usize, node: usize, event: usize) = cuGraphExecEventRecordNodeSetEvent {
        set_exec(core, exec, node, NodeParams::Record(event))
    }

    fn cudaGraphExecChildGraphNodeSetParams(core, exec: usize, node: usize, child: usize) = cuGraphExecChildGraphNodeSetParams {
        set_exec(core, exec, node, NodeParams::Child(child))
    }

    fn cudaGraphAddNode_v2(
        core, node: Out<usize>, graph: usize, after: Array<usize>, _data: Out<u64>, count: usize, params: Out<u8>,
    ) as "cudaGraphAddNode" {
        add_any(core, node, (graph, after, count), params, Api::Runtime)
    }

    fn cudaGraphNodeSetParams(core, node: usize, params: Out<u8>) { set(core, node, read_any(core, params, Api::Runtime)?) }

    fn cudaGraphExecNodeSetParams(core, exec: usize, node: usize, params: Out<u8>) {
        set_exec(core, exec, node, read_any(core, params, Api::Runtime)?)
    }

    fn cudaGraphConditionalHandleCreate(core, handle: Out<u64>, graph: usize, default: u32, flags: u32) {
        let default = match flags {
            0 => None,
            // `cudaGraphCondAssignDefault`.
            1 => Some(default),
            _ => return Err(Code::INVALID_VALUE),
        };
        handle.put(core.state.lock().graphs.create_condition(graph, default)?)
    }

    // Before CUDA 13 the plain name has no data of edges.
    fn cudaGraphAddNode(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, params: Out<u8>) {
        add_any(core, node, (graph, after, count), params, Api::Runtime)
    }
}
