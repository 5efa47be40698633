//! Each finding on a trace that has it, and no finding on the trace of a program that follows the advice.

use crate::support::{Builder, DEVICE, model};
use cuda_um_trace::{
    Call, Cause, Finding, FindingKind, MigrationReport, OperationKind, Place, RecordKind, Saving,
    Trace,
};

const MIB: u64 = 1 << 20;

fn report(trace: &Trace) -> MigrationReport {
    MigrationReport::of(trace, &model())
}

fn findings(builder: Builder) -> Vec<Finding> {
    report(&builder.finish()).findings
}

fn sentences(builder: Builder) -> Vec<String> {
    findings(builder).iter().map(ToString::to_string).collect()
}

/// Three rounds over 3 MiB: the host writes, a kernel changes everything, the host reads.
fn rounds(prefetch: bool) -> Builder {
    let mut builder = Builder::new();
    let targets = builder.buffer("targets", 3 * MIB);
    for round in 0..3 {
        if prefetch {
            if round > 0 {
                builder.prefetch(targets, Place::Host);
            }
            builder.host(targets, true);
            builder.prefetch(targets, DEVICE);
            builder.launch("cosine", &[(targets, true)]);
        } else {
            match round {
                0 => builder.host(targets, true),
                _ => builder.host_faulting(targets, true),
            }
            builder.launch_faulting("cosine", &[(targets, true)]);
        }
    }
    builder
}

#[test]
fn faults_are_named_and_following_the_advice_leaves_nothing_to_avoid() {
    let before = report(&rounds(false).finish());
    let model = crate::support::model();
    // In the model the faults of 144 groups take longer than the kernels: the kernels' time counts.
    let trace = rounds(false).finish();
    let ran: u64 = trace.kernels.iter().map(|run| run.end - run.start).sum();
    let was = std::time::Duration::from_nanos(ran);
    assert!(was < model.gpu_fault_group * 144);
    let will = model.prefetch * 3 + cuda_um_cost::at_rate(9 * MIB, model.prefetch_to_device_rate);
    let first = &before.findings[0];
    assert_eq!(first.saves.time.as_micros(), (was - will).as_micros());
    assert_eq!(
        first.to_string(),
        "432 faults on `targets` during 3 runs of `cosine`: prefetch it before the launch (saves about 2.85 ms)"
    );
    assert_eq!(
        first.code.clone().unwrap(),
        "targets.prefetch(Location::Device(0))?; // before `cosine`"
    );
    assert_eq!(
        before.findings[1].observation(),
        "96 faults of the host on `targets` in 2 accesses (6.00 MiB moved back)"
    );
    assert!(matches!(
        before.findings[1].kind,
        FindingKind::HostFaults { writes: true, .. }
    ));
    assert_eq!(before.avoidable.faults, 432 + 96);
    assert_eq!(before.buffers[0].avoidable, before.avoidable);

    let after = report(&rounds(true).finish());
    assert_eq!(after.findings, []);
    assert_eq!(after.avoidable, Saving::default());
    assert_eq!(after.total.to_device_bytes, before.total.to_device_bytes);
    assert_eq!(after.total.to_host_bytes, before.total.to_host_bytes);
}

#[test]
fn a_device_without_concurrent_managed_access_gets_no_prefetch_and_no_advice() {
    let mut builder = rounds(false);
    builder.trace.devices[0].concurrent_managed_access = false;
    let report = report(&builder.finish());
    let [only] = &report.findings[..] else {
        panic!("{:?}", report.findings);
    };
    assert_eq!(only.call(), Some(Call::MapMemory));
    assert!(!only.alternative);
    assert_eq!(report.avoidable, only.saves);
}

#[test]
fn ping_pong_is_an_alternative_that_is_not_counted_twice() {
    let report = report(&rounds(false).finish());
    let alternative: Vec<_> = report
        .findings
        .iter()
        .filter(|one| one.alternative)
        .collect();
    let [ping_pong] = alternative[..] else {
        panic!("{alternative:?}");
    };
    let expected = FindingKind::PingPong {
        alternations: 4,
        bytes: 15 * MIB,
    };
    assert_eq!(ping_pong.kind, expected);
    let counted = report.findings.iter().filter(|one| !one.alternative);
    let sum: std::time::Duration = counted.map(|one| one.saves.time).sum();
    assert_eq!(report.avoidable.time, sum);
}

#[test]
fn fresh_memory_is_populated_by_a_prefetch() {
    let mut builder = Builder::new();
    let out = builder.buffer("out", 4 * MIB);
    let address = builder.get(out).address;
    builder.launch_with("fill", &[(out, true)], |builder| {
        builder.gpu_fault(address, 40)
    });
    assert_eq!(
        findings(builder)[0].observation(),
        "40 faults on fresh memory of `out` during `fill`"
    );
}

#[test]
fn reading_results_back_by_faults() {
    let mut builder = Builder::new();
    let scores = builder.buffer("scores", MIB);
    builder.launch("cosine", &[(scores, true)]);
    builder.host_faulting(scores, false);
    let sentences = sentences(builder);
    assert_eq!(
        sentences,
        [
            "16 faults of the host on `scores` in 1 access (1.00 MiB moved back): prefetch it to the host first, or allocate memory for read-back (saves about 209 us)"
        ]
    );
}

#[test]
fn first_touches_of_the_host_are_nobodys_fault() {
    let mut builder = Builder::new();
    let targets = builder.buffer("targets", MIB);
    let address = builder.get(targets).address;
    builder.host_with(targets, true, |builder| builder.cpu_fault(address));
    assert_eq!(findings(builder), []);
}

#[test]
fn prefetched_twice_with_nothing_in_between() {
    let twice = |between: &dyn Fn(&mut Builder, u64)| {
        let mut builder = Builder::new();
        let targets = builder.buffer("targets", 4 * MIB);
        builder.prefetch(targets, DEVICE);
        between(&mut builder, targets);
        builder.prefetch_of_nothing(targets, DEVICE);
        builder.launch("cosine", &[(targets, false)]);
        sentences(builder)
    };
    assert_eq!(
        twice(&|_, _| ()),
        [
            "`targets` was prefetched to device 0 1 time more with nothing in between: remove the later call (saves about 4.00 us)"
        ]
    );
    assert_eq!(
        twice(&|builder, targets| builder.host(targets, false)),
        [""; 0]
    );
    assert_eq!(
        twice(&|builder, targets| builder.launch("cosine", &[(targets, false)])),
        [""; 0]
    );
    // A kernel with unknown buffers may have used it.
    let unknown = |builder: &mut Builder, _| builder.launch("unknown", &[]);
    assert_eq!(twice(&unknown), [""; 0]);
}

#[test]
fn prefetched_for_nobody() {
    let back = |used: bool| {
        let mut builder = Builder::new();
        let targets = builder.buffer("targets", 2 * MIB);
        builder.prefetch(targets, DEVICE);
        if used {
            builder.launch("cosine", &[(targets, true)]);
        }
        builder.host_faulting(targets, false);
        findings(builder)
    };
    let unused = back(false);
    let expected = FindingKind::PrefetchUnused {
        device: 0,
        times: 1,
        bytes: 4 * MIB,
    };
    assert_eq!(unused[0].kind, expected);
    assert_eq!(unused[0].saves.bytes, 4 * MIB);
    assert_eq!(unused[0].saves.faults, 32);
    assert_eq!(unused.len(), 1, "the faults are counted once: {unused:?}");
    assert!(matches!(back(true)[0].kind, FindingKind::HostFaults { .. }));
}

#[test]
fn prefetched_memory_that_is_evicted_before_its_use() {
    let mut builder = Builder::new();
    let targets = builder.buffer("targets", 2 * MIB);
    builder.prefetch(targets, DEVICE);
    builder.move_all(targets, 2 * MIB, Place::Host, Cause::Eviction);
    builder.launch_with("cosine", &[(targets, true)], |builder| {
        builder.fault_in(targets);
    });
    let found = sentences(builder);
    let is = |one: &String| {
        one.starts_with("`targets` was prefetched to device 0 1 time, and evicted before its use there (4.00 MiB in vain): the device is full")
    };
    assert!(found.iter().any(is), "{found:?}");
}

#[test]
fn an_elided_prefetch_of_memory_that_had_left() {
    let elided = |faults: bool| {
        let mut builder = Builder::new();
        let targets = builder.buffer("targets", 2 * MIB);
        for _ in 0..2 {
            let kind = OperationKind::Prefetch {
                to: DEVICE,
                left_out: true,
            };
            builder.operation(kind, &[(targets, false)]);
            match faults {
                true => builder.launch_faulting("cosine", &[(targets, true)]),
                false => builder.launch("cosine", &[(targets, true)]),
            }
        }
        let found = findings(builder).into_iter().map(|one| one.kind);
        found
            .filter(|kind| matches!(kind, FindingKind::LeftOut { .. }))
            .collect::<Vec<_>>()
    };
    let expected = FindingKind::LeftOut {
        times: 2,
        faults: 192,
    };
    assert_eq!(elided(true), [expected]);
    assert_eq!(elided(false), []);
}

#[test]
fn read_mostly_that_is_written() {
    let writes = |times: u64, unset: bool| {
        let mut builder = Builder::new();
        let targets = builder.buffer("targets", 2 * MIB);
        let address = builder.get(targets).address;
        builder.advise(targets, "SetReadMostly");
        if unset {
            builder.advise(targets, "UnsetReadMostly");
        }
        for _ in 0..times {
            builder.launch("cosine", &[(targets, false)]);
            builder.host_with(targets, true, |builder| builder.cpu_fault(address));
            // A second write has nothing left to collapse.
            builder.host(targets, true);
        }
        findings(builder)
    };
    let found = writes(40, false);
    assert_eq!(
        found[0].to_string(),
        "read-mostly `targets` was collapsed by a write 40 times: unset read-mostly, because the buffer is written too often (saves about 80.0 us)"
    );
    assert_eq!(
        found[0].code.clone().unwrap(),
        "targets.advise(Advice::UnsetReadMostly)?;"
    );
    assert_eq!(writes(1, false), []);
    assert_eq!(writes(40, true), []);
}

/// Host and device read in turn.
fn read_in_turn(kernel_writes: bool) -> Builder {
    let mut builder = Builder::new();
    let table = builder.buffer("table", 2 * MIB);
    builder.host(table, true);
    for _ in 0..3 {
        builder.launch_faulting("look_up", &[(table, kernel_writes)]);
        builder.host_faulting(table, false);
    }
    builder
}

#[test]
fn read_by_both_wants_read_mostly() {
    let mut found = findings(read_in_turn(false));
    found.sort_by_key(|one| std::cmp::Reverse(one.saves.bytes * u64::from(!one.alternative)));
    // To the device, (back, to the device), (back, to the device), back: only the last way back is still needed for a reader.
    assert_eq!(found[0].kind, FindingKind::ReadByBoth { bytes: 8 * MIB });
    assert_eq!(
        found[0].code.clone().unwrap(),
        "table.advise(Advice::SetReadMostly)?; // before the first kernel"
    );
    let first_run = found.iter().find_map(|one| match one.kind {
        FindingKind::DeviceFaults { runs, faults, .. } => Some((runs, faults)),
        _ => None,
    });
    assert_eq!(first_run, Some((1, 96)), "the first kernel has to fetch it");
    let in_vain = |builder| {
        let found = findings(builder);
        found
            .iter()
            .any(|one| matches!(one.kind, FindingKind::ReadByBoth { .. }))
    };
    assert!(
        !in_vain(read_in_turn(true)),
        "kernels that write need it back"
    );
}

#[test]
fn what_the_driver_complains_of() {
    let mut builder = Builder::new();
    let hot = builder.buffer("hot", 2 * MIB);
    let address = builder.get(hot).address;
    builder.launch_with("update", &[(hot, true)], |builder| {
        builder.record(RecordKind::Thrashing { bytes: 4096 }, address, 0);
        builder.record(RecordKind::Throttling { place: DEVICE }, address, 5_000);
        let (by, at) = (DEVICE, Place::Host);
        builder.record(
            RecordKind::RemoteMap {
                by,
                at,
                bytes: 4096,
            },
            address,
            0,
        );
        builder.migration(address, MIB, Place::Host, Cause::Eviction);
    });
    let observed: Vec<String> = findings(builder).iter().map(Finding::observation).collect();
    assert_eq!(
        observed,
        [
            "the driver detected thrashing of `hot` 1 time, and throttled processors 1 time",
            "4.00 KiB of `hot` were mapped over the link and did not move, 1 time",
            "1.00 MiB of `hot` were evicted from the full device",
        ]
    );
}

#[test]
fn names_that_are_no_rust_are_not_put_into_code() {
    let code = |name: &str| {
        let mut builder = Builder::new();
        let buffer = builder.buffer(name, MIB);
        builder.launch_faulting("cosine", &[(buffer, false)]);
        findings(builder)[0].code.clone().unwrap()
    };
    for name in ["targets", "self.weights", "layers[3].bias"] {
        let expected = format!("{name}.prefetch(Location::Device(0))?; // before `cosine`");
        assert_eq!(code(name), expected);
    }
    for name in [
        "UnifiedBuffer<f32>[1024]",
        "",
        "a b",
        "3d",
        "a[",
        "a[]",
        "a[x]",
        "a..b",
        "a[1]b",
    ] {
        assert_eq!(
            code(name),
            "buffer.prefetch(Location::Device(0))?; // before `cosine`",
            "{name}"
        );
    }
}

#[test]
fn a_buffer_without_a_name_shows_where_it_was_made() {
    let mut builder = Builder::new();
    let buffer = builder.buffer("UnifiedBuffer<f32>[1024]", MIB);
    builder.trace.buffers[0].site = Some("src/layer.rs:12".to_owned());
    builder.launch_faulting("cosine", &[(buffer, false)]);
    let observed = findings(builder)[0].observation();
    let expected = "`UnifiedBuffer<f32>[1024] of src/layer.rs:12`";
    assert!(observed.contains(expected), "{observed}");
}

#[test]
fn slabs_get_no_advice() {
    let mut builder = Builder::new();
    let slab = builder.buffer("slab<u8>[8388608]", 8 * MIB);
    let base = builder.get(slab).address;
    builder.buffer_at("small", base, MIB / 2, Some(slab));
    builder.launch_faulting("cosine", &[(slab, false)]);
    let advised: Vec<_> = findings(builder)
        .into_iter()
        .map(|found| found.name)
        .collect();
    assert!(
        !advised.iter().any(|name| name.contains("slab")),
        "{advised:?}"
    );
}
