//! Conditions: nodes with a body, which runs if, or as long as, a value that kernels set is not 0.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use super::super::core::Core;
use super::super::operation::{Operation, Pricing};
use super::super::state::State;
use super::super::status::Code;
use super::super::stream::Stream;
use super::capture::Capture;
use super::mode::CaptureMode;
use super::{Graphs, Node};

/// What a `cudaGraphConditionalHandle` names.
pub(super) struct Condition {
    /// The graph that it was made for.
    graph: usize,
    value: AtomicU32,
    has_node: AtomicBool,
}

/// A node with a condition.
#[derive(Clone)]
pub(in crate::engine) struct Conditional {
    condition: Arc<Condition>,
    /// `while`, not `if`.
    repeats: bool,
    /// The graph of the body: an array that programs get the address of.
    body: Arc<[usize; 1]>,
    /// The nodes of the body, in an executable graph.
    nodes: Arc<[Node]>,
}

impl Conditional {
    /// Runs the body on a stream of a device; returns its end. The nodes run one after the other.
    pub(in crate::engine) fn run(
        &self,
        core: &Arc<Core>,
        stream: usize,
        pricing: &Pricing,
        start: Duration,
    ) -> Duration {
        let mut end = start;
        // A kernel that has faulted sets no condition.
        while self.condition.value.load(Ordering::Relaxed) != 0 && core.context.poison().is_none() {
            for node in &*self.nodes {
                let place = (node.device, stream);
                let operation = node.operation.clone();
                let work = core.state.lock().work_of(core, place, operation, pricing);
                end = work(end);
            }
            if !self.repeats {
                break;
            }
        }
        end
    }
}

impl Graphs {
    /// Makes the handle of a condition for a graph. A value that each launch sets is not simulated.
    pub(crate) fn create_condition(&mut self, graph: usize, flags: u32) -> Result<u64, Code> {
        self.nodes_of(graph)?;
        if flags != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let handle = self.handles.fresh() as u64;
        let condition = Condition {
            graph,
            value: AtomicU32::new(0),
            has_node: AtomicBool::new(false),
        };
        self.conditions.insert(handle, Arc::new(condition));
        Ok(handle)
    }

    /// A kernel sets the value of a condition. Returns false if there is none.
    pub(in crate::engine) fn set_condition(&self, handle: u64, value: u32) -> bool {
        let found = self.conditions.get(&handle);
        found
            .map(|condition| condition.value.store(value, Ordering::Relaxed))
            .is_some()
    }

    /// Adds a node with a condition; returns the node, and the address of the array with the graph of its body.
    pub(crate) fn add_condition(
        &mut self,
        (graph, device): (usize, usize),
        after: Vec<usize>,
        handle: u64,
        repeats: bool,
    ) -> Result<(usize, usize), Code> {
        let before = self.nodes(graph)?;
        let condition = self
            .conditions
            .get(&handle)
            .ok_or(Code::INVALID_VALUE)?
            .clone();
        let is_new = condition.graph == graph && !condition.has_node.swap(true, Ordering::Relaxed);
        if !is_new || !after.iter().all(|node| before.contains(node)) {
            return Err(Code::INVALID_VALUE);
        }
        let (handle, body) = (self.handles.fresh(), Arc::new([self.handles.fresh()]));
        self.graphs.insert(body[0], Vec::new());
        let address = body.as_ptr() as usize;
        let conditional = Conditional {
            condition,
            repeats,
            body,
            nodes: Arc::new([]),
        };
        let captured = self.captures.iter_mut().find(|it| it.graph == graph);
        let nodes = captured.map(|capture| &mut capture.nodes);
        let nodes = nodes.or_else(|| self.graphs.get_mut(&graph));
        nodes.ok_or(Code::INVALID_VALUE)?.push(Node {
            handle,
            device,
            operation: Operation::Conditional(conditional),
            after,
        });
        Ok((handle, address))
    }

    /// Begins to capture a stream into the body of a condition, which is empty.
    pub(crate) fn begin_to(
        &mut self,
        stream: &Stream,
        graph: usize,
        mode: CaptureMode,
    ) -> Result<(), Code> {
        let is_captured = self.captures.iter().any(|it| it.graph == graph);
        if is_captured || !self.nodes_of(graph)?.is_empty() {
            return Err(Code::NOT_SUPPORTED);
        }
        self.begin(stream, mode)?;
        if let Some(capture) = self.captures.last_mut() {
            capture.graph = graph;
        }
        Ok(())
    }

    /// Sets the nodes that the next node of a captured stream comes after.
    pub(crate) fn set_dependencies(
        &mut self,
        stream: &Stream,
        nodes: &[usize],
    ) -> Result<(), Code> {
        let mut captures = self.captures.iter_mut();
        let capture = captures.find(|it| it.has(stream.handle));
        let capture = capture.ok_or(Code::ILLEGAL_STATE)?;
        let known = |node: &usize| capture.nodes.iter().any(|it| it.handle == *node);
        match nodes.iter().all(known) {
            true => capture.come_after(stream, nodes),
            false => return Err(Code::INVALID_VALUE),
        }
        Ok(())
    }

    /// The nodes as an executable graph has them, with those of the bodies.
    pub(super) fn executable(&self, graph: usize) -> Result<Vec<Node>, Code> {
        let mut nodes = self.graphs.get(&graph).ok_or(Code::INVALID_VALUE)?.clone();
        for node in &mut nodes {
            if let Operation::Conditional(conditional) = &mut node.operation {
                let body = self.executable(conditional.body[0])?;
                // Kernels, copies, memsets, and conditions.
                if !body.iter().all(|node| matches!(node.kind(), 0..=2 | 13)) {
                    return Err(Code::NOT_SUPPORTED);
                }
                conditional.nodes = body.into();
            }
        }
        Ok(nodes)
    }

    /// Removes the graphs of the bodies that these nodes have.
    pub(super) fn remove_bodies(&mut self, nodes: &[Node]) {
        for node in nodes {
            if let Operation::Conditional(conditional) = &node.operation
                && let Some(nodes) = self.graphs.remove(&conditional.body[0])
            {
                self.remove_bodies(&nodes);
            }
        }
    }

    /// Removes the conditions that no graph is left for.
    pub(super) fn remove_conditions(&mut self) {
        let (graphs, captures) = (&self.graphs, &self.captures);
        let is_captured = |graph| captures.iter().any(|it: &Capture| it.graph == graph);
        self.conditions.retain(|_, it| {
            let has_graph = graphs.contains_key(&it.graph) || is_captured(it.graph);
            has_graph || Arc::strong_count(it) > 1
        });
    }
}

impl State {
    /// Checks the nodes of the body, if the node has one.
    pub(super) fn check_body(&self, node: &Node) -> Result<(), Code> {
        match &node.operation {
            Operation::Conditional(conditional) => conditional
                .nodes
                .iter()
                .try_for_each(|node| self.check_node(node)),
            _ => Ok(()),
        }
    }
}
