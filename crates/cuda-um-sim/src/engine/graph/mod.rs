//! Graphs: stream capture, the graphs that it makes, and their executable form.

mod capture;
mod condition;
mod exec;
mod mode;
mod set;
mod update;

use std::collections::HashMap;
use std::sync::Arc;

use super::handle::Handles;
use super::operation::Operation;
use super::state::State;
use super::status::Code;
use super::stream::Stream;
use capture::Capture;
use condition::Condition;
use exec::Exec;

pub(crate) use capture::CaptureInfo;
pub(in crate::engine) use condition::Conditional;
pub(crate) use mode::CaptureMode;
pub(crate) use update::UpdateFailure;

/// A node of a graph.
#[derive(Clone)]
struct Node {
    handle: usize,
    device: usize,
    operation: Operation,
    /// The nodes that it comes after; all of them are earlier in the list.
    after: Vec<usize>,
}

impl Node {
    /// `cudaGraphNodeType`.
    fn kind(&self) -> u32 {
        match self.operation {
            Operation::Kernel(_) => 0,
            Operation::Copy(_) => 1,
            Operation::Set(_) => 2,
            Operation::Host(_) => 3,
            Operation::Wait(_) => 6,
            Operation::Record(_) => 7,
            Operation::Allocate(_) => 10,
            Operation::Free => 11,
            Operation::Write(_) => 12,
            Operation::Conditional(_) => 13,
        }
    }
}

/// Memory that a graph allocates: it exists from the capture until the graph and its executable forms are destroyed and have run.
pub(crate) struct GraphMemory {
    base: usize,
    bytes: usize,
}

/// All captures and graphs of one simulator.
pub(crate) struct Graphs {
    handles: Handles,
    captures: Vec<Capture>,
    graphs: HashMap<usize, Vec<Node>>,
    execs: HashMap<usize, Exec>,
    memory: Vec<Arc<GraphMemory>>,
    conditions: HashMap<u64, Arc<Condition>>,
}

impl Graphs {
    pub(crate) fn new(handles: Handles) -> Graphs {
        Graphs {
            handles,
            captures: Vec::new(),
            graphs: HashMap::new(),
            execs: HashMap::new(),
            memory: Vec::new(),
            conditions: HashMap::new(),
        }
    }

    /// The numbers of graphs and of executable graphs that were made and not destroyed. The body of a condition belongs to its node.
    pub(crate) fn len(&self) -> (usize, usize) {
        let captured = self.captures.iter().map(|capture| &capture.nodes);
        let all = captured.chain(self.graphs.values()).flatten();
        let bodies = all.filter(|node| node.kind() == 13).count();
        (self.graphs.len().saturating_sub(bodies), self.execs.len())
    }

    pub(crate) fn clear(&mut self) {
        *self = Graphs::new(self.handles.clone());
    }

    /// The nodes of a graph, also of one that is being captured.
    fn nodes_of(&self, graph: usize) -> Result<&[Node], Code> {
        let capture = self.captures.iter().find(|it| it.graph == graph);
        let nodes = capture.map(|capture| &capture.nodes);
        let nodes = nodes.or_else(|| self.graphs.get(&graph));
        nodes.map(Vec::as_slice).ok_or(Code::INVALID_VALUE)
    }

    /// The handles of a graph's nodes.
    pub(crate) fn nodes(&self, graph: usize) -> Result<Vec<usize>, Code> {
        let nodes = self.nodes_of(graph)?.iter();
        Ok(nodes.map(|node| node.handle).collect())
    }

    /// `cudaGraphNodeType` of a node of any graph.
    pub(crate) fn kind_of(&self, node: usize) -> Result<u32, Code> {
        let captured = self.captures.iter().map(|capture| &capture.nodes);
        let mut all = captured.chain(self.graphs.values()).flatten();
        let found = all.find(|it| it.handle == node);
        found.map(Node::kind).ok_or(Code::INVALID_VALUE)
    }
}

impl State {
    pub(crate) fn destroy_graph(&mut self, graph: usize) -> Result<(), Code> {
        let removed = self.graphs.graphs.remove(&graph);
        let removed = removed.ok_or(Code::INVALID_VALUE)?;
        self.graphs.remove_bodies(&removed);
        drop(removed);
        self.free_graph_memory();
        Ok(())
    }

    /// Destroys an executable graph; a launch of it that runs goes on.
    pub(crate) fn destroy_exec(&mut self, exec: usize) -> Result<(), Code> {
        let removed = self.graphs.execs.remove(&exec);
        removed.ok_or(Code::INVALID_VALUE)?;
        self.free_graph_memory();
        Ok(())
    }

    /// Captures a stream-ordered allocation.
    pub(crate) fn capture_allocation(
        &mut self,
        stream: &Stream,
        pool: usize,
        bytes: usize,
    ) -> Result<usize, Code> {
        let base = self.allocate_from_pool(pool, bytes)?;
        let memory = Arc::new(GraphMemory { base, bytes });
        self.graphs.memory.push(memory.clone());
        self.graphs.add_node(stream, Operation::Allocate(memory));
        Ok(base)
    }

    /// Captures the free of memory that the same capture allocates. A free of other memory is not simulated.
    pub(crate) fn capture_free(&mut self, stream: &Stream, base: usize) -> Result<(), Code> {
        let is_it = |node: &Node| matches!(&node.operation, Operation::Allocate(memory) if memory.base == base);
        let capture = self.graphs.capture_of(stream);
        if !capture.is_some_and(|capture| capture.nodes.iter().any(is_it)) {
            return Err(Code::NOT_SUPPORTED);
        }
        self.graphs.add_node(stream, Operation::Free);
        Ok(())
    }

    /// A graph runs and allocates its memory: the contents of its last run are lost.
    pub(super) fn fill_fresh(&mut self, memory: &GraphMemory) {
        self.machine
            .space
            .poison(memory.base..memory.base + memory.bytes);
    }

    /// Frees the memory of which no graph and no launch is left, and forgets such conditions.
    fn free_graph_memory(&mut self) {
        let unused = |memory: &mut Arc<GraphMemory>| Arc::strong_count(memory) == 1;
        let unused: Vec<_> = self.graphs.memory.extract_if(.., unused).collect();
        for memory in unused {
            self.free(memory.base);
        }
        self.graphs.remove_conditions();
    }
}
