//! The meeting of ranks that make the same call.
// The bytes are moved by raw copies of checked ranges.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Kind};
use crate::engine::bytes;
use crate::engine::core::Core;
use crate::engine::machine::Machine;
use crate::engine::managed::Processor;
use crate::engine::memory::Span;
use crate::engine::state::State;
use crate::engine::stream::Completion;
use cuda_um_cost::at_rate;

/// Bytes that are reduced at a time.
const PIECE: usize = 1 << 20;

/// The meeting of ranks that make the same call.
pub(super) struct Meeting {
    /// By rank.
    calls: Vec<Option<Call>>,
    arrived: Vec<usize>,
    start: Duration,
    done: Arc<Completion>,
}

impl Meeting {
    pub(super) fn new(ranks: usize) -> Meeting {
        Meeting {
            calls: (0..ranks).map(|_| None).collect(),
            arrived: Vec::new(),
            start: Duration::ZERO,
            done: Arc::new(Completion::new(usize::MAX, 0)),
        }
    }

    fn calls(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().flatten()
    }

    /// Adds the call of a rank, which must fit those of the others. Returns the end of the meeting.
    pub(super) fn add(&mut self, call: Call) -> Result<Arc<Completion>, String> {
        let is_two = |kind| matches!(kind, Kind::Send { .. } | Kind::Receive { .. });
        let fits = |other: &Call| {
            (other.kind == call.kind || is_two(call.kind))
                && (other.count, other.datatype) == (call.count, call.datatype)
        };
        if let Some(other) = self.calls().find(|other| !fits(other)) {
            let words = |call: &Call| {
                let Call {
                    rank,
                    kind,
                    count,
                    datatype,
                    ..
                } = call;
                format!("rank {rank} calls {kind:?} with {count} elements of type {datatype}")
            };
            return Err(format!("{}, and {}", words(other), words(&call)));
        }
        let rank = call.rank;
        self.calls[rank] = Some(call);
        Ok(self.done.clone())
    }

    fn expected(&self) -> usize {
        match self.calls().next().map(|call| call.kind) {
            Some(Kind::Send { .. } | Kind::Receive { .. }) => 2,
            _ => self.calls.len(),
        }
    }

    /// Whether all ranks have called.
    pub(super) fn is_complete(&self) -> bool {
        self.calls().count() == self.expected()
    }

    /// The work of a rank begins. Returns whether that of all ranks has.
    pub(super) fn arrive(&mut self, rank: usize, start: Duration) -> bool {
        self.start = self.start.max(start);
        self.arrived.push(rank);
        self.arrived.len() == self.expected()
    }

    /// The streams with work for this meeting, if the work on `stream` waits for it.
    pub(super) fn awaited_by(&self, stream: usize) -> impl Iterator<Item = usize> {
        let has_arrived = |call: &Call| self.arrived.contains(&call.rank);
        let waits = move |call: &Call| has_arrived(call) && call.stream.handle == stream;
        let others = self.calls().any(waits).then(|| self.calls());
        let missing = others.into_iter().flatten();
        missing.filter_map(move |call| (!has_arrived(call)).then_some(call.stream.handle))
    }

    /// Ends the meeting without its work.
    pub(super) fn cancel(self) {
        self.done.finish(self.start);
    }

    /// Does the work of all ranks.
    pub(super) fn run(self, core: &Core) {
        let spans: Vec<Span> = self
            .calls()
            .flat_map(|call| [call.source, call.target])
            .collect();
        let (number, begun) = {
            let mut state = core.state.lock();
            let number = state.handles.fresh();
            (number, state.begin_work(number, &spans))
        };
        if !begun {
            return self.cancel();
        }
        let faults = self.touch(&mut core.state.lock());
        self.move_bytes();
        let mut state = core.state.lock();
        state.memory.end_use(number);
        let end = self.start + faults + self.time(&core.machine);
        for call in self.calls() {
            state.devices[call.device].worked_until(end);
            state.records.counters.kernels += 1;
        }
        drop(state);
        self.done.finish(end);
    }

    /// Brings managed memory to the devices; returns the time that the slowest one needs.
    fn touch(&self, state: &mut State) -> Duration {
        state.records.activity.now = self.start;
        let mut most = Duration::ZERO;
        for call in self.calls() {
            let mut time = Duration::ZERO;
            for (span, write) in [(&call.source, false), (&call.target, true)] {
                if let Some((base, pages)) = state.pages_in(span) {
                    let processor = Processor::device(call.device);
                    let price = state.uvm().touch(processor, base, pages, write);
                    time += price.time + state.machine.over_link(price.remote_bytes);
                }
            }
            most = most.max(time);
        }
        most
    }

    /// The time of a ring in which each device sends to the next one over its link: each byte of the result passes n − 1 links.
    fn time(&self, machine: &Machine) -> Duration {
        let Some(call) = self.calls().next() else {
            return Duration::ZERO;
        };
        let (bytes, ranks) = (call.bytes as u64, self.expected() as u64);
        let over_a_link = match call.kind {
            _ if ranks == 1 => 0,
            Kind::Broadcast { .. } | Kind::Send { .. } | Kind::Receive { .. } => bytes,
            Kind::AllGather | Kind::ReduceScatter(_) => bytes * (ranks - 1),
            Kind::AllReduce(_) => 2 * bytes * (ranks - 1) / ranks,
        };
        machine.cost.kernel + at_rate(over_a_link, machine.cost.remote_rate)
    }

    fn move_bytes(&self) {
        let Some(first) = self.calls().next() else {
            return;
        };
        let part = first.bytes;
        let copy = |to: usize, from: usize| {
            // SAFETY: both ranges, of this size, are within spans that were checked against their allocations, whose device views stay mapped
            // while the simulator exists; the streams of all ranks wait for this work.
            unsafe { bytes::copy(to, from, part) };
        };
        match first.kind {
            Kind::AllGather => {
                // A source may be a part of its target: each rank first takes its own part.
                for (rank, call) in self.calls().enumerate() {
                    copy(call.target.view + rank * part, call.source.view);
                }
                for call in self.calls() {
                    for (rank, other) in self.calls().enumerate() {
                        copy(call.target.view + rank * part, other.source.view);
                    }
                }
            }
            Kind::Broadcast { root } => {
                if let Some(Some(from)) = self.calls.get(root as usize) {
                    self.calls()
                        .for_each(|call| copy(call.target.view, from.source.view));
                }
            }
            Kind::Send { .. } | Kind::Receive { .. } => {
                let is_source = |call: &&Call| matches!(call.kind, Kind::Send { .. });
                if let Some(from) = self.calls().find(is_source) {
                    let targets = self.calls().filter(|call| !is_source(call));
                    targets.for_each(|to| copy(to.target.view, from.source.view));
                }
            }
            Kind::AllReduce(operation) => {
                let targets: Vec<_> = self.calls().map(|call| call.target.view).collect();
                self.reduce(first, operation, 0, &targets);
            }
            Kind::ReduceScatter(operation) => {
                for (rank, call) in self.calls().enumerate() {
                    self.reduce(call, operation, rank * part, &[call.target.view]);
                }
            }
        }
    }

    /// Reduces a part of all sources from `offset` on, in the order of the ranks.
    fn reduce(&self, like: &Call, operation: u32, offset: usize, targets: &[usize]) {
        for start in (0..like.bytes).step_by(PIECE) {
            let size = PIECE.min(like.bytes - start);
            let read = |call: &Call| {
                let mut piece = vec![0u8; size];
                let from = call.source.view + offset + start;
                // SAFETY: as in `move_bytes`; `piece` has as many bytes.
                unsafe { bytes::copy(piece.as_mut_ptr() as usize, from, size) };
                piece
            };
            let inputs: Vec<_> = self.calls().map(read).collect();
            let result = (like.reduction)(operation, &inputs);
            for to in targets {
                // SAFETY: as in `move_bytes`.
                unsafe { bytes::copy(to + start, result.as_ptr() as usize, size) };
            }
        }
    }
}
