//! Data for the search for findings: pieces and uses of each buffer, by time.

use super::{Finding, FindingKind, Saving};
use crate::{
    AccessedRange, Attribution, Explanation, Operation, OperationKind, Piece, Place, Record,
    RecordKind, Trace, units,
};
use cuda_um_cost::{CostModel, at_rate};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A piece of a record, in a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) record: usize,
    pub(crate) piece: Piece,
}

/// A use of a buffer by an operation.
#[derive(Clone, Copy)]
pub(crate) struct Use {
    pub(crate) operation: usize,
    /// The start of the use; for a kernel that ran, the start of its run.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) write: bool,
    pub(crate) by: Place,
}

/// Kinds of uses that can be queried.
#[derive(Clone, Copy)]
pub(crate) enum Wanted {
    Any,
    Writes,
    ByDevices,
}

/// Times of uses: starts, each with the latest end of all uses up to it.
#[derive(Clone, Default)]
struct Times(Vec<(u64, u64)>);

impl Times {
    fn of<'a>(uses: impl Iterator<Item = &'a Use>) -> Self {
        let mut latest = 0;
        let times = uses.map(|one| {
            latest = latest.max(one.end);
            (one.start, latest)
        });
        Self(times.collect())
    }

    /// True if there is a use in an interval.
    fn any(&self, from: u64, until: u64) -> bool {
        let before = self.0.partition_point(|&(start, _)| start <= until);
        before > 0 && self.0[before - 1].1 >= from
    }
}

pub(crate) struct Context<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) attribution: &'a Attribution,
    pub(crate) model: &'a CostModel,
    /// Pieces of each buffer, by time.
    pub(crate) parts: Vec<Vec<Part>>,
    /// Kernels, copies, fills and host guards over each buffer, by time.
    pub(crate) uses: Vec<Vec<Use>>,
    /// Every operation that names the buffer, by start, with its first access.
    over: Vec<Vec<(usize, AccessedRange)>>,
    /// Starts of operations that are not prefetches.
    calls: Vec<Vec<u64>>,
    /// Times of all uses of a buffer, of the writing uses, and of the uses by devices.
    times: Vec<[Times; 3]>,
    /// Starts of kernels with unknown buffers, in order.
    unknown_kernels: Vec<u64>,
    /// For kernels and guards that took less time than their faults in the model: the ratio of the real time to the model's
    /// time.
    shares: HashMap<Explanation, f64>,
    /// `(record, buffer)` pairs that a finding has claimed.
    claimed: RefCell<HashSet<(usize, usize)>>,
}

impl<'a> Context<'a> {
    pub(crate) fn new(
        trace: &'a Trace,
        attribution: &'a Attribution,
        model: &'a CostModel,
    ) -> Self {
        let mut order: Vec<usize> = (0..trace.records.len()).collect();
        order.sort_by_key(|&record| trace.records[record].start);
        let mut parts = vec![Vec::new(); trace.buffers.len()];
        for record in order {
            for &piece in attribution.pieces(record) {
                if let Some(buffer) = piece.buffer {
                    parts[buffer].push(Part { record, piece });
                }
            }
        }
        let knows = |kernel| {
            let launch = attribution.launch(kernel);
            launch.is_some_and(|launch| !trace.operations[launch].accesses.is_empty())
        };
        let mut unknown_kernels: Vec<u64> = (0..trace.kernels.len())
            .filter(|&kernel| !knows(kernel))
            .map(|kernel| trace.kernels[kernel].start)
            .collect();
        unknown_kernels.sort_unstable();
        let uses = uses(trace, attribution);
        let times = uses.iter().map(|list| {
            [
                Times::of(list.iter()),
                Times::of(list.iter().filter(|one| one.write)),
                Times::of(list.iter().filter(|one| one.by != Place::Host)),
            ]
        });
        let over = over(trace);
        let calls = over.iter().map(|list| {
            let operations = list.iter().map(|&(index, _)| &trace.operations[index]);
            let calls =
                operations.filter(|one| !matches!(one.kind, OperationKind::Prefetch { .. }));
            calls.map(|one| one.start).collect()
        });
        Self {
            times: times.collect(),
            calls: calls.collect(),
            parts,
            over,
            uses,
            unknown_kernels,
            shares: shares(trace, attribution, model),
            claimed: RefCell::default(),
            trace,
            attribution,
            model,
        }
    }

    /// Makes a finding about a buffer.
    pub(super) fn finding(&self, buffer: usize, kind: FindingKind, saves: Saving) -> Finding {
        let buffer = &self.trace.buffers[buffer];
        let mut name = units::short(&buffer.name).into_owned();
        // Without a name, only the place of its creation tells it from buffers of the same type and length.
        if let Some(site) = &buffer.site
            && name.contains('<')
        {
            name = format!("{name} of {}", units::short(site));
        }
        let finding = Finding {
            buffer: Some(buffer.id),
            name,
            kind,
            saves,
            alternative: false,
            code: None,
        };
        let code = finding.rust();
        Finding { code, ..finding }
    }

    /// True if the buffer's device has concurrent managed access, or is not known.
    pub(crate) fn migrates(&self, buffer: usize) -> bool {
        let ordinal = self.trace.buffers[buffer].device;
        let mut devices = self.trace.devices.iter();
        let device = devices.find(|device| device.ordinal == ordinal);
        device.is_none_or(|device| device.concurrent_managed_access)
    }

    pub(crate) fn record(&self, part: &Part) -> &'a Record {
        &self.trace.records[part.record]
    }

    pub(crate) fn explanation(&self, part: &Part) -> Explanation {
        self.attribution.explanation(part.record)
    }

    /// The kind of the operation of an explanation.
    pub(crate) fn operation_kind(&self, explanation: Explanation) -> Option<&'a OperationKind> {
        let operation = self.attribution.operation(explanation)?;
        Some(&self.trace.operations[operation].kind)
    }

    /// True if the buffers of every kernel that began in an interval are known.
    pub(crate) fn knows_kernels(&self, from: u64, until: u64) -> bool {
        let first = self.unknown_kernels.partition_point(|&start| start < from);
        self.unknown_kernels
            .get(first)
            .is_none_or(|&start| start > until)
    }

    /// The operations that name a buffer, by start, each with its first access to it.
    pub(crate) fn operations(
        &self,
        buffer: usize,
    ) -> impl Iterator<Item = (&'a Operation, AccessedRange)> {
        let operations = &self.trace.operations;
        self.over[buffer]
            .iter()
            .map(move |&(index, access)| (&operations[index], access))
    }

    /// True if an operation other than a prefetch named a buffer between two times.
    pub(crate) fn called_between(&self, buffer: usize, from: u64, until: u64) -> bool {
        let calls = &self.calls[buffer];
        let behind = calls.partition_point(|&start| start <= from);
        calls.get(behind).is_some_and(|&start| start < until)
    }

    /// True if a buffer was used in an interval, in the wanted kind.
    pub(crate) fn used(&self, buffer: usize, from: u64, until: u64, wanted: Wanted) -> bool {
        self.times[buffer][wanted as usize].any(from, until)
    }

    /// The price in the model of a part of a fault, or of `bytes` of a migration that a fault caused. It never exceeds the time
    /// of the operation in which it happened.
    pub(crate) fn fault_price(&self, part: &Part, bytes: u64) -> Duration {
        let share = self.shares.get(&self.explanation(part));
        let price = fault_price(self.model, &self.record(part).kind, bytes);
        share.map_or(price, |share| price.mul_f64(*share))
    }

    /// The faults of the device on a buffer during an operation.
    pub(crate) fn gpu_faults(&self, buffer: usize, during: &Operation) -> u64 {
        let parts = self.parts[buffer].iter();
        let faults = parts.map(|part| match self.record(part).kind {
            RecordKind::GpuFault { faults, .. } => {
                let operation = self.attribution.operation(self.explanation(part));
                let is_its = operation.is_some_and(|index| {
                    std::ptr::eq(&raw const self.trace.operations[index], during)
                });
                if is_its { faults } else { 0 }
            }
            _ => 0,
        });
        faults.sum()
    }

    /// True for faults and migrations that no finding has claimed.
    pub(crate) fn is_free(&self, part: &Part) -> bool {
        let claimed = self.claimed.borrow();
        part.piece
            .buffer
            .is_some_and(|buffer| !claimed.contains(&(part.record, buffer)))
    }

    pub(crate) fn claim(&self, part: &Part) {
        if let Some(buffer) = part.piece.buffer {
            self.claimed.borrow_mut().insert((part.record, buffer));
        }
    }
}

impl Part {
    pub(crate) fn is_fault(&self, record: &Record) -> bool {
        matches!(
            record.kind,
            RecordKind::CpuFault { .. } | RecordKind::GpuFault { .. }
        )
    }
}

fn fault_price(model: &CostModel, kind: &RecordKind, bytes: u64) -> Duration {
    match *kind {
        RecordKind::GpuFault { faults, .. } => {
            model.gpu_fault_group
                + Duration::from_secs_f64(model.gpu_fault.as_secs_f64() * faults as f64)
        }
        RecordKind::CpuFault { .. } => model.cpu_fault,
        RecordKind::Migration { cause, .. } if cause.by_fault() => at_rate(bytes, model.fault_rate),
        _ => Duration::ZERO,
    }
}

fn shares(
    trace: &Trace,
    attribution: &Attribution,
    model: &CostModel,
) -> HashMap<Explanation, f64> {
    let mut prices: HashMap<Explanation, Duration> = HashMap::new();
    for (index, record) in trace.records.iter().enumerate() {
        let bytes = match record.kind {
            RecordKind::Migration { bytes, .. } => bytes,
            _ => 0,
        };
        let price = prices.entry(attribution.explanation(index)).or_default();
        *price += fault_price(model, &record.kind, bytes);
    }
    let share = |(explanation, price): (Explanation, Duration)| {
        let (start, end) = match explanation {
            Explanation::Run(kernel) => {
                let run = &trace.kernels[kernel];
                (run.start, run.end)
            }
            Explanation::Operation(operation) => {
                let operation = &trace.operations[operation];
                // Work on streams continues after its call.
                (operation.kind == OperationKind::Host)
                    .then_some((operation.start, operation.end))?
            }
            Explanation::Nothing => return None,
        };
        let took = Duration::from_nanos(end.saturating_sub(start));
        // A duration of zero means that the source gives no durations.
        (Duration::ZERO < took && took < price)
            .then(|| (explanation, took.as_secs_f64() / price.as_secs_f64()))
    };
    prices.into_iter().filter_map(share).collect()
}

fn over(trace: &Trace) -> Vec<Vec<(usize, AccessedRange)>> {
    let ids = indices(trace);
    let mut over: Vec<Vec<(usize, AccessedRange)>> = vec![Vec::new(); trace.buffers.len()];
    for (index, operation) in trace.operations.iter().enumerate() {
        for access in &operation.accesses {
            if let Some(&buffer) = ids.get(&access.buffer)
                && over[buffer].last().is_none_or(|&(last, _)| last != index)
            {
                over[buffer].push((index, *access));
            }
        }
    }
    for list in &mut over {
        list.sort_by_key(|&(index, _)| (trace.operations[index].start, index));
    }
    over
}

fn indices(trace: &Trace) -> HashMap<u64, usize> {
    let buffers = trace.buffers.iter().enumerate();
    buffers.map(|(index, buffer)| (buffer.id, index)).collect()
}

fn uses(trace: &Trace, attribution: &Attribution) -> Vec<Vec<Use>> {
    let ids = indices(trace);
    let mut ran: HashMap<usize, (u64, u64)> = HashMap::new();
    for (kernel, run) in trace.kernels.iter().enumerate() {
        if let Some(launch) = attribution.launch(kernel) {
            ran.entry(launch).or_insert((run.start, run.end));
        }
    }
    let mut uses = vec![Vec::new(); trace.buffers.len()];
    for (index, operation) in trace.operations.iter().enumerate() {
        let by = match operation.kind {
            OperationKind::Launch { .. } | OperationKind::Fill | OperationKind::Copy => {
                Place::Device(operation.device)
            }
            OperationKind::Host => Place::Host,
            _ => continue,
        };
        let (start, end) = ran
            .get(&index)
            .copied()
            .unwrap_or((operation.start, operation.end));
        for access in &operation.accesses {
            if let Some(&buffer) = ids.get(&access.buffer) {
                uses[buffer].push(Use {
                    operation: index,
                    start,
                    end,
                    write: access.write,
                    by,
                });
            }
        }
    }
    for list in &mut uses {
        list.sort_by_key(|one: &Use| (one.start, one.operation));
    }
    uses
}
