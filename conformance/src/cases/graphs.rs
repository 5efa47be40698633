//! Executable graphs: launches, updates, parameters.

use super::*;
use crate::call::Exec;

const KERNEL: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeKernel.0;
const MEMCPY: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeMemcpy.0;
const MEMSET: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeMemset.0;

cases! {
    /// Each launch of a graph does all of its work in the order of its dependencies.
    "graphs.launch" GRAPH [cudaGraphInstantiateWithFlags, cudaGraphLaunch] |c| {
        let (memory, other, out) = (c.device(64 * KIB), c.device(64 * KIB), c.pinned(64 * KIB, 0));
        let exec = c.captured(|stream| {
            stream.set(&memory, 0).add(&memory, 3).copy(&other, &memory);
            stream.add(&other, 4).copy(&out, &other)
        });
        for _ in 0..3 {
            out.fill_all(0);
            run(c, &exec);
            c.is("the result", out.value_all(), 7);
        }
    }
    /// A captured kernel, copy, memset, host function and external event is a node of its type.
    "graphs.node-types" GRAPH [cudaGraphGetNodes, cudaGraphNodeGetType] |c; event| {
        let (memory, other) = (c.device(4 * KIB), c.device(4 * KIB));
        let calls = counter();
        let graph = c.graph_of(|stream| {
            stream.set(&memory, 0).add(&memory, 3).copy(&other, &memory);
            ok(c.count_on(calls, stream));
            ok(stream.wait_external(&event));
            ok(event.record_external(stream));
            stream
        });
        let types = graph.nodes().into_iter().map(|node| ok(c.node_type(node)));
        let mut types: Vec<u32> = types.collect();
        types.sort_unstable();
        c.is("types", types, vec![KERNEL, MEMCPY, MEMSET, 3, 6, 7]);
    }
    /// A launch is ordered behind the earlier work of its stream, and later work of the stream is ordered behind it.
    "graphs.after-the-stream" GRAPH [cudaGraphLaunch] |c, stream| {
        let (memory, out) = (c.device(64 * KIB), c.pinned(64 * KIB, 0));
        let exec = c.captured(|stream| stream.add(&memory, 1));
        let gate = c.gate(&stream);
        stream.set(&memory, 0).launch(&exec).add(&memory, 2).copy(&out, &memory);
        gate.opens("it waits", stream.query());
        stream.ends("the result", &out, 3);
    }
    /// A launch is ordered behind earlier launches of the same executable graph, also on another stream.
    "graphs.one-launch-at-a-time" GRAPH [cudaGraphLaunch] |c, first, second| {
        let (memory, out) = (c.device(64 * KIB).zeroed(), c.pinned(64 * KIB, 0));
        let exec = c.captured(|stream| stream.add(&memory, 1));
        let gate = c.gate(&first);
        first.launch(&exec);
        second.launch(&exec).copy(&out, &memory);
        gate.opens("the second stream", second.query());
        second.ends("both launches", &out, 2);
    }
    /// A graph may be instantiated several times; the instances outlive it, and are not ordered with each other.
    "graphs.two-instances" GRAPH [cudaGraphInstantiateWithFlags, cudaGraphDestroy] |c, first, second| {
        let memory = c.pinned(4 * KIB, 0).filled(0);
        let graph = c.graph_of(|stream| stream.add(&memory, 1));
        let execs = [graph.make(), graph.make()];
        c.succeeds("cudaGraphDestroy", graph.destroy());
        let gate = c.gate(&first);
        first.launch(&execs[0]);
        second.launch(&execs[1]).ends("one launch", &memory, 1);
        gate.open();
        first.ends("both launches", &memory, 2);
    }
    /// A launch that was enqueued is done, also if the executable graph is destroyed.
    "graphs.destroyed-while-it-runs" GRAPH [cudaGraphExecDestroy] |c, stream| {
        let memory = c.pinned(4 * KIB, 0).filled(0);
        let exec = c.captured(|stream| stream.add(&memory, 1).add(&memory, 2));
        let gate = c.gate(&stream);
        stream.launch(&exec);
        c.succeeds("cudaGraphExecDestroy", exec.destroy());
        gate.open();
        stream.ends("the result", &memory, 3);
    }
    /// Branches of a graph are done before the work after their join.
    "graphs.fork" GUIDE_GRAPHS [cudaStreamWaitEvent] |c, other; forked, joined| {
        let (memory, out) = (c.device(64 * KIB), c.pinned(64 * KIB, 0));
        let half = memory.len() / 2;
        let exec = c.captured(|stream| {
            stream.set(&memory, 0).record(&forked);
            other.join(&forked);
            ok(c.add_range(&memory, 0, half, 5, stream));
            ok(c.add_range(&memory, half, half, 5, &other));
            other.record(&joined);
            stream.join(&joined).copy(&out, &memory)
        });
        run(c, &exec);
        c.is("the result", out.value_all(), 5);
    }
    /// At each launch an external wait is for the state that the event has at that time, and an external event is recorded.
    "graphs.external-events" EVENT [cudaStreamWaitEvent, cudaEventRecordWithFlags] |c, first, stream, last; before, after| {
        let memory = c.pinned(4 * KIB, 0).filled(0);
        let exec = c.captured(|stream| {
            ok(stream.wait_external(&before));
            ok(after.record_external(stream.add(&memory, 1)));
            stream
        });
        for turn in 1..=2 {
            let gate = c.gate(&first);
            first.record(&before);
            stream.launch(&exec).pending("it waits");
            c.gives("the event", after.query(), NOT_READY);
            last.join(&after).add(&memory, 4);
            gate.opens("a stream that waits", last.query());
            last.ends("the result", &memory, turn * 5);
        }
    }
    /// A host function of a graph is called once in each launch.
    "graphs.host-function" EXECUTION [cudaLaunchHostFunc] |c| {
        let calls = counter();
        let exec = c.captured(|stream| stream.did(c.count_on(calls, stream)));
        c.is("before", calls.load(Ordering::SeqCst), 0);
        for turn in 1..=3 {
            run(c, &exec);
            c.is("calls", calls.load(Ordering::SeqCst), turn);
        }
    }
    /// A kernel of a graph sees what the host wrote to managed memory before the launch, and the host sees what it wrote.
    "graphs.managed" GUIDE_GRAPHS [cudaGraphLaunch] (Concurrent) |c| {
        let memory = c.managed(MIB);
        let exec = c.captured(|stream| stream.add(&memory, 1));
        for value in [10, 20, 30] {
            memory.fill_all(value);
            run(c, &exec);
            c.is("the result", memory.value_all(), value + 1);
        }
    }
    /// A stream-ordered allocation in a capture gives memory that each launch of the graph has.
    "graphs.memory" GUIDE_GRAPHS [cudaMallocAsync, cudaFreeAsync] (Pools) |c| {
        let out = c.pinned(64 * KIB, 0);
        let exec = c.captured(|stream| {
            let memory = c.malloc_async(64 * KIB, stream);
            stream.set(&memory, 0).add(&memory, 6).copy(&out, &memory);
            ok(memory.free_on(stream));
            stream
        });
        for _ in 0..2 {
            out.fill_all(0);
            run(c, &exec);
            c.is("the result", out.value_all(), 6);
        }
    }
    /// An update gives an executable graph the parameters of a graph of the same form.
    "graphs.update" GRAPH [cudaGraphExecUpdate] |c| {
        let (first, second) = (c.pinned(4 * KIB, 0).filled(0), c.pinned(4 * KIB, 0).filled(0));
        let exec = c.captured(|stream| stream.add(&first, 1));
        let other = c.graph_of(|stream| stream.add(&second, 2));
        let (updated, result, _) = exec.update(&other);
        c.succeeds("cudaGraphExecUpdate", updated);
        c.is("the result", result, 0);
        run(c, &exec);
        c.is("memory", (first.value_all(), second.value_all()), (0, 2));
    }
    /// An update with another number of nodes, or another type of a node, fails with the reason and the node, and changes nothing.
    "graphs.update-that-fails" GRAPH [cudaGraphExecUpdate] |c| {
        use sys::cudaGraphExecUpdateResult as Reason;
        let memory = c.pinned(4 * KIB, 0).filled(0);
        let exec = c.captured(|stream| stream.add(&memory, 1));
        let longer = c.graph_of(|stream| stream.add(&memory, 1).add(&memory, 1));
        let (code, reason, node) = exec.update(&longer);
        c.gives("another number of nodes", code, UPDATE_FAILURE);
        c.is("the reason", reason, Reason::cudaGraphExecUpdateErrorTopologyChanged.0);
        c.holds("no node", node == 0);
        let other = c.graph_of(|stream| stream.set(&memory, 0));
        let (code, reason, node) = exec.update(&other);
        c.gives("another type", code, UPDATE_FAILURE);
        c.is("the reason", reason, Reason::cudaGraphExecUpdateErrorNodeTypeChanged.0);
        c.holds("the node", [node] == other.nodes()[..]);
        run(c, &exec);
        c.is("memory", memory.value_all(), 1);
    }
    /// New parameters of a kernel hold for later launches, not for launches that are enqueued.
    "graphs.kernel-parameters" DRIVER_GRAPH [cuGraphExecKernelNodeSetParams] |c, stream| {
        let (first, second) = (c.pinned(4 * KIB, 0).filled(0), c.pinned(4 * KIB, 0).filled(0));
        let graph = c.graph_of(|stream| stream.add(&first, 1));
        let (exec, kernel) = (graph.make(), graph.node(KERNEL));
        let gate = c.gate(&stream);
        stream.launch(&exec);
        c.succeeds("cuGraphExecKernelNodeSetParams", exec.set_add(kernel, &second, 5));
        stream.launch(&exec);
        gate.open();
        stream.done("cudaStreamSynchronize");
        c.is("memory", (first.value_all(), second.value_all()), (1, 5));
    }
    /// The value and the address of a memset and the addresses of a copy can be changed; parameters of another type are refused.
    "graphs.parameters" GRAPH [cudaGraphExecMemsetNodeSetParams, cudaGraphExecMemcpyNodeSetParams1D] |c| {
        let (first, second) = (c.device(4 * KIB), c.device(4 * KIB));
        let (from, out) = (c.device(4 * KIB), c.pinned(4 * KIB, 0));
        let graph = c.graph_of(|stream| stream.set(&from, 0).copy(&first, &from));
        let (exec, memset, memcpy) = (graph.make(), graph.node(MEMSET), graph.node(MEMCPY));
        c.succeeds("cudaGraphExecMemsetNodeSetParams", exec.set_memset(memset, &first, 1));
        let change = |node| c.exec_set_memcpy(&exec, node, &second, &first, 4 * KIB, DEFAULT);
        c.succeeds("cudaGraphExecMemcpyNodeSetParams1D", change(memcpy));
        run(c, &exec);
        ok(c.copy(&out, &second, DEFAULT));
        c.is("memory", out.value_all(), 0x0101_0101);
        c.refuses("of a memset", change(memset));
    }
    /// A body runs as long as the value that kernels set is not 0; a body of an `if` in it runs once in a round, or not.
    "graphs.conditions" GUIDE_GRAPHS [cudaGraphConditionalHandleCreate, cudaGraphAddNode, cudaStreamBeginCaptureToGraph, cudaStreamUpdateCaptureDependencies] (Since(12, 3)) |c| {
        let (rounds, once) = (c.device(4 * KIB), c.device(4 * KIB));
        let (memory, out) = (c.device(4 * KIB), c.pinned(4 * KIB, 0));
        let exec = c.captured(|stream| {
            let goes_on = stream.condition();
            stream.set_condition(&rounds, goes_on).body(goes_on, true, |stream| {
                let is_once = stream.condition();
                stream.add(&memory, 10).set_condition(&once, is_once);
                stream.body(is_once, false, |stream| stream.add(&memory, 1));
                stream.add(&rounds, 1).set_condition(&rounds, goes_on)
            });
            stream.copy(&out, &memory)
        });
        let stream = c.stream();
        // A value of bytes of 255 is 0 after one round.
        for (byte, is_once, expected) in [(0, 0, 0), (255, 0, 10), (255, 1, 11)] {
            stream.set(&memory, 0).set(&rounds, byte).set(&once, is_once);
            stream.done("cudaStreamSynchronize");
            run(c, &exec);
            c.is("the result", out.value_all(), expected);
        }
    }
}

/// Launches a graph and waits for it.
fn run(c: &Cuda<'_>, exec: &Exec<'_>) {
    let stream = c.stream();
    stream.launch(exec).done("cudaStreamSynchronize");
}
