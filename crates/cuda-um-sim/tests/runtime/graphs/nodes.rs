//! Graphs that programs make node by node.

use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_um_sim::Leak;
use cuda_um_sys::{cudaGraph_t, cudaMemsetParams, cudaStream_t};

use crate::copy::copy_3d;
use crate::support::{Cuda, bytes, h200};

pub(super) const INVALID_VALUE: u32 = 1;

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

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, with the kind and the location of the pool at its beginning.
#[repr(C)]
pub(super) struct Allocate {
    pool: [u32; 22],
    access: usize,
    count: usize,
    bytes: usize,
    pub(super) pointer: usize,
}

pub(super) fn allocate(bytes: usize) -> Allocate {
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

impl Cuda {
    pub(super) fn graph(&self) -> usize {
        let mut graph = 0;
        done!(self, cuGraphCreate(&mut graph => *mut usize, 0 => u32));
        graph
    }

    pub(super) fn empty(&self, graph: usize, after: &[usize]) -> usize {
        let mut node = 0;
        done!(self, cuGraphAddEmptyNode(
            &mut node => *mut usize, graph => usize, after.as_ptr() => *const usize, after.len() => usize
        ));
        node
    }

    pub(super) fn set_node(&self, graph: usize, after: &[usize], set: cudaMemsetParams) -> usize {
        let mut node = 0;
        done!(self, cudaGraphAddMemsetNode(
            &mut node => *mut usize, graph => usize, after.as_ptr() => *const usize, after.len() => usize, &set => *const cudaMemsetParams
        ));
        node
    }

    /// An executable graph, or the error.
    pub(super) fn executable(&self, graph: usize) -> Result<usize, u32> {
        let mut exec = 0;
        match driver!(self, cuGraphInstantiateWithFlags(&mut exec => *mut usize, graph => usize, 0 => u64))
        {
            0 => Ok(exec),
            code => Err(code),
        }
    }

    pub(super) fn run_exec(&self, exec: usize) -> u32 {
        let code = driver!(self, cuGraphLaunch(exec => usize, 0 => usize));
        done!(self, cuCtxSynchronize());
        code
    }

    fn edges(&self, graph: usize) -> Vec<(usize, usize)> {
        let mut count = 0;
        let none = || null::<usize>().cast_mut();
        done!(self, cuGraphGetEdges(
            graph => usize, none() => *mut usize, none() => *mut usize, &mut count => *mut usize
        ));
        let (mut from, mut to) = (vec![0; count], vec![0; count]);
        done!(self, cuGraphGetEdges(
            graph => usize, from.as_mut_ptr() => *mut usize, to.as_mut_ptr() => *mut usize, &mut count => *mut usize
        ));
        from.into_iter().zip(to).collect()
    }
}

pub(super) fn row(to: *mut u8, value: u32, width: usize) -> cudaMemsetParams {
    cudaMemsetParams {
        dst: to.cast(),
        pitch: 0,
        value,
        elementSize: 1,
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
    done!(cuda, cuGraphAddKernelNode_v2(
        &mut kernel => *mut usize, graph => usize, &set => *const usize, 1 => usize, &launch => *const Kernel
    ));
    // Added before its edge is.
    done!(cuda, cuGraphAddMemFreeNode(
        &mut free => *mut usize, graph => usize, null() => *const usize, 0 => usize, data => usize
    ));
    done!(cuda, cudaGraphAddMemcpyNode1D(
        &mut copy => *mut usize, graph => usize, &kernel => *const usize, 1 => usize, out => *mut u8, data => usize, 64 => usize, 4 => u32
    ));
    let call: (usize, usize) = (count as *const () as usize, 3);
    done!(cuda, cuGraphAddHostNode(
        &mut host => *mut usize, graph => usize, &copy => *const usize, 1 => usize, [call.0, call.1].as_ptr() => *const usize
    ));
    done!(cuda, cuGraphAddDependencies(graph => usize, &copy => *const usize, &free => *const usize, 1 => usize));
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
    let rows = cudaMemsetParams {
        pitch: 16,
        height: 2,
        ..row(data, 7, 8)
    };
    let set = cuda.set_node(inner, &[], rows);
    let first = cuda.empty(outer, &[]);
    let (mut child, mut copy, mut found, mut own) = (0, 0, 0, 0);
    done!(cuda, cuGraphAddChildGraphNode(
        &mut child => *mut usize, outer => usize, &first => *const usize, 1 => usize, inner => usize
    ));
    let code = driver!(cuda, cuGraphChildGraphNodeGetGraph(child => usize, &mut own => *mut usize));
    assert_eq!((code, own != 0 && own != inner), (0, true));
    let (from, to) = ((data as usize, 16), (data as usize + 32, 16));
    let copied = copy_3d(from, to, [8, 2, 1], 4);
    done!(cuda, cudaGraphAddMemcpyNode(
        &mut copy => *mut usize, outer => usize, &child => *const usize, 1 => usize, copied.as_ptr() => *const usize
    ));
    // As `CUDA_MEMCPY3D`, in unified memory.
    let mut words = [0; 25];
    let side = |address| [0, 0, 0, 0, 4, 0, address, 0, 0, 16, 2];
    let expected = [&side(from.0)[..], &side(to.0), &[8, 2, 1]].concat();
    done!(cuda, cuGraphMemcpyNodeGetParams(copy => usize, &mut words => *mut [usize; 25]));
    // The types of memory have half a word.
    (words[4], words[15]) = (words[4] & 0xff, words[15] & 0xff);
    assert_eq!(words[..], expected);
    done!(cuda, cuGraphMemcpyNodeSetParams(copy => usize, &words => *const [usize; 25]));
    let exec = cuda.executable(outer).unwrap();
    assert_eq!(cuda.run_exec(exec), 0);
    let expected: Vec<u8> = (0..64).map(|at| if at % 16 < 8 { 7 } else { 0 }).collect();
    assert_eq!(bytes(data, 64), expected);

    // The nodes of the child take those of a graph like it.
    let mut given = rows;
    done!(cuda, cuGraphMemsetNodeGetParams(set => usize, &mut given => *mut cudaMemsetParams));
    assert_eq!(format!("{given:?}"), format!("{rows:?}"));
    given.value = 9;
    done!(cuda, cuGraphMemsetNodeSetParams(set => usize, &given => *const cudaMemsetParams));
    let update = |graph: usize| driver!(cuda, cuGraphExecChildGraphNodeSetParams(exec => usize, child => usize, graph => usize));
    assert_eq!((update(inner), update(outer)), (0, 910));
    assert_eq!((cuda.run_exec(exec), bytes(data, 64)[0]), (0, 9));
    // So does the function for nodes of any kind. No other node takes a graph.
    given.value = 11;
    done!(cuda, cuGraphMemsetNodeSetParams(set => usize, &given => *const cudaMemsetParams));
    let mut words = [0; 32];
    (words[0], words[2]) = (4, inner);
    done!(cuda, cuGraphExecNodeSetParams(exec => usize, child => usize, &words => *const [usize; 32]));
    assert_eq!((cuda.run_exec(exec), bytes(data, 64)[0]), (0, 11));
    let wrong = driver!(cuda, cuGraphNodeSetParams(first => usize, &words => *const [usize; 32]));
    assert_eq!(wrong, INVALID_VALUE);

    done!(cuda, cuGraphClone(&mut found => *mut usize, outer => usize));
    let clone = found;
    let code = driver!(cuda, cuGraphNodeFindInClone(&mut found => *mut usize, copy => usize, clone => usize));
    assert_eq!((code, found != copy, cuda.edges(clone).len()), (0, true, 2));

    // A circle has no order; without one of its nodes there is one.
    let last = cuda.empty(clone, &[found]);
    let again = driver!(cuda, cuGraphAddDependencies(clone => usize, &found => *const usize, &last => *const usize, 1 => usize));
    assert_eq!(again, INVALID_VALUE);
    let code = driver!(cuda, cuGraphAddDependencies(clone => usize, &last => *const usize, &found => *const usize, 1 => usize));
    assert_eq!((code, cuda.executable(clone)), (0, Err(INVALID_VALUE)));
    done!(cuda, cuGraphDestroyNode(last => usize));
    assert!(cuda.executable(clone).is_ok());
    for graph in [inner, outer, clone] {
        done!(cuda, cuGraphDestroy(graph => usize));
    }
    assert_eq!(driver!(cuda, cuGraphDestroy(inner => usize)), INVALID_VALUE);
    assert!(!cuda.sim.leaks().contains(&Leak::Graph));
}

#[test]
fn a_captured_copy_between_peers_is_one_between_devices() {
    let cuda = h200();
    let (to, from, stream) = (cuda.device(64), cuda.device(64), cuda.stream());
    cuda.begin(stream);
    done!(cuda, cudaMemcpyPeerAsync(
        to => *mut u8, 0 => i32, from => *mut u8, 0 => i32, 64 => usize, stream => cudaStream_t
    ));
    let graph = cuda.end(stream);
    let (mut node, mut count, mut words) = (0, 1, [0; 20]);
    done!(cuda, cuGraphGetNodes(graph => cudaGraph_t, &mut node => *mut usize, &mut count => *mut usize));
    done!(cuda, cudaGraphMemcpyNodeGetParams(node => usize, &mut words => *mut [usize; 20]));
    // `cudaMemcpyDeviceToDevice`, which the node takes.
    assert_eq!(words[19] as u32, 3);
    done!(cuda, cudaGraphMemcpyNodeSetParams(node => usize, &words => *const [usize; 20]));
}
