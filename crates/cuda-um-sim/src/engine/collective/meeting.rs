//! The meeting of ranks that make the same call.
// The bytes are moved by raw copies of checked ranges.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::time::Duration;

use super::call::{Call, Key, Kind};
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
    /// Of the ranks that have called, in this order; in that of the ranks when the work begins.
    calls: Vec<Call>,
    /// The number of ranks that meet.
    ranks: usize,
    arrived: Vec<usize>,
    start: Duration,
    done: Arc<Completion>,
}

impl Meeting {
    /// A meeting of two ranks, or of all.
    pub(super) fn new(key: Key, all: usize) -> Meeting {
        Meeting {
            calls: Vec::new(),
            ranks: key.map_or(all, |_| 2),
            arrived: Vec::new(),
            start: Duration::ZERO,
            done: Arc::new(Completion::new(usize::MAX, 0)),
        }
    }

    /// Adds the call of a rank, which must fit that of the first. Returns the end of the meeting.
    pub(super) fn add(&mut self, call: Call) -> Result<Arc<Completion>, String> {
        let fits = |other: &Call| {
            (other.raw.kind == call.raw.kind || call.key().is_some())
                && (other.raw.count, other.raw.datatype) == (call.raw.count, call.raw.datatype)
        };
        if let Some(other) = self.calls.first().filter(|other| !fits(other)) {
            let words = |Call { raw, of, .. }: &Call| {
                format!(
                    "rank {} calls {:?} with {} elements of type {}",
                    of.rank, raw.kind, raw.count, raw.datatype
                )
            };
            return Err(format!("{}, and {}", words(other), words(&call)));
        }
        self.calls.push(call);
        Ok(self.done.clone())
    }

    /// Whether all ranks have called.
    pub(super) fn is_complete(&self) -> bool {
        self.calls.len() == self.ranks
    }

    /// The work of a rank begins. Returns whether that of all ranks has.
    pub(super) fn arrive(&mut self, rank: usize, start: Duration) -> bool {
        self.start = self.start.max(start);
        self.arrived.push(rank);
        self.arrived.len() == self.ranks
    }

    /// The streams with work for this meeting, if the work on `stream` waits for it.
    pub(super) fn awaited_by(&self, stream: usize) -> impl Iterator<Item = usize> {
        let has_arrived = |call: &Call| self.arrived.contains(&call.of.rank);
        let waits = move |call: &Call| has_arrived(call) && call.stream.handle == stream;
        let others = self.calls.iter().any(waits).then(|| self.calls.iter());
        let missing = others.into_iter().flatten();
        missing.filter_map(move |call| (!has_arrived(call)).then_some(call.stream.handle))
    }

    /// Ends the meeting without its work.
    pub(super) fn cancel(self) {
        self.done.finish(self.start);
    }

    /// Does the work of all ranks.
    pub(super) fn run(mut self, core: &Core) {
        self.calls.sort_by_key(|call| call.of.rank);
        let spans: Vec<Span> = self
            .calls
            .iter()
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
        for call in &self.calls {
            state.devices[call.of.device].worked_until(end);
            state.records.counters.kernels += 1;
        }
        drop(state);
        self.done.finish(end);
    }

    /// Brings managed memory to the devices; returns the time that the slowest one needs.
    fn touch(&self, state: &mut State) -> Duration {
        state.records.activity.now = self.start;
        let times = self.calls.iter().map(|call| {
            let spans = [(&call.source, false), (&call.target, true)].into_iter();
            let prices = spans.filter_map(|(span, write)| {
                let (base, pages) = state.pages_in(span)?;
                let processor = Processor::device(call.of.device);
                let price = state.uvm().touch(processor, base, pages, write);
                Some(price.time + state.machine.over_link(price.remote_bytes))
            });
            prices.sum()
        });
        times.max().unwrap_or_default()
    }

    /// The time of a ring in which each device sends to the next one over its link: each byte of the result passes n − 1 links.
    fn time(&self, machine: &Machine) -> Duration {
        let call = &self.calls[0];
        let (bytes, ranks) = (call.bytes as u64, self.ranks as u64);
        let over_a_link = match call.raw.kind {
            _ if ranks == 1 => 0,
            Kind::Broadcast { .. } | Kind::Send { .. } | Kind::Receive { .. } => bytes,
            Kind::AllGather | Kind::ReduceScatter(_) => bytes * (ranks - 1),
            Kind::AllReduce(_) => 2 * bytes * (ranks - 1) / ranks,
        };
        machine.cost.kernel + at_rate(over_a_link, machine.cost.remote_rate)
    }

    fn move_bytes(&self) {
        let first = &self.calls[0];
        let part = first.bytes;
        let copy = |to: usize, from: usize| {
            // SAFETY: both ranges, of this size, are within spans that were checked against their allocations, whose device views stay mapped
            // while the simulator exists; the streams of all ranks wait for this work.
            unsafe { bytes::copy(to, from, part) };
        };
        match first.raw.kind {
            Kind::AllGather => {
                // A source may be its part of its target: no other rank writes there.
                for call in &self.calls {
                    for (rank, other) in self.calls.iter().enumerate() {
                        copy(call.target.view + rank * part, other.source.view);
                    }
                }
            }
            // One rank has a source, and all others, or all, have targets.
            Kind::Broadcast { .. } | Kind::Send { .. } | Kind::Receive { .. } => {
                let to = self.calls.iter().map(|call| call.target);
                let to = to.filter(|target| target.bytes > 0);
                let from = self.calls.iter().map(|call| call.source);
                for from in from.filter(|source| source.bytes > 0) {
                    to.clone().for_each(|to| copy(to.view, from.view));
                }
            }
            Kind::AllReduce(operation) => {
                let targets: Vec<_> = self.calls.iter().map(|call| call.target.view).collect();
                self.reduce(first, operation, 0, &targets);
            }
            Kind::ReduceScatter(operation) => {
                for (rank, call) in self.calls.iter().enumerate() {
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
            let inputs: Vec<_> = self.calls.iter().map(read).collect();
            let result = (like.reduction)(operation, &inputs);
            for to in targets {
                // SAFETY: as in `move_bytes`.
                unsafe { bytes::copy(to + start, result.as_ptr() as usize, size) };
            }
        }
    }
}
