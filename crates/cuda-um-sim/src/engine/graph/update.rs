//! `cudaGraphExecUpdate`.

use super::super::memory::{Memory, Span};
use super::super::operation::Operation;
use super::super::state::State;
use super::super::status::Code;
use super::Node;

/// The reason for which an update failed: `cudaGraphExecUpdateResult`, the node of the new graph, and the dependency of it.
#[derive(Clone, Copy, Default)]
pub(crate) struct UpdateFailure {
    pub(crate) result: u32,
    pub(crate) node: usize,
    pub(crate) from: usize,
}

const FAILED: u32 = 1;
const TOPOLOGY_CHANGED: u32 = 2;
const TYPE_CHANGED: u32 = 3;
const PARAMETERS_CHANGED: u32 = 5;
const NOT_SUPPORTED: u32 = 6;
const FUNCTION_CHANGED: u32 = 7;

/// Whether two ranges are in memory of one kind.
fn alike(a: &Span, b: &Span) -> bool {
    matches!(a.memory, Memory::Managed(_)) && matches!(b.memory, Memory::Managed(_))
        || a.memory == b.memory
}

impl Operation {
    /// Whether a node can take another operation; the error is a `cudaGraphExecUpdateResult`.
    pub(super) fn check_change(&self, to: &Operation) -> Result<(), u32> {
        let (fits, error) = match (self, to) {
            (Operation::Kernel(a), Operation::Kernel(b)) => {
                let fits = a.function.device() == b.function.device();
                (fits, FUNCTION_CHANGED)
            }
            (Operation::Copy(a), Operation::Copy(b)) => {
                let fits = alike(&a.from, &b.from) && alike(&a.to, &b.to);
                (fits, PARAMETERS_CHANGED)
            }
            (Operation::Set(a), Operation::Set(b)) | (Operation::Write(a), Operation::Write(b)) => {
                (alike(&a.to, &b.to), PARAMETERS_CHANGED)
            }
            (Operation::Host(_), Operation::Host(_))
            | (Operation::Record(_), Operation::Record(_))
            | (Operation::Wait(_), Operation::Wait(_))
            | (Operation::Empty, Operation::Empty)
            | (Operation::Child(_), Operation::Child(_)) => (true, FAILED),
            (Operation::Rows(a), Operation::Rows(b)) => return a.1[0].check_change(&b.1[0]),
            (Operation::Conditional(a), Operation::Conditional(b)) => {
                (a.has_bodies_like(b), PARAMETERS_CHANGED)
            }
            (Operation::Allocate(_), Operation::Allocate(_))
            | (Operation::Free(_), Operation::Free(_)) => (false, NOT_SUPPORTED),
            _ => (false, TYPE_CHANGED),
        };
        if fits { Ok(()) } else { Err(error) }
    }
}

/// Compares the nodes of an executable graph with those of another graph.
pub(super) fn compare(old: &[Node], new: &[Node]) -> Result<(), UpdateFailure> {
    let failure = |result, node, from| UpdateFailure { result, node, from };
    if old.len() != new.len() {
        return Err(failure(TOPOLOGY_CHANGED, 0, 0));
    }
    let index_of =
        |nodes: &[Node], handle: usize| nodes.iter().position(|node| node.handle == handle);
    for (a, b) in old.iter().zip(new) {
        if a.after.len() != b.after.len() {
            return Err(failure(TOPOLOGY_CHANGED, b.handle, 0));
        }
        let before = |node: &usize| index_of(old, *node);
        let before: Vec<_> = a.after.iter().map(before).collect();
        let differs = |node: &&usize| !before.contains(&index_of(new, **node));
        if let Some(from) = b.after.iter().find(differs) {
            return Err(failure(TOPOLOGY_CHANGED, b.handle, *from));
        }
        if let Err(result) = a.operation.check_change(&b.operation) {
            return Err(failure(result, b.handle, 0));
        }
    }
    Ok(())
}

/// Gives nodes the operations of others; the order says which.
fn replace(old: Vec<&mut Node>, new: Vec<Node>) {
    for (old, new) in old.into_iter().zip(new) {
        old.operation = new.operation;
    }
}

impl State {
    /// Gives the nodes of an executable graph the parameters of another graph's. Launches that were enqueued keep theirs.
    pub(crate) fn update_exec(
        &mut self,
        exec: usize,
        graph: usize,
    ) -> Result<Result<(), UpdateFailure>, Code> {
        let new = self.graphs.executable(graph)?;
        self.now += self.machine.cost.graph_params * new.len() as u32;
        let old = &mut self.exec(exec)?.nodes;
        let compared = compare(old, &new);
        if compared.is_ok() {
            replace(old.iter_mut().collect(), new);
        }
        Ok(compared)
    }

    /// Does it for the nodes that a graph is as a node of the executable one.
    pub(super) fn update_child(
        &mut self,
        (exec, node): (usize, usize),
        graph: usize,
    ) -> Result<(), Code> {
        let new = self.graphs.executable(graph)?;
        let inner = self.exec_node(exec, node)?;
        let Operation::Child(_) = inner.operation else {
            return Err(Code::INVALID_VALUE);
        };
        let inner = inner.after.clone();
        let nodes = &mut self.exec(exec)?.nodes;
        let own = |node: &&mut Node| inner.contains(&node.handle);
        let mut old: Vec<Node> = nodes
            .iter_mut()
            .filter(own)
            .map(|node| node.clone())
            .collect();
        old.iter_mut()
            .for_each(|node| node.after.retain(|it| inner.contains(it)));
        compare(&old, &new).map_err(|_| Code::GRAPH_EXEC_UPDATE_FAILURE)?;
        replace(nodes.iter_mut().filter(own).collect(), new);
        Ok(())
    }
}
