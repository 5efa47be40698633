//! New parameters for a node of an executable graph.

use std::sync::Arc;

use super::super::copy::Direction;
use super::super::kernel_launch::{LaunchShape, Parameter};
use super::super::module::Function;
use super::super::operation::Operation;
use super::super::state::State;
use super::super::status::Code;
use super::Node;

impl State {
    fn exec_node(&mut self, exec: usize, node: usize) -> Result<&mut Node, Code> {
        let mut nodes = self.exec(exec)?.nodes.iter_mut();
        let found = nodes.find(|it| it.handle == node);
        found.ok_or(Code::INVALID_VALUE)
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

    /// Sets the launch of a kernel node. What the capture declared of an argument holds for the new one.
    pub(crate) fn set_kernel_node(
        &mut self,
        (exec, node): (usize, usize),
        function: &Arc<Function>,
        shape: LaunchShape,
        mut parameters: Vec<Parameter>,
    ) -> Result<(), Code> {
        let found = self.exec_node(exec, node)?;
        let device = found.device;
        let Operation::Kernel(old) = &found.operation else {
            return Err(Code::INVALID_VALUE);
        };
        if old.function.program.name() == function.program.name() {
            for (new, old) in parameters.iter_mut().zip(&old.parameters) {
                new.memory = old.memory;
            }
        }
        let kernel = self.check_launch(device, function, shape, parameters)?;
        self.set_node(exec, node, Operation::Kernel(kernel))
    }

    /// Sets a memset node, with the number of elements and the bytes of each.
    pub(crate) fn set_memset_node(
        &mut self,
        (exec, node): (usize, usize),
        to: usize,
        value: u32,
        (count, width): (usize, usize),
    ) -> Result<(), Code> {
        if !matches!(width, 1 | 2 | 4) {
            return Err(Code::INVALID_VALUE);
        }
        let set = self.check_set(to, value, width, count)?;
        self.set_node(exec, node, Operation::Set(set))
    }

    pub(crate) fn set_memcpy_node(
        &mut self,
        (exec, node): (usize, usize),
        to: usize,
        from: usize,
        bytes: usize,
        direction: Direction,
    ) -> Result<(), Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let copy = self.check_copy(to, from, bytes, direction)?;
        self.set_node(exec, node, Operation::Copy(copy))
    }
}
