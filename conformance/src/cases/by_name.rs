//! Functions of the driver that the table does not have: allocations of nothing, contexts, addresses, libraries, and graphs that are made node by
//! node.

use super::*;
use crate::kernels::PTX;

/// The place of an answer.
fn place<T>(answer: &mut T) -> usize {
    std::ptr::from_mut(answer) as usize
}

/// `cuGraphAddEmptyNode`
fn empty(c: &Cuda<'_>, graph: usize, after: &[usize]) -> Called<usize> {
    let mut node = 0;
    let after = [after.as_ptr() as usize, after.len()];
    c.named(c"cuGraphAddEmptyNode", &[place(&mut node), graph, after[0], after[1]])?;
    Ok(node)
}

/// A graph without nodes.
fn graph(c: &Cuda<'_>) -> usize {
    let mut graph = 0;
    ok(c.named(c"cuGraphCreate", &[place(&mut graph), 0]));
    graph
}

/// `cuGraphAddMemAllocNode` for 64 KiB on device 0: the node, and the address of the memory.
fn allocation(c: &Cuda<'_>, graph: usize) -> Called<(usize, usize)> {
    // `CUDA_MEM_ALLOC_NODE_PARAMS`: pinned memory on device 0, no other access, the size, and the address.
    let (mut params, mut node) = ([0u64; 15], 0);
    (params[0], params[1], params[13]) = (1, 1, 64 << 10);
    c.named(c"cuGraphAddMemAllocNode", &[place(&mut node), graph, 0, 0, place(&mut params)])?;
    Ok((node, params[14] as usize))
}

cases! {
    /// The driver refuses an allocation of 0 bytes of device and of managed memory, but not one of host memory or of a pool.
    "by-name.no-bytes" DRIVER_MEMORY [cuMemAlloc, cuMemAllocManaged, cuMemAllocHost, cuMemAllocAsync] (Managed, Pools) |c, stream| {
        let mut address = 1;
        c.gives("cuMemAlloc", c.named(c"cuMemAlloc", &[place(&mut address), 0]), INVALID_VALUE);
        c.gives("cuMemAllocManaged", c.named(c"cuMemAllocManaged", &[place(&mut address), 0, 1]), INVALID_VALUE);
        c.succeeds("cuMemAllocHost", c.named(c"cuMemAllocHost", &[place(&mut address), 0]));
        address = 1;
        c.succeeds("cuMemAllocAsync", c.named(c"cuMemAllocAsync", &[place(&mut address), 0, stream.at()]));
        c.is("its address", address, 0);
    }
    /// A context that is pushed twice is popped twice, and stays current.
    "by-name.context-stack" DRIVER_CONTEXT [cuCtxGetCurrent, cuCtxPushCurrent, cuCtxPopCurrent, cuCtxGetLimit] |c| {
        let (mut current, mut popped, mut after, mut limit) = (0usize, 0usize, 0usize, 0usize);
        ok(c.named(c"cuCtxGetCurrent", &[place(&mut current)]));
        c.succeeds("push", c.named(c"cuCtxPushCurrent", &[current]));
        c.succeeds("pop", c.named(c"cuCtxPopCurrent", &[place(&mut popped)]));
        ok(c.named(c"cuCtxGetCurrent", &[place(&mut after)]));
        c.holds("they are one", current == popped && popped == after);
        c.refuses("a limit that does not exist", c.named(c"cuCtxGetLimit", &[place(&mut limit), 99]));
    }
    /// The range of an address, and attributes of several kinds; an address that CUDA does not know has attributes, but no range.
    "by-name.addresses" DRIVER_MEMORY [cuMemGetAddressRange, cuPointerGetAttributes] |c| {
        let (memory, own) = (c.device(4 * MIB), [0u64; 8]);
        let (mut base, mut bytes, mut kind, mut device) = (0usize, 0usize, 7u32, 7i32);
        let places = [place(&mut base), place(&mut bytes)];
        let range = |address| c.named(c"cuMemGetAddressRange", &[places[0], places[1], address]);
        c.succeeds("of an allocation", range(memory.at() + MIB));
        c.holds("the range", base == memory.at() && bytes == memory.bytes());
        c.gives("of the program's memory", range(own.as_ptr() as usize), NOT_FOUND);
        // The type of the memory, and the device.
        let (which, answers) = ([2u32, 9], [place(&mut kind), place(&mut device)]);
        let arguments = [2, which.as_ptr() as usize, answers.as_ptr() as usize, own.as_ptr() as usize];
        c.succeeds("its attributes", c.named(c"cuPointerGetAttributes", &arguments));
        c.is("type and device", (kind, device), (0, NONE));
    }
    /// A library is a module under another name; a kernel that it lacks is not found.
    "by-name.library" MODULE [cuLibraryLoadData, cuLibraryGetKernel, cuKernelGetFunction, cuLibraryUnload] (Since(12, 2)) |c| {
        let (mut library, mut kernel, mut function) = (0usize, 0usize, 0usize);
        let arguments = [place(&mut library), PTX.as_ptr() as usize, 0, 0, 0, 0, 0, 0];
        c.succeeds("cuLibraryLoadData", c.named(c"cuLibraryLoadData", &arguments));
        let mut find = |name: &std::ffi::CStr| c.named(c"cuLibraryGetKernel", &[place(&mut kernel), library, name.as_ptr() as usize]);
        let (absent, found) = (find(c"absent"), find(c"conf_add"));
        let function_of = c.named(c"cuKernelGetFunction", &[place(&mut function), kernel]);
        c.succeeds("cuLibraryUnload", c.named(c"cuLibraryUnload", &[library]));
        c.gives("a kernel that it lacks", absent, NOT_FOUND);
        c.succeeds("a kernel", found);
        c.succeeds("its function", function_of);
    }
    /// A variable that a module lacks is not found.
    "by-name.no-variable" MODULE [cuModuleGetGlobal] |c| {
        let module = ok(c.module_load(PTX));
        let (mut address, mut bytes) = (0usize, 0usize);
        let arguments = [place(&mut address), place(&mut bytes), module, c"absent".as_ptr() as usize];
        let got = c.named(c"cuModuleGetGlobal", &arguments);
        ok(c.module_unload(module));
        c.gives("cuModuleGetGlobal", got, NOT_FOUND);
    }
    /// A node comes after nodes of its own graph, each named once; a node that is destroyed is gone.
    "by-name.nodes" DRIVER_GRAPH [cuGraphCreate, cuGraphAddEmptyNode, cuGraphDestroyNode, cuGraphGetNodes] |c| {
        let (one, other) = (graph(c), graph(c));
        let first = c.succeeds("a node", empty(c, one, &[]));
        let second = c.succeeds("a node after it", empty(c, one, &[first]));
        c.gives("in another graph", empty(c, other, &[first]), INVALID_VALUE);
        c.gives("after one node twice", empty(c, one, &[first, first]), INVALID_VALUE);
        let mut count = 0usize;
        let mut nodes = || c.named(c"cuGraphGetNodes", &[one, 0, place(&mut count)]);
        ok(nodes());
        c.succeeds("cuGraphDestroyNode", c.named(c"cuGraphDestroyNode", &[second]));
        ok(nodes());
        c.is("nodes are left", count, 1);
        ok(c.graph_destroy(one));
        ok(c.graph_destroy(other));
    }
    /// The nodes of a copy have other handles, which are found by those of the original; a node of a copy has none there.
    "by-name.copy" DRIVER_GRAPH [cuGraphClone, cuGraphNodeFindInClone, cuGraphAddChildGraphNode, cuGraphChildGraphNodeGetGraph] |c| {
        let (outer, inner) = (graph(c), graph(c));
        let node = ok(empty(c, inner, &[]));
        let (mut copy, mut found, mut child, mut nested) = (0usize, 0usize, 0usize, 0usize);
        c.succeeds("cuGraphClone", c.named(c"cuGraphClone", &[place(&mut copy), inner]));
        let mut find = |node| c.named(c"cuGraphNodeFindInClone", &[place(&mut found), node, copy]);
        c.succeeds("a node of the original", find(node));
        c.gives("a node that came later", find(ok(empty(c, inner, &[]))), INVALID_VALUE);
        c.holds("it is another one", found != node && found != 0);
        c.succeeds("a graph as a node", c.named(c"cuGraphAddChildGraphNode", &[place(&mut child), outer, 0, 0, inner]));
        c.succeeds("its graph", c.named(c"cuGraphChildGraphNodeGetGraph", &[child, place(&mut nested)]));
        c.holds("the node has a copy", nested != inner);
        [outer, inner, copy].into_iter().for_each(|graph| ok(c.graph_destroy(graph)));
    }
    /// A graph whose memory is still allocated cannot be launched again, nor copied, and keeps the node of the memory.
    "by-name.memory-node" DRIVER_GRAPH [cuGraphAddMemAllocNode, cuGraphDestroyNode, cuGraphClone, cuMemFree] (Pools) |c, stream| {
        let graph = graph(c);
        let (node, address) = c.succeeds("cuGraphAddMemAllocNode", allocation(c, graph));
        let mut copy = 0usize;
        c.gives("cuGraphClone", c.named(c"cuGraphClone", &[place(&mut copy), graph]), NOT_SUPPORTED);
        c.gives("cuGraphDestroyNode", c.named(c"cuGraphDestroyNode", &[node]), NOT_SUPPORTED);
        let mut exec = 0usize;
        ok(c.named(c"cuGraphInstantiateWithFlags", &[place(&mut exec), graph, 0]));
        let launch = || c.named(c"cuGraphLaunch", &[exec, stream.at()]);
        c.succeeds("a launch", launch());
        c.gives("another one", launch(), INVALID_VALUE);
        c.succeeds("cuMemFree", c.named(c"cuMemFree", &[address]));
        c.succeeds("a launch after the free", launch());
        ok(stream.synchronize());
        ok(c.named(c"cuMemFree", &[address]));
        ok(c.exec_destroy(exec));
        ok(c.graph_destroy(graph));
    }
    /// An object lives until its last reference is given up; its flag has to be given.
    "by-name.user-objects" DRIVER_GRAPH [cuUserObjectCreate, cuUserObjectRetain, cuUserObjectRelease, cuGraphRetainUserObject] |c| {
        extern "C" fn end(_: *mut std::ffi::c_void) {}
        let (mut object, graph) = (0usize, graph(c));
        let at = place(&mut object);
        let create = |count, flags| c.named(c"cuUserObjectCreate", &[at, 0, end as extern "C" fn(_) as usize, count, flags]);
        c.gives("without the flag", create(1, 0), INVALID_VALUE);
        c.gives("without references", create(0, 1), INVALID_VALUE);
        c.succeeds("cuUserObjectCreate", create(1, 1));
        c.succeeds("cuUserObjectRetain", c.named(c"cuUserObjectRetain", &[object, 1]));
        c.succeeds("a graph takes one", c.named(c"cuGraphRetainUserObject", &[graph, object, 1, 1]));
        c.succeeds("cuUserObjectRelease", c.named(c"cuUserObjectRelease", &[object, 1]));
        ok(c.graph_destroy(graph));
    }
}
