//! Records become operations by time.

use super::running::Running;
use super::{Explanation, Piece};
use crate::{Cause, Operation, OperationKind, Place, RecordKind, Trace};
use std::collections::HashMap;

pub(super) struct Explainer<'a> {
    trace: &'a Trace,
    /// Operations over each buffer, by start.
    over: HashMap<u64, Vec<usize>>,
    /// Each kernel's launch.
    launches: Vec<Option<usize>>,
    /// Each launch's kernel.
    kernels: HashMap<usize, usize>,
}

impl<'a> Explainer<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        let mut by_start: Vec<usize> = (0..trace.operations.len()).collect();
        by_start.sort_by_key(|&index| (trace.operations[index].start, index));
        let mut over: HashMap<u64, Vec<usize>> = HashMap::new();
        for &index in &by_start {
            for access in &trace.operations[index].accesses {
                let list = over.entry(access.buffer).or_default();
                if list.last() != Some(&index) {
                    list.push(index);
                }
            }
        }
        let launches = launches_of(trace, &by_start);
        let pairs = launches.iter().enumerate();
        let kernels = pairs
            .filter_map(|(kernel, launch)| Some(((*launch)?, kernel)))
            .collect();
        Self {
            trace,
            over,
            launches,
            kernels,
        }
    }

    pub(super) fn launches(&self) -> &[Option<usize>] {
        &self.launches
    }

    /// Explains every record; `pieces` are the records' first ones.
    pub(super) fn explain(&self, pieces: &[Piece]) -> Vec<Explanation> {
        let trace = self.trace;
        let kernels = trace.kernels.iter().enumerate();
        let mut kernels = Running::new(kernels.map(|(index, run)| (run.start, run.end, index)));
        let host = trace.operations.iter().enumerate();
        let mut host = Running::new(
            host.filter(|(_, operation)| {
                matches!(operation.kind, OperationKind::Host | OperationKind::Copy)
            })
            .map(|(index, operation)| (operation.start, operation.end, index)),
        );
        let mut order: Vec<usize> = (0..trace.records.len()).collect();
        order.sort_by_key(|&record| trace.records[record].start);
        let mut explanations = vec![Explanation::Nothing; trace.records.len()];
        for record in order {
            let piece = &pieces[record];
            let time = trace.records[record].start;
            let mut kernel = |device| self.kernel(&mut kernels, device, piece, time);
            let mut on_host = || self.host(&mut host, piece, time);
            let latest_used = || {
                self.latest(piece, time, |operation| {
                    use OperationKind::{Copy, Fill, Launch};
                    matches!(operation.kind, Launch { .. } | Copy | Fill)
                })
            };
            use RecordKind as R;
            let found = match trace.records[record].kind {
                R::GpuFault { device, .. } => kernel(Some(device)).or_else(latest_used),
                R::Migration {
                    to,
                    cause: Cause::User,
                    ..
                } => self.call(piece, time, to),
                R::Migration {
                    cause: Cause::Eviction,
                    ..
                } => kernel(None).or_else(|| self.room(time)),
                R::Migration {
                    to: Place::Device(device),
                    ..
                } => kernel(Some(device)).or_else(latest_used),
                R::Migration {
                    to: Place::Host, ..
                }
                | R::CpuFault { .. } => on_host(),
                R::Throttling { place: Place::Host }
                | R::RemoteMap {
                    by: Place::Host, ..
                } => on_host().or_else(|| kernel(None)),
                R::Throttling {
                    place: Place::Device(device),
                }
                | R::RemoteMap {
                    by: Place::Device(device),
                    ..
                } => kernel(Some(device)).or_else(on_host),
                R::Thrashing { .. } => kernel(None).or_else(on_host),
            };
            explanations[record] = found.unwrap_or_default();
        }
        explanations
    }

    fn kernel(
        &self,
        running: &mut Running,
        device: Option<u32>,
        piece: &Piece,
        time: u64,
    ) -> Option<Explanation> {
        let runs = &self.trace.kernels;
        let on = |&kernel: &usize| device.is_none_or(|device| runs[kernel].device == device);
        let all: Vec<usize> = running.at(time).filter(on).collect();
        let uses = |&&kernel: &&usize| {
            self.launches[kernel].is_some_and(|launch| self.concerns(launch, piece))
        };
        let best = all.iter().rev().find(uses).or(all.last())?;
        Some(Explanation::Run(*best))
    }

    fn host(&self, running: &mut Running, piece: &Piece, time: u64) -> Option<Explanation> {
        let all: Vec<usize> = running.at(time).collect();
        let concerned = all
            .iter()
            .rev()
            .find(|&&operation| self.concerns(operation, piece));
        concerned
            .or(all.last())
            .map(|&operation| Explanation::Operation(operation))
    }

    /// The call of the program that moved something.
    fn call(&self, piece: &Piece, time: u64, place: Place) -> Option<Explanation> {
        use OperationKind as O;
        let prefetch = |wanted: Option<Place>| {
            self.latest(piece, time, |operation| match operation.kind {
                O::Prefetch { to, left_out } => !left_out && wanted.is_none_or(|place| place == to),
                _ => false,
            })
        };
        prefetch(Some(place))
            .or_else(|| prefetch(None))
            .or_else(|| {
                self.latest(piece, time, |operation| {
                    matches!(
                        operation.kind,
                        O::Advise { .. } | O::Discard | O::Copy | O::Fill
                    )
                })
            })
    }

    /// Who needed room when no kernel ran.
    fn room(&self, time: u64) -> Option<Explanation> {
        let prefetches = self.trace.operations.iter().enumerate();
        prefetches
            .filter(|(_, operation)| {
                operation.start <= time
                    && matches!(
                        operation.kind,
                        OperationKind::Prefetch {
                            to: Place::Device(_),
                            left_out: false
                        }
                    )
            })
            .max_by_key(|&(index, operation)| (operation.start, index))
            .map(|(index, _)| Explanation::Operation(index))
    }

    /// The latest operation over a piece's memory before a time: over its first byte, else anywhere in the buffer.
    fn latest(
        &self,
        piece: &Piece,
        time: u64,
        wanted: impl Fn(&Operation) -> bool,
    ) -> Option<Explanation> {
        let operations = &self.trace.operations;
        let before =
            |list: &'_ Vec<usize>| list.partition_point(|&index| operations[index].start <= time);
        let mut candidates = Vec::new();
        for id in self.ids(piece) {
            let Some(list) = self.over.get(&id) else {
                continue;
            };
            let mut any = None;
            for &index in list[..before(list)].iter().rev() {
                if !wanted(&operations[index]) {
                    continue;
                }
                any = any.or(Some(index));
                if self.covers(index, piece) {
                    candidates.push((true, operations[index].start, index));
                    any = None;
                    break;
                }
            }
            candidates.extend(any.map(|index| (false, operations[index].start, index)));
        }
        let (.., best) = candidates.into_iter().max()?;
        Some(match self.kernels.get(&best) {
            Some(&kernel) => Explanation::Run(kernel),
            None => Explanation::Operation(best),
        })
    }

    /// A piece's buffer, and the slab around it: calls name either.
    fn ids(&self, piece: &Piece) -> impl Iterator<Item = u64> {
        let buffer = piece.buffer.map(|index| &self.trace.buffers[index]);
        let slab = buffer.and_then(|buffer| buffer.slab);
        buffer.map(|buffer| buffer.id).into_iter().chain(slab)
    }

    fn concerns(&self, operation: usize, piece: &Piece) -> bool {
        let accesses = &self.trace.operations[operation].accesses;
        self.ids(piece)
            .any(|id| accesses.iter().any(|access| access.buffer == id))
    }

    fn covers(&self, operation: usize, piece: &Piece) -> bool {
        let Some(buffer) = piece.buffer.map(|index| &self.trace.buffers[index]) else {
            return false;
        };
        let offset = piece.address.saturating_sub(buffer.address);
        let accesses = &self.trace.operations[operation].accesses;
        accesses.iter().any(|access| {
            // Calls round outwards to blocks at most; a piece that begins with the buffer is covered by a call on its first bytes.
            access.buffer != buffer.id
                || (access.offset <= offset.saturating_add(piece.bytes)
                    && offset < access.offset.saturating_add(access.bytes.max(1)))
        })
    }
}

/// Each kernel's launch: the one that it names, else the latest earlier launch of that name on that device.
fn launches_of(trace: &Trace, by_start: &[usize]) -> Vec<Option<usize>> {
    let ids = trace.operations.iter().enumerate();
    let ids: HashMap<u64, usize> = ids
        .map(|(index, operation)| (operation.id, index))
        .collect();
    let mut by_name: HashMap<(&str, u32), Vec<usize>> = HashMap::new();
    for &index in by_start {
        let operation = &trace.operations[index];
        if let OperationKind::Launch { kernel } = &operation.kind {
            let list = by_name.entry((kernel, operation.device)).or_default();
            list.push(index);
        }
    }
    let launch = |run: &crate::KernelRun| match run.operation {
        Some(id) => ids.get(&id).copied(),
        None => {
            let list = by_name.get(&(run.name.as_str(), run.device))?;
            let before = list.partition_point(|&index| trace.operations[index].start <= run.start);
            Some(list[before.checked_sub(1)?])
        }
    };
    trace.kernels.iter().map(launch).collect()
}
