//! Executable graphs: launches, updates, parameters.

use super::prelude::*;
use crate::Failure;
use crate::call::Exec;
use cuda_um_sys as sys;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(super) const CASES: &[Case] = cases! {
    "graphs.launch" (launch):
        "Each launch of a graph does all of its work in the order of its dependencies.",
        sources::GRAPH, &["cudaGraphInstantiateWithFlags", "cudaGraphLaunch"];
    "graphs.node-types" (node_types):
        "A captured kernel, copy, memset, host function and external event is a node of its type.",
        sources::GRAPH, &["cudaGraphGetNodes", "cudaGraphNodeGetType"];
    "graphs.after-the-stream" (after_the_stream):
        "A launch is ordered behind the earlier work of its stream, and later work of the stream is ordered behind it.",
        sources::GRAPH, &["cudaGraphLaunch"];
    "graphs.one-launch-at-a-time" (one_launch_at_a_time):
        "A launch is ordered behind earlier launches of the same executable graph, also on another stream.",
        sources::GRAPH, &["cudaGraphLaunch"];
    "graphs.two-instances" (two_instances):
        "A graph may be instantiated several times; the instances outlive it, and are not ordered with each other.",
        sources::GRAPH, &["cudaGraphInstantiateWithFlags", "cudaGraphDestroy"];
    "graphs.destroyed-while-it-runs" (destroyed_while_it_runs):
        "A launch that was enqueued is done, also if the executable graph is destroyed.",
        sources::GRAPH, &["cudaGraphExecDestroy"];
    "graphs.fork" (fork):
        "Branches of a graph are done before the work after their join.",
        sources::GUIDE_GRAPHS, &["cudaStreamWaitEvent"];
    "graphs.external-events" (external_events):
        "At each launch an external wait is for the state that the event has at that time, and an external event is recorded.",
        sources::EVENT, &["cudaStreamWaitEvent", "cudaEventRecordWithFlags"];
    "graphs.host-function" (host_function):
        "A host function of a graph is called once in each launch.",
        sources::EXECUTION, &["cudaLaunchHostFunc"];
    "graphs.managed" (managed):
        "A kernel of a graph sees what the host wrote to managed memory before the launch, and the host sees what it wrote.",
        sources::GUIDE_GRAPHS, &["cudaGraphLaunch"], needs(&[Need::Concurrent]);
    "graphs.memory" (memory):
        "A stream-ordered allocation in a capture gives memory that each launch of the graph has.",
        sources::GUIDE_GRAPHS, &["cudaMallocAsync", "cudaFreeAsync"], needs(&[Need::Pools]);
    "graphs.update" (update):
        "An update gives an executable graph the parameters of a graph of the same form.",
        sources::GRAPH, &["cudaGraphExecUpdate"];
    "graphs.update-that-fails" (update_that_fails):
        "An update with another number of nodes, or another type of a node, fails with the reason and the node, and changes nothing.",
        sources::GRAPH, &["cudaGraphExecUpdate"];
    "graphs.kernel-parameters" (kernel_parameters):
        "New parameters of a kernel hold for later launches, not for launches that are enqueued.",
        sources::DRIVER_GRAPH, &["cuGraphExecKernelNodeSetParams"];
    "graphs.parameters" (parameters):
        "The value and the address of a memset and the addresses of a copy can be changed; parameters of another type are refused.",
        sources::GRAPH, &["cudaGraphExecMemsetNodeSetParams", "cudaGraphExecMemcpyNodeSetParams1D"];
    "graphs.conditions" (conditions):
        "A body runs as long as the value that kernels set is not 0; a body of an `if` in it runs once in a round, or not.",
        sources::GUIDE_GRAPHS, &[
            "cudaGraphConditionalHandleCreate", "cudaGraphAddNode", "cudaStreamBeginCaptureToGraph", "cudaStreamUpdateCaptureDependencies",
        ],
        needs(&[Need::Since(12, 3)]);
};

const UNTIMED: u32 = sys::cudaEventDisableTiming;
const KERNEL: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeKernel.0;
const MEMCPY: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeMemcpy.0;
const MEMSET: u32 = sys::cudaGraphNodeType::cudaGraphNodeTypeMemset.0;

fn set(c: &Cuda<'_>, memory: &Memory<'_>, value: i32, stream: &Stream<'_>) -> Verdict {
    c.ok(
        "cudaMemsetAsync",
        c.set_async(memory, value, memory.bytes(), stream),
    )
}

fn copy(c: &Cuda<'_>, to: &Memory<'_>, from: &Memory<'_>, stream: &Stream<'_>) -> Verdict {
    c.ok(
        "cudaMemcpyAsync",
        c.copy_async(to, from, kind::DEFAULT, stream),
    )
}

/// Launches a graph and waits for it.
fn run(c: &Cuda<'_>, exec: &Exec<'_>) -> Verdict {
    let stream = c.stream()?;
    c.succeeds("cudaGraphLaunch", exec.launch(&stream)?)?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())
}

/// The node of a type.
fn node(c: &Cuda<'_>, nodes: &[usize], kind: u32) -> Result<usize, Failure> {
    for node in nodes {
        if c.node_type(*node)? == kind {
            return Ok(*node);
        }
    }
    fail(format!("no node of type {kind}"))
}

fn launch(c: &Cuda<'_>) -> Verdict {
    let (memory, other) = (c.device_memory(64 * KIB)?, c.device_memory(64 * KIB)?);
    let out = c.pinned(64 * KIB, 0)?;
    let exec = c.captured(|stream| {
        set(c, &memory, 0, stream)?;
        c.add(&memory, 3, stream)?;
        copy(c, &other, &memory, stream)?;
        c.add(&other, 4, stream)?;
        copy(c, &out, &other, stream)
    })?;
    for _ in 0..3 {
        out.fill_all(0);
        run(c, &exec)?;
        c.is("the result", out.value_all()?, 7)?;
    }
    Ok(())
}

fn node_types(c: &Cuda<'_>) -> Verdict {
    let (memory, other) = (c.device_memory(4 * KIB)?, c.device_memory(4 * KIB)?);
    let (event, calls) = (c.event(UNTIMED)?, Arc::new(AtomicU32::new(0)));
    let graph = c.graph_of(|stream| {
        set(c, &memory, 0, stream)?;
        c.add(&memory, 3, stream)?;
        copy(c, &other, &memory, stream)?;
        c.ok("cudaLaunchHostFunc", c.count_in_graph(&calls, stream))?;
        c.ok("cudaStreamWaitEvent", stream.wait_external(&event))?;
        c.ok("cudaEventRecordWithFlags", event.record_external(stream)?)
    })?;
    let mut types = Vec::new();
    for node in graph.nodes()? {
        types.push(c.node_type(node)?);
    }
    types.sort_unstable();
    c.is("types", types, vec![KERNEL, MEMCPY, MEMSET, 3, 6, 7])
}

fn after_the_stream(c: &Cuda<'_>) -> Verdict {
    let (memory, out, stream) = (
        c.device_memory(64 * KIB)?,
        c.pinned(64 * KIB, 0)?,
        c.stream()?,
    );
    let exec = c.captured(|stream| c.add(&memory, 1, stream))?;
    let gate = c.gate(&stream)?;
    set(c, &memory, 0, &stream)?;
    c.succeeds("cudaGraphLaunch", exec.launch(&stream)?)?;
    c.add(&memory, 2, &stream)?;
    copy(c, &out, &memory, &stream)?;
    c.gives("it waits", stream.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("the result", out.value_all()?, 3)
}

fn one_launch_at_a_time(c: &Cuda<'_>) -> Verdict {
    let (memory, out) = (c.device_memory(64 * KIB)?, c.pinned(64 * KIB, 0)?);
    let (first, second) = (c.stream()?, c.stream()?);
    c.ok("cudaMemset", c.set(&memory, 0, memory.bytes()))?;
    c.ok("cudaDeviceSynchronize", c.synchronize())?;
    let exec = c.captured(|stream| c.add(&memory, 1, stream))?;
    let gate = c.gate(&first)?;
    c.succeeds("cudaGraphLaunch", exec.launch(&first)?)?;
    c.succeeds("cudaGraphLaunch", exec.launch(&second)?)?;
    copy(c, &out, &memory, &second)?;
    c.gives("the second stream", second.query(), Code::NOT_READY)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("both launches", out.value_all()?, 2)
}

fn two_instances(c: &Cuda<'_>) -> Verdict {
    let memory = c.pinned(4 * KIB, 0)?;
    let (first, second) = (c.stream()?, c.stream()?);
    memory.fill_all(0);
    let graph = c.graph_of(|stream| c.add(&memory, 1, stream))?;
    let execs = [graph.instantiate()?, graph.instantiate()?];
    c.succeeds("cudaGraphDestroy", graph.destroy()?)?;
    let gate = c.gate(&first)?;
    c.succeeds("cudaGraphLaunch", execs[0].launch(&first)?)?;
    c.succeeds("cudaGraphLaunch", execs[1].launch(&second)?)?;
    c.succeeds("cudaStreamSynchronize", second.synchronize())?;
    c.is("one launch", memory.value_all()?, 1)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", first.synchronize())?;
    c.is("both launches", memory.value_all()?, 2)
}

fn destroyed_while_it_runs(c: &Cuda<'_>) -> Verdict {
    let (memory, stream) = (c.pinned(4 * KIB, 0)?, c.stream()?);
    memory.fill_all(0);
    let exec = c.captured(|stream| {
        c.add(&memory, 1, stream)?;
        c.add(&memory, 2, stream)
    })?;
    let gate = c.gate(&stream)?;
    c.succeeds("cudaGraphLaunch", exec.launch(&stream)?)?;
    c.succeeds("cudaGraphExecDestroy", exec.destroy()?)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("the result", memory.value_all()?, 3)
}

fn fork(c: &Cuda<'_>) -> Verdict {
    let (memory, out, other) = (
        c.device_memory(64 * KIB)?,
        c.pinned(64 * KIB, 0)?,
        c.stream()?,
    );
    let (forked, joined) = (c.event(UNTIMED)?, c.event(UNTIMED)?);
    let half = memory.len() / 2;
    let exec = c.captured(|stream| {
        set(c, &memory, 0, stream)?;
        c.ok("cudaEventRecord", forked.record(stream))?;
        c.ok("cudaStreamWaitEvent", other.wait(&forked))?;
        let first = c.add_range(&memory, 0, half, 5, stream)?;
        c.ok("cuLaunchKernel", first)?;
        let second = c.add_range(&memory, half, half, 5, &other)?;
        c.ok("cuLaunchKernel", second)?;
        c.ok("cudaEventRecord", joined.record(&other))?;
        c.ok("cudaStreamWaitEvent", stream.wait(&joined))?;
        copy(c, &out, &memory, stream)
    })?;
    run(c, &exec)?;
    c.is("the result", out.value_all()?, 5)
}

fn host_function(c: &Cuda<'_>) -> Verdict {
    let calls = Arc::new(AtomicU32::new(0));
    let exec = c.captured(|stream| c.ok("cudaLaunchHostFunc", c.count_in_graph(&calls, stream)))?;
    c.is("before", calls.load(Ordering::SeqCst), 0)?;
    for turn in 1..=3 {
        run(c, &exec)?;
        c.is("calls", calls.load(Ordering::SeqCst), turn)?;
    }
    Ok(())
}

fn managed(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(MIB)?;
    let exec = c.captured(|stream| c.add(&memory, 1, stream))?;
    for value in [10, 20, 30] {
        memory.fill_all(value);
        run(c, &exec)?;
        c.is("the result", memory.value_all()?, value + 1)?;
    }
    Ok(())
}

fn memory(c: &Cuda<'_>) -> Verdict {
    let out = c.pinned(64 * KIB, 0)?;
    let exec = c.captured(|stream| {
        let memory = c.malloc_async(64 * KIB, stream)?;
        set(c, &memory, 0, stream)?;
        c.add(&memory, 6, stream)?;
        copy(c, &out, &memory, stream)?;
        c.ok("cudaFreeAsync", memory.free_on(stream))
    })?;
    for _ in 0..2 {
        out.fill_all(0);
        run(c, &exec)?;
        c.is("the result", out.value_all()?, 6)?;
    }
    Ok(())
}

fn update(c: &Cuda<'_>) -> Verdict {
    let (first, second) = (c.pinned(4 * KIB, 0)?, c.pinned(4 * KIB, 0)?);
    first.fill_all(0);
    second.fill_all(0);
    let exec = c.captured(|stream| c.add(&first, 1, stream))?;
    let other = c.graph_of(|stream| c.add(&second, 2, stream))?;
    let (code, result, _) = exec.update(&other)?;
    c.succeeds("cudaGraphExecUpdate", code)?;
    c.is("the result", result, 0)?;
    run(c, &exec)?;
    c.is("memory", (first.value_all()?, second.value_all()?), (0, 2))
}

fn kernel_parameters(c: &Cuda<'_>) -> Verdict {
    let (first, second, stream) = (c.pinned(4 * KIB, 0)?, c.pinned(4 * KIB, 0)?, c.stream()?);
    first.fill_all(0);
    second.fill_all(0);
    let graph = c.graph_of(|stream| c.add(&first, 1, stream))?;
    let (exec, kernel) = (graph.instantiate()?, node(c, &graph.nodes()?, KERNEL)?);
    let gate = c.gate(&stream)?;
    c.succeeds("cudaGraphLaunch", exec.launch(&stream)?)?;
    c.succeeds(
        "cuGraphExecKernelNodeSetParams",
        exec.set_add(kernel, &second, 5)?,
    )?;
    c.succeeds("cudaGraphLaunch", exec.launch(&stream)?)?;
    gate.open()?;
    c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
    c.is("memory", (first.value_all()?, second.value_all()?), (1, 5))
}

fn external_events(c: &Cuda<'_>) -> Verdict {
    let (memory, before, after) = (c.pinned(4 * KIB, 0)?, c.event(UNTIMED)?, c.event(UNTIMED)?);
    let (first, stream, last) = (c.stream()?, c.stream()?, c.stream()?);
    memory.fill_all(0);
    let exec = c.captured(|stream| {
        c.ok("cudaStreamWaitEvent", stream.wait_external(&before))?;
        c.add(&memory, 1, stream)?;
        c.ok("cudaEventRecordWithFlags", after.record_external(stream)?)
    })?;
    for turn in 1..=2 {
        let gate = c.gate(&first)?;
        c.ok("cudaEventRecord", before.record(&first))?;
        c.succeeds("cudaGraphLaunch", exec.launch(&stream)?)?;
        c.gives("it waits", stream.query(), Code::NOT_READY)?;
        c.gives("the event", after.query(), Code::NOT_READY)?;
        c.ok("cudaStreamWaitEvent", last.wait(&after))?;
        c.add(&memory, 4, &last)?;
        c.gives("a stream that waits", last.query(), Code::NOT_READY)?;
        gate.open()?;
        c.succeeds("cudaStreamSynchronize", last.synchronize())?;
        c.is("the result", memory.value_all()?, turn * 5)?;
    }
    Ok(())
}

fn update_that_fails(c: &Cuda<'_>) -> Verdict {
    use sys::cudaGraphExecUpdateResult as Reason;
    let memory = c.pinned(4 * KIB, 0)?;
    memory.fill_all(0);
    let exec = c.captured(|stream| c.add(&memory, 1, stream))?;
    let longer = c.graph_of(|stream| {
        c.add(&memory, 1, stream)?;
        c.add(&memory, 1, stream)
    })?;
    let (code, reason, node) = exec.update(&longer)?;
    c.gives("another number of nodes", code, Code::UPDATE_FAILURE)?;
    let changed = Reason::cudaGraphExecUpdateErrorTopologyChanged.0;
    c.is("the reason", reason, changed)?;
    c.holds("no node", node == 0)?;
    let other = c.graph_of(|stream| set(c, &memory, 0, stream))?;
    let (code, reason, node) = exec.update(&other)?;
    c.gives("another type", code, Code::UPDATE_FAILURE)?;
    let changed = Reason::cudaGraphExecUpdateErrorNodeTypeChanged.0;
    c.is("the reason", reason, changed)?;
    c.holds("the node", [node] == other.nodes()?[..])?;
    run(c, &exec)?;
    c.is("memory", memory.value_all()?, 1)
}

fn parameters(c: &Cuda<'_>) -> Verdict {
    let (first, second) = (c.device_memory(4 * KIB)?, c.device_memory(4 * KIB)?);
    let (from, out) = (c.device_memory(4 * KIB)?, c.pinned(4 * KIB, 0)?);
    let graph = c.graph_of(|stream| {
        set(c, &from, 0, stream)?;
        copy(c, &first, &from, stream)
    })?;
    let (exec, nodes) = (graph.instantiate()?, graph.nodes()?);
    let (memset, memcpy) = (node(c, &nodes, MEMSET)?, node(c, &nodes, MEMCPY)?);
    let changed = exec.set_memset(memset, &first, 1)?;
    c.succeeds("cudaGraphExecMemsetNodeSetParams", changed)?;
    let changed = exec.set_memcpy(memcpy, &second, &first, kind::DEFAULT)?;
    c.succeeds("cudaGraphExecMemcpyNodeSetParams1D", changed)?;
    run(c, &exec)?;
    c.ok("cudaMemcpy", c.copy(&out, &second, kind::DEFAULT))?;
    c.is("memory", out.value_all()?, 0x0101_0101)?;
    let wrong = exec.set_memcpy(memset, &second, &first, kind::DEFAULT)?;
    c.refuses("of a memset", wrong)
}

fn conditions(c: &Cuda<'_>) -> Verdict {
    let (rounds, once) = (c.device_memory(4 * KIB)?, c.device_memory(4 * KIB)?);
    let (memory, out) = (c.device_memory(4 * KIB)?, c.pinned(4 * KIB, 0)?);
    let exec = c.captured(|stream| {
        let goes_on = stream.condition()?;
        c.set_condition(&rounds, goes_on, stream)?;
        stream.body(goes_on, true, |stream| {
            c.add(&memory, 10, stream)?;
            let is_once = stream.condition()?;
            c.set_condition(&once, is_once, stream)?;
            stream.body(is_once, false, |stream| c.add(&memory, 1, stream))?;
            c.add(&rounds, 1, stream)?;
            c.set_condition(&rounds, goes_on, stream)
        })?;
        copy(c, &out, &memory, stream)
    })?;
    let stream = c.stream()?;
    // A value of bytes of 255 is 0 after one round.
    for (byte, is_once, expected) in [(0, 0, 0), (255, 0, 10), (255, 1, 11)] {
        set(c, &memory, 0, &stream)?;
        set(c, &rounds, byte, &stream)?;
        set(c, &once, is_once, &stream)?;
        c.succeeds("cudaStreamSynchronize", stream.synchronize())?;
        run(c, &exec)?;
        c.is("the result", out.value_all()?, expected)?;
    }
    Ok(())
}
