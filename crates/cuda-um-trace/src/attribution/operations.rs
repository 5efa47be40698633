//! Assigns records to operations by time.

use super::latest::{Latest, Rank, Wanted};
use super::running::Running;
use super::{Explanation, Piece};
use crate::{Cause, OperationKind, Place, RecordKind, Trace};
use std::collections::{HashMap, HashSet};

/// Limit on the concurrent kernels that are examined, starting with the one that started last. No device runs more kernels at
/// once (CUDA C++ Programming Guide, "Maximum number of resident grids per device").
const MOST_KERNELS: usize = 128;

pub(super) struct Explainer<'a> {
    trace: &'a Trace,
    /// Pairs of an operation and a buffer that it accesses.
    accessed: HashSet<(usize, u64)>,
    /// The launch of each kernel.
    launches: Vec<Option<usize>>,
    /// The kernel of each launch.
    kernels: HashMap<usize, usize>,
    /// The kernels of each device, and of all devices.
    running: HashMap<Option<u32>, Running>,
    /// The host guards and copies over each buffer, and over all buffers.
    on_host: HashMap<Option<u64>, Running>,
    latest: Latest<'a>,
}

impl<'a> Explainer<'a> {
    pub(super) fn new(trace: &'a Trace) -> Self {
        let mut by_start: Vec<usize> = (0..trace.operations.len()).collect();
        by_start.sort_by_key(|&index| (trace.operations[index].start, index));
        let launches = launches_of(trace, &by_start);
        let pairs = launches.iter().enumerate();
        let kernels = pairs
            .filter_map(|(kernel, launch)| Some(((*launch)?, kernel)))
            .collect();
        let mut running: HashMap<Option<u32>, Running> = HashMap::new();
        for (index, run) in trace.kernels.iter().enumerate() {
            for key in [None, Some(run.device)] {
                let list = running.entry(key).or_default();
                list.push(run.start, run.end, index);
            }
        }
        let mut accessed = HashSet::new();
        let mut on_host: HashMap<Option<u64>, Running> = HashMap::new();
        for (index, operation) in trace.operations.iter().enumerate() {
            let is_host = matches!(operation.kind, OperationKind::Host | OperationKind::Copy);
            let mut push = |key| {
                let list = on_host.entry(key).or_default();
                list.push(operation.start, operation.end, index);
            };
            if is_host {
                push(None);
            }
            for access in &operation.accesses {
                if accessed.insert((index, access.buffer)) && is_host {
                    push(Some(access.buffer));
                }
            }
        }
        Self {
            trace,
            accessed,
            launches,
            kernels,
            running,
            on_host,
            latest: Latest::new(trace, by_start),
        }
    }

    pub(super) fn launches(&self) -> &[Option<usize>] {
        &self.launches
    }

    /// Explains every record. `order` is the order of their starts, and `pieces` are their first pieces.
    pub(super) fn explain(mut self, order: &[usize], pieces: &[Piece]) -> Vec<Explanation> {
        let mut explanations = vec![Explanation::Nothing; pieces.len()];
        for &record in order {
            let found = self.explain_one(record, &pieces[record]);
            explanations[record] = found.unwrap_or_default();
        }
        explanations
    }

    fn explain_one(&mut self, record: usize, piece: &Piece) -> Option<Explanation> {
        let trace = self.trace;
        let time = trace.records[record].start;
        self.latest.advance(time);
        use RecordKind as R;
        match trace.records[record].kind {
            R::GpuFault { device, .. } => self
                .kernel(Some(device), piece, time)
                .or_else(|| self.call(piece, Wanted::Use)),
            R::Migration {
                to,
                cause: Cause::User,
                ..
            } => {
                let wanted = [Wanted::PrefetchTo(to), Wanted::Prefetch, Wanted::Call];
                wanted.into_iter().find_map(|kind| self.call(piece, kind))
            }
            R::Migration {
                cause: Cause::Eviction,
                ..
            } => {
                // If no kernel ran, the latest prefetch to a device needed the memory.
                let prefetch = self.latest.to_devices().map(Explanation::Operation);
                self.kernel(None, piece, time).or(prefetch)
            }
            R::Migration {
                to: Place::Device(device),
                ..
            } => self
                .kernel(Some(device), piece, time)
                .or_else(|| self.call(piece, Wanted::Use)),
            R::Migration {
                to: Place::Host, ..
            }
            | R::CpuFault { .. } => self.host(piece, time),
            R::Throttling { place: Place::Host }
            | R::RemoteMap {
                by: Place::Host, ..
            } => self
                .host(piece, time)
                .or_else(|| self.kernel(None, piece, time)),
            R::Throttling {
                place: Place::Device(device),
            }
            | R::RemoteMap {
                by: Place::Device(device),
                ..
            } => self
                .kernel(Some(device), piece, time)
                .or_else(|| self.host(piece, time)),
            R::Thrashing { .. } => self
                .kernel(None, piece, time)
                .or_else(|| self.host(piece, time)),
        }
    }

    fn kernel(&mut self, device: Option<u32>, piece: &Piece, time: u64) -> Option<Explanation> {
        let (trace, accessed, launches) = (self.trace, &self.accessed, &self.launches);
        let uses = |kernel: usize| {
            launches[kernel].is_some_and(|launch| {
                let mut ids = ids(trace, piece).into_iter().flatten();
                ids.any(|id| accessed.contains(&(launch, id)))
            })
        };
        let running = self.running.get_mut(&device)?;
        let mut latest = None;
        for (_, kernel) in running.at(time).take(MOST_KERNELS) {
            latest = latest.or(Some(kernel));
            if uses(kernel) {
                return Some(Explanation::Run(kernel));
            }
        }
        latest.map(Explanation::Run)
    }

    fn host(&mut self, piece: &Piece, time: u64) -> Option<Explanation> {
        let mut last = |key| self.on_host.get_mut(&key)?.at(time).next();
        let concerned = ids(self.trace, piece).into_iter().flatten();
        let concerned = concerned.filter_map(|id| last(Some(id))).max();
        let (_, operation) = concerned.or_else(|| last(None))?;
        Some(Explanation::Operation(operation))
    }

    /// The latest operation over the memory of a piece, otherwise over any part of its buffer. A call over its slab covers the
    /// whole buffer.
    fn call(&self, piece: &Piece, wanted: Wanted) -> Option<Explanation> {
        let (buffer, latest) = (&self.trace.buffers[piece.buffer?], &self.latest);
        let offset = piece.address.saturating_sub(buffer.address);
        let on_slab = buffer.slab.and_then(|id| latest.over(id, wanted));
        let on_part = latest.over_part(buffer.id, wanted, offset, piece.bytes);
        let rank: Rank = on_slab
            .max(on_part)
            .or_else(|| latest.over(buffer.id, wanted))?;
        let operation = latest.operation(rank);
        Some(match self.kernels.get(&operation) {
            Some(&kernel) => Explanation::Run(kernel),
            None => Explanation::Operation(operation),
        })
    }
}

/// The ids of a piece's buffer and of the slab around it: calls name either of them.
fn ids(trace: &Trace, piece: &Piece) -> [Option<u64>; 2] {
    let buffer = piece.buffer.map(|index| &trace.buffers[index]);
    [
        buffer.map(|buffer| buffer.id),
        buffer.and_then(|buffer| buffer.slab),
    ]
}

/// The launch of each kernel: the launch that the kernel names, otherwise the latest earlier launch of that name on that
/// device.
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
