//! Wrong kernels, one defect each, and what is said about them.

use cuda_um_ptx::{Checks, Extent, Failure, FindingKind, Launch};

use crate::support::{Arrays, assert_kind, body, finding, program, run_with};

#[test]
fn out_of_bounds() {
    let found = assert_kind(
        "setp.eq.u32 %p0, %r3, 3; mov.u64 %rd2, %rd1; @%p0 add.u64 %rd2, %rd1, 0x100000;\n ld.global.u32 %r4, [%rd2];",
        8,
        FindingKind::OutOfBounds,
    );
    assert_eq!(
        (found.line, found.thread, found.address),
        (9, [3, 0, 0], Some(0x30000 + 24 + 0x100000))
    );
    assert_eq!(found.instruction, "ld.global.u32 %r4, [%rd2];");
    assert_kind("ld.global.u32 %r4, [0];", 1, FindingKind::OutOfBounds);
    assert_kind("st.shared.u32 [100], 1;", 1, FindingKind::OutOfBounds);
    assert_kind(
        ".local .b8 l[8]; st.local.u64 [l+8], 1;",
        1,
        FindingKind::OutOfBounds,
    );
    // The last element is read beyond the end.
    assert_kind(
        "ld.global.v2.u64 {%rd2, %rd3}, [%rd1];",
        1,
        FindingKind::OutOfBounds,
    );
    assert_kind(
        "atom.global.add.u32 %r4, [%rd1+800], 1;",
        8,
        FindingKind::OutOfBounds,
    );
    assert_kind(
        ".shared .align 16 .b8 s[16]; cp.async.ca.shared.global [s], [%rd1+8], 8;",
        1,
        FindingKind::OutOfBounds,
    );
}

#[test]
fn rows_that_begin_below_address_zero_are_out_of_bounds() {
    for step in [4, -4] {
        let text = format!(
            ".shared .b8 s[256]; mul.lo.s32 %r4, %r3, {step}; cvt.s64.s32 %rd2, %r4; add.s64 %rd2, %rd2, {}; st.shared.u32 [%rd2], 1;",
            -15 * step - 4
        );
        assert_kind(&text, 32, FindingKind::OutOfBounds);
    }
}

#[test]
fn misaligned() {
    assert_kind("ld.global.u32 %r4, [%rd1+2];", 8, FindingKind::Misaligned);
    assert_kind(
        "st.global.v2.u64 [%rd0+8], {%rd0, %rd1};",
        8,
        FindingKind::Misaligned,
    );
}

#[test]
fn freed_and_read_only_memory() {
    let text = body("ld.global.u64 %rd2, [%rd1]; st.global.u64 [%rd0], %rd2;");
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&[0u64; 8]), arrays.add(&[0u64; 8]));
    let parameters = with![out, from].0;
    let launch = Launch {
        block: [8, 1, 1],
        parameters: &parameters,
        ..Launch::default()
    };
    let kind = |arrays: &Arrays| match program(&text, "test").run(&launch, arrays) {
        Err(Failure::Finding(finding)) => finding.kind,
        other => panic!("{other:?}"),
    };
    arrays.read_only(out);
    assert_eq!(kind(&arrays), FindingKind::ReadOnly);
    arrays.free(from);
    assert_eq!(kind(&arrays), FindingKind::Freed);
}

#[test]
fn beyond_the_extent_of_an_argument() {
    // Both arguments are parts of one allocation.
    let text = body("ld.global.u64 %rd2, [%rd1]; st.global.u64 [%rd0], %rd2;");
    let mut arrays = Arrays::default();
    let base = arrays.add(&[7u64; 64]);
    let parameters = with![base, base + 256].0;
    let part = |offset, elements: u64, writable, parameter| Extent {
        base: base + offset,
        bytes: elements * 8,
        writable,
        parameter,
    };
    let run = |extents: &[Extent]| {
        let launch = Launch {
            block: [16, 1, 1],
            parameters: &parameters,
            extents,
            ..Launch::default()
        };
        match program(&text, "test").run(&launch, &arrays) {
            Ok(_) => None,
            Err(Failure::Finding(finding)) => {
                Some((finding.kind, finding.parameter, finding.thread[0]))
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(run(&[part(0, 16, true, 0), part(256, 16, false, 1)]), None);
    assert_eq!(
        run(&[part(0, 16, true, 0), part(256, 12, false, 1)]),
        Some((FindingKind::OutsideArgument, Some(1), 12))
    );
    assert_eq!(
        run(&[part(0, 16, false, 0), part(256, 16, false, 1)]),
        Some((FindingKind::ReadOnly, Some(0), 0))
    );
    // One of two overlapping arguments may be written.
    assert_eq!(run(&[part(0, 64, false, 1), part(0, 16, true, 0)]), None);
}

#[test]
fn unwritten_memory() {
    let found = assert_kind(
        ".shared .align 4 .b8 s[64]; setp.ne.u32 %p0, %r3, 2; mad.lo.u32 %r4, %r3, 4, 0; @%p0 st.shared.u32 [%r4], 1; ld.shared.u32 %r5, [%r4];",
        4,
        FindingKind::Unwritten,
    );
    assert_eq!(found.thread, [2, 0, 0]);
    let text = body("st.global.u32 [%rd1+4], 1; ld.global.u64 %rd2, [%rd1];");
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&[0u64; 2]), arrays.add(&[0u64; 2]));
    arrays.unwritten(from);
    let parameters = with![out, from].0;
    let launch = Launch {
        block: [2, 1, 1],
        parameters: &parameters,
        checks: Checks::ALL,
        ..Launch::default()
    };
    let Err(Failure::Finding(found)) = program(&text, "test").run(&launch, &arrays) else {
        panic!()
    };
    assert_eq!(
        (found.kind, found.address),
        (FindingKind::Unwritten, Some(from))
    );
}

#[test]
fn races() {
    // Between warps, between blocks, of a read and a write.
    assert_kind(
        ".shared .u32 s; st.shared.u32 [s], %r3;",
        64,
        FindingKind::Race,
    );
    assert_kind(
        "ld.param.u64 %rd2, [out]; ld.global.u32 %r4, [%rd2]; bar.warp.sync -1; setp.eq.u32 %p0, %r3, 40; @%p0 st.global.u32 [%rd2], 1;",
        64,
        FindingKind::Race,
    );
    let text = body("ld.param.u64 %rd2, [out]; st.global.u32 [%rd2], %r1;");
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&[0u64; 2]), arrays.add(&[0u64; 2]));
    let parameters = with![out, from].0;
    let launch = Launch {
        grid: [2, 1, 1],
        parameters: &parameters,
        checks: Checks::ALL,
        threads: 1,
        ..Launch::default()
    };
    let Err(Failure::Finding(found)) = program(&text, "test").run(&launch, &arrays) else {
        panic!()
    };
    assert_eq!(
        (found.kind, found.block, found.region),
        (FindingKind::Race, [1, 0, 0], Some(0))
    );
    assert!(found.detail.contains("block (0, 0, 0)"), "{found}");
    // Lanes of a warp without bar.warp.sync, and with it.
    let text = ".shared .align 4 .b8 s[128]; mad.lo.u32 %r4, %r3, 4, 0; st.shared.u32 [%r4], %r3; SYNC xor.b32 %r5, %r4, 4; ld.shared.u32 %r6, [%r5];";
    assert_kind(&text.replace("SYNC", ""), 32, FindingKind::Race);
    run_with(&text.replace("SYNC", "bar.warp.sync -1;"), &[0; 32], |_| {}).unwrap();
}

#[test]
fn no_race_between_atomics_and_what_they_order() {
    // The last block adds what all have written (the pattern of CUDA's threadFenceReduction).
    let text = "ld.param.u64 %rd5, [in]; st.global.u64 [%rd0], 5; membar.gl; atom.global.add.u32 %r4, [%rd5], 1; setp.ne.u32 %p0, %r4, 7; @%p0 bra END; \
         ld.param.u64 %rd6, [out]; ld.global.u64 %rd7, [%rd6+8]; st.global.u64 [%rd6], %rd7; END:";
    run_with(text, &[0; 8], |launch| {
        launch.grid = [8, 1, 1];
        launch.block = [1, 1, 1];
    })
    .unwrap();
}

#[test]
fn barriers_that_not_all_reach() {
    let found = assert_kind(
        "setp.lt.u32 %p0, %r3, 40; @!%p0 bra END;\n bar.sync 0;\n END:",
        64,
        FindingKind::Barrier,
    );
    assert_eq!((found.line, found.thread), (9, [40, 0, 0]));
    assert_kind(
        "setp.lt.u32 %p0, %r3, 8; @%p0 bra A; bar.sync 0; bra END; A: bar.sync 0; END:",
        32,
        FindingKind::Barrier,
    );
    assert_kind(
        "setp.lt.u32 %p0, %r3, 32; @%p0 bra A; bar.sync 0; bra END; A: bar.sync 1; END:",
        64,
        FindingKind::Deadlock,
    );
    assert_kind(
        "setp.lt.u32 %p0, %r3, 8; @%p0 bra END; shfl.sync.idx.b32 %r4, %r3, 0, 31, 0xff; END:",
        32,
        FindingKind::Barrier,
    );
    // Without the check, threads that have ended do not hold others up.
    run_with(
        "setp.lt.u32 %p0, %r3, 40; @!%p0 bra END; bar.sync 0; END:",
        &[0; 64],
        |launch| launch.checks.barriers = false,
    )
    .unwrap();
}

#[test]
fn checks_can_be_turned_off() {
    let (results, _) = run_with("ld.global.u32 %r4, [64]; add.u32 %r4, %r4, 5; st.global.u32 [64], %r4; st.global.u32 [%rd0+3], %r4;", &[0], |launch| launch.checks = Checks::NONE).unwrap();
    assert_eq!(results, [5 << 24]);
}

#[test]
fn a_finding_names_the_line_of_the_source() {
    let text = ".version 8.6 .target sm_90 .address_size 64
.file 1 \"kernel.cu\"
// body
.loc 1 42 7
    ld.global.u32 %r4, [0];";
    let found = finding(text, 1, |_| {});
    assert_eq!(found.source, Some(("kernel.cu".into(), 42)));
    let text = found.to_string();
    assert!(text.starts_with("kernel `test`, line 11: `ld.global.u32 %r4, [0];` (kernel.cu:42): no memory is there, 4 bytes at 0x0"), "{text}");
}
