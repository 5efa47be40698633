//! Divergence, progress, order, limits, reports.

use cuda_um_ptx::{Device, Failure, FindingKind, Launch, LoadError, Module};

use crate::support::{Arrays, body, program, run, run_with};

#[test]
fn lanes_meet_again_after_a_loop_of_different_lengths() {
    // Collatz: each lane its own number of steps; then one shuffle of all lanes.
    let results = run_with(
        "ld.global.u32 %r4, [%rd1]; mov.u32 %r5, 0; \
         LOOP: setp.le.u32 %p0, %r4, 1; @%p0 bra DONE; and.b32 %r6, %r4, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra EVEN; \
         mad.lo.u32 %r4, %r4, 3, 1; bra NEXT; EVEN: shr.u32 %r4, %r4, 1; NEXT: add.u32 %r5, %r5, 1; bra LOOP; \
         DONE: shfl.sync.down.b32 %r7, %r5, 1, 31, -1; mov.b64 %rd2, {%r5, %r7}; st.global.u64 [%rd0], %rd2;",
        &(1..=64).collect::<Vec<u64>>(),
        |launch| launch.profile = true,
    );
    let (results, report) = results.unwrap();
    let steps = |n: u64| {
        std::iter::successors(Some(n), |n| {
            (*n > 1).then(|| if n % 2 == 0 { n / 2 } else { n * 3 + 1 })
        })
        .count() as u64
            - 1
    };
    for (index, result) in results.into_iter().enumerate() {
        let next = if index % 32 == 31 { index } else { index + 1 };
        assert_eq!(
            result,
            steps(next as u64 + 1) << 32 | steps(index as u64 + 1)
        );
    }
    assert!(report.divergent_branches > 0);
    // The last two instructions are executed once by each warp.
    assert_eq!(report.lines.last().unwrap().instructions, 2);
}

#[test]
fn a_spin_lock_between_the_lanes_of_a_warp_ends() {
    let text = ".shared .align 4 .u32 lock; .shared .align 8 .u64 sum; setp.eq.u32 %p0, %r3, 0; @%p0 st.shared.u32 [lock], 0; @%p0 st.shared.u64 [sum], 0; bar.sync 0; \
         TRY: atom.shared.cas.b32 %r4, [lock], 0, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra TRY; \
         ld.volatile.shared.u64 %rd2, [sum]; add.u64 %rd2, %rd2, 1; st.volatile.shared.u64 [sum], %rd2; membar.cta; atom.shared.exch.b32 %r5, [lock], 0; \
         bar.sync 0; ld.shared.u64 %rd3, [sum]; st.global.u64 [%rd0], %rd3;";
    for seed in 0..3 {
        let (results, _) = run_with(text, &vec![0; 80], |launch| launch.seed = seed).unwrap();
        assert_eq!(results, vec![80; 80]);
    }
}

/// Blocks wait for each other by a counter in device memory.
const GRID_BARRIER: &str = "ld.param.u64 %rd5, [in]; bar.sync 0; setp.ne.u32 %p0, %r3, 0; @%p0 bra WAIT; \
     membar.gl; atom.global.add.u32 %r4, [%rd5], 1; WAIT: ld.volatile.global.u32 %r5, [%rd5]; setp.lt.u32 %p1, %r5, 40; @%p1 bra WAIT; \
     cvt.u64.u32 %rd6, %r5; st.global.u64 [%rd0], %rd6;";

#[test]
fn blocks_that_wait_for_each_other_take_turns() {
    for (seed, threads) in [(0, 1), (5, 1), (0, 3)] {
        let program = program(&body(GRID_BARRIER), "test");
        let mut arrays = Arrays::default();
        let (out, from) = (arrays.add(&[0u64; 40 * 33]), arrays.add(&[0u64; 40 * 33]));
        let parameters = with![out, from].0;
        let launch = Launch {
            grid: [40, 1, 1],
            block: [33, 1, 1],
            parameters: &parameters,
            seed,
            threads,
            cooperative: true,
            ..Launch::default()
        };
        let report = program.run(&launch, &arrays).unwrap();
        assert_eq!(arrays.get::<u64>(out), vec![40; 40 * 33]);
        // Both warps of a block that waits have one turn, of 4096 instructions, before the next block begins.
        assert!(threads > 1 || report.instructions < 2 * 40 * 2 * 4096);
    }
}

#[test]
fn the_order_of_blocks_depends_on_the_seed_alone() {
    // Each block takes a ticket.
    let text = body(
        "ld.param.u64 %rd5, [in]; atom.global.add.u32 %r4, [%rd5], 1; cvt.u64.u32 %rd6, %r4; st.global.u64 [%rd0], %rd6;",
    );
    let tickets = |seed| {
        let mut arrays = Arrays::default();
        let (out, from) = (arrays.add(&[0u64; 100]), arrays.add(&[0u64; 100]));
        let parameters = with![out, from].0;
        let launch = Launch {
            grid: [100, 1, 1],
            parameters: &parameters,
            seed,
            threads: 1,
            ..Launch::default()
        };
        program(&text, "test").run(&launch, &arrays).unwrap();
        arrays.get::<u64>(out)
    };
    assert_eq!(tickets(0), (0..100).collect::<Vec<u64>>());
    assert_eq!(tickets(9), tickets(9));
    assert_ne!(tickets(9), tickets(10));
    let mut sorted = tickets(9);
    sorted.sort_unstable();
    assert_eq!(sorted, tickets(0));
}

#[test]
fn an_endless_loop_reaches_the_limit() {
    let failure =
        run_with("L: bra L;", &[0; 4], |launch| launch.instructions = 100_000).unwrap_err();
    assert!(
        matches!(failure, Failure::Limit { limit: 100_000, .. }),
        "{failure}"
    );
}

#[test]
fn launches_that_are_not_possible_are_refused() {
    let refused = |change: fn(&mut Launch)| {
        matches!(run_with("", &[0; 4], change), Err(Failure::Geometry(_)))
    };
    assert!(refused(|launch| launch.block = [2000, 1, 1]));
    assert!(refused(|launch| launch.grid = [0, 1, 1]));
    assert!(refused(|launch| launch.parameters = &[]));
    assert!(refused(|launch| launch.shared_bytes = 1 << 30));
}

#[test]
fn devices_and_drivers_refuse_what_is_too_new() {
    let module = |head: &str| {
        Module::parse(&format!(
            "{head} .address_size 64\n.visible .entry k() {{ ret; }}"
        ))
        .unwrap()
    };
    let device = |compute, driver| Device { compute, driver };
    let load = |head: &str, compute, driver| {
        module(head)
            .kernel("k")
            .unwrap()
            .load(&device(compute, driver))
            .map(|_| ())
    };
    assert_eq!(load(".version 8.0 .target sm_90", (9, 0), (12, 0)), Ok(()));
    assert!(matches!(
        load(".version 8.1 .target sm_90", (9, 0), (12, 0)),
        Err(LoadError::Version { driver: (8, 0), .. })
    ));
    assert!(matches!(
        load(".version 8.0 .target sm_90", (8, 6), (12, 0)),
        Err(LoadError::Target { .. })
    ));
    assert!(matches!(
        load(".version 8.0 .target sm_90a", (10, 0), (13, 0)),
        Err(LoadError::Target { .. })
    ));
    assert_eq!(
        load(".version 8.8 .target sm_100f", (10, 3), (13, 0)),
        Ok(())
    );
}

#[test]
fn what_is_not_implemented_is_refused_with_its_line() {
    let text = body("bar.sync 0;\n    wgmma.fence.sync.aligned;");
    let error = Module::parse(&text)
        .unwrap()
        .kernel("test")
        .unwrap()
        .load(&Device::default())
        .unwrap_err();
    let LoadError::Unsupported { line, text, what } = error else {
        panic!("{error}")
    };
    assert_eq!(
        (line, text.as_str(), what.as_str()),
        (
            9,
            "wgmma.fence.sync.aligned;",
            "the instruction wgmma.fence.sync.aligned"
        )
    );
}

#[test]
fn first_touches_of_pages_are_told_once_and_in_order() {
    let text = body("ld.global.u64 %rd2, [%rd1]; st.global.u64 [%rd0], %rd2;");
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&[0u64; 1024]), arrays.add(&[1u64; 1024]));
    arrays.pages(out, 4096);
    arrays.pages(from, 2048);
    let parameters = with![out, from].0;
    let launch = Launch {
        grid: [8, 1, 1],
        block: [128, 1, 1],
        parameters: &parameters,
        threads: 1,
        ..Launch::default()
    };
    program(&text, "test").run(&launch, &arrays).unwrap();
    let touches: Vec<_> = arrays
        .touches
        .lock()
        .unwrap()
        .iter()
        .map(|touch| (touch.region, touch.page, touch.write))
        .collect();
    let page = |index: u64| (1, from + index * 2048, false);
    assert_eq!(
        touches,
        [
            page(0),
            (0, out, true),
            page(1),
            page(2),
            (0, out + 4096, true),
            page(3)
        ]
    );
}

#[test]
fn no_thread_accesses_a_page_before_its_first_touch_was_told() {
    let mut arrays = Arrays::default();
    let out = arrays.add(&[0u64; 32]);
    arrays.pages(out, 4096);
    let parameters = with![out, out].0;
    let launch = Launch {
        grid: [16, 1, 1],
        parameters: &parameters,
        threads: 4,
        ..Launch::default()
    };
    let text = body("ld.param.u64 %rd0, [out]; atom.global.add.u64 %rd2, [%rd0], 1;");
    program(&text, "test").run(&launch, &arrays).unwrap();
    assert_eq!(arrays.seen_by_touch.get(), Some(&0));
}

#[test]
fn the_report_counts_sectors_and_bank_conflicts_by_line() {
    let text = "ld.global.u32 %r4, [%rd1];\n .shared .align 4 .b8 box[8192]; shl.b32 %r5, %r3, 7; mov.u32 %r6, box; add.u32 %r5, %r5, %r6;\n st.shared.u32 [%r5], %r4;\n st.global.u32 [%rd0], %r4;";
    let (_, report) = run_with(text, &[3; 32], |launch| launch.profile = true).unwrap();
    let line = |line: u32| {
        *report
            .lines
            .iter()
            .find(|report| report.line == line)
            .unwrap()
    };
    // 32 words, 8 bytes apart: 8 sectors for 4.
    assert_eq!(
        (
            line(8).sectors,
            line(8).ideal_sectors,
            line(8).bank_conflicts
        ),
        (8, 4, 0)
    );
    assert_eq!((line(10).sectors, line(10).bank_conflicts), (0, 31));
    assert_eq!(line(11).thread_instructions, 32);
}

#[test]
fn a_read_of_shared_memory_by_another_warp_needs_a_barrier_whatever_the_order() {
    let text = ".shared .align 4 .b8 box[256]; mov.u32 %r4, box; mad.lo.u32 %r5, %r3, 4, %r4; st.shared.u32 [%r5], %r3; BARRIER \
         xor.b32 %r6, %r3, 32; mad.lo.u32 %r6, %r6, 4, %r4; ld.shared.u32 %r7, [%r6]; cvt.u64.u32 %rd2, %r7; st.global.u64 [%rd0], %rd2;";
    assert_eq!(
        run(&text.replace("BARRIER", "bar.sync 0;"), &[0; 64])[..2],
        [32, 33]
    );
    for seed in 0..4 {
        let found = crate::support::finding(&text.replace("BARRIER", ""), 64, |launch| {
            launch.seed = seed
        });
        assert!(
            matches!(found.kind, FindingKind::Race | FindingKind::Unwritten),
            "{found}"
        );
    }
}
