//! Graphs that programs make node by node.

use std::collections::HashMap;

use super::super::operation::Operation;
use super::super::state::State;
use super::super::status::Code;
use super::super::stream::Stream;
use super::params::NodeParams;
use super::{Graphs, Node};

/// A topological order of nodes: the given one if it is one.
///
/// # Errors
/// An invalid value if there is a circle.
fn sorted(nodes: &[Node]) -> Result<Vec<Node>, Code> {
    let mut places: HashMap<usize, usize> = HashMap::new();
    let (mut ordered, mut rest) = (Vec::new(), nodes.iter().collect::<Vec<_>>());
    while !rest.is_empty() {
        let before = rest.len();
        rest.retain(|node| {
            let ready = node.after.iter().all(|after| places.contains_key(after));
            if ready {
                places.insert(node.handle, ordered.len());
                ordered.push((*node).clone());
            }
            !ready
        });
        if rest.len() == before {
            return Err(Code::INVALID_VALUE);
        }
    }
    Ok(ordered)
}

impl Graphs {
    pub(crate) fn create(&mut self) -> usize {
        let graph = self.handles.fresh();
        self.graphs.insert(graph, Vec::new());
        graph
    }

    /// All graphs, also those that are being captured.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &Vec<Node>)> {
        let captured = self.captures.iter().map(|it| (it.graph, &it.nodes));
        captured.chain(self.graphs.iter().map(|(graph, nodes)| (*graph, nodes)))
    }

    fn nodes_mut(&mut self, graph: usize) -> Result<&mut Vec<Node>, Code> {
        let captured = self.captures.iter_mut().find(|it| it.graph == graph);
        let nodes = captured.map(|capture| &mut capture.nodes);
        let nodes = nodes.or_else(|| self.graphs.get_mut(&graph));
        nodes.ok_or(Code::INVALID_VALUE)
    }

    /// The graph of a node.
    pub(crate) fn graph_of(&self, node: usize) -> Result<usize, Code> {
        let is_it = |nodes: &Vec<Node>| nodes.iter().any(|it| it.handle == node);
        let found = self.all().find(|(_, nodes)| is_it(nodes));
        found.map(|(graph, _)| graph).ok_or(Code::INVALID_VALUE)
    }

    pub(super) fn node(&self, node: usize) -> Result<&Node, Code> {
        let mut nodes = self.all().flat_map(|(_, nodes)| nodes);
        let found = nodes.find(|it| it.handle == node);
        found.ok_or(Code::INVALID_VALUE)
    }

    fn node_mut(&mut self, node: usize) -> Result<&mut Node, Code> {
        let graph = self.graph_of(node)?;
        let mut nodes = self.nodes_mut(graph)?.iter_mut();
        let found = nodes.find(|it| it.handle == node);
        found.ok_or(Code::INVALID_VALUE)
    }

    /// Adds a node with its operation, after other nodes of the graph, which were checked.
    pub(super) fn push(
        &mut self,
        (graph, device): (usize, usize),
        after: Vec<usize>,
        operation: Operation,
    ) -> Result<usize, Code> {
        let handle = self.handles.fresh();
        self.nodes_mut(graph)?.push(Node {
            handle,
            origin: 0,
            device: operation.device().unwrap_or(device),
            operation,
            after,
        });
        Ok(handle)
    }

    /// Checks that these are nodes of the graph, each once.
    pub(super) fn check_places(&self, graph: usize, nodes: &[usize]) -> Result<(), Code> {
        let known = self.nodes(graph)?;
        let is_new = |at: usize, node: &usize| !nodes[..at].contains(node);
        let mut given = nodes.iter().enumerate();
        match given.all(|(at, node)| known.contains(node) && is_new(at, node)) {
            true => Ok(()),
            false => Err(Code::INVALID_VALUE),
        }
    }

    /// The nodes that come directly before a node.
    pub(crate) fn dependencies(&self, node: usize) -> Result<Vec<usize>, Code> {
        Ok(self.node(node)?.after.clone())
    }

    /// The edges of a graph.
    pub(crate) fn edges(&self, graph: usize) -> Result<Vec<(usize, usize)>, Code> {
        let edges = self.nodes_of(graph)?.iter();
        let edges = edges.flat_map(|node| node.after.iter().map(|after| (*after, node.handle)));
        Ok(edges.collect())
    }

    /// Adds or removes edges.
    pub(crate) fn connect(
        &mut self,
        graph: usize,
        edges: &[(usize, usize)],
        adds: bool,
    ) -> Result<(), Code> {
        let old = self.edges(graph)?;
        for (at, edge) in edges.iter().enumerate() {
            self.check_places(graph, &[edge.0, edge.1])?;
            if old.contains(edge) == adds || edges[..at].contains(edge) {
                return Err(Code::INVALID_VALUE);
            }
        }
        for (from, to) in edges {
            let after = &mut self.node_mut(*to)?.after;
            match adds {
                true => after.push(*from),
                false => after.retain(|it| it != from),
            }
        }
        Ok(())
    }

    /// The node of a copied graph that a node of the original became.
    pub(crate) fn find_in_copy(&self, node: usize, copy: usize) -> Result<usize, Code> {
        let mut nodes = self.nodes_of(copy)?.iter();
        let found = nodes.find(|it| it.origin == node);
        found.map(|node| node.handle).ok_or(Code::INVALID_VALUE)
    }

    /// Copies a graph, with those that it has as nodes. One with memory of its own, or with conditions, cannot be copied.
    pub(crate) fn copy_graph(&mut self, graph: usize) -> Result<usize, Code> {
        let mut nodes = sorted(self.nodes_of(graph)?)?;
        if nodes
            .iter()
            .any(|node| matches!(node.operation.kind(), 10 | 11 | 13))
        {
            return Err(Code::NOT_SUPPORTED);
        }
        let mut copies = HashMap::new();
        for node in &mut nodes {
            node.origin = node.handle;
            node.handle = self.handles.fresh();
            copies.insert(node.origin, node.handle);
            node.after
                .iter_mut()
                .for_each(|after| *after = copies[after]);
            if let Operation::Child([child]) = &mut node.operation {
                *child = self.copy_graph(*child)?;
            }
        }
        let copy = self.create();
        self.graphs.insert(copy, nodes);
        self.objects.share(graph, copy);
        Ok(copy)
    }

    /// The nodes as an executable graph has them, with those of the bodies. The nodes of a child come before it.
    pub(super) fn executable(&self, graph: usize) -> Result<Vec<Node>, Code> {
        let nodes = self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?;
        let mut all = Vec::new();
        for mut node in sorted(nodes)? {
            match &mut node.operation {
                Operation::Conditional(conditional) => self.fill_bodies(conditional)?,
                Operation::Child([child]) => {
                    let inner = self.executable(*child)?;
                    let before = std::mem::take(&mut node.after);
                    node.after = inner.iter().map(|node| node.handle).collect();
                    if inner.is_empty() {
                        node.after.clone_from(&before);
                    }
                    all.extend(inner.into_iter().map(|mut node| {
                        if node.after.is_empty() {
                            node.after.clone_from(&before);
                        }
                        node
                    }));
                }
                _ => {}
            }
            all.push(node);
        }
        Ok(all)
    }

    /// Removes the arrays and the graphs that belong to these nodes.
    pub(super) fn remove_bodies(&mut self, nodes: &[Node]) {
        for node in nodes {
            self.kept.remove(&node.handle);
            for body in node.operation.bodies() {
                self.objects.end(*body, None);
                if let Some(nodes) = self.graphs.remove(body) {
                    self.remove_bodies(&nodes);
                }
            }
        }
    }
}

impl Operation {
    /// The graphs that belong to the node.
    pub(super) fn bodies(&self) -> &[usize] {
        match self {
            Operation::Conditional(conditional) => conditional.bodies(),
            Operation::Child(child) => child,
            _ => &[],
        }
    }
}

impl State {
    /// Adds a node.
    pub(crate) fn add_to_graph(
        &mut self,
        place: (usize, usize),
        after: Vec<usize>,
        params: NodeParams,
    ) -> Result<usize, Code> {
        self.graphs.check_places(place.0, &after)?;
        let operation = self.operation(params)?;
        self.graphs.push(place, after, operation)
    }

    /// Captures a node.
    pub(crate) fn capture_params(
        &mut self,
        stream: &Stream,
        params: NodeParams,
    ) -> Result<(), Code> {
        let operation = self.operation(params)?;
        self.graphs.add_node(stream, operation);
        Ok(())
    }

    /// Gives a node of a graph other parameters.
    pub(crate) fn set_in_graph(&mut self, node: usize, params: NodeParams) -> Result<(), Code> {
        let kind = self.graphs.node(node)?.operation.kind();
        // The others belong to their graph.
        if !matches!(kind, 0..=3 | 5..=7) {
            return Err(Code::NOT_SUPPORTED);
        }
        let operation = self.changed(params)?;
        if operation.kind() != kind {
            return Err(Code::INVALID_VALUE);
        }
        self.graphs.node_mut(node)?.operation = operation;
        Ok(())
    }

    /// Removes a node with its edges.
    pub(crate) fn destroy_node(&mut self, node: usize) -> Result<(), Code> {
        let graph = self.graphs.graph_of(node)?;
        // Memory of a graph belongs to it until its end.
        if matches!(self.graphs.kind_of(node)?, 10 | 11) {
            return Err(Code::NOT_SUPPORTED);
        }
        let nodes = self.graphs.nodes_mut(graph)?;
        let removed: Vec<_> = nodes.extract_if(.., |it| it.handle == node).collect();
        for other in nodes {
            other.after.retain(|it| *it != node);
        }
        self.graphs.remove_bodies(&removed);
        Ok(())
    }
}
