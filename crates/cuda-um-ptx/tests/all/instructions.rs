//! Instructions of warps and blocks that are not in `generated`.

use cuda_um_ptx::{FindingKind, Launch};

use crate::support::{Arrays, body, program, run, run_with};

fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn activemask_and_lane_masks() {
    let results = run(
        "and.b32 %r4, %r3, 1; setp.eq.u32 %p0, %r4, 0; @!%p0 bra ODD; activemask.b32 %r5; mov.u32 %r6, 7; mov.b64 %rd2, {%r5, %r6}; st.global.u64 [%rd0], %rd2; bra END; \
         ODD: mov.u32 %r5, %lanemask_lt; mov.u32 %r6, %lanemask_ge; mov.b64 %rd2, {%r5, %r6}; st.global.u64 [%rd0], %rd2; END:",
        &numbers(32),
    );
    assert_eq!(results[2], 7 << 32 | 0x5555_5555);
    assert_eq!(results[5], 0xffff_ffe0 << 32 | 0x1f);
}

#[test]
fn producers_arrive_and_consumers_wait() {
    // The first warp writes, the second reads; two barriers with counts.
    let results = run(
        ".shared .align 8 .b8 box[256]; mov.u32 %r9, box; and.b32 %r8, %r3, 31; shl.b32 %r8, %r8, 3; add.u32 %r9, %r9, %r8; mov.u32 %r10, 0; \
         setp.ge.u32 %p0, %r3, 32; @%p0 bra CONSUMER; \
         PRODUCER: bar.sync 2, 64; add.u32 %r11, %r10, %r3; cvt.u64.u32 %rd3, %r11; st.shared.u64 [%r9], %rd3; bar.arrive 1, 64; \
         add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 5; @%p1 bra PRODUCER; bra END; \
         CONSUMER: mov.u64 %rd4, 0; \
         NEXT: bar.arrive 2, 64; bar.sync 1, 64; ld.shared.u64 %rd5, [%r9]; add.u64 %rd4, %rd4, %rd5; \
         add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, 5; @%p1 bra NEXT; st.global.u64 [%rd0], %rd4; END:",
        &numbers(64),
    );
    assert_eq!(
        results[32..],
        (0..32).map(|lane| lane * 5 + 10).collect::<Vec<u64>>()
    );
}

#[test]
fn atomics_return_what_was_there() {
    let results = run(
        "// body
         .shared .align 8 .u64 sum; setp.eq.u32 %p0, %r3, 0; @%p0 st.shared.u64 [sum], 0; bar.sync 0; \
         atom.shared.add.u64 %rd2, [sum], 1; st.global.u64 [%rd0], %rd2; bar.sync 0; @!%p0 bra END; \
         ld.shared.u64 %rd3, [sum]; red.global.max.u64 [%rd0+8], %rd3; atom.global.cas.b64 %rd4, [%rd0+8], 64, 7; \
         atom.global.exch.b64 %rd5, [%rd0+8], %rd4; atom.global.inc.u32 %r4, [%rd0+16], 3; END:",
        &numbers(64),
    );
    // The warp that reaches the barrier last goes on at once.
    assert_eq!(results[1], 64);
    let mut rest = [&results[..1], &results[3..]].concat();
    rest.sort_unstable();
    assert_eq!(
        rest,
        (0..64)
            .filter(|value| ![33, 34].contains(value))
            .collect::<Vec<u64>>()
    );
}

#[test]
fn atomics_of_all_types() {
    let results = run(
        "st.global.u64 [%rd0], 0; \
         mov.b32 %r4, 0x3c003c00; red.global.add.noftz.f16x2 [%rd0], %r4; red.global.add.noftz.f16x2 [%rd0], %r4; \
         mov.f32 %f1, 0f3FC00000; atom.global.add.f32 %f2, [%rd0+4], %f1; atom.global.add.f32 %f2, [%rd0+4], %f1;",
        &[0],
    );
    assert_eq!(results[0], u64::from(3f32.to_bits()) << 32 | 0x4000_4000);
    let results = run(
        "st.global.u64 [%rd0], 0; mov.f64 %d1, 0d3FF8000000000000; red.global.add.f64 [%rd0], %d1; red.global.add.f64 [%rd0], %d1;",
        &[0],
    );
    assert_eq!(f64::from_bits(results[0]), 3.0);
    let results = run(
        "st.global.u64 [%rd0], 5; atom.global.min.s32 %r4, [%rd0], -3; atom.global.and.b32 %r5, [%rd0], 0xff; atom.global.dec.u32 %r6, [%rd0], 9; atom.global.or.b32 %r7, [%rd0+4], %r5;",
        &[0],
    );
    assert_eq!(results[0], 0xffff_fffd << 32 | 9);
}

#[test]
fn variables_with_initialisers_and_pointers_among_them() {
    let text = ".version 8.6 .target sm_90 .address_size 64
.const .align 4 .u32 table[4] = {1, 2, 0x30};
.global .align 8 .u64 pointers[2] = {generic(table), generic(table)+8};
.global .f32 pair[2][2] = {{1.5}, {0f40000000, -3.0}};
// body
    and.b32 %r4, %r3, 1; mul.wide.u32 %rd2, %r4, 8; mov.u64 %rd3, pointers; add.u64 %rd2, %rd2, %rd3;
    ld.global.u64 %rd4, [%rd2]; ld.u32 %r5, [%rd4]; ld.const.u32 %r6, [table+4]; ld.global.f32 %f1, [pair+12]; mov.b32 %r7, %f1;
    mad.lo.u32 %r5, %r5, 256, %r6; mov.b64 %rd5, {%r5, %r7}; st.global.u64 [%rd0], %rd5;";
    let text = body(text);
    let module = cuda_um_ptx::Module::parse(&text).unwrap();
    let variables: Vec<_> = module.variables().collect();
    assert_eq!(
        variables
            .iter()
            .map(|variable| (variable.name, variable.bytes, variable.constant))
            .collect::<Vec<_>>(),
        [
            ("table", 16, true),
            ("pointers", 16, false),
            ("pair", 16, false)
        ]
    );
    let mut arrays = Arrays::default();
    let addresses: Vec<u64> = variables
        .iter()
        .map(|variable| arrays.add(&vec![0u8; variable.bytes as usize]))
        .collect();
    let mut filled = Arrays::default();
    let filled_addresses: Vec<u64> = (0..3)
        .map(|index| filled.add(&module.initial_bytes(index, &addresses)))
        .collect();
    assert_eq!(addresses, filled_addresses);
    let (out, from) = (filled.add(&[0u64; 2]), filled.add(&[0u64; 2]));
    let parameters = with![out, from].0;
    let launch = Launch {
        block: [2, 1, 1],
        parameters: &parameters,
        variables: &addresses,
        ..Launch::default()
    };
    program(&text, "test").run(&launch, &filled).unwrap();
    let high = u64::from((-3f32).to_bits()) << 32;
    assert_eq!(filled.get::<u64>(out), [high | 0x102, high | 0x3002]);
}

#[test]
fn dynamic_shared_memory_lies_behind_the_static_one() {
    let text = ".version 8.6 .target sm_90 .address_size 64
.extern .shared .align 16 .b8 dynamic[];
// body
    .shared .align 4 .b8 fixed[20]; mov.u32 %r4, dynamic; mov.u64 %rd3, dynamic; cvta.shared.u64 %rd3, %rd3; st.shared.u32 [fixed+16], 7;
    st.shared.u32 [dynamic+4], 9; ld.u32 %r5, [%rd3+4]; mov.u32 %r6, %dynamic_smem_size; mad.lo.u32 %r5, %r5, 1000, %r4;
    mov.b64 %rd2, {%r5, %r6}; st.global.u64 [%rd0], %rd2;";
    let (results, report) = run_with(text, &[0], |launch| launch.shared_bytes = 64).unwrap();
    assert_eq!(results[0], 64 << 32 | 9032);
    assert_eq!((report.shared.written, report.shared.read), (8, 4));
}

#[test]
fn mbarriers_have_phases() {
    let results = run(
        ".shared .align 8 .b64 bar; .shared .align 8 .b64 box; mov.u32 %r4, bar; setp.eq.u32 %p0, %r3, 0; \
         @%p0 mbarrier.init.shared::cta.b64 [%r4], 64; bar.sync 0; setp.eq.u32 %p1, %r3, 37; @%p1 st.shared.u64 [box], 77; \
         mbarrier.arrive.shared::cta.b64 %rd2, [%r4]; \
         AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r4], 0; @!%p2 bra AGAIN; \
         ld.shared.u64 %rd3, [box]; mbarrier.test_wait.shared.b64 %p3, [%r4], %rd2; selp.u64 %rd4, 1000, 0, %p3; add.u64 %rd3, %rd3, %rd4; st.global.u64 [%rd0], %rd3;",
        &numbers(64),
    );
    assert_eq!(results, vec![1077; 64]);
}

#[test]
fn vectors_narrow_types_and_sinks() {
    let results = run(
        "ld.global.v2.u32 {%r4, %r5}, [%rd1]; ld.global.s8 %r6, [%rd1+7]; ld.global.u16 %r7, [%rd1+2]; ld.global.v4.u8 {%h1, _, %h3, %h4}, [%rd1]; \
         cvt.u32.u16 %r8, %h4; add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; mov.b32 {%h5, %h6}, %r5; cvt.u32.u16 %r9, %h6; xor.b32 %r9, %r9, %r4; st.global.v2.b32 [%rd0], {%r6, %r9};",
        &[0xff22_3344_5566_7788],
    );
    assert_eq!(
        results[0],
        (0xff22 ^ 0x5566_7788) << 32 | (0x5566 + 0x55 - 1)
    );
}

#[test]
fn printf_and_assert() {
    let text = ".version 8.6 .target sm_90 .address_size 64
.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
.global .align 1 .b8 format[12] = {116, 61, 37, 100, 32, 37, 46, 49, 102, 10, 0};
// body
    .local .align 8 .b8 values[16]; mov.u64 %rd2, values; cvta.local.u64 %rd3, %rd2; st.local.u32 [%rd2], %r3; st.local.f64 [%rd2+8], 0d3FF8000000000000;
    mov.u64 %rd4, format; cvta.global.u64 %rd4, %rd4; setp.lt.u32 %p1, %r3, 2; @!%p1 bra END;
    { .param .b64 p0; st.param.b64 [p0], %rd4; .param .b64 p1; st.param.b64 [p1], %rd3; .param .b32 result; call.uni (result), vprintf, (p0, p1); ld.param.b32 %r4, [result]; } END:";
    let text = body(text);
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&[0u64; 8]), arrays.add(&[0u64; 8]));
    let module = cuda_um_ptx::Module::parse(&text).unwrap();
    let format = arrays.add(&module.initial_bytes(0, &[0]));
    let parameters = with![out, from].0;
    let launch = Launch {
        block: [8, 1, 1],
        parameters: &parameters,
        variables: &[format],
        ..Launch::default()
    };
    program(&text, "test").run(&launch, &arrays).unwrap();
    assert_eq!(*arrays.printed.lock().unwrap(), "t=0 1.5\nt=1 1.5\n");
    let found =
        crate::support::assert_kind("setp.eq.u32 %p0, %r3, 5; @%p0 trap;", 8, FindingKind::Trap);
    assert_eq!(found.thread, [5, 0, 0]);
}
