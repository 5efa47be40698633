//! The nodes and the edges that a graph has.

use std::sync::Arc;

use super::guard::{Outcome, entry_points, with_state};
use super::pointer::{Array, Out, Text};
use crate::engine::{Code, Core};

/// Writes a list: without an array its length, otherwise as much as there is room for. Places beyond its end are null.
fn list(found: &[usize], nodes: Out<usize>, count: Out<usize>) -> Outcome {
    if nodes.is_null() {
        return count.put(found.len());
    }
    let room = count.get()?;
    let mut padded = found.iter().copied().chain(std::iter::repeat(0));
    (0..room).try_for_each(|index| nodes.put_at(index, padded.next().unwrap_or(0)))?;
    count.put(room.min(found.len()))
}

/// Writes edges in the same way. No edge has data.
fn edges(
    (first, second): (Out<usize>, Out<usize>),
    data: Out<u64>,
    count: Out<usize>,
    found: &[(usize, usize)],
) -> Outcome {
    let (from, to): (Vec<_>, Vec<_>) = found.iter().copied().unzip();
    if !first.is_null() && !data.is_null() {
        (0..count.get()?).try_for_each(|index| data.put_at(index, 0))?;
    }
    let room = if first.is_null() { 0 } else { count.get()? };
    list(&from, first, count)?;
    if first.is_null() || second.is_null() {
        return Ok(());
    }
    count.put(room)?;
    list(&to, second, count)
}

fn connect(
    core: &Arc<Core>,
    graph: usize,
    (from, to, count): (Array<usize>, Array<usize>, usize),
    adds: bool,
) -> Outcome {
    let edges = from.to_vec(count)?.into_iter().zip(to.to_vec(count)?);
    let edges: Vec<_> = edges.collect();
    core.state.lock().graphs.connect(graph, &edges, adds)
}

entry_points! { Runtime;
    fn cudaGraphGetNodes(core, graph: usize, nodes: Out<usize>, count: Out<usize>) = cuGraphGetNodes {
        let found = core.state.lock().graphs.nodes(graph)?;
        list(&found, nodes, count)
    }

    fn cudaGraphGetRootNodes(core, graph: usize, nodes: Out<usize>, count: Out<usize>) = cuGraphGetRootNodes {
        let graphs = &core.state.lock().graphs;
        let is_root = |node: &usize| graphs.dependencies(*node).is_ok_and(|before| before.is_empty());
        let found: Vec<_> = graphs.nodes(graph)?.into_iter().filter(is_root).collect();
        list(&found, nodes, count)
    }

    fn cudaGraphNodeGetType(core, node: usize, kind: Out<u32>) = cuGraphNodeGetType { kind.put(core.state.lock().graphs.kind_of(node)?) }

    fn cudaGraphGetEdges_v2(
        core, graph: usize, from: Out<usize>, to: Out<usize>, data: Out<u64>, count: Out<usize>,
    ) as "cudaGraphGetEdges" = cuGraphGetEdges_v2 {
        let found = core.state.lock().graphs.edges(graph)?;
        edges((from, to), data, count, &found)
    }

    fn cudaGraphNodeGetDependencies_v2(
        core, node: usize, nodes: Out<usize>, data: Out<u64>, count: Out<usize>,
    ) as "cudaGraphNodeGetDependencies" = cuGraphNodeGetDependencies_v2 {
        let found = core.state.lock().graphs.dependencies(node)?;
        edges((nodes, nodes), data, count, &found.into_iter().map(|before| (before, before)).collect::<Vec<_>>())
    }

    fn cudaGraphNodeGetDependentNodes_v2(
        core, node: usize, nodes: Out<usize>, data: Out<u64>, count: Out<usize>,
    ) as "cudaGraphNodeGetDependentNodes" = cuGraphNodeGetDependentNodes_v2 {
        let graphs = &core.state.lock().graphs;
        let all = graphs.edges(graphs.graph_of(node)?)?.into_iter();
        let found = all.filter(|(from, _)| *from == node).map(|(_, to)| (to, to));
        edges((nodes, nodes), data, count, &found.collect::<Vec<_>>())
    }

    fn cudaGraphAddDependencies_v2(
        core, graph: usize, from: Array<usize>, to: Array<usize>, _data: Out<u64>, count: usize,
    ) as "cudaGraphAddDependencies" = cuGraphAddDependencies_v2 {
        connect(core, graph, (from, to, count), true)
    }

    fn cudaGraphRemoveDependencies_v2(
        core, graph: usize, from: Array<usize>, to: Array<usize>, _data: Out<u64>, count: usize,
    ) as "cudaGraphRemoveDependencies" = cuGraphRemoveDependencies_v2 {
        connect(core, graph, (from, to, count), false)
    }

    // Before CUDA 13 the plain names have no data of edges.
    fn cudaGraphGetEdges(core, graph: usize, from: Out<usize>, to: Out<usize>, count: Out<usize>) = cuGraphGetEdges {
        bodies::cudaGraphGetEdges_v2(core, graph, from, to, Out::NULL, count)
    }

    fn cudaGraphNodeGetDependencies(core, node: usize, nodes: Out<usize>, count: Out<usize>) = cuGraphNodeGetDependencies {
        bodies::cudaGraphNodeGetDependencies_v2(core, node, nodes, Out::NULL, count)
    }

    fn cudaGraphNodeGetDependentNodes(core, node: usize, nodes: Out<usize>, count: Out<usize>) = cuGraphNodeGetDependentNodes {
        bodies::cudaGraphNodeGetDependentNodes_v2(core, node, nodes, Out::NULL, count)
    }

    fn cudaGraphAddDependencies(core, graph: usize, from: Array<usize>, to: Array<usize>, count: usize) = cuGraphAddDependencies {
        connect(core, graph, (from, to, count), true)
    }

    fn cudaGraphRemoveDependencies(core, graph: usize, from: Array<usize>, to: Array<usize>, count: usize) = cuGraphRemoveDependencies {
        connect(core, graph, (from, to, count), false)
    }

    fn cudaGraphDestroyNode(core, node: usize) = cuGraphDestroyNode { core.state.lock().destroy_node(node) }

    fn cudaGraphClone(core, copy: Out<usize>, graph: usize) = cuGraphClone { copy.put(core.state.lock().graphs.copy_graph(graph)?) }

    fn cudaGraphNodeFindInClone(core, found: Out<usize>, node: usize, copy: usize) = cuGraphNodeFindInClone { found.put(core.state.lock().graphs.find_in_copy(node, copy)?) }

    // The nodes and the edges, without their parameters.
    fn cudaGraphDebugDotPrint(core, graph: usize, path: Text, _flags: u32) = cuGraphDebugDotPrint {
        let (nodes, edges) = with_state(core, |state, _| Ok((state.graphs.nodes(graph)?, state.graphs.edges(graph)?)))?;
        let nodes = nodes.into_iter().map(|node| format!("  \"{node:#x}\";\n"));
        let edges = edges.into_iter().map(|(from, to)| format!("  \"{from:#x}\" -> \"{to:#x}\";\n"));
        let text = format!("digraph dot {{\n{}}}\n", nodes.chain(edges).collect::<String>());
        std::fs::write(path.path()?, text).map_err(|_| Code::INVALID_VALUE)
    }
}
