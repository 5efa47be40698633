//! The time that a recorded kernel, or host guard, would have taken with all data in place.

use cuda_um_trace::{Cause, OperationKind, Place, Record, RecordKind, Trace};
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Own times of the kernels of a trace, by the id of the launch.
///
/// For a run without a fault, the own time is the time of the run. For a run with faults, it is the time of the fastest run
/// without faults of the same kernel on the same number of bytes; otherwise it is the part of the run in which the driver
/// served no fault.
pub(crate) fn of(trace: &Trace) -> HashMap<u64, Duration> {
    let bytes: HashMap<u64, u64> = trace
        .operations
        .iter()
        .map(|operation| {
            let bytes = operation.accesses.iter().map(|access| access.bytes).sum();
            (operation.id, bytes)
        })
        .collect();
    let served = served(trace);
    let mut quickest: HashMap<(&str, u64), u64> = HashMap::new();
    let mut runs = Vec::new();
    for run in &trace.kernels {
        let Some(operation) = run.operation else {
            continue;
        };
        let Some(&bytes) = bytes.get(&operation) else {
            continue;
        };
        let served = served
            .get(&run.device)
            .map_or(0, |union| union.within(run.start, run.end));
        if served == 0 {
            let best = quickest.entry((&run.name, bytes)).or_insert(u64::MAX);
            *best = (*best).min(run.end.saturating_sub(run.start));
        }
        runs.push((operation, run, bytes, served));
    }
    runs.into_iter()
        .map(|(operation, run, bytes, served)| {
            let whole = run.end.saturating_sub(run.start);
            let faultless = quickest.get(&(run.name.as_str(), bytes)).copied();
            let own = match faultless {
                Some(best) if served > 0 => best.min(whole),
                _ => whole.saturating_sub(served),
            };
            (operation, Duration::from_nanos(own))
        })
        .collect()
}

/// Intervals in which the driver served faults, by device: those of its faults, and of the migrations that faults caused.
fn served(trace: &Trace) -> HashMap<u32, Union> {
    let mut records: Vec<&Record> = trace.records.iter().collect();
    records.sort_by_key(|record| record.start);
    let devices: BTreeSet<u32> = trace.kernels.iter().map(|run| run.device).collect();
    let of_device = |device: u32| {
        let spans = records.iter().filter(|record| match record.kind {
            RecordKind::GpuFault { device: on, .. } => on == device,
            RecordKind::Migration { cause, .. } => {
                matches!(cause, Cause::Coherence | Cause::Prefetch)
            }
            _ => false,
        });
        Union::of(spans.map(|record| (record.start, record.end)))
    };
    let devices = devices.into_iter();
    devices.map(|device| (device, of_device(device))).collect()
}

/// The total own time of the host inside its guards: the time of the guards, without the time in which the driver served faults
/// or moved memory, or a kernel ran.
pub(crate) fn of_host(trace: &Trace) -> Duration {
    let mut faults: Vec<u64> = trace
        .records
        .iter()
        .filter(|record| matches!(record.kind, RecordKind::CpuFault { .. }))
        .map(|record| record.start)
        .collect();
    faults.sort_unstable();
    let to_host: Vec<(u64, u64)> = trace
        .records
        .iter()
        .filter(|record| {
            let RecordKind::Migration { to, cause, .. } = record.kind else {
                return false;
            };
            to == Place::Host && cause != Cause::User
        })
        .map(|record| (record.start, record.end))
        .collect();
    // The service of a fault lasts until the end of the last copy that begins before the next fault.
    let mut busy: Vec<(u64, u64)> = Vec::new();
    let mut copies = to_host.iter().peekable();
    for (index, &fault) in faults.iter().enumerate() {
        let next = faults.get(index + 1).copied().unwrap_or(u64::MAX);
        let mut end = fault;
        while let Some((start, served)) = copies.next_if(|(start, _)| *start < next) {
            if *start >= fault {
                end = end.max(*served);
            }
        }
        busy.push((fault, end));
    }
    busy.extend(trace.kernels.iter().map(|run| (run.start, run.end)));
    // A guard also waits for prefetches.
    let migrations = trace
        .records
        .iter()
        .filter(|record| matches!(record.kind, RecordKind::Migration { .. }));
    busy.extend(migrations.map(|record| (record.start, record.end)));
    busy.sort_unstable();
    let busy = Union::of(busy.into_iter());
    let own = trace
        .operations
        .iter()
        .filter(|operation| operation.kind == OperationKind::Host)
        .map(|operation| {
            let (start, end) = (operation.start, operation.end);
            end.saturating_sub(start)
                .saturating_sub(busy.within(start, end))
        });
    Duration::from_nanos(own.sum())
}

/// The time that a set of intervals covers.
#[derive(Default)]
struct Union {
    /// Intervals that do not overlap, ascending, each with the time that the intervals before it cover.
    spans: Vec<(u64, u64, u64)>,
}

impl Union {
    /// From intervals sorted by start.
    fn of(spans: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut union: Vec<(u64, u64, u64)> = Vec::new();
        for (start, end) in spans.filter(|(start, end)| start < end) {
            match union.last_mut() {
                Some((_, last, _)) if start <= *last => *last = end.max(*last),
                Some(&mut (first, last, before)) => union.push((start, end, before + last - first)),
                None => union.push((start, end, 0)),
            }
        }
        Self { spans: union }
    }

    /// The covered part of an interval.
    fn within(&self, start: u64, end: u64) -> u64 {
        let until = |time: u64| {
            let behind = self.spans.partition_point(|&(start, ..)| start < time);
            let last = behind.checked_sub(1).map(|last| self.spans[last]);
            last.map_or(0, |(start, end, before)| before + time.min(end) - start)
        };
        until(end).saturating_sub(until(start))
    }
}

#[cfg(test)]
mod tests {
    use super::{of, of_host};
    use cuda_um_trace::{
        AccessedRange, Cause, KernelRun, Operation, OperationKind, Place, Record, RecordKind, Trace,
    };
    use std::time::Duration;

    fn launch(id: u64, bytes: u64) -> Operation {
        Operation {
            id,
            kind: OperationKind::Launch {
                kernel: "k".to_owned(),
            },
            stream: Some(1),
            device: 0,
            start: 0,
            end: 0,
            accesses: vec![AccessedRange {
                buffer: 1,
                offset: 0,
                bytes,
                write: false,
            }],
        }
    }

    fn run(operation: u64, start: u64, end: u64) -> KernelRun {
        KernelRun {
            name: "k".to_owned(),
            device: 0,
            stream: 7,
            start,
            end,
            operation: Some(operation),
        }
    }

    fn migration(start: u64, end: u64) -> Record {
        Record {
            kind: RecordKind::Migration {
                from: Place::Host,
                to: Place::Device(0),
                bytes: 1,
                cause: Cause::Coherence,
            },
            address: 0,
            start,
            end,
        }
    }

    #[test]
    fn a_guards_own_time_is_without_faults_and_kernels() {
        let guard = Operation {
            kind: OperationKind::Host,
            start: 100,
            end: 200,
            ..launch(1, 64)
        };
        let fault = |at| Record {
            kind: RecordKind::CpuFault { instruction: 0 },
            address: 0,
            start: at,
            end: at,
        };
        let back = |start, end| Record {
            kind: RecordKind::Migration {
                from: Place::Device(0),
                to: Place::Host,
                bytes: 1,
                cause: Cause::Coherence,
            },
            address: 0,
            start,
            end,
        };
        let trace = Trace {
            operations: vec![guard],
            kernels: vec![run(9, 90, 110)],
            records: vec![
                fault(120),
                back(122, 130),
                back(131, 135),
                fault(150),
                back(151, 160),
            ],
            ..Trace::default()
        };
        // 100 minus 100..110 of the kernel, 120..135 and 150..160.
        assert_eq!(of_host(&trace), Duration::from_nanos(65));
    }

    #[test]
    fn service_does_not_count_twice_and_faultless_runs_speak_for_the_others() {
        let trace = Trace {
            operations: vec![launch(1, 64), launch(2, 64), launch(3, 128)],
            kernels: vec![run(1, 0, 100), run(2, 200, 210), run(3, 300, 400)],
            records: vec![
                migration(10, 50),
                migration(40, 60),
                migration(310, 350),
                migration(340, 390),
            ],
            ..Trace::default()
        };
        let own = of(&trace);
        assert_eq!(own[&1], Duration::from_nanos(10), "as run 2");
        assert_eq!(own[&2], Duration::from_nanos(10));
        assert_eq!(own[&3], Duration::from_nanos(20), "100 less 310..390");
    }
}
