//! Sums and savings of random traces.

use crate::support::{Builder, DEVICE, model};
use cuda_um_trace::{
    Attribution, Cause, KernelRun, MigrationReport, OperationKind, Place, Record, RecordKind,
    Saving, Trace, Traffic,
};
use proptest::prelude::*;

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

/// A step of a program with one of two buffers: a launch, a use by the host, or a prefetch. The first flag is that it writes, or goes to the
/// host; the other that pages fault, or move.
type Step = (u8, usize, bool, bool);

fn step() -> impl Strategy<Value = Step> {
    (0..3_u8, 0..2_usize, any::<bool>(), any::<bool>())
}

fn program(steps: &[Step]) -> Trace {
    let mut builder = Builder::new();
    let ids = ["a", "b"].map(|name| builder.buffer(name, 3 * 64 * 1024));
    for &(kind, buffer, one, moves) in steps {
        let id = ids[buffer];
        match (kind, moves) {
            (0, true) => builder.launch_faulting("k", &[(id, one)]),
            (0, false) => builder.launch("k", &[(id, one)]),
            (1, true) => builder.host_faulting(id, one),
            (1, false) => builder.host(id, one),
            _ => {
                let to = if one { Place::Host } else { DEVICE };
                builder.prefetch_of_nothing(id, to);
                if moves {
                    builder.move_all(id, 3 * 64 * 1024, to, Cause::User);
                }
            }
        }
    }
    builder.finish()
}
