//! One rank's call, and the checks of its arguments.

use std::sync::Arc;

use super::{INVALID_ARGUMENT, Id, UNHANDLED_CUDA_ERROR, reduce};
use crate::engine::memory::{Memory, Span};
use crate::engine::state::State;
use crate::engine::status::Code;
use crate::engine::stream::Stream;

/// What a call does. The number of a reduction is NCCL's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Broadcast { root: i32 },
    AllReduce(u32),
    ReduceScatter(u32),
    AllGather,
    Send { to: i32 },
    Receive { from: i32 },
}

/// Which ranks meet: all, or two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Key {
    All,
    Two { from: usize, to: usize },
}

/// A call with the arguments of C.
#[derive(Clone, Copy)]
pub(crate) struct Raw {
    pub(crate) kind: Kind,
    pub(crate) source: usize,
    pub(crate) target: usize,
    pub(crate) count: usize,
    pub(crate) datatype: u32,
    pub(crate) communicator: usize,
    pub(crate) stream: usize,
}

/// A call that was checked.
pub(crate) struct Call {
    pub(super) clique: Id,
    pub(super) rank: usize,
    pub(super) device: usize,
    pub(super) stream: Arc<Stream>,
    pub(super) kind: Kind,
    pub(super) count: usize,
    pub(super) datatype: u32,
    pub(super) source: Span,
    pub(super) target: Span,
}

impl Call {
    pub(super) fn key(&self) -> Key {
        match self.kind {
            Kind::Send { to } => Key::Two {
                from: self.rank,
                to: to as usize,
            },
            Kind::Receive { from } => Key::Two {
                from: from as usize,
                to: self.rank,
            },
            _ => Key::All,
        }
    }
}

impl State {
    /// Checks a call.
    pub(crate) fn check_collective(&mut self, raw: &Raw) -> Result<Call, Code> {
        let communicator = self.collectives.get(raw.communicator)?;
        let ranks = self.collectives.ranks(raw.communicator)?;
        let (rank, device) = (communicator.rank, communicator.device);
        let of_cuda = |_| UNHANDLED_CUDA_ERROR;
        let stream = self.streams.get(raw.stream, device).map_err(of_cuda)?;
        self.graphs.use_uncaptured(&stream).map_err(of_cuda)?;
        if stream.device != device {
            return Err(UNHANDLED_CUDA_ERROR);
        }
        let bytes = reduce::width(raw.datatype).and_then(|width| raw.count.checked_mul(width));
        let bytes = bytes.ok_or(INVALID_ARGUMENT)?;
        let all = bytes.checked_mul(ranks).ok_or(INVALID_ARGUMENT)?;
        let is_other = |peer: i32| (0..ranks as i32).contains(&peer) && peer != rank as i32;
        let (source, target) = match raw.kind {
            Kind::Broadcast { root } if !(0..ranks as i32).contains(&root) => {
                return Err(INVALID_ARGUMENT);
            }
            Kind::Broadcast { root } if root == rank as i32 => (bytes, bytes),
            Kind::Broadcast { .. } => (0, bytes),
            Kind::AllReduce(operation) | Kind::ReduceScatter(operation) if operation > 4 => {
                return Err(INVALID_ARGUMENT);
            }
            Kind::AllReduce(_) => (bytes, bytes),
            Kind::ReduceScatter(_) => (all, bytes),
            Kind::AllGather => (bytes, all),
            Kind::Send { to } if is_other(to) => (bytes, 0),
            Kind::Receive { from } if is_other(from) => (0, bytes),
            Kind::Send { .. } | Kind::Receive { .. } => return Err(INVALID_ARGUMENT),
        };
        Ok(Call {
            clique: communicator.clique,
            rank,
            device,
            stream,
            kind: raw.kind,
            count: raw.count,
            datatype: raw.datatype,
            source: self.collective_memory(device, raw.source, source)?,
            target: self.collective_memory(device, raw.target, target)?,
        })
    }

    fn collective_memory(&self, device: usize, at: usize, bytes: usize) -> Result<Span, Code> {
        let span = self.memory.find(at, bytes).map_err(|_| INVALID_ARGUMENT)?;
        let reached = match span.memory {
            Memory::Device(owner) => self.check_device_access(device, owner, at).is_ok(),
            Memory::Pageable => self.machine.profile.pageable_memory_access,
            Memory::Managed(_) | Memory::Pinned => true,
        };
        if bytes > 0 && !reached {
            return Err(INVALID_ARGUMENT);
        }
        self.memory.check_enqueued(&span);
        Ok(span)
    }
}
