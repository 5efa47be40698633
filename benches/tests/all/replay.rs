//! Replays of traces of a simulated program: unchanged, and with changes.

use crate::alone;
use um_backend::profile::Trace;
use cuda_um::{Advice, Location, MemoryKind, Pool, Runtime, UnifiedBuffer};
use cuda_um_sim::{Gpu, LaunchContext, ReferenceError, Sim};
use cuda_um_trace::{AccessedRange, Operation, OperationKind, Place, RecordKind};
use um_benches::replay::{Change, Replay, ReplayError};

const LEN: usize = 786_432;

/// 3 rounds over 3 MiB: the host writes, a kernel reads and writes, the host reads.
fn three_rounds(prefetch: bool) -> Trace {
    fn add(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
        let data = launch.slice_mut::<f32>(0, LEN)?;
        data.iter_mut().for_each(|value| *value += 1.0);
        Ok(())
    }
    // SAFETY: the only kernel of this simulator is launched below, on buffers of LEN elements that it writes.
    #[allow(unsafe_code, reason = "the reference matches its kernel")]
    let builder = unsafe { Sim::builder().kernel("add", add) };
    let sim = builder.build().unwrap();
    let runtime = Runtime::from_table(sim.table()).unwrap();
    let device = runtime.device(0).unwrap();
    let stream = device.create_stream().unwrap();
    const PTX: &str = ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry add(.param .u64 data) { ret; }\n";
    let kernel = cuda_um::Module::load(&device, PTX)
        .unwrap()
        .kernel("add")
        .unwrap();
    let (_, trace) = um_backend::profile::profile(&runtime, || {
            let mut data = UnifiedBuffer::<f32>::zeroed(&device, LEN).unwrap();
            data.set_name("data");
            let pool = Pool::new(&device, MemoryKind::Managed, Default::default()).unwrap();
            let mut small = UnifiedBuffer::<f32>::zeroed_in(&pool, 100).unwrap();
            small.set_name("small");
            for round in 0..3 {
                data.host_mut().unwrap().fill(round as f32);
                small.host_mut().unwrap()[0] = 1.0;
                if prefetch {
                    data.prefetch_on(&device, &stream).unwrap();
                }
                // SAFETY: the kernel takes one address, and its CPU reference touches `LEN` elements.
                #[allow(unsafe_code, reason = "launches the kernel above")]
                unsafe {
                    kernel
                        .launch(
                            &stream,
                            cuda_um::LaunchConfig::linear(LEN, 256),
                            (&mut data,),
                        )
                        .unwrap();
                }
                assert_eq!(data.host().unwrap()[LEN - 1], round as f32 + 1.0);
            }
        })
        .unwrap();
    trace
}

/// Bytes in each direction, and faults: of the device, of the host.
fn sums(trace: &Trace) -> (u64, u64, u64, u64) {
    let mut sums = (0, 0, 0, 0);
    for record in &trace.records {
        match record.kind {
            RecordKind::Migration {
                to: Place::Device(_),
                bytes,
                ..
            } => sums.0 += bytes,
            RecordKind::Migration { bytes, .. } => sums.1 += bytes,
            RecordKind::GpuFault { faults, .. } => sums.2 += faults,
            RecordKind::CpuFault { .. } => sums.3 += 1,
            _ => {}
        }
    }
    sums
}

#[test]
fn as_it_was_it_moves_and_costs_the_same() {
    let _alone = alone();
    for prefetch in [false, true] {
        let trace = three_rounds(prefetch);
        assert!(sums(&trace).0 >= 9 << 20, "{:?}", sums(&trace));
        // As read from a file.
        let trace = Trace::from_json(&trace.to_json()).unwrap();
        let replayed = Replay::of(&trace).run().unwrap();
        let (was, is) = (sums(&trace), sums(&replayed.trace));
        // The replay touches the whole range of a guard, and reads the whole result.
        assert_eq!((was.0, was.2), (is.0, is.2), "{was:?} {is:?}");
        assert!(is.1 >= was.1 && is.1 <= was.1 + (9 << 20), "{was:?} {is:?}");
        assert!(replayed.left_out.is_empty(), "{:?}", replayed.left_out);
        let names: Vec<&str> = replayed
            .trace
            .kernels
            .iter()
            .map(|run| run.name.as_str())
            .collect();
        assert_eq!(names, ["add"; 3]);
        let (recorded, predicted) = (replayed.recorded.kernels, replayed.predicted.kernels);
        let ratio = predicted.as_secs_f64() / recorded.as_secs_f64();
        assert!((0.9..1.1).contains(&ratio), "{recorded:?} {predicted:?}");
    }
}

#[test]
fn with_a_prefetch_the_faults_are_gone_and_without_it_they_are_back() {
    let _alone = alone();
    let plain = three_rounds(false);
    let replayed = Replay::of(&plain)
        .change(Some("data"), Change::PrefetchBeforeUse)
        .run()
        .unwrap();
    let (_, _, gpu_faults, cpu_faults) = sums(&replayed.trace);
    assert_eq!(gpu_faults, 0);
    assert!(
        cpu_faults < sums(&plain).3,
        "{cpu_faults} of {}",
        sums(&plain).3
    );
    assert!(
        replayed.predicted.total() < replayed.recorded.total(),
        "{} {}",
        replayed.predicted,
        replayed.recorded
    );

    let hinted = three_rounds(true);
    assert_eq!(sums(&hinted).2, 0);
    let replayed = Replay::of(&hinted)
        .change(None, Change::NoPrefetch)
        .run()
        .unwrap();
    // Without the library's own prefetch, the fill of the new buffer also faults.
    assert!(sums(&replayed.trace).2 > sums(&plain).2);
}

#[test]
fn other_memory_and_other_machines() {
    let _alone = alone();
    let trace = three_rounds(false);
    let mapped = Replay::of(&trace)
        .change(None, Change::Mapped)
        .run()
        .unwrap();
    assert_eq!(sums(&mapped.trace), (0, 0, 0, 0));

    let host = Advice::SetPreferredLocation(Location::Host);
    let device = Advice::SetAccessedBy(Location::Device(0));
    let advised = Replay::of(&trace)
        .change(Some("data"), Change::Advise(host))
        .change(Some("data"), Change::Advise(device))
        .run()
        .unwrap();
    assert!(sums(&advised.trace).0 < sums(&trace).0);

    let pascal = Replay::of(&trace).gpu(Gpu::Pascal).run().unwrap();
    assert_eq!(sums(&pascal.trace).0, sums(&trace).0);
    assert!(pascal.predicted.kernels > pascal.recorded.kernels);
    let maxwell = Replay::of(&trace).gpu(Gpu::Maxwell).run();
    assert!(!maxwell.unwrap().left_out.is_empty(), "it cannot prefetch");
}

#[test]
fn what_cannot_be_is_an_error_that_says_so() {
    let _alone = alone();
    let mut trace = three_rounds(false);
    let error = Replay::of(&trace)
        .change(Some("dta"), Change::Mapped)
        .run()
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "no buffer of the trace is named `dta`; there are: data, slab<u8>[33554432], small"
    );

    let beyond = AccessedRange {
        buffer: trace.buffers[0].id,
        offset: u64::MAX,
        bytes: 2,
        write: false,
    };
    let operation = |access| Operation {
        id: 999,
        kind: OperationKind::Host,
        stream: None,
        device: 0,
        start: u64::MAX,
        end: u64::MAX,
        accesses: vec![access],
    };
    trace.operations.push(operation(beyond));
    let error = Replay::of(&trace).run().unwrap_err();
    assert!(
        matches!(error, ReplayError::Inconsistent { operation: 999, .. }),
        "{error}"
    );
    trace.operations.pop();
    trace.operations.push(operation(AccessedRange {
        buffer: 12_345,
        ..beyond
    }));
    let error = Replay::of(&trace).run().unwrap_err();
    assert!(
        error.to_string().contains("there is no buffer 12345"),
        "{error}"
    );
}

/// A trace of a few lines can ask for any number of bytes, and the replay touched them page by page.
#[test]
fn no_more_memory_than_allowed() {
    let _alone = alone();
    let json = |bytes: u64, freed: &str| {
        let buffer = |id: u64, freed: &str| {
            format!(
                r#"{{"id":{id},"name":"b{id}","site":null,"address":{},"bytes":{bytes},"element_bytes":1,"managed":true,"slab":null,"device":0,"allocated":null,"freed":{freed}}}"#,
                id << 50
            )
        };
        let host = |id: u64| {
            format!(
                r#"{{"id":{id},"operation":"host","stream":null,"device":0,"start":{0},"end":{0},"accesses":[{{"buffer":{id},"offset":0,"bytes":{bytes},"write":true}}]}}"#,
                id * 10
            )
        };
        format!(
            r#"{{"format":1,"source":{{"name":"test","cuda":"13.0"}},"end":100,"buffers":[{},{}],"operations":[{},{}]}}"#,
            buffer(1, freed),
            buffer(2, "null").replace(r#""allocated":null"#, r#""allocated":15"#),
            host(1),
            host(2)
        )
    };
    let run = |bytes: u64, freed: &str| {
        let trace = Trace::from_json(&json(bytes, freed)).unwrap();
        Replay::of(&trace).max_bytes(3 << 20).run().map(|_| ())
    };
    let huge = Trace::from_json(&json(1 << 49, "null")).unwrap();
    let error = Replay::of(&huge).run().unwrap_err();
    assert_eq!(
        error.to_string(),
        "allocating `b1` (562949953421312 bytes) would need more than the 17179869184 bytes that a replay may use at once"
    );
    run(1 << 20, "null").unwrap();
    let error = run(2 << 20, "null").unwrap_err();
    assert!(
        matches!(&error, ReplayError::TooLarge { name, bytes: 0x20_0000, most: 0x30_0000 } if name == "b2"),
        "{error}"
    );
    // Freed memory can be used again.
    run(2 << 20, "20").unwrap();
}

#[test]
fn traces_of_an_h200_cost_on_the_simulated_one_what_they_cost_there() {
    let _alone = alone();
    // Recorded by `which_hint_helped --pages` and `batch_recall --no-hints --trace` (docs/results/h200-cuda-13.0/replay.txt).
    for (name, json) in [
        ("no hints", include_str!("../data/h200-no-hints.json")),
        ("prefetch", include_str!("../data/h200-prefetch.json")),
        (
            "recall, no hints",
            include_str!("../data/h200-recall-no-hints.json"),
        ),
    ] {
        let trace = Trace::from_json(json).unwrap();
        let replayed = Replay::of(&trace).run().unwrap();
        let (recorded, predicted) = (replayed.recorded, replayed.predicted);
        let ratio = predicted.total().as_secs_f64() / recorded.total().as_secs_f64();
        assert!(
            (0.75..=1.25).contains(&ratio),
            "{name}: {recorded} {predicted}"
        );
        // The bytes to the device are equal to the GPU's.
        assert_eq!(sums(&replayed.trace).0, sums(&trace).0, "{name}");
    }
}
