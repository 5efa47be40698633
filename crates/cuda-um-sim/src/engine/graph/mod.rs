//! Graphs: made by stream capture or node by node, and their executable form.

mod capture;
mod condition;
mod edit;
mod exec;
mod mode;
mod objects;
mod params;
mod set;
mod update;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::handle::Handles;
use super::operation::Operation;
use super::state::State;
use super::status::Code;
use super::stream::Stream;
use capture::Capture;
use condition::Condition;
use exec::Exec;
use objects::Objects;

pub(crate) use capture::CaptureInfo;
pub(crate) use condition::ConditionKind;
pub(in crate::engine) use condition::Conditional;
pub(crate) use mode::CaptureMode;
pub(crate) use params::NodeParams;
pub(crate) use update::UpdateFailure;

/// A node of a graph.
#[derive(Clone)]
struct Node {
    handle: usize,
    /// The node that it is a copy of, or 0.
    origin: usize,
    device: usize,
    operation: Operation,
    /// The nodes that it comes after. In executable graphs all of them are earlier in the list.
    after: Vec<usize>,
}

impl Operation {
    /// `cudaGraphNodeType`.
    fn kind(&self) -> u32 {
        match self {
            Operation::Kernel(_) => 0,
            Operation::Copy(_) => 1,
            Operation::Set(_) => 2,
            Operation::Rows(rows) => match rows.0 {
                NodeParams::Copy(_) => 1,
                _ => 2,
            },
            Operation::Host(_) => 3,
            Operation::Child(_) => 4,
            Operation::Empty => 5,
            Operation::Wait(_) => 6,
            Operation::Record(_) => 7,
            Operation::Allocate(_) => 10,
            Operation::Free(_) => 11,
            Operation::Write(_) => 12,
            Operation::Conditional(_) => 13,
        }
    }
}

/// Memory that a graph allocates: it exists from the capture until the graph and its executable forms are destroyed and have run, and it is
/// freed.
pub(crate) struct GraphMemory {
    base: usize,
    bytes: usize,
    device: usize,
    managed: bool,
    /// Other devices that may use it.
    peers: Vec<usize>,
    /// Whether a launch allocated it and nothing freed it, as of the calls of the host. The state's lock orders it.
    is_live: AtomicBool,
}

impl GraphMemory {
    /// Begins or ends the allocation; returns whether it was allocated.
    fn set_live(&self, live: bool) -> bool {
        self.is_live.swap(live, Ordering::Relaxed)
    }
}

/// All captures and graphs of one simulator.
pub(crate) struct Graphs {
    handles: Handles,
    captures: Vec<Capture>,
    graphs: HashMap<usize, Vec<Node>>,
    execs: HashMap<usize, Exec>,
    memory: Vec<Arc<GraphMemory>>,
    /// The most bytes of them so far, by device.
    memory_high: HashMap<usize, usize>,
    /// The bytes that were freed since the last trim, by device: they still count as used.
    untrimmed: HashMap<usize, usize>,
    conditions: HashMap<u64, Arc<Condition>>,
    objects: Objects,
    /// Arrays that programs asked for, by node.
    kept: HashMap<usize, Vec<usize>>,
}

impl Graphs {
    pub(crate) fn new(handles: Handles) -> Graphs {
        Graphs {
            handles,
            captures: Vec::new(),
            graphs: HashMap::new(),
            execs: HashMap::new(),
            memory: Vec::new(),
            memory_high: HashMap::new(),
            untrimmed: HashMap::new(),
            conditions: HashMap::new(),
            objects: Objects::default(),
            kept: HashMap::new(),
        }
    }

    /// The numbers of graphs and of executable graphs that were made and not destroyed. The body of a condition belongs to its node.
    pub(crate) fn len(&self) -> (usize, usize) {
        let all = self.all().flat_map(|(_, nodes)| nodes);
        let bodies: usize = all.map(|node| node.operation.bodies().len()).sum();
        (self.graphs.len().saturating_sub(bodies), self.execs.len())
    }

    pub(crate) fn clear(&mut self) {
        *self = Graphs::new(self.handles.clone());
    }

    /// Keeps an array for a program until it asks again, or the node ends; returns its address.
    pub(crate) fn keep(&mut self, node: usize, words: Vec<usize>) -> usize {
        let address = words.as_ptr() as usize;
        self.kept.insert(node, words);
        address
    }

    /// The memory that a graph allocates at an address.
    fn memory_at(&self, base: usize) -> Option<&Arc<GraphMemory>> {
        self.memory.iter().find(|memory| memory.base == base)
    }

    fn add_memory(&mut self, memory: GraphMemory) -> Arc<GraphMemory> {
        let (device, memory) = (memory.device, Arc::new(memory));
        self.memory.push(memory.clone());
        let high = self
            .memory_bytes(device, true)
            .max(self.memory_bytes(device, false));
        self.memory_high.insert(device, high);
        memory
    }

    /// The bytes that the graphs of a device allocate, or the most so far.
    pub(crate) fn memory_bytes(&self, device: usize, high: bool) -> usize {
        if high {
            return self.memory_high.get(&device).copied().unwrap_or(0);
        }
        let memory = self.memory.iter().filter(|it| it.device == device);
        let freed = self.untrimmed.get(&device).copied().unwrap_or(0);
        memory.map(|memory| memory.bytes).sum::<usize>() + freed
    }

    /// What graphs freed on a device counts as used no more.
    pub(crate) fn trim_memory(&mut self, device: usize) {
        self.untrimmed.remove(&device);
    }

    /// The most bytes so far are those of now.
    pub(crate) fn reset_memory_high(&mut self, device: usize) {
        self.memory_high
            .insert(device, self.memory_bytes(device, false));
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
        Ok(self.node(node)?.operation.kind())
    }
}

impl State {
    pub(crate) fn destroy_graph(&mut self, graph: usize) -> Result<(), Code> {
        let removed = self.graphs.graphs.remove(&graph);
        let removed = removed.ok_or(Code::INVALID_VALUE)?;
        self.graphs.objects.end(graph, None);
        self.graphs.remove_bodies(&removed);
        drop(removed);
        self.free_graph_memory();
        Ok(())
    }

    /// Destroys an executable graph; a launch of it that runs goes on.
    pub(crate) fn destroy_exec(&mut self, exec: usize) -> Result<(), Code> {
        let removed = self.graphs.execs.remove(&exec);
        let removed = removed.ok_or(Code::INVALID_VALUE)?;
        self.graphs.objects.end(exec, removed.last.clone());
        drop(removed);
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
        let memory = GraphMemory {
            base,
            bytes,
            device: stream.device,
            managed: false,
            peers: Vec::new(),
            is_live: AtomicBool::new(false),
        };
        let memory = self.graphs.add_memory(memory);
        self.graphs.add_node(stream, Operation::Allocate(memory));
        Ok(base)
    }

    /// Captures the free of memory that a graph allocates. A free of other memory is not simulated.
    pub(crate) fn capture_free(&mut self, stream: &Stream, base: usize) -> Result<(), Code> {
        let memory = self.graphs.memory_at(base).ok_or(Code::NOT_SUPPORTED)?;
        let free = Operation::Free(memory.clone());
        self.graphs.add_node(stream, free);
        Ok(())
    }

    /// Ends the allocation of memory that a launch of a graph left. Returns false if no graph allocates memory there.
    pub(crate) fn free_of_graph(&mut self, base: usize) -> Result<bool, Code> {
        let Some(memory) = self.graphs.memory_at(base) else {
            return Ok(false);
        };
        if !memory.set_live(false) {
            return Err(Code::INVALID_VALUE);
        }
        self.free_graph_memory();
        Ok(true)
    }

    /// A graph runs and allocates its memory: the contents of its last run are lost.
    pub(super) fn fill_fresh(&mut self, memory: &GraphMemory) {
        self.machine
            .space
            .poison(memory.base..memory.base + memory.bytes);
    }

    /// Frees the memory of which no graph and no launch is left, and forgets such conditions.
    fn free_graph_memory(&mut self) {
        let unused = |memory: &mut Arc<GraphMemory>| {
            Arc::strong_count(memory) == 1 && !memory.is_live.load(Ordering::Relaxed)
        };
        let unused: Vec<_> = self.graphs.memory.extract_if(.., unused).collect();
        for memory in unused {
            *self.graphs.untrimmed.entry(memory.device).or_default() += memory.bytes;
            self.free(memory.base);
        }
        self.graphs.remove_conditions();
    }
}
