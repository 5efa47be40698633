//! The measured case: 3 rounds over 3 MiB, without a prefetch and with a prefetch.

use crate::alone::{alone, operations, sums};
use cuda_um::{Device, Location, Stream, UnifiedBuffer};
use cuda_um_testkit::{Add, device, on_gpu};
use um_profile::trace::{Cause, OperationKind, Place, RecordKind, Trace};
use um_profile::{MigrationCounter, MigrationCounts, Profiler};

const ROUNDS: usize = 3;
/// 3 MiB.
const COUNT: usize = 768 * 1024;
const BYTES: u64 = 4 * COUNT as u64;

/// In each round the host writes all elements, a kernel adds 1 to each, and the host reads all.
fn rounds(device: &Device, stream: &Stream, add: &Add, prefetch: bool) {
    let mut targets = UnifiedBuffer::<u32>::zeroed(device, COUNT).unwrap();
    targets.set_name("targets");
    for _ in 0..ROUNDS {
        targets.host_mut().unwrap().fill(1);
        if prefetch {
            targets.prefetch_on(Location::from(device), stream).unwrap();
        }
        add.launch(stream, COUNT, (&mut targets, COUNT as u32, 1u32))
            .unwrap();
        assert!(targets.host().unwrap().iter().all(|value| *value == 2));
    }
}

fn traced(prefetch: bool) -> Trace {
    let _alone = alone();
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let work = || rounds(&device, &stream, &add, prefetch);
    let ((), trace) = um_profile::profile(device.runtime(), work).unwrap();
    check(&trace);
    trace
}

/// Checks that hold for every trace of the rounds, on any machine.
fn check(trace: &Trace) {
    assert_eq!((trace.dropped_records, trace.dropped_operations), (0, 0));
    let source = if on_gpu() { "CUPTI" } else { "simulator" };
    assert_eq!(trace.source.name, source);
    assert_eq!(trace.devices[0].ordinal, 0);

    let sums = sums(trace);
    assert_eq!(sums.bytes_to_device, ROUNDS as u64 * BYTES, "{sums:?}");
    // Before the first round the zeros move to the host.
    assert_eq!(sums.bytes_to_host, (ROUNDS as u64 + 1) * BYTES, "{sums:?}");
    assert!(sums.cpu_faults > 0, "{sums:?}");

    // Every record concerns whole pages of the only buffer.
    let buffer = trace
        .buffers
        .iter()
        .find(|buffer| buffer.name == "targets")
        .unwrap();
    assert_eq!((buffer.bytes, buffer.element_bytes), (BYTES, 4));
    assert!(buffer.managed && buffer.allocated.is_some() && buffer.freed.is_some());
    assert!(buffer.site.as_ref().unwrap().contains("rounds.rs:"));
    for record in &trace.records {
        assert!(
            (buffer.address..buffer.address + BYTES).contains(&record.address),
            "{record:?} {buffer:?}"
        );
        assert!(record.start <= record.end, "{record:?}");
        assert!(
            trace.start <= record.start && record.end <= trace.end,
            "{record:?} outside of {}..{}",
            trace.start,
            trace.end
        );
    }

    // Each run of the kernel has its launch, and the launch writes the buffer.
    let launches = operations(trace, |kind| matches!(kind, OperationKind::Launch { .. }));
    let runs: Vec<_> = trace
        .kernels
        .iter()
        .filter(|run| run.name == "add")
        .collect();
    assert_eq!((launches.len(), runs.len()), (ROUNDS, ROUNDS));
    for (launch, run) in launches.iter().zip(runs) {
        assert_eq!(run.operation, Some(launch.id));
        assert!(launch.start <= run.start && run.start < run.end);
        let [access] = launch.accesses[..] else {
            panic!("{launch:?}")
        };
        assert_eq!((access.buffer, access.offset), (buffer.id, 0));
        assert_eq!((access.bytes, access.write), (BYTES, true));
    }
    let to_vec = Trace::from_json(&trace.to_json()).unwrap();
    assert_eq!(&to_vec, trace);
}

#[test]
fn without_hints_the_kernel_faults_everything_in() {
    let trace = traced(false);
    let sums = sums(&trace);
    assert!(sums.gpu_faults > 0 && sums.gpu_fault_groups > 0, "{sums:?}");
    for record in &trace.records {
        if let RecordKind::Migration { to, cause, .. } = record.kind {
            assert!(
                matches!(cause, Cause::Coherence | Cause::Prefetch),
                "{to:?}: {cause:?}"
            );
        }
    }
}

#[test]
fn with_a_prefetch_it_faults_nothing_in() {
    let trace = traced(true);
    let sums = sums(&trace);
    assert_eq!((sums.gpu_faults, sums.gpu_fault_groups), (0, 0));
    let prefetches = operations(&trace, |kind| {
        *kind
            == OperationKind::Prefetch {
                to: Place::Device(0),
                left_out: false,
            }
    });
    // One for the zeros, and one for each round.
    assert_eq!(prefetches.len(), ROUNDS + 1);
    for record in &trace.records {
        if let RecordKind::Migration {
            to: Place::Device(_),
            cause,
            bytes,
            ..
        } = record.kind
        {
            assert_eq!(cause, Cause::User);
            assert!(bytes <= 2 << 20, "{record:?}");
        }
    }
}

/// The counter's sums for the same work, without storing records.
#[test]
fn records_and_sums_agree_over_two_runs() {
    let prefetched = sums(&traced(true));
    let _alone = alone();
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let counter = MigrationCounter::start(device.runtime()).unwrap();
    rounds(&device, &stream, &add, true);
    device.synchronize().unwrap();
    let counted = counter.read().unwrap();
    let bytes = |of: MigrationCounts| (of.bytes_to_device, of.bytes_to_host, of.gpu_faults);
    assert_eq!(bytes(counted), bytes(prefetched));
    assert_eq!(counted.dropped_records, 0);
}

#[test]
fn profiles_follow_one_another() {
    let first = traced(true);
    let second = traced(true);
    assert_eq!(first.operations.len(), second.operations.len());
    assert!(first.end <= second.start || !on_gpu());
}

#[test]
fn a_profiler_that_is_dropped_gives_nothing_and_the_next_one_starts() {
    let _alone = alone();
    let (_sim, device, stream) = device();
    let add = Add::load(&device);
    let profiler = Profiler::start(device.runtime()).unwrap();
    rounds(&device, &stream, &add, true);
    drop(profiler);
    rounds(&device, &stream, &add, true);
    let ((), trace) = um_profile::profile(device.runtime(), || ()).unwrap();
    assert_eq!((trace.operations.len(), trace.buffers.len()), (0, 0));
    assert_eq!(trace.records, []);
}

#[test]
fn a_trace_with_a_name_of_any_length_is_read_back() {
    let _alone = alone();
    let (_sim, device, _stream) = device();
    let work = || {
        let mut buffer = UnifiedBuffer::<u32>::zeroed(&device, 10).unwrap();
        buffer.set_name(format!("x{}", "ä".repeat(40_000)));
        buffer
    };
    let (buffer, trace) = um_profile::profile(device.runtime(), work).unwrap();
    let read = Trace::from_json(&trace.to_json()).unwrap();
    assert_eq!(read.buffers.last().unwrap().name.len(), 80_001);
    drop(buffer);
}
