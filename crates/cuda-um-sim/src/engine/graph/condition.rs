//! Conditions: nodes with bodies, of which one runs, once or repeatedly, as a value that kernels set says.

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
use super::update::compare;
use super::{Graphs, Node};

/// What a `cudaGraphConditionalHandle` names.
pub(super) struct Condition {
    /// The graph that it was made for.
    graph: usize,
    value: AtomicU32,
    /// The value at the beginning of each launch.
    default: Option<u32>,
    has_node: AtomicBool,
}

/// A node with a condition.
#[derive(Clone)]
pub(in crate::engine) struct Conditional {
    condition: Arc<Condition>,
    kind: ConditionKind,
    /// The graphs of the bodies: an array that programs get the address of.
    bodies: Arc<[usize]>,
    /// The nodes of the bodies, in an executable graph.
    nodes: Arc<[Vec<Node>]>,
}

/// `cudaGraphConditionalNodeType`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionKind {
    /// The first body if the value is not 0, otherwise the second one.
    If,
    While,
    /// The body with this number.
    Switch,
}

impl Conditional {
    /// The graphs of the bodies.
    pub(super) fn bodies(&self) -> &[usize] {
        &self.bodies
    }

    /// Whether a node of an executable graph can take the bodies of another one.
    pub(super) fn has_bodies_like(&self, other: &Conditional) -> bool {
        let mut bodies = self.nodes.iter().zip(&*other.nodes);
        let alike = self.kind == other.kind && self.nodes.len() == other.nodes.len();
        alike && bodies.all(|(old, new)| compare(old, new).is_ok())
    }

    /// Gives the condition its value at the beginning of a launch, and those in the bodies.
    pub(super) fn reset(&self) {
        if let Some(default) = self.condition.default {
            self.condition.value.store(default, Ordering::Relaxed);
        }
        for node in self.nodes.iter().flatten() {
            if let Operation::Conditional(inner) = &node.operation {
                inner.reset();
            }
        }
    }

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
        while core.context.poison().is_none() {
            let value = self.condition.value.load(Ordering::Relaxed);
            let body = match self.kind {
                ConditionKind::Switch => value as usize,
                ConditionKind::If | ConditionKind::While => usize::from(value == 0),
            };
            let Some(nodes) = self.nodes.get(body) else {
                break;
            };
            for node in nodes {
                let place = (node.device, stream);
                let operation = node.operation.clone();
                let work = core.state.lock().work_of(core, place, operation, pricing);
                end = work(end);
            }
            if self.kind != ConditionKind::While {
                break;
            }
        }
        end
    }
}

impl Graphs {
    /// Makes the handle of a condition for a graph.
    pub(crate) fn create_condition(
        &mut self,
        graph: usize,
        default: Option<u32>,
    ) -> Result<u64, Code> {
        self.nodes_of(graph)?;
        let handle = self.handles.fresh() as u64;
        let condition = Condition {
            graph,
            value: AtomicU32::new(0),
            default,
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

    /// Adds a node with a condition; returns the node, and the address of the array with the graphs of its bodies.
    pub(crate) fn add_condition(
        &mut self,
        place: (usize, usize),
        after: Vec<usize>,
        handle: u64,
        (kind, bodies): (ConditionKind, usize),
    ) -> Result<(usize, usize), Code> {
        self.check_places(place.0, &after)?;
        let condition = self.conditions.get(&handle);
        let condition = condition.ok_or(Code::INVALID_VALUE)?.clone();
        if !self.is_within(place.0, condition.graph)
            || condition.has_node.swap(true, Ordering::Relaxed)
        {
            return Err(Code::INVALID_VALUE);
        }
        let bodies: Arc<[usize]> = (0..bodies).map(|_| self.create()).collect();
        let address = bodies.as_ptr() as usize;
        let conditional = Operation::Conditional(Conditional {
            condition,
            kind,
            bodies,
            nodes: Arc::new([]),
        });
        Ok((self.push(place, after, conditional)?, address))
    }

    /// Whether a graph is another one, or belongs to a node of it.
    fn is_within(&self, graph: usize, outer: usize) -> bool {
        let mut all = self.all();
        let owner = all.find(|(_, nodes)| {
            let mut bodies = nodes.iter().flat_map(|node| node.operation.bodies());
            bodies.any(|body| *body == graph)
        });
        graph == outer || owner.is_some_and(|(owner, _)| self.is_within(owner, outer))
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

    /// Gives a node in an executable graph the nodes of its bodies.
    pub(super) fn fill_bodies(&self, conditional: &mut Conditional) -> Result<(), Code> {
        let bodies = conditional.bodies.iter().map(|body| {
            let body = self.executable(*body)?;
            // Kernels, copies, memsets, graphs, empty ones, and conditions.
            match body
                .iter()
                .all(|node| matches!(node.operation.kind(), 0..=2 | 4 | 5 | 13))
            {
                true => Ok(body),
                false => Err(Code::NOT_SUPPORTED),
            }
        });
        conditional.nodes = bodies.collect::<Result<_, _>>()?;
        Ok(())
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
                .flatten()
                .try_for_each(|node| self.check_node(node)),
            _ => Ok(()),
        }
    }
}
