//! The buffers and the operation of each record.

use crate::support::{Builder, DEVICE, model};
use cuda_um_trace::{
    Attribution, Cause, Explanation, KernelRun, MigrationReport, OperationKind, Place, Record,
    RecordKind, Saving, Trace, Traffic,
};
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn names(trace: &Trace, record: usize) -> Vec<(Option<&str>, u64)> {
    let attribution = Attribution::of(trace);
    let pieces = attribution.pieces(record).iter();
    pieces
        .map(|piece| {
            let name = piece.buffer.map(|index| trace.buffers[index].name.as_str());
            (name, piece.bytes)
        })
        .collect()
}

#[test]
fn a_pooled_buffer_comes_before_its_slab_and_a_record_is_cut_at_borders() {
    let mut builder = Builder::new();
    let slab = builder.buffer("slab", 8 * MIB);
    let base = builder.get(slab).address.next_multiple_of(2 * MIB);
    builder.buffer_at("a", base, MIB / 2, Some(slab));
    builder.buffer_at("b", base + MIB, MIB / 2, Some(slab));
    builder.migration(base, 4 * MIB, DEVICE, Cause::User);
    builder.cpu_fault(base + MIB + 5);
    builder.cpu_fault(base + 2 * MIB - 1);
    builder.cpu_fault(base + 2 * MIB);
    let trace = builder.finish();
    let (a, b, slab) = (Some("a"), Some("b"), Some("slab"));
    // The rest of a block of 2 MiB belongs to the buffer before it.
    assert_eq!(names(&trace, 0), [(a, MIB), (b, MIB), (slab, 2 * MIB)]);
    assert_eq!(names(&trace, 1), [(b, 0)]);
    assert_eq!(names(&trace, 2), [(b, 0)]);
    assert_eq!(names(&trace, 3), [(slab, 0)]);
}

#[test]
fn an_address_belongs_to_who_has_it_at_the_time() {
    let mut builder = Builder::new();
    let first = builder.buffer("first", MIB);
    let address = builder.get(first).address;
    builder.cpu_fault(address + 7);
    builder.free(first);
    builder.wait(10);
    builder.cpu_fault(address + 7);
    builder.wait(10);
    builder.buffer_at("second", address, 4096, None);
    builder.cpu_fault(address + 7);
    builder.cpu_fault(address + 8192);
    let trace = builder.finish();
    assert_eq!(names(&trace, 0), [(Some("first"), 0)]);
    assert_eq!(names(&trace, 1), [(None, 0)]);
    assert_eq!(names(&trace, 2), [(Some("second"), 0)]);
    assert_eq!(names(&trace, 3), [(None, 0)], "the second one is smaller");
}

#[test]
fn memory_that_was_imported_for_a_while_is_its_buffers_again() {
    let mut builder = Builder::new();
    let buffer = builder.buffer("buffer", MIB);
    let address = builder.get(buffer).address;
    builder.wait(10);
    let import = builder.buffer_at("import", address, 4096, None);
    builder.cpu_fault(address + 7);
    builder.free(import);
    builder.wait(10);
    builder.cpu_fault(address + 7);
    builder.cpu_fault(address + 8192);
    let trace = builder.finish();
    assert_eq!(names(&trace, 0), [(Some("import"), 0)]);
    assert_eq!(names(&trace, 1), [(Some("buffer"), 0)]);
    assert_eq!(names(&trace, 2), [(Some("buffer"), 0)]);
}

#[test]
fn padding_moves_with_its_buffer_and_a_page_means_the_buffer_on_it() {
    let mut builder = Builder::new();
    let slab = builder.buffer("slab", 2 * MIB);
    let base = builder.get(slab).address;
    let lonely = builder.buffer("lonely", 5000);
    let address = builder.get(lonely).address;
    builder.buffer_at("late", base + 4096 + 512, 256, Some(slab));
    builder.migration(address, 8192, DEVICE, Cause::User);
    builder.cpu_fault(base + 4096);
    let trace = builder.finish();
    assert_eq!(names(&trace, 0), [(Some("lonely"), 8192)]);
    assert_eq!(names(&trace, 1), [(Some("late"), 0)]);
}

fn explained(trace: &Trace) -> Vec<String> {
    let attribution = Attribution::of(trace);
    let records = 0..trace.records.len();
    records
        .map(|record| match attribution.explanation(record) {
            Explanation::Run(kernel) => trace.kernels[kernel].name.clone(),
            Explanation::Operation(operation) => format!("{:?}", trace.operations[operation].id),
            Explanation::Nothing => "nothing".into(),
        })
        .collect()
}

#[test]
fn of_two_kernels_at_once_the_one_that_uses_the_buffer_faulted() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    let b = builder.buffer("b", MIB);
    let c = builder.buffer("c", MIB);
    let at = [a, b, c].map(|id| builder.get(id).address);
    builder.launch_with("one", &[(a, false)], |builder| {
        builder.launch_with("two", &[(b, false)], |builder| {
            for address in at {
                builder.gpu_fault(address, 1);
                builder.migration(address, 4096, DEVICE, Cause::Prefetch);
            }
        });
    });
    // No operation is running: the latest launch over this memory explains the record.
    builder.wait(100_000);
    builder.gpu_fault(at[0], 1);
    builder.gpu_fault(at[2], 1);
    let expected = ["one", "one", "two", "two", "two", "two", "one", "nothing"];
    assert_eq!(explained(&builder.finish()), expected);
}

#[test]
fn a_prefetch_moves_what_it_was_asked_for_however_late() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    let b = builder.buffer("b", MIB);
    let at = [a, b].map(|id| builder.get(id).address);
    builder.prefetch_of_nothing(a, DEVICE); // 0
    builder.prefetch_of_nothing(b, DEVICE); // 1
    builder.prefetch_of_nothing(a, Place::Host); // 2
    builder.launch_with("other", &[], |builder| {
        builder.migration(at[0], 4096, DEVICE, Cause::User);
        builder.migration(at[1], 4096, DEVICE, Cause::User);
        builder.migration(at[0], 4096, Place::Host, Cause::User);
        builder.migration(at[1], 4096, Place::Host, Cause::User);
    });
    assert_eq!(explained(&builder.finish()), ["0", "1", "2", "1"]);
}

#[test]
fn the_host_guard_explains_the_hosts_faults_and_what_they_bring() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    let b = builder.buffer("b", MIB);
    let at = [a, b].map(|id| builder.get(id).address);
    builder.host_with(a, true, |builder| {
        builder.host_with(b, false, |builder| {
            for address in at {
                builder.cpu_fault(address);
                builder.migration(address, 4096, Place::Host, Cause::Coherence);
            }
        });
    });
    builder.wait(100);
    builder.cpu_fault(at[0]);
    assert_eq!(
        explained(&builder.finish()),
        ["0", "0", "1", "1", "nothing"]
    );
}

#[test]
fn kernels_without_a_launch_find_it_by_name() {
    let mut builder = Builder::new();
    let a = builder.buffer("a", MIB);
    builder.launch("one", &[(a, false)]);
    builder.launch("one", &[(a, true)]);
    let mut trace = builder.finish();
    trace
        .kernels
        .iter_mut()
        .for_each(|run| run.operation = None);
    let attribution = Attribution::of(&trace);
    assert_eq!(
        [attribution.launch(0), attribution.launch(1)],
        [Some(0), Some(1)]
    );
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![Just(Place::Host), (0..2_u32).prop_map(Place::Device)]
}

fn record() -> impl Strategy<Value = Record> {
    let cause = prop_oneof![
        Just(Cause::Unknown),
        Just(Cause::User),
        Just(Cause::Coherence),
        Just(Cause::Prefetch),
        Just(Cause::Eviction),
        Just(Cause::AccessCounters)
    ];
    let moves = (place(), place(), 0..300_u64, cause).prop_map(|(from, to, bytes, cause)| {
        RecordKind::Migration {
            from,
            to,
            bytes,
            cause,
        }
    });
    let kind = prop_oneof![
        4 => moves,
        1 => Just(RecordKind::CpuFault { instruction: 3 }),
        1 => (0..2_u32, 0..9_u64).prop_map(|(device, faults)| RecordKind::GpuFault {
            device,
            faults,
            access: Default::default()
        }),
        1 => Just(RecordKind::Thrashing { bytes: 64 }),
        1 => place().prop_map(|place| RecordKind::Throttling { place }),
        1 => (place(), place()).prop_map(|(by, at)| RecordKind::RemoteMap { by, at, bytes: 9 }),
    ];
    // Also at the very end of the address space, and with an end before the start.
    let address = prop_oneof![9 => 0..1000_u64, 1 => Just(u64::MAX - 20)];
    (kind, address, 0..100_u64, 0..120_u64).prop_map(|(kind, address, start, end)| Record {
        kind,
        address,
        start,
        end,
    })
}

fn trace() -> impl Strategy<Value = Trace> {
    let buffers = prop::collection::vec(
        (
            0..900_u64,
            0..200_u64,
            0..100_u64,
            0..100_u64,
            any::<bool>(),
        ),
        0..12,
    );
    let calls = prop::collection::vec(
        (0..6_u8, 0..14_u64, 0..100_u64, 0..50_u64, any::<bool>()),
        0..12,
    );
    let records = prop::collection::vec(record(), 0..40);
    (buffers, calls, records).prop_map(|(buffers, calls, records)| {
        let mut builder = Builder::new();
        for (number, (address, bytes, made, freed, pooled)) in buffers.into_iter().enumerate() {
            let slab = (pooled && number > 0).then_some(100);
            let id = builder.buffer_at("any", address, bytes, slab);
            let buffer = &mut builder.trace.buffers[(id - 100) as usize];
            buffer.allocated = (made > 10).then_some(made);
            buffer.freed = (freed > 30).then_some(made + freed);
        }
        for (kind, buffer, start, length, write) in calls {
            let over: Vec<(u64, bool)> = match builder.trace.buffers.get(buffer as usize) {
                Some(buffer) => vec![(buffer.id, write)],
                None => Vec::new(),
            };
            let prefetch = |to| OperationKind::Prefetch {
                to,
                left_out: write,
            };
            let kind = match kind {
                0 => OperationKind::Launch { kernel: "k".into() },
                1 => prefetch(DEVICE),
                2 => prefetch(Place::Host),
                3 => OperationKind::Host,
                4 => OperationKind::Copy,
                _ => OperationKind::Advise {
                    advice: "SetReadMostly".into(),
                    place: None,
                },
            };
            let launched = matches!(kind, OperationKind::Launch { .. });
            let id = builder.operation(kind, &over);
            let operation = &mut builder.trace.operations[id as usize];
            (operation.start, operation.end) = (start, start + length);
            if launched {
                builder.trace.kernels.push(KernelRun {
                    name: "k".into(),
                    device: 0,
                    stream: 0,
                    start: start + 3,
                    end: start + 3 + length,
                    operation: write.then_some(id),
                });
            }
        }
        let mut trace = builder.finish();
        trace.records = records;
        trace
    })
}

proptest! {
    /// For any trace, no byte is lost and none is counted twice.
    #[test]
    fn sums_over_buffers_and_operations_are_sums_over_records(trace in trace()) {
        let report = MigrationReport::of(&trace, &model());
        let mut buffers = Traffic::default();
        report.buffers.iter().for_each(|line| buffers += line.traffic);
        prop_assert_eq!(buffers, report.total);
        let mut operations = Traffic::default();
        report.operations.iter().for_each(|line| operations += line.traffic);
        prop_assert_eq!(operations, report.total);
        let causes: u64 = report.causes.iter().map(|line| line.traffic.bytes()).sum();
        prop_assert_eq!(causes, report.total.bytes());
        let expected: u64 = trace.records.iter().map(|record| match record.kind {
            RecordKind::Migration { bytes, .. } => bytes,
            _ => 0,
        }).sum();
        prop_assert_eq!(report.total.bytes(), expected);
        for index in 0..trace.records.len() {
            let attribution = Attribution::of(&trace);
            prop_assert_eq!(attribution.pieces(index).iter().filter(|piece| piece.first).count(), 1);
        }
    }

    /// For any trace, the avoidable part of a buffer, or of all buffers, is never more than its total.
    #[test]
    fn nothing_is_saved_that_was_not_there(trace in trace()) {
        let report = MigrationReport::of(&trace, &model());
        savings_are_traffic(&report)?;
        let text = report.to_string();
        let back: MigrationReport = serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
        prop_assert_eq!(back.to_string(), text);
        prop_assert_eq!(back, report);
    }

    /// The same for programs with several reasons for advice: each byte and fault counts in only one finding.
    #[test]
    fn nothing_is_saved_twice(steps in prop::collection::vec(step(), 1..25)) {
        let report = MigrationReport::of(&program(&steps), &model());
        savings_are_traffic(&report)?;
        let counted = report.findings.iter().filter(|finding| !finding.alternative);
        let mut sum = Saving::default();
        counted.for_each(|finding| sum += finding.saves);
        prop_assert_eq!(report.avoidable, sum);
    }

    /// Everything that only faults moved is avoidable: findings do not report too little.
    #[test]
    fn faults_that_a_prefetch_would_have_spared_are_all_found(launches in 1..6_usize, bytes in 1..40_u64) {
        let mut builder = Builder::new();
        let ids: Vec<u64> = (0..launches).map(|_| builder.buffer("a", bytes * 64 * 1024)).collect();
        for id in ids {
            builder.launch_faulting("k", &[(id, false)]);
        }
        let report = MigrationReport::of(&builder.finish(), &model());
        prop_assert_eq!(report.avoidable.faults, report.total.gpu_faults);
        savings_are_traffic(&report)?;
    }
}

fn savings_are_traffic(report: &MigrationReport) -> Result<(), TestCaseError> {
    let lines = report
        .buffers
        .iter()
        .map(|line| (line.avoidable, line.traffic));
    for (avoidable, traffic) in lines.chain([(report.avoidable, report.total)]) {
        prop_assert!(avoidable.faults <= traffic.gpu_faults + traffic.cpu_faults);
        prop_assert!(avoidable.bytes <= traffic.bytes());
    }
    Ok(())
}

/// A step of a program with one of two buffers: with faults, without faults, or with a prefetch that moves it or does not.
#[derive(Clone, Copy, Debug)]
enum Step {
    Launch {
        buffer: usize,
        write: bool,
        faults: bool,
    },
    Host {
        buffer: usize,
        write: bool,
        faults: bool,
    },
    Prefetch {
        buffer: usize,
        to_host: bool,
        moves: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    (0..3, 0..2_usize, any::<bool>(), any::<bool>()).prop_map(|(kind, buffer, one, other)| {
        match kind {
            0 => Step::Launch {
                buffer,
                write: one,
                faults: other,
            },
            1 => Step::Host {
                buffer,
                write: one,
                faults: other,
            },
            _ => Step::Prefetch {
                buffer,
                to_host: one,
                moves: other,
            },
        }
    })
}

fn program(steps: &[Step]) -> Trace {
    let mut builder = Builder::new();
    let ids = ["a", "b"].map(|name| builder.buffer(name, 3 * 64 * 1024));
    for step in steps {
        match *step {
            Step::Launch {
                buffer,
                write,
                faults: true,
            } => builder.launch_faulting("k", &[(ids[buffer], write)]),
            Step::Launch { buffer, write, .. } => builder.launch("k", &[(ids[buffer], write)]),
            Step::Host {
                buffer,
                write,
                faults: true,
            } => builder.host_faulting(ids[buffer], write),
            Step::Host { buffer, write, .. } => builder.host(ids[buffer], write),
            Step::Prefetch {
                buffer,
                to_host,
                moves,
            } => {
                let to = if to_host { Place::Host } else { DEVICE };
                builder.prefetch_of_nothing(ids[buffer], to);
                if moves {
                    let (address, bytes) = (
                        builder.get(ids[buffer]).address,
                        builder.get(ids[buffer]).bytes,
                    );
                    builder.migration(address, bytes, to, Cause::User);
                }
            }
        }
    }
    builder.finish()
}
