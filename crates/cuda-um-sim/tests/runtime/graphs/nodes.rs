//! Graphs that programs make node by node.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::support::{Cuda, bytes, h200};

const INVALID_VALUE: u32 = 1;

/// `CUDA_KERNEL_NODE_PARAMS`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Kernel {
    function: usize,
    shape: [u32; 7],
    arguments: *const *const c_void,
    extra: usize,
    kernel: usize,
    context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Set {
    to: usize,
    pitch: usize,
    value: u32,
    element: u32,
    width: usize,
    height: usize,
}

/// A side of `cudaMemcpy3DParms`, and the struct itself.
type Side = [usize; 8];
#[derive(Clone, Copy)]
#[repr(C)]
struct Copy3D {
    from: Side,
    to: Side,
    extent: [usize; 3],
    kind: u32,
}

/// Rows of `pitch` bytes from an address on.
fn side(address: *mut u8, pitch: usize) -> Side {
    [0, 0, 0, 0, address as usize, pitch, pitch, 2]
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, with the kind and the location of the pool at its beginning.
#[repr(C)]
struct Allocate {
    pool: [u32; 22],
    access: usize,
    count: usize,
    bytes: usize,
    pointer: usize,
}

fn allocate(bytes: usize) -> Allocate {
    let mut pool = [0; 22];
    (pool[0], pool[2]) = (1, 1);
    Allocate {
        pool,
        access: 0,
        count: 0,
        bytes,
        pointer: 0,
    }
}

/// `CUgraphNodeParams` of a node with a condition.
#[repr(C, align(8))]
struct Conditional {
    kind: u32,
    reserved: [u32; 3],
    handle: u64,
    type_: u32,
    size: u32,
    graphs: *const usize,
    rest: [u64; 27],
}

impl Cuda {
    fn graph(&self) -> usize {
        let mut graph = 0;
        let code = driver!(self, cuGraphCreate(&mut graph => *mut usize, 0 => u32));
        assert_eq!(code, 0);
        graph
    }

    fn empty(&self, graph: usize, after: &[usize]) -> usize {
        let mut node = 0;
        let code = driver!(self, cuGraphAddEmptyNode(
            &mut node => *mut usize, graph => usize, after.as_ptr() => *const usize, after.len() => usize
        ));
        assert_eq!(code, 0);
        node
    }

    fn set_node(&self, graph: usize, after: &[usize], set: Set) -> usize {
        let mut node = 0;
        let code = driver!(self, cudaGraphAddMemsetNode(
            &mut node => *mut usize, graph => usize, after.as_ptr() => *const usize, after.len() => usize, &set => *const Set
        ));
        assert_eq!(code, 0);
        node
    }

    /// An executable graph, or the error.
    fn executable(&self, graph: usize) -> Result<usize, u32> {
        let mut exec = 0;
        match driver!(self, cuGraphInstantiateWithFlags(&mut exec => *mut usize, graph => usize, 0 => u64))
        {
            0 => Ok(exec),
            code => Err(code),
        }
    }

    fn run_exec(&self, exec: usize) -> u32 {
        let code = driver!(self, cuGraphLaunch(exec => usize, 0 => usize));
        assert_eq!(driver!(self, cuCtxSynchronize()), 0);
        code
    }

    fn edges(&self, graph: usize) -> Vec<(usize, usize)> {
        let mut count = 0;
        let none = || null::<usize>().cast_mut();
        let code = driver!(self, cuGraphGetEdges(
            graph => usize, none() => *mut usize, none() => *mut usize, &mut count => *mut usize
        ));
        assert_eq!(code, 0);
        let (mut from, mut to) = (vec![0; count], vec![0; count]);
        let code = driver!(self, cuGraphGetEdges(
            graph => usize, from.as_mut_ptr() => *mut usize, to.as_mut_ptr() => *mut usize, &mut count => *mut usize
        ));
        assert_eq!(code, 0);
        from.into_iter().zip(to).collect()
    }
}

fn row(to: *mut u8, value: u32, width: usize) -> Set {
    Set {
        to: to as usize,
        pitch: 0,
        value,
        element: 1,
        width,
        height: 1,
    }
}

static CALLS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(by: *mut c_void) {
    CALLS.fetch_add(by as u32, Ordering::SeqCst);
}

#[test]
fn a_graph_of_nodes_runs_in_the_order_of_its_edges() {
    let cuda = h200();
    let (graph, out) = (cuda.graph(), cuda.pinned(64));
    let (mut memory, mut free, mut kernel, mut host, mut copy) = (0, 0, 0, 0, 0);
    let mut allocation = allocate(64);
    let code = driver!(cuda, cuGraphAddMemAllocNode(
        &mut memory => *mut usize, graph => usize, null() => *const usize, 0 => usize, &mut allocation => *mut Allocate
    ));
    assert_eq!((code, allocation.pointer != 0), (0, true));
    let set = cuda.set_node(graph, &[memory], row(allocation.pointer as *mut u8, 4, 64));
    let (data, len) = (allocation.pointer, 64_u64);
    let arguments = [(&raw const data).cast(), (&raw const len).cast()];
    let mut launch = Kernel {
        function: cuda.kernel("add") as usize,
        shape: [1, 1, 1, 32, 1, 1, 0],
        arguments: arguments.as_ptr(),
        extra: 0,
        kernel: 0,
        context: 0,
    };
    let code = driver!(cuda, cuGraphAddKernelNode_v2(
        &mut kernel => *mut usize, graph => usize, &set => *const usize, 1 => usize, &launch => *const Kernel
    ));
    assert_eq!(code, 0);
    // Added before its edge is.
    let code = driver!(cuda, cuGraphAddMemFreeNode(
        &mut free => *mut usize, graph => usize, null() => *const usize, 0 => usize, data => usize
    ));
    assert_eq!(code, 0);
    let code = driver!(cuda, cudaGraphAddMemcpyNode1D(
        &mut copy => *mut usize, graph => usize, &kernel => *const usize, 1 => usize, out => *mut u8, data => usize, 64 => usize, 4 => u32
    ));
    assert_eq!(code, 0);
    let call: (usize, usize) = (count as *const () as usize, 3);
    let code = driver!(cuda, cuGraphAddHostNode(
        &mut host => *mut usize, graph => usize, &copy => *const usize, 1 => usize, [call.0, call.1].as_ptr() => *const usize
    ));
    assert_eq!(code, 0);
    let code = driver!(cuda, cuGraphAddDependencies(graph => usize, &copy => *const usize, &free => *const usize, 1 => usize));
    assert_eq!(code, 0);
    let edges = cuda.edges(graph);
    for edge in [
        (memory, set),
        (set, kernel),
        (kernel, copy),
        (copy, host),
        (copy, free),
    ] {
        assert!(edges.contains(&edge));
    }
    assert_eq!(edges.len(), 5);

    launch.function = 0;
    let code =
        driver!(cuda, cuGraphKernelNodeGetParams_v2(kernel => usize, &mut launch => *mut Kernel));
    assert_eq!((code, launch.shape), (0, [1, 1, 1, 32, 1, 1, 0]));
    // SAFETY: the arguments that the graph keeps, of the sizes that the kernel declares.
    let kept = unsafe { launch.arguments.cast::<*const usize>().read().read() };
    assert_eq!((launch.function != 0, kept), (true, data));
    let mut found = [0; 2];
    let code =
        driver!(cuda, cuGraphHostNodeGetParams(host => usize, &mut found => *mut [usize; 2]));
    assert_eq!((code, found), (0, [call.0, call.1]));
    let wrong =
        driver!(cuda, cuGraphMemFreeNodeGetParams(set => usize, &mut found => *mut [usize; 2]));
    assert_eq!(wrong, INVALID_VALUE);

    let exec = cuda.executable(graph).unwrap();
    for _ in 0..2 {
        bytes(out, 64).fill(0);
        assert_eq!(cuda.run_exec(exec), 0);
        assert_eq!(bytes(out, 64), [5; 64]);
    }
    assert_eq!(CALLS.load(Ordering::SeqCst), 6);
    // The launch of the changed node adds to fewer bytes.
    let (data, len) = (allocation.pointer, 16_u64);
    let arguments = [(&raw const data).cast(), (&raw const len).cast()];
    launch.arguments = arguments.as_ptr();
    let code = driver!(cuda, cuGraphExecKernelNodeSetParams_v2(exec => usize, kernel => usize, &launch => *const Kernel));
    assert_eq!((code, cuda.run_exec(exec)), (0, 0));
    assert_eq!((bytes(out, 64)[15], bytes(out, 64)[16]), (5, 4));
    assert_eq!(cuda.sim.misuse(), []);
}

#[test]
fn graphs_are_nodes_and_copies_of_graphs() {
    let cuda = h200();
    let (inner, outer, data) = (cuda.graph(), cuda.graph(), cuda.managed(64));
    let rows = Set {
        pitch: 16,
        height: 2,
        ..row(data, 7, 8)
    };
    let set = cuda.set_node(inner, &[], rows);
    let first = cuda.empty(outer, &[]);
    let (mut child, mut copy, mut found, mut own) = (0, 0, 0, 0);
    let code = driver!(cuda, cuGraphAddChildGraphNode(
        &mut child => *mut usize, outer => usize, &first => *const usize, 1 => usize, inner => usize
    ));
    assert_eq!(code, 0);
    let code = driver!(cuda, cuGraphChildGraphNodeGetGraph(child => usize, &mut own => *mut usize));
    assert_eq!((code, own != 0 && own != inner), (0, true));
    let copied = Copy3D {
        from: side(data, 16),
        to: side(data.wrapping_add(32), 16),
        extent: [8, 2, 1],
        kind: 4,
    };
    let code = driver!(cuda, cudaGraphAddMemcpyNode(
        &mut copy => *mut usize, outer => usize, &child => *const usize, 1 => usize, &copied => *const Copy3D
    ));
    assert_eq!(code, 0);
    let exec = cuda.executable(outer).unwrap();
    assert_eq!(cuda.run_exec(exec), 0);
    let expected: Vec<u8> = (0..64).map(|at| if at % 16 < 8 { 7 } else { 0 }).collect();
    assert_eq!(bytes(data, 64), expected);

    // The nodes of the child take those of a graph like it.
    let mut given = rows;
    assert_eq!(
        driver!(cuda, cuGraphMemsetNodeGetParams(set => usize, &mut given => *mut Set)),
        0
    );
    assert_eq!(given, rows);
    given.value = 9;
    assert_eq!(
        driver!(cuda, cuGraphMemsetNodeSetParams(set => usize, &given => *const Set)),
        0
    );
    let update = |graph: usize| driver!(cuda, cuGraphExecChildGraphNodeSetParams(exec => usize, child => usize, graph => usize));
    assert_eq!((update(inner), update(outer)), (0, 910));
    assert_eq!((cuda.run_exec(exec), bytes(data, 64)[0]), (0, 9));

    assert_eq!(
        driver!(cuda, cuGraphClone(&mut found => *mut usize, outer => usize)),
        0
    );
    let clone = found;
    let code = driver!(cuda, cuGraphNodeFindInClone(&mut found => *mut usize, copy => usize, clone => usize));
    assert_eq!((code, found != copy, cuda.edges(clone).len()), (0, true, 2));

    // A circle has no order; without one of its nodes there is one.
    let last = cuda.empty(clone, &[found]);
    let again = driver!(cuda, cuGraphAddDependencies(clone => usize, &found => *const usize, &last => *const usize, 1 => usize));
    assert_eq!(again, INVALID_VALUE);
    let code = driver!(cuda, cuGraphAddDependencies(clone => usize, &last => *const usize, &found => *const usize, 1 => usize));
    assert_eq!((code, cuda.executable(clone)), (0, Err(INVALID_VALUE)));
    assert_eq!(driver!(cuda, cuGraphDestroyNode(last => usize)), 0);
    assert!(cuda.executable(clone).is_ok());
    for graph in [inner, outer, clone] {
        assert_eq!(driver!(cuda, cuGraphDestroy(graph => usize)), 0);
    }
    assert_eq!(driver!(cuda, cuGraphDestroy(inner => usize)), INVALID_VALUE);
}

#[test]
fn memory_that_a_launch_leaves_is_freed_by_others() {
    let cuda = h200();
    let (graph, mut memory, mut allocation, mut used) = (cuda.graph(), 0, allocate(1 << 20), 0_u64);
    let code = driver!(cuda, cuGraphAddMemAllocNode(
        &mut memory => *mut usize, graph => usize, null() => *const usize, 0 => usize, &mut allocation => *mut Allocate
    ));
    assert_eq!(code, 0);
    let exec = cuda.executable(graph).unwrap();
    assert_eq!(
        (cuda.run_exec(exec), cuda.run_exec(exec)),
        (0, INVALID_VALUE)
    );
    let free = || driver!(cuda, cuMemFreeAsync(allocation.pointer => usize, 0 => usize));
    assert_eq!((free(), free(), cuda.run_exec(exec)), (0, INVALID_VALUE, 0));
    // It outlives the graph.
    assert_eq!(driver!(cuda, cuGraphExecDestroy(exec => usize)), 0);
    assert_eq!(driver!(cuda, cuGraphDestroy(graph => usize)), 0);
    let set = driver!(cuda, cudaMemset(allocation.pointer => usize, 1 => i32, 1 << 20 => usize));
    assert_eq!((set, free()), (0, 0));
    let mut attribute = || {
        let code =
            driver!(cuda, cuDeviceGetGraphMemAttribute(0 => i32, 0 => u32, &mut used => *mut u64));
        (code, used)
    };
    assert_eq!(attribute(), (0, 1 << 20));
    assert_eq!(driver!(cuda, cuDeviceGraphMemTrim(0 => i32)), 0);
    assert_eq!(attribute(), (0, 0));
}

static ENDED: AtomicU32 = AtomicU32::new(0);

extern "C" fn end(_: *mut c_void) {
    ENDED.fetch_add(1, Ordering::SeqCst);
}

#[test]
fn an_object_lives_as_long_as_a_graph_that_holds_it() {
    let cuda = h200();
    let (graph, mut object) = (cuda.graph(), 0);
    let ended = || ENDED.load(Ordering::SeqCst);
    let code = driver!(cuda, cuUserObjectCreate(
        &mut object => *mut usize, 0 => usize, end => extern "C" fn(*mut c_void), 1 => u32, 1 => u32
    ));
    assert_eq!(code, 0);
    let code =
        driver!(cuda, cuGraphRetainUserObject(graph => usize, object => usize, 1 => u32, 1 => u32));
    assert_eq!(code, 0);
    cuda.empty(graph, &[]);
    let exec = cuda.executable(graph).unwrap();
    assert_eq!(driver!(cuda, cuGraphDestroy(graph => usize)), 0);
    let pause = cuda.sim.pause();
    assert_eq!(driver!(cuda, cuGraphLaunch(exec => usize, 0 => usize)), 0);
    assert_eq!(
        (driver!(cuda, cuGraphExecDestroy(exec => usize)), ended()),
        (0, 0)
    );
    drop(pause);
    assert_eq!((driver!(cuda, cuCtxSynchronize()), ended()), (0, 1));
    assert_eq!(
        driver!(cuda, cuUserObjectRelease(object => usize, 1 => u32)),
        INVALID_VALUE
    );
}

#[test]
fn a_condition_chooses_a_body_and_has_a_default() {
    let cuda = h200();
    let (graph, data, mut node) = (cuda.graph(), cuda.managed(4), 0);
    let mut add = |graph: usize, type_: u32, size: u32, default: u32| {
        let mut params = Conditional {
            kind: 13,
            reserved: [0; 3],
            handle: 0,
            type_,
            size,
            graphs: null(),
            rest: [0; 27],
        };
        let code = driver!(cuda, cudaGraphConditionalHandleCreate(
            &mut params.handle => *mut u64, graph => usize, default => u32, 1 => u32
        ));
        assert_eq!(code, 0);
        let code = driver!(cuda, cuGraphAddNode(
            &mut node => *mut usize, graph => usize, null() => *const usize, 0 => usize, &mut params => *mut Conditional
        ));
        assert_eq!(code, 0);
        // SAFETY: an array of as many graphs, which lives as long as the node.
        (0..size as usize)
            .map(|at| unsafe { params.graphs.add(at).read() })
            .collect::<Vec<_>>()
    };
    let (switch, or_else) = (add(graph, 2, 3, 2), add(graph, 0, 2, 0));
    for (at, body) in switch.iter().enumerate() {
        cuda.set_node(*body, &[], row(data, 10 + at as u32, 1));
    }
    for (at, body) in or_else.iter().enumerate() {
        cuda.set_node(*body, &[], row(data.wrapping_add(1), 20 + at as u32, 1));
    }
    // A condition in a body.
    let inner = add(or_else[1], 0, 1, 1);
    cuda.set_node(inner[0], &[], row(data.wrapping_add(2), 30, 1));
    let exec = cuda.executable(graph).unwrap();
    for _ in 0..2 {
        bytes(data, 4).fill(0);
        assert_eq!(cuda.run_exec(exec), 0);
        assert_eq!(bytes(data, 4), [12, 21, 30, 0]);
    }
}
