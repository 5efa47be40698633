//! The parameters of nodes, as programs give and get them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::super::copy::Direction;
use super::super::kernel_launch::{LaunchShape, Parameter};
use super::super::operation::{HostWork, Operation};
use super::super::pitched::Pitched;
use super::super::pool::{Home, Pool};
use super::super::state::State;
use super::super::status::Code;
use super::GraphMemory;

/// The parameters of a node.
#[derive(Clone)]
pub(crate) enum NodeParams {
    Kernel {
        function: usize,
        shape: LaunchShape,
        parameters: Vec<Parameter>,
    },
    Copy(Pitched),
    Set(Memset),
    Host(HostWork),
    /// A graph, which is copied.
    Child(usize),
    Empty,
    Wait(usize),
    Record(usize),
    /// The memory's address is an answer.
    Allocate {
        managed: bool,
        device: usize,
        bytes: usize,
        peers: Vec<usize>,
        base: usize,
    },
    Free(usize),
}

/// A memset of rows: `cudaMemsetParams`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Memset {
    pub(crate) to: usize,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element: u32,
    /// Elements of a row.
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// The operation of these rows.
fn rows(params: NodeParams, many: bool, mut each: Vec<Operation>) -> Result<Operation, Code> {
    match each.len() {
        0 => Err(Code::INVALID_VALUE),
        1 if !many => Ok(each.remove(0)),
        _ => Ok(Operation::Rows(Arc::new((params, each)))),
    }
}

impl State {
    /// Checks the parameters of a node.
    pub(super) fn operation(&mut self, params: NodeParams) -> Result<Operation, Code> {
        Ok(match params {
            NodeParams::Kernel {
                function,
                shape,
                parameters,
            } => {
                let function = self.modules.function(function)?.clone();
                let kernel = self.check_launch(function.device(), &function, shape, parameters)?;
                Operation::Kernel(kernel)
            }
            NodeParams::Copy(copy) => {
                let parts = copy.parts()?.into_iter().map(|(to, from, bytes)| {
                    let checked = self.check_copy(to, from, bytes, copy.direction)?;
                    Ok(Operation::Copy(checked))
                });
                let parts = parts.collect::<Result<_, _>>()?;
                rows(params, copy.has_rows(), parts)?
            }
            NodeParams::Set(set) => {
                let (height, element) = (set.height, set.element as usize);
                let bytes = set.width.saturating_mul(element);
                if !matches!(element, 1 | 2 | 4) || height > 1 && set.pitch < bytes {
                    return Err(Code::INVALID_VALUE);
                }
                let each = (0..height).map(|row| {
                    let to = set.to + row * set.pitch;
                    let checked = self.check_set(to, set.value, element, set.width)?;
                    Ok(Operation::Set(checked))
                });
                let each = each.collect::<Result<_, _>>()?;
                rows(params, height > 1, each)?
            }
            NodeParams::Host(work) => Operation::Host(work),
            NodeParams::Child(graph) => Operation::Child([self.graphs.copy_graph(graph)?]),
            NodeParams::Empty => Operation::Empty,
            NodeParams::Wait(event) => self.events.get(event).map(|_| Operation::Wait(event))?,
            NodeParams::Record(event) => {
                self.events.get(event).map(|_| Operation::Record(event))?
            }
            NodeParams::Allocate {
                managed,
                device,
                bytes,
                peers,
                ..
            } => {
                let memory = self.allocate_for_graph((managed, device), bytes, peers)?;
                Operation::Allocate(memory)
            }
            NodeParams::Free(base) => {
                let memory = self.graphs.memory_at(base).ok_or(Code::INVALID_VALUE)?;
                Operation::Free(memory.clone())
            }
        })
    }

    /// Memory for a node. Managed memory, and that which peers may use, has a pool of its own, which ends with it.
    fn allocate_for_graph(
        &mut self,
        (managed, device): (bool, usize),
        bytes: usize,
        peers: Vec<usize>,
    ) -> Result<Arc<GraphMemory>, Code> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let own = managed || peers.iter().any(|peer| *peer != device);
        let pool = match own {
            false => self.devices[device].default_pool,
            true => {
                let home = if managed { Home::Managed } else { Home::Device };
                let mut pool = Pool::new(device, home, 0);
                peers.iter().for_each(|peer| pool.set_access(*peer, true));
                self.pools.add(pool)
            }
        };
        let base = self.allocate_from_pool(pool, bytes);
        if own {
            self.pools.destroy(pool, &mut self.devices)?;
        }
        Ok(self.graphs.add_memory(GraphMemory {
            base: base?,
            bytes,
            device,
            managed,
            peers,
            is_live: AtomicBool::new(false),
        }))
    }

    /// The parameters of a node, whichever call made it.
    pub(crate) fn params_of(&self, node: usize) -> Result<NodeParams, Code> {
        Ok(match &self.graphs.node(node)?.operation {
            Operation::Kernel(kernel) => NodeParams::Kernel {
                function: self.modules.handle_of(&kernel.function)?,
                shape: kernel.shape,
                parameters: kernel.parameters.clone(),
            },
            Operation::Copy(copy) => {
                let (to, from) = (copy.to.address, copy.from.address);
                // No `cudaMemcpyKind` says that both are peers.
                let direction = match copy.direction {
                    Direction::Peer => Direction::DeviceToDevice,
                    other => other,
                };
                NodeParams::Copy(Pitched::row(to, from, copy.to.bytes, direction))
            }
            Operation::Set(set) => NodeParams::Set(Memset {
                to: set.to.address,
                pitch: 0,
                value: set.value,
                element: set.width as u32,
                width: set.to.bytes / set.width,
                height: 1,
            }),
            Operation::Rows(rows) => rows.0.clone(),
            Operation::Host(work) => NodeParams::Host(work.clone()),
            Operation::Child([graph]) => NodeParams::Child(*graph),
            Operation::Wait(event) => NodeParams::Wait(*event),
            Operation::Record(event) => NodeParams::Record(*event),
            Operation::Allocate(memory) => NodeParams::Allocate {
                managed: memory.managed,
                device: memory.device,
                bytes: memory.bytes,
                peers: memory.peers.clone(),
                base: memory.base,
            },
            Operation::Free(memory) => NodeParams::Free(memory.base),
            Operation::Empty => NodeParams::Empty,
            Operation::Write(_) | Operation::Conditional(_) => return Err(Code::INVALID_VALUE),
        })
    }
}
