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
            | (Operation::Wait(_), Operation::Wait(_)) => (true, FAILED),
            (Operation::Allocate(_), Operation::Allocate(_))
            | (Operation::Free, Operation::Free)
            | (Operation::Conditional(_), Operation::Conditional(_)) => (false, NOT_SUPPORTED),
            _ => (false, TYPE_CHANGED),
        };
        if fits { Ok(()) } else { Err(error) }
    }
}

/// Compares the nodes of an executable graph with those of another graph.
fn compare(old: &[Node], new: &[Node]) -> Result<(), UpdateFailure> {
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

impl State {
    /// Gives the nodes of an executable graph the parameters of another graph's. Launches that were enqueued keep theirs.
    pub(crate) fn update_exec(
        &mut self,
        exec: usize,
        graph: usize,
    ) -> Result<Result<(), UpdateFailure>, Code> {
        let new = self.graphs.graphs.get(&graph);
        let new = new.ok_or(Code::INVALID_VALUE)?.clone();
        self.now += self.machine.cost.graph_params * new.len() as u32;
        let old = &mut self.exec(exec)?.nodes;
        let compared = compare(old, &new);
        if compared.is_ok() {
            for (old, new) in old.iter_mut().zip(new) {
                old.operation = new.operation;
            }
        }
        Ok(compared)
    }
}
