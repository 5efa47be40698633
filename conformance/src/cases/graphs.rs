//! Executable graphs: launches, updates, parameters.

use super::*;
use crate::call::Exec;

const KERNEL: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeKernel.0;
const MEMCPY: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeMemcpy.0;
const MEMSET: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeMemset.0;

cases! {
    /// Each launch of a graph does all of its work in the order of its dependencies.
    "graphs.launch" GRAPH [cudaGraphInstantiateWithFlags, cudaGraphLaunch] |c| {
        let (memory, other) = (c.device(64 * KIB), c.device(64 * KIB));
        let out = c.pinned(64 * KIB, 0);
        let exec = c.captured(|stream| {
            c.set(&memory, 0, stream);
            c.add(&memory, 3, stream);
            ok(c.copy_async(&other, &memory, DEFAULT, stream));
            c.add(&other, 4, stream);
            ok(c.copy_async(&out, &other, DEFAULT, stream))
        });
        for _ in 0..3 {
            out.fill_all(0);
            run(c, &exec);
            c.is("the result", out.value_all(), 7);
        }
    }

    /// A captured kernel, copy, memset, host function and external event is a node of its type.
    "graphs.node-types" GRAPH [cudaGraphGetNodes, cudaGraphNodeGetType] |c| {
        let (memory, other) = (c.device(4 * KIB), c.device(4 * KIB));
        let (event, calls) = (c.mark(), counter());
        let graph = c.graph_of(|stream| {
            c.set(&memory, 0, stream);
            c.add(&memory, 3, stream);
            ok(c.copy_async(&other, &memory, DEFAULT, stream));
            ok(c.count_on(calls, stream));
            ok(stream.wait_external(&event));
            ok(event.record_external(stream))
        });
        let types = graph.nodes().into_iter().map(|node| ok(c.node_type(node)));
        let mut types: Vec<u32> = types.collect();
        types.sort_unstable();
        c.is("types", types, vec![KERNEL, MEMCPY, MEMSET, 3, 6, 7]);
    }

    /// A launch is ordered behind the earlier work of its stream, and later work of the stream is ordered behind it.
    "graphs.after-the-stream" GRAPH [cudaGraphLaunch] |c| {
        let (memory, out, stream) = (c.device(64 * KIB), c.pinned(64 * KIB, 0), c.stream());
        let exec = c.captured(|stream| c.add(&memory, 1, stream));
        let gate = c.gate(&stream);
        c.set(&memory, 0, &stream);
        c.succeeds("cudaGraphLaunch", exec.launch(&stream));
        c.add(&memory, 2, &stream);
        ok(c.copy_async(&out, &memory, DEFAULT, &stream));
        gate.opens("it waits", stream.query());
        c.ends(&stream, "the result", &out, 3);
    }

    /// A launch is ordered behind earlier launches of the same executable graph, also on another stream.
    "graphs.one-launch-at-a-time" GRAPH [cudaGraphLaunch] |c| {
        let (memory, out) = (c.device(64 * KIB).zeroed(), c.pinned(64 * KIB, 0));
        let (first, second) = (c.stream(), c.stream());
        let exec = c.captured(|stream| c.add(&memory, 1, stream));
        let gate = c.gate(&first);
        c.succeeds("cudaGraphLaunch", exec.launch(&first));
        c.succeeds("cudaGraphLaunch", exec.launch(&second));
        ok(c.copy_async(&out, &memory, DEFAULT, &second));
        gate.opens("the second stream", second.query());
        c.ends(&second, "both launches", &out, 2);
    }

    /// A graph may be instantiated several times; the instances outlive it, and are not ordered with each other.
    "graphs.two-instances" GRAPH [cudaGraphInstantiateWithFlags, cudaGraphDestroy] |c| {
        let memory = c.pinned(4 * KIB, 0).filled(0);
        let (first, second) = (c.stream(), c.stream());
        let graph = c.graph_of(|stream| c.add(&memory, 1, stream));
        let execs = [graph.make(), graph.make()];
        c.succeeds("cudaGraphDestroy", graph.destroy());
        let gate = c.gate(&first);
        c.succeeds("cudaGraphLaunch", execs[0].launch(&first));
        c.succeeds("cudaGraphLaunch", execs[1].launch(&second));
        c.ends(&second, "one launch", &memory, 1);
        gate.open();
        c.ends(&first, "both launches", &memory, 2);
    }

    /// A launch that was enqueued is done, also if the executable graph is destroyed.
    "graphs.destroyed-while-it-runs" GRAPH [cudaGraphExecDestroy] |c| {
        let (memory, stream) = (c.pinned(4 * KIB, 0).filled(0), c.stream());
        let exec = c.captured(|stream| {
            c.add(&memory, 1, stream);
            c.add(&memory, 2, stream)
        });
        let gate = c.gate(&stream);
        c.succeeds("cudaGraphLaunch", exec.launch(&stream));
        c.succeeds("cudaGraphExecDestroy", exec.destroy());
        gate.open();
        c.ends(&stream, "the result", &memory, 3);
    }

    /// Branches of a graph are done before the work after their join.
    "graphs.fork" GUIDE_GRAPHS [cudaStreamWaitEvent] |c| {
        let (memory, out, other) = (c.device(64 * KIB), c.pinned(64 * KIB, 0), c.stream());
        let (forked, joined) = (c.mark(), c.mark());
        let half = memory.len() / 2;
        let exec = c.captured(|stream| {
            c.set(&memory, 0, stream);
            ok(forked.record(stream));
            ok(other.wait(&forked));
            ok(c.add_range(&memory, 0, half, 5, stream));
            ok(c.add_range(&memory, half, half, 5, &other));
            ok(joined.record(&other));
            ok(stream.wait(&joined));
            ok(c.copy_async(&out, &memory, DEFAULT, stream))
        });
        run(c, &exec);
        c.is("the result", out.value_all(), 5);
    }

    /// At each launch an external wait is for the state that the event has at that time, and an external event is recorded.
    "graphs.external-events" EVENT [cudaStreamWaitEvent, cudaEventRecordWithFlags] |c| {
        let (memory, before, after) = (c.pinned(4 * KIB, 0).filled(0), c.mark(), c.mark());
        let (first, stream, last) = (c.stream(), c.stream(), c.stream());
        let exec = c.captured(|stream| {
            ok(stream.wait_external(&before));
            c.add(&memory, 1, stream);
            ok(after.record_external(stream))
        });
        for turn in 1..=2 {
            let gate = c.gate(&first);
            ok(before.record(&first));
            c.succeeds("cudaGraphLaunch", exec.launch(&stream));
            c.gives("it waits", stream.query(), NOT_READY);
            c.gives("the event", after.query(), NOT_READY);
            ok(last.wait(&after));
            c.add(&memory, 4, &last);
            gate.opens("a stream that waits", last.query());
            c.ends(&last, "the result", &memory, turn * 5);
        }
    }

    /// A host function of a graph is called once in each launch.
    "graphs.host-function" EXECUTION [cudaLaunchHostFunc] |c| {
        let calls = counter();
        let exec = c.captured(|stream| ok(c.count_on(calls, stream)));
        c.is("before", calls.load(Ordering::SeqCst), 0);
        for turn in 1..=3 {
            run(c, &exec);
            c.is("calls", calls.load(Ordering::SeqCst), turn);
        }
    }

    /// A kernel of a graph sees what the host wrote to managed memory before the launch, and the host sees what it wrote.
    "graphs.managed" GUIDE_GRAPHS [cudaGraphLaunch] (Concurrent) |c| {
        let memory = c.managed(MIB);
        let exec = c.captured(|stream| c.add(&memory, 1, stream));
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
            c.set(&memory, 0, stream);
            c.add(&memory, 6, stream);
            ok(c.copy_async(&out, &memory, DEFAULT, stream));
            ok(memory.free_on(stream))
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
        let exec = c.captured(|stream| c.add(&first, 1, stream));
        let other = c.graph_of(|stream| c.add(&second, 2, stream));
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
        let exec = c.captured(|stream| c.add(&memory, 1, stream));
        let longer = c.graph_of(|stream| {
            c.add(&memory, 1, stream);
            c.add(&memory, 1, stream)
        });
        let (code, reason, node) = exec.update(&longer);
        c.gives("another number of nodes", code, UPDATE_FAILURE);
        c.is("the reason", reason, Reason::cudaGraphExecUpdateErrorTopologyChanged.0);
        c.holds("no node", node == 0);
        let other = c.graph_of(|stream| c.set(&memory, 0, stream));
        let (code, reason, node) = exec.update(&other);
        c.gives("another type", code, UPDATE_FAILURE);
        c.is("the reason", reason, Reason::cudaGraphExecUpdateErrorNodeTypeChanged.0);
        c.holds("the node", [node] == other.nodes()[..]);
        run(c, &exec);
        c.is("memory", memory.value_all(), 1);
    }

    /// New parameters of a kernel hold for later launches, not for launches that are enqueued.
    "graphs.kernel-parameters" DRIVER_GRAPH [cuGraphExecKernelNodeSetParams] |c| {
        let (first, second) = (c.pinned(4 * KIB, 0).filled(0), c.pinned(4 * KIB, 0).filled(0));
        let stream = c.stream();
        let graph = c.graph_of(|stream| c.add(&first, 1, stream));
        let (exec, kernel) = (graph.make(), graph.node(KERNEL));
        let gate = c.gate(&stream);
        c.succeeds("cudaGraphLaunch", exec.launch(&stream));
        c.succeeds("cuGraphExecKernelNodeSetParams", exec.set_add(kernel, &second, 5));
        c.succeeds("cudaGraphLaunch", exec.launch(&stream));
        gate.open();
        c.succeeds("cudaStreamSynchronize", stream.synchronize());
        c.is("memory", (first.value_all(), second.value_all()), (1, 5));
    }

    /// The value and the address of a memset and the addresses of a copy can be changed; parameters of another type are refused.
    "graphs.parameters" GRAPH [cudaGraphExecMemsetNodeSetParams, cudaGraphExecMemcpyNodeSetParams1D] |c| {
        let (first, second) = (c.device(4 * KIB), c.device(4 * KIB));
        let (from, out) = (c.device(4 * KIB), c.pinned(4 * KIB, 0));
        let graph = c.graph_of(|stream| {
            c.set(&from, 0, stream);
            ok(c.copy_async(&first, &from, DEFAULT, stream))
        });
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
            c.set_condition(&rounds, goes_on, stream);
            stream.body(goes_on, true, |stream| {
                c.add(&memory, 10, stream);
                let is_once = stream.condition();
                c.set_condition(&once, is_once, stream);
                stream.body(is_once, false, |stream| c.add(&memory, 1, stream));
                c.add(&rounds, 1, stream);
                c.set_condition(&rounds, goes_on, stream)
            });
            ok(c.copy_async(&out, &memory, DEFAULT, stream))
        });
        let stream = c.stream();
        // A value of bytes of 255 is 0 after one round.
        for (byte, is_once, expected) in [(0, 0, 0), (255, 0, 10), (255, 1, 11)] {
            c.set(&memory, 0, &stream);
            c.set(&rounds, byte, &stream);
            c.set(&once, is_once, &stream);
            c.succeeds("cudaStreamSynchronize", stream.synchronize());
            run(c, &exec);
            c.is("the result", out.value_all(), expected);
        }
    }
}

/// Launches a graph and waits for it.
fn run(c: &Cuda<'_>, exec: &Exec<'_>) {
    let stream = c.stream();
    c.succeeds("cudaGraphLaunch", exec.launch(&stream));
    c.succeeds("cudaStreamSynchronize", stream.synchronize());
}
