//! Executable graphs.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cuda_um_sys::locks::Mutex;

use super::super::core::Core;
use super::super::operation::{Operation, Pricing};
use super::super::state::State;
use super::super::status::Code;
use super::super::stream::{Completion, Stream};
use super::{Conditional, GraphMemory, Node};
use crate::misuse::Misuse;

/// `cudaGraphInstantiateFlagAutoFreeOnLaunch`.
const AUTO_FREE: u64 = 1;
/// Upload and use of the nodes' priorities, which have no effect here.
const WITHOUT_EFFECT: u64 = 2 | 8;
/// `cudaGraphInstantiateFlagDeviceLaunch`: kernels of the simulator launch nothing, but the host can launch such a graph, too. No GPU takes it
/// with [`AUTO_FREE`], or for an empty graph.
const DEVICE_LAUNCH: u64 = 4;

/// An executable graph.
pub(super) struct Exec {
    graph: usize,
    pub(super) nodes: Vec<Node>,
    flags: u64,
    /// The end of its last launch.
    pub(super) last: Option<Arc<Completion>>,
}

impl Exec {
    fn has_memory(&self) -> bool {
        let is_memory = |node: &Node| matches!(node.operation, Operation::Allocate(_));
        self.nodes.iter().any(is_memory)
    }
}

impl State {
    pub(crate) fn instantiate(&mut self, graph: usize, flags: u64) -> Result<usize, Code> {
        let nodes = self.graphs.executable(graph)?;
        let by_device = flags & DEVICE_LAUNCH != 0;
        let unknown = flags & !(AUTO_FREE | WITHOUT_EFFECT | DEVICE_LAUNCH);
        if unknown != 0 || by_device && (flags & AUTO_FREE != 0 || nodes.is_empty()) {
            return Err(Code::INVALID_VALUE);
        }
        let exec = Exec {
            graph,
            nodes,
            flags,
            last: None,
        };
        // A graph with memory of its own has one executable form at a time.
        let mut others = self.graphs.execs.values();
        if exec.has_memory() && others.any(|other| other.graph == graph) {
            return Err(Code::NOT_SUPPORTED);
        }
        let cost = &self.machine.cost;
        self.now += cost.graph_instantiate + cost.graph_instantiate_node * exec.nodes.len() as u32;
        let handle = self.graphs.handles.fresh();
        self.graphs.execs.insert(handle, exec);
        self.graphs.objects.share(graph, handle);
        Ok(handle)
    }

    /// The flags that an executable graph was made with.
    pub(crate) fn exec_flags(&mut self, exec: usize) -> Result<u64, Code> {
        Ok(self.exec(exec)?.flags)
    }

    pub(super) fn exec(&mut self, exec: usize) -> Result<&mut Exec, Code> {
        self.graphs.execs.get_mut(&exec).ok_or(Code::INVALID_VALUE)
    }

    /// Launches a graph: each node becomes a piece of work of the stream, in an order that the dependencies allow. Its time on the virtual
    /// clock begins when the nodes before it have ended.
    pub(crate) fn launch_graph(
        &mut self,
        core: &Arc<Core>,
        stream: &Arc<Stream>,
        exec: usize,
    ) -> Result<(), Code> {
        let found = self.exec(exec)?;
        let nodes = found.nodes.clone();
        let before = found.last.clone();
        let auto_free = found.flags & AUTO_FREE != 0;
        for node in &nodes {
            self.check_node(node)?;
            // An earlier launch left it allocated.
            let is_live = |memory: &GraphMemory| memory.is_live.load(Ordering::Relaxed);
            match &node.operation {
                Operation::Allocate(memory) if is_live(memory) && !auto_free => {
                    return Err(Code::INVALID_VALUE);
                }
                _ => {}
            }
        }
        for node in &nodes {
            match &node.operation {
                Operation::Allocate(memory) => memory.set_live(true),
                Operation::Free(memory) => memory.set_live(false),
                _ => false,
            };
        }
        let cost = &self.machine.cost;
        self.now += cost.graph_launch;
        let (begins, kernel) = (cost.graph_start, cost.graph_kernel);
        let number = self.records.activity.launched();
        let pricing = Pricing { kernel, number };
        // The ends of the nodes, and the time at which the first ones begin.
        let ends = Arc::new(Mutex::new(vec![Duration::ZERO; nodes.len() + 1]));
        let (first, all) = (nodes.len(), ends.clone());
        let conditions = nodes.iter().filter_map(|node| match &node.operation {
            Operation::Conditional(conditional) => Some(conditional.clone()),
            _ => None,
        });
        let conditions: Vec<Conditional> = conditions.collect();
        let start = Box::new(move |start: Duration| {
            conditions.iter().for_each(Conditional::reset);
            all.lock()[first] = start + begins;
            start + begins
        });
        self.enqueue_work(stream, before.into_iter().collect(), false, start);
        let handles = nodes.iter().map(|node| node.handle);
        let index_of: HashMap<_, _> = handles.zip(0..).collect();
        for (index, node) in nodes.into_iter().enumerate() {
            let after = node.after.iter().map(|handle| index_of[handle]);
            let after: Vec<usize> = after.chain([first]).collect();
            let external = match node.operation {
                Operation::Wait(event) => self.events.get(event)?.recorded.clone(),
                _ => None,
            };
            let recorded = match node.operation {
                Operation::Record(event) => Some(event),
                _ => None,
            };
            let is_kernel = node.operation.kind() == 0;
            let place = (node.device, stream.handle);
            let work = self.work_of(core, place, node.operation, &pricing);
            let (ends, waited) = (ends.clone(), external.clone());
            let work = Box::new(move |_| {
                let begin = {
                    let ends = ends.lock();
                    let after = after.into_iter().map(|index| ends[index]);
                    let waited = waited.and_then(|waited| waited.get());
                    after.chain(waited).max().unwrap_or_default()
                };
                let end = work(begin);
                ends.lock()[index] = end;
                end
            });
            let after = external.into_iter().collect();
            let done = self.enqueue_work(stream, after, is_kernel, work);
            if let Some(event) = recorded {
                self.events.record(event, done);
            }
        }
        let ended = core.clone();
        let end = Box::new(move |_| {
            ended.state.lock().free_graph_memory();
            ends.lock().iter().copied().max().unwrap_or_default()
        });
        let done = self.enqueue_work(stream, Vec::new(), false, end);
        self.exec(exec)?.last = Some(done);
        Ok(())
    }

    /// Checks that all that a node refers to still exists.
    pub(super) fn check_node(&self, node: &Node) -> Result<(), Code> {
        for (address, id) in node.operation.memory() {
            let holding = self.memory.holding(address);
            if holding.is_none_or(|allocation| allocation.id != id) {
                self.misuse.report(Misuse::UseAfterFree { address });
                return Err(Code::INVALID_VALUE);
            }
        }
        self.check_body(node)?;
        match &node.operation {
            Operation::Kernel(kernel) if kernel.function.is_unloaded() => {
                let misuse = Misuse::ModuleUnloadedInUse { launches: 1 };
                self.misuse.report(misuse);
                Err(Code::INVALID_RESOURCE_HANDLE)
            }
            Operation::Record(event) | Operation::Wait(event) => self.events.get(*event).map(drop),
            _ => Ok(()),
        }
    }
}
