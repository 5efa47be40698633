//! Functions of the driver for nodes of graphs that differ from the runtime's: in how a kernel is named, in copies, and in contexts.

use super::graph_node::bodies as runtime;
use super::graph_node::{add_any, add_kind, node_functions, read_any, set, set_exec};
use super::node_params::{ALLOCATE, Api, COPY, HOST, KERNEL, SET, read, write};
use super::pointer::{Array, Out};

node_functions! { Driver Driver;
    add { cuGraphAddKernelNode_v2 KERNEL cuGraphAddHostNode HOST cuGraphAddMemAllocNode ALLOCATE }
    get {
        cuGraphKernelNodeGetParams_v2 KERNEL cuGraphMemcpyNodeGetParams COPY cuGraphMemsetNodeGetParams SET
        cuGraphHostNodeGetParams HOST cuGraphMemAllocNodeGetParams ALLOCATE
    }
    set {
        cuGraphKernelNodeSetParams_v2 KERNEL cuGraphMemcpyNodeSetParams COPY cuGraphMemsetNodeSetParams SET
        cuGraphHostNodeSetParams HOST
    }
    set_exec {
        cuGraphExecKernelNodeSetParams KERNEL cuGraphExecHostNodeSetParams HOST
    }

    fn cuGraphExecKernelNodeSetParams_v2(core, exec: usize, node: usize, params: Out<u8>) as "cuGraphExecKernelNodeSetParams" {
        set_exec(core, exec, node, read(core, KERNEL, params, Api::Driver)?)
    }

    fn cuGraphAddMemcpyNode(
        core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, params: Out<u8>, context: usize,
    ) {
        core.state.lock().contexts.device(context)?;
        add_kind(core, node, (graph, after, count), (COPY, params, Api::Driver))
    }

    fn cuGraphAddMemsetNode(
        core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, params: Out<u8>, context: usize,
    ) {
        core.state.lock().contexts.device(context)?;
        add_kind(core, node, (graph, after, count), (SET, params, Api::Driver))
    }

    fn cuGraphExecMemcpyNodeSetParams(core, exec: usize, node: usize, params: Out<u8>, context: usize) {
        core.state.lock().contexts.device(context)?;
        set_exec(core, exec, node, read(core, COPY, params, Api::Driver)?)
    }

    fn cuGraphExecMemsetNodeSetParams(core, exec: usize, node: usize, params: Out<u8>, context: usize) {
        core.state.lock().contexts.device(context)?;
        set_exec(core, exec, node, read(core, SET, params, Api::Driver)?)
    }

    fn cuGraphAddNode_v2(
        core, node: Out<usize>, graph: usize, after: Array<usize>, _data: Out<u64>, count: usize, params: Out<u8>,
    ) {
        add_any(core, node, (graph, after, count), params, Api::Driver)
    }

    fn cuGraphAddNode(core, node: Out<usize>, graph: usize, after: Array<usize>, count: usize, params: Out<u8>) {
        add_any(core, node, (graph, after, count), params, Api::Driver)
    }

    fn cuGraphNodeSetParams(core, node: usize, params: Out<u8>) { set(core, node, read_any(core, params, Api::Driver)?) }

    fn cuGraphExecNodeSetParams(core, exec: usize, node: usize, params: Out<u8>) {
        set_exec(core, exec, node, read_any(core, params, Api::Driver)?)
    }

    // The context says on which device the condition is.
    fn cuGraphConditionalHandleCreate(core, handle: Out<u64>, graph: usize, context: usize, default: u32, flags: u32) {
        core.state.lock().contexts.device(context)?;
        runtime::cudaGraphConditionalHandleCreate(core, handle, graph, default, flags)
    }
}
