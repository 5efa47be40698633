//! Updates of executable graphs, and new parameters for their nodes.

use std::ptr::null_mut;

use cuda_um_sim::{CudaVersion, Sim};
use cuda_um_sys::{
    CUDA_KERNEL_NODE_PARAMS, cudaError, cudaGraph_t, cudaGraphExec_t, cudaGraphExecUpdateResult,
    cudaGraphExecUpdateResultInfo, cudaGraphNode_t, cudaMemcpyKind, cudaMemsetParams, cudaStream_t,
};

use super::graph_call;
use crate::support::{Cuda, bytes, call, h200, ok};

impl Cuda {
    fn graph(&self, work: impl FnOnce(cudaStream_t)) -> cudaGraph_t {
        let stream = self.stream();
        self.begin(stream);
        work(stream);
        self.end(stream)
    }

    fn update(
        &self,
        exec: cudaGraphExec_t,
        graph: cudaGraph_t,
    ) -> (cudaError, cudaGraphExecUpdateResultInfo) {
        let mut info = cudaGraphExecUpdateResultInfo::default();
        // SAFETY: the place is valid for the call.
        let error = unsafe { self.table.cudaGraphExecUpdate(exec, graph, &mut info) };
        (error.unwrap(), info)
    }

    fn set_kernel(
        &self,
        exec: cudaGraphExec_t,
        node: cudaGraphNode_t,
        kernel: &str,
        (data, len): (*mut u8, u64),
    ) -> u32 {
        let (mut data, mut len) = (data as u64, len);
        let mut arguments = [(&raw mut data).cast(), (&raw mut len).cast()];
        let params = CUDA_KERNEL_NODE_PARAMS {
            func: self.kernel(kernel),
            gridDimX: 1,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: 32,
            blockDimY: 1,
            blockDimZ: 1,
            kernelParams: arguments.as_mut_ptr(),
            ..CUDA_KERNEL_NODE_PARAMS::default()
        };
        let set = self
            .table
            .driver()
            .unwrap()
            .cuGraphExecKernelNodeSetParams
            .unwrap();
        call!(set(exec, node, &params)).0
    }

    /// The bytes of memory after a launch of a graph that begins with zeros.
    fn after(&self, exec: cudaGraphExec_t, data: *mut u8, len: usize) -> Vec<u8> {
        self.copy(data, vec![0u8; len].as_ptr(), len);
        let stream = self.stream();
        self.launch_graph(exec, stream);
        self.sync(stream);
        let out = self.pinned(len);
        self.copy(out, data, len);
        bytes(out, len).to_vec()
    }
}

#[test]
fn an_update_takes_the_parameters_of_a_graph_of_the_same_form() {
    use CudaVersion::{V11_8, V12_9, V13_0};
    for version in [V11_8, V12_9, V13_0] {
        let cuda = Cuda::new(Sim::builder().cuda(version));
        let (a, b) = (cuda.device(8), cuda.device(8));
        let work = |data, value, stream| {
            ok(cuda.set_on(data, value, 8, stream));
            cuda.launch("add", data, 8, stream);
        };
        let exec = cuda.captured(|stream| work(a, 1, stream));
        let other = cuda.graph(|stream| work(b, 5, stream));
        let (error, info) = cuda.update(exec, other);
        ok(error);
        assert_eq!(
            info.result,
            cudaGraphExecUpdateResult::cudaGraphExecUpdateSuccess
        );
        assert_eq!(cuda.after(exec, a, 8), [0; 8]);
        assert_eq!(cuda.after(exec, b, 8), [6; 8]);
    }
}

#[test]
fn an_update_that_fails_names_the_node_and_changes_nothing() {
    let cuda = h200();
    let (data, managed) = (cuda.device(8), cuda.managed(8));
    let exec = cuda.captured(|stream| {
        ok(cuda.set_on(data, 1, 8, stream));
        cuda.launch("add", data, 8, stream);
    });
    let refused = |graph, node: Option<usize>| {
        let (error, info) = cuda.update(exec, graph);
        assert_eq!(error, cudaError::cudaErrorGraphExecUpdateFailure);
        let node = node.map_or(null_mut(), |node| cuda.nodes(graph)[node]);
        assert_eq!(info.errorNode, node);
        info.result
    };
    let shorter = cuda.graph(|stream| cuda.launch("add", data, 8, stream));
    let topology = cudaGraphExecUpdateResult::cudaGraphExecUpdateErrorTopologyChanged;
    assert_eq!(refused(shorter, None), topology);
    let swapped = cuda.graph(|stream| {
        cuda.launch("add", data, 8, stream);
        ok(cuda.set_on(data, 1, 8, stream));
    });
    let kind = cudaGraphExecUpdateResult::cudaGraphExecUpdateErrorNodeTypeChanged;
    assert_eq!(refused(swapped, Some(0)), kind);
    let elsewhere = cuda.graph(|stream| {
        ok(cuda.set_on(managed, 1, 8, stream));
        cuda.launch("add", data, 8, stream);
    });
    let parameters = cudaGraphExecUpdateResult::cudaGraphExecUpdateErrorParametersChanged;
    assert_eq!(refused(elsewhere, Some(0)), parameters);
    let parallel = cuda.graph(|stream| {
        let (other, event, joined) = (cuda.stream(), cuda.event(), cuda.event());
        ok(cuda.record(event, stream));
        ok(cuda.set_on(data, 9, 8, stream));
        ok(cuda.wait(other, event));
        cuda.launch("add", data, 8, other);
        ok(cuda.record(joined, other));
        ok(cuda.wait(stream, joined));
    });
    assert_eq!(refused(parallel, Some(1)), topology);
    assert_eq!(cuda.after(exec, data, 8), [2; 8]);
}

#[test]
fn new_parameters_hold_for_later_launches() {
    let cuda = h200();
    let (a, b, c) = (cuda.device(8), cuda.device(8), cuda.device(8));
    let graph = cuda.graph(|stream| {
        ok(cuda.set_on(a, 1, 8, stream));
        cuda.launch("add", a, 8, stream);
        ok(cuda.copy_on(b, a, 8, stream));
    });
    let (exec, same) = (cuda.instantiate(graph), cuda.instantiate(graph));
    let nodes = cuda.nodes(graph);
    let [set, kernel, copy] = nodes[..] else {
        panic!("{nodes:?}")
    };
    let stream = cuda.stream();
    let pause = cuda.sim.pause();
    cuda.launch_graph(exec, stream);
    assert_eq!(cuda.set_kernel(exec, kernel, "add", (a, 4)), 0);
    let params = cudaMemsetParams {
        dst: a.cast(),
        value: 3,
        elementSize: 2,
        width: 2,
        height: 1,
        ..cudaMemsetParams::default()
    };
    ok(graph_call!(
        cuda,
        cudaGraphExecMemsetNodeSetParams(exec, set, &params)
    ));
    let kind = cudaMemcpyKind::cudaMemcpyDeviceToDevice;
    let copied = |exec, node, to: *mut u8, len| {
        graph_call!(
            cuda,
            cudaGraphExecMemcpyNodeSetParams1D(exec, node, to.cast(), a.cast(), len, kind)
        )
    };
    ok(copied(exec, copy, c, 6));
    drop(pause);
    cuda.sync(stream);
    let out = cuda.pinned(8);
    cuda.copy(out, b, 8);
    assert_eq!(
        bytes(out, 8),
        [2; 8],
        "the launch that was enqueued keeps its parameters"
    );
    cuda.copy(a, [0u8; 8].as_ptr(), 8);
    assert_eq!(cuda.after(exec, c, 8), [4, 1, 4, 1, 0, 0, 0, 0]);
    assert_eq!(
        cuda.after(same, c, 8),
        [0; 8],
        "other executable graphs keep theirs"
    );

    let invalid = cudaError::cudaErrorInvalidValue;
    assert_eq!(
        copied(exec, kernel, c, 8),
        invalid,
        "a node of another kind"
    );
    assert_eq!(copied(exec, copy, c, 0), invalid);
    assert_eq!(
        copied(exec, copy, cuda.managed(8), 8),
        invalid,
        "memory of another kind"
    );
    assert_eq!(copied(exec, copy, c, 9), invalid, "beyond the memory");
    assert_eq!(cuda.set_kernel(exec, set, "add", (a, 4)), 1);
    assert_eq!(cuda.set_kernel(exec, null_mut(), "add", (a, 4)), 1);
}
