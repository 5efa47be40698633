//! One rank's call, and the checks of its arguments.

use std::sync::Arc;

use super::reduce::{Reduction, datatype};
use super::{Communicator, INVALID_ARGUMENT, UNHANDLED_CUDA_ERROR};
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

/// The two ranks that meet; `None`: all of the clique.
pub(super) type Key = Option<(usize, usize)>;

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
    pub(super) raw: Raw,
    pub(super) of: Communicator,
    pub(super) stream: Arc<Stream>,
    /// Of a part.
    pub(super) bytes: usize,
    pub(super) reduction: Reduction,
    pub(super) source: Span,
    pub(super) target: Span,
}

impl Call {
    pub(super) fn key(&self) -> Key {
        match self.raw.kind {
            Kind::Send { to } => Some((self.of.rank, to as usize)),
            Kind::Receive { from } => Some((from as usize, self.of.rank)),
            _ => None,
        }
    }
}

impl State {
    /// Checks a call.
    pub(crate) fn check_collective(&mut self, raw: Raw) -> Result<Call, Code> {
        let (of, clique) = self.collectives.find(raw.communicator)?;
        let ranks = clique.joined.len();
        let of_cuda = |_| UNHANDLED_CUDA_ERROR;
        let stream = self.streams.get(raw.stream, of.device).map_err(of_cuda)?;
        self.graphs.use_uncaptured(&stream).map_err(of_cuda)?;
        if stream.device != of.device {
            return Err(UNHANDLED_CUDA_ERROR);
        }
        let (width, reduction) = datatype(raw.datatype).ok_or(INVALID_ARGUMENT)?;
        let bytes = raw.count.checked_mul(width).ok_or(INVALID_ARGUMENT)?;
        let all = bytes.checked_mul(ranks).ok_or(INVALID_ARGUMENT)?;
        let own = of.rank as i32;
        let is_rank = |rank: i32| (0..ranks as i32).contains(&rank);
        let is_other = |rank| is_rank(rank) && rank != own;
        let (is_known, source, target) = match raw.kind {
            Kind::Broadcast { root } if root != own => (is_rank(root), 0, bytes),
            Kind::Broadcast { .. } => (true, bytes, bytes),
            Kind::AllReduce(operation) => (operation <= 4, bytes, bytes),
            Kind::ReduceScatter(operation) => (operation <= 4, all, bytes),
            Kind::AllGather => (true, bytes, all),
            Kind::Send { to } => (is_other(to), bytes, 0),
            Kind::Receive { from } => (is_other(from), 0, bytes),
        };
        if !is_known {
            return Err(INVALID_ARGUMENT);
        }
        Ok(Call {
            raw,
            of,
            stream,
            bytes,
            reduction,
            source: self.collective_memory(of.device, raw.source, source)?,
            target: self.collective_memory(of.device, raw.target, target)?,
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
