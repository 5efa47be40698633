//! New parameters for a node of an executable graph.

use super::super::operation::Operation;
use super::super::state::State;
use super::super::status::Code;
use super::{Node, NodeParams};

impl State {
    pub(super) fn exec_node(&mut self, exec: usize, node: usize) -> Result<&mut Node, Code> {
        let mut nodes = self.exec(exec)?.nodes.iter_mut();
        let found = nodes.find(|it| it.handle == node);
        found.ok_or(Code::INVALID_VALUE)
    }

    /// Checks the other parameters of a node that does not own a graph or memory.
    pub(super) fn changed(&mut self, params: NodeParams) -> Result<Operation, Code> {
        match params {
            NodeParams::Child(_) | NodeParams::Allocate { .. } => Err(Code::INVALID_VALUE),
            params => self.operation(params),
        }
    }

    /// Gives a node another operation of its kind, for later launches.
    fn set_node(&mut self, exec: usize, node: usize, operation: Operation) -> Result<(), Code> {
        let found = self.exec_node(exec, node)?;
        let changed = found.operation.check_change(&operation);
        changed.map_err(|_| Code::INVALID_VALUE)?;
        found.operation = operation;
        self.now += self.machine.cost.graph_params;
        Ok(())
    }

    /// Sets what a node does. What was declared of a kernel's argument holds for the new one.
    pub(crate) fn set_in_exec(
        &mut self,
        (exec, node): (usize, usize),
        mut params: NodeParams,
    ) -> Result<(), Code> {
        if let NodeParams::Child(graph) = params {
            return self.update_child((exec, node), graph);
        }
        let found = self.exec_node(exec, node)?;
        if let (
            NodeParams::Kernel {
                function,
                parameters,
                ..
            },
            Operation::Kernel(old),
        ) = (&mut params, found.operation.clone())
            && self.modules.function(*function)?.program.name() == old.function.program.name()
        {
            for (new, old) in parameters.iter_mut().zip(&old.parameters) {
                new.memory = old.memory;
            }
        }
        let operation = self.changed(params)?;
        self.set_node(exec, node, operation)
    }
}
