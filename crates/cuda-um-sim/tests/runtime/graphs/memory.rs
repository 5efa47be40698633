//! The memory that graphs use, and the memory that they allocate.

use std::ptr::{null, null_mut};

use cuda_um_sim::{Leak, Misuse};
use cuda_um_sys::{DeclaredArgument, cudaError, cudaStream_t};

use super::graph_call;
use super::nodes::{Allocate, INVALID_VALUE, allocate};
use crate::support::{Cuda, MIB, bytes, call, h200, ok};

fn leaks(cuda: &Cuda) -> usize {
    let leaks = cuda.sim.leaks();
    let memory = |leak: &&Leak| matches!(leak, Leak::Memory { .. });
    leaks.iter().filter(memory).count()
}

#[test]
fn a_launch_over_freed_memory_is_refused_and_recorded() {
    let cuda = h200();
    let (data, other, stream) = (cuda.device(64), cuda.device(64), cuda.stream());
    let set = cuda.captured(|stream| ok(cuda.set_on(data, 1, 64, stream)));
    let copy = cuda.captured(|stream| ok(cuda.copy_on(other, data, 64, stream)));
    let kernel = cuda.captured(|stream| declared(&cuda, "write", data, 64, stream));
    cuda.launch_graph(kernel, stream);
    cuda.sync(stream);
    cuda.free(data);
    for exec in [set, copy, kernel] {
        let error = graph_call!(cuda, cudaGraphLaunch(exec, stream));
        assert_eq!(error, cudaError::cudaErrorInvalidValue);
    }
    let misuse = Misuse::UseAfterFree {
        address: data as usize,
    };
    assert_eq!(cuda.sim.misuse(), vec![misuse; 3]);
    cuda.sync(stream);
}

/// Launches a kernel with its first argument declared as memory of `len` bytes that it may write.
fn declared(cuda: &Cuda, name: &str, data: *mut u8, len: usize, stream: cudaStream_t) {
    let function = cuda.kernel(name);
    let (mut data, mut bytes) = (data as u64, 64u64);
    let mut arguments = [(&raw mut data).cast(), (&raw mut bytes).cast()];
    let memory = DeclaredArgument {
        is_memory: true,
        may_write: true,
        bytes: len,
    };
    let mut declared = [memory, DeclaredArgument::VALUE];
    let launch = cuda.table.declared_launch().unwrap();
    let (arguments, declared) = (arguments.as_mut_ptr(), declared.as_mut_ptr().cast());
    let launched = call!(launch(
        function, 1, 1, 1, 32, 1, 1, 0, stream, arguments, declared
    ));
    assert_eq!(launched.0, 0);
}

#[test]
fn a_node_keeps_what_was_declared_of_its_arguments() {
    let cuda = h200();
    let data = cuda.device(64);
    let exec = cuda.captured(|stream| declared(&cuda, "write", data, 32, stream));
    let stream = cuda.stream();
    cuda.launch_graph(exec, stream);
    let error = call!(cuda.table, cudaStreamSynchronize(stream));
    assert_eq!(
        error,
        cudaError::cudaErrorIllegalAddress,
        "64 bytes are written, 32 declared"
    );
}

#[test]
fn a_module_that_was_unloaded_is_missed_at_the_launch() {
    let cuda = h200();
    let (data, stream) = (cuda.device(64), cuda.stream());
    let (module, function) = cuda.module_and_kernel("write");
    let exec = cuda.captured(|stream| assert_eq!(cuda.try_launch(function, data, 64, stream), 0));
    let driver = cuda.table.driver().unwrap();
    assert_eq!(call!(driver, cuModuleUnload(module)).0, 0);
    let error = graph_call!(cuda, cudaGraphLaunch(exec, stream));
    assert_eq!(error, cudaError::cudaErrorInvalidResourceHandle);
    assert_eq!(
        cuda.sim.misuse(),
        [Misuse::ModuleUnloadedInUse { launches: 1 }]
    );
}

#[test]
fn memory_of_a_graph_lives_as_long_as_the_graph_and_its_launches() {
    let cuda = h200();
    let (out, stream) = (cuda.pinned(MIB), cuda.stream());
    let before = leaks(&cuda);
    let allocated = |stream| {
        let mut data = null_mut();
        ok(call!(cuda.table, cudaMallocAsync(&mut data, MIB, stream)));
        ok(cuda.set_on(data.cast(), 4, MIB, stream));
        cuda.launch("add", data.cast(), MIB, stream);
        ok(cuda.copy_on(out, data.cast(), MIB, stream));
        data
    };
    let exec = cuda.captured(|stream| {
        let data = allocated(stream);
        ok(call!(cuda.table, cudaFreeAsync(data, stream)));
    });
    for _ in 0..2 {
        bytes(out, MIB).fill(0);
        cuda.launch_graph(exec, stream);
        cuda.sync(stream);
        assert_eq!(bytes(out, MIB)[MIB - 1], 5);
    }
    let pause = cuda.sim.pause();
    cuda.launch_graph(exec, stream);
    ok(graph_call!(cuda, cudaGraphExecDestroy(exec)));
    assert_eq!(leaks(&cuda), before + 1, "the launch needs it");
    drop(pause);
    cuda.sync(stream);
    assert_eq!(leaks(&cuda), before);

    // A launch that leaves its memory allocated has no second one.
    let keeps = cuda.captured(|stream| _ = allocated(stream));
    cuda.launch_graph(keeps, stream);
    let error = graph_call!(cuda, cudaGraphLaunch(keeps, stream));
    assert_eq!(error, cudaError::cudaErrorInvalidValue);
    cuda.sync(stream);

    // A capture that fails frees what it allocated.
    let failing = cuda.stream();
    cuda.begin(failing);
    allocated(failing);
    assert_ne!(
        call!(cuda.table, cudaStreamQuery(failing)),
        cudaError::cudaSuccess
    );
    cuda.end_fails(failing);
    assert_eq!(leaks(&cuda), before + 1);
    assert_eq!(cuda.sim.misuse(), []);
}

#[test]
fn memory_that_a_launch_leaves_is_freed_by_others() {
    let cuda = h200();
    let (graph, mut memory, mut allocation, mut used) = (cuda.graph(), 0, allocate(1 << 20), 0_u64);
    done!(cuda, cuGraphAddMemAllocNode(
        &mut memory => *mut usize, graph => usize, null() => *const usize, 0 => usize, &mut allocation => *mut Allocate
    ));
    let exec = cuda.executable(graph).unwrap();
    let mut attribute = || {
        let code =
            driver!(cuda, cuDeviceGetGraphMemAttribute(0 => i32, 0 => u32, &mut used => *mut u64));
        (code, used)
    };
    // `CUgraphNodeParams` of as much memory, which the executable node does not take.
    let mut params = [0_u64; 32];
    (params[0], params[2], params[3], params[15]) = (10, 1, 1, 1 << 20);
    let set = driver!(cuda, cuGraphExecNodeSetParams(exec => usize, memory => usize, &params => *const [u64; 32]));
    assert_eq!((set, attribute()), (INVALID_VALUE, (0, 1 << 20)));
    assert_eq!(
        (cuda.run_exec(exec), cuda.run_exec(exec)),
        (0, INVALID_VALUE)
    );
    let free = || driver!(cuda, cuMemFreeAsync(allocation.pointer => usize, 0 => usize));
    assert_eq!((free(), free(), cuda.run_exec(exec)), (0, INVALID_VALUE, 0));
    // It outlives the graph.
    done!(cuda, cuGraphExecDestroy(exec => usize));
    done!(cuda, cuGraphDestroy(graph => usize));
    let set = driver!(cuda, cudaMemset(allocation.pointer => usize, 1 => i32, 1 << 20 => usize));
    assert_eq!((set, free()), (0, 0));
    assert_eq!(attribute(), (0, 1 << 20));
    done!(cuda, cuDeviceGraphMemTrim(0 => i32));
    assert_eq!(attribute(), (0, 0));
}
