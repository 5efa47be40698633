//! Instructions of warps and blocks. What is computed from the lanes of one thread is in `generated`.

use cuda_um_ptx::{Checks, FindingKind, Launch};

use crate::support::{Arrays, Parameters, body, program, run, run_with};

fn numbers(count: u64) -> Vec<u64> {
    (0..count).collect()
}

#[test]
fn shuffles_take_the_value_of_another_lane_or_keep_their_own() {
    let shuffle = |op: &str, by: u32, clamp: u32| {
        run(
            &format!(
                "ld.global.u32 %r4, [%rd1]; shfl.sync.{op}.b32 %r5|%p0, %r4, {by}, {clamp}, -1; \
                 selp.u32 %r6, 1000, 0, %p0; add.u32 %r5, %r5, %r6; cvt.u64.u32 %rd2, %r5; st.global.u64 [%rd0], %rd2;"
            ),
            &numbers(32),
        )
    };
    let wanted = |f: &dyn Fn(u64) -> (u64, bool)| {
        (0..32)
            .map(f)
            .map(|(value, inside)| value + if inside { 1000 } else { 0 })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        shuffle("down", 3, 31),
        wanted(&|lane| if lane + 3 < 32 {
            (lane + 3, true)
        } else {
            (lane, false)
        })
    );
    assert_eq!(
        shuffle("up", 2, 0),
        wanted(&|lane| if lane >= 2 {
            (lane - 2, true)
        } else {
            (lane, false)
        })
    );
    assert_eq!(shuffle("bfly", 5, 31), wanted(&|lane| (lane ^ 5, true)));
    assert_eq!(shuffle("idx", 7, 31), wanted(&|_| (7, true)));
    // Segments of 8 lanes: the mask of segments is 0x18.
    assert_eq!(
        shuffle("idx", 3, 0x1807),
        wanted(&|lane| (lane & 24 | 3, true))
    );
    assert_eq!(
        shuffle("down", 1, 0x1807),
        wanted(&|lane| if lane % 8 < 7 {
            (lane + 1, true)
        } else {
            (lane, false)
        })
    );
}

#[test]
fn votes_matches_and_reductions_of_a_warp() {
    let results = run(
        "ld.global.u32 %r4, [%rd1]; setp.gt.u32 %p0, %r4, 4; \
         vote.sync.ballot.b32 %r5, %p0, -1; vote.sync.any.pred %p1, %p0, -1; vote.sync.all.pred %p2, !%p0, -1; vote.sync.uni.pred %p3, %p0, -1; \
         selp.u32 %r6, 1, 0, %p1; selp.u32 %r7, 2, 0, %p2; selp.u32 %r8, 4, 0, %p3; or.b32 %r6, %r6, %r7; or.b32 %r6, %r6, %r8; \
         and.b32 %r9, %r4, 3; match.any.sync.b32 %r10, %r9, -1; match.all.sync.b32 %r11|%p4, %r9, -1; selp.u32 %r12, 8, 0, %p4; or.b32 %r6, %r6, %r12; \
         redux.sync.add.s32 %r13, %r4, -1; redux.sync.max.u32 %r14, %r4, -1; add.u32 %r13, %r13, %r14; \
         shl.b32 %r6, %r6, 16; add.u32 %r6, %r6, %r13; xor.b32 %r5, %r5, %r10; mov.b64 %rd2, {%r5, %r6}; st.global.u64 [%rd0], %rd2;",
        &numbers(32),
    );
    for (lane, result) in results.into_iter().enumerate() {
        let same = (0..32)
            .filter(|other| other % 4 == lane % 4)
            .fold(0u64, |all, other| all | 1 << other);
        assert_eq!(result & 0xffff_ffff, 0xffff_ffe0 ^ same);
        assert_eq!(result >> 32, 1 << 16 | (31 * 16 + 31));
    }
}

#[test]
fn elect_activemask_and_lane_masks() {
    let results = run(
        "and.b32 %r4, %r3, 1; setp.eq.u32 %p0, %r4, 0; @!%p0 bra ODD; activemask.b32 %r5; elect.sync %r6|%p1, 0x55555555; \
         selp.u32 %r7, 100, 0, %p1; add.u32 %r6, %r6, %r7; mov.b64 %rd2, {%r5, %r6}; st.global.u64 [%rd0], %rd2; bra END; \
         ODD: mov.u32 %r5, %lanemask_lt; mov.u32 %r6, %lanemask_ge; mov.b64 %rd2, {%r5, %r6}; st.global.u64 [%rd0], %rd2; END:",
        &numbers(32),
    );
    assert_eq!(results[0], 100 << 32 | 0x5555_5555);
    assert_eq!(results[2], 0x5555_5555);
    assert_eq!(results[5], 0xffff_ffe0 << 32 | 0x1f);
}

#[test]
fn barriers_reduce_and_count() {
    let results = run(
        "setp.lt.u32 %p0, %r3, 40; bar.red.popc.u32 %r4, 0, %p0; bar.red.and.pred %p1, 1, %p0; bar.red.or.pred %p2, 1, %p0; \
         selp.u32 %r5, 1, 0, %p1; selp.u32 %r6, 2, 0, %p2; or.b32 %r5, %r5, %r6; mov.b64 %rd2, {%r4, %r5}; st.global.u64 [%rd0], %rd2;",
        &numbers(96),
    );
    assert_eq!(results, vec![2 << 32 | 40; 96]);
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
fn a_call_with_parameters_results_and_a_stack() {
    let text = ".version 8.6 .target sm_90 .address_size 64
.func (.param .b32 result) twice(.param .b32 x, .param .align 4 .b8 pair[8]) {
    .local .align 4 .b8 stack[16]; .reg .b32 %r<9>; .reg .b64 %rd<4>;
    ld.param.u32 %r1, [x]; ld.param.u32 %r2, [pair]; ld.param.u32 %r3, [pair+4];
    mov.u64 %rd1, stack; cvta.local.u64 %rd2, %rd1; st.u32 [%rd2+8], %r1; ld.local.u32 %r4, [%rd1+8];
    mad.lo.u32 %r5, %r4, 2, %r2; add.u32 %r5, %r5, %r3; st.param.b32 [result], %r5; ret;
}
// body
    and.b32 %r9, %r3, 1; setp.eq.u32 %p1, %r9, 0; @%p1 bra SKIP;
    { .param .b32 a; .param .align 4 .b8 b[8]; .param .b32 c;
      st.param.b32 [a], %r3; st.param.b32 [b], 100; st.param.b32 [b+4], 1000; call.uni (c), twice, (a, b); ld.param.b32 %r4, [c]; }
    cvt.u64.u32 %rd2, %r4; st.global.u64 [%rd0], %rd2; SKIP:";
    let results = run(text, &numbers(40));
    assert_eq!(
        results,
        (0..40)
            .map(|i| if i % 2 == 1 { i * 2 + 1100 } else { 0 })
            .collect::<Vec<u64>>()
    );
}

#[test]
fn a_branch_by_index() {
    let results = run(
        "and.b32 %r4, %r3, 3; LIST: .branchtargets A, B, C, A; brx.idx %r4, LIST; \
         A: mov.u64 %rd2, 10; bra END; B: mov.u64 %rd2, 20; bra END; C: mov.u64 %rd2, 30; END: st.global.u64 [%rd0], %rd2;",
        &numbers(32),
    );
    assert_eq!(
        results,
        (0..32)
            .map(|i| [10, 20, 30, 10][i % 4])
            .collect::<Vec<u64>>()
    );
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
    let parameters = Parameters::default().with(out).with(from).0;
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
fn asynchronous_copies_and_matrices() {
    // A product of 16 × 8 × 16 in f16: a row-major in shared memory by cp.async and ldmatrix, b by ldmatrix.trans.
    let one = |i: usize, j: usize| (i * 3 + j) % 7;
    let two = |j: usize, k: usize| (j + k * 2) % 5;
    let half = |value: usize| [0x0000u64, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600][value];
    let mut input = vec![0u64; 128];
    for i in 0..16 {
        for j in 0..16 {
            input[i * 4 + j / 4] |= half(one(i, j)) << (16 * (j % 4));
        }
        for k in 0..8 {
            input[64 + i * 2 + k / 4] |= half(two(i, k)) << (16 * (k % 4));
        }
    }
    let text = ".shared .align 16 .b8 tiles[768]; mov.u32 %r4, tiles; shl.b32 %r5, %r3, 4; add.u32 %r6, %r4, %r5; ld.param.u64 %rd5, [in]; cvt.u64.u32 %rd6, %r5; add.u64 %rd5, %rd5, %rd6;
        setp.lt.u32 %p0, %r3, 16; setp.ge.u32 %p1, %r3, 32;
        cp.async.cg.shared.global [%r6], [%rd5], 16; @%p0 cp.async.ca.shared.global [%r6+512], [%rd5+512], 16, 16; cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
        and.b32 %r7, %r3, 15; shr.u32 %r8, %r3, 4; shl.b32 %r7, %r7, 5; mad.lo.u32 %r7, %r8, 16, %r7; add.u32 %r7, %r7, %r4;
        ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r7];
        and.b32 %r9, %r3, 15; shl.b32 %r9, %r9, 4; add.u32 %r9, %r9, %r4; ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r9+512];
        mov.f32 %f0, 0f00000000;
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f0, %f0, %f0, %f0};
        ld.param.u64 %rd2, [out]; mad.wide.u32 %rd2, %r3, 16, %rd2; st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};";
    let text = body(text);
    let mut arrays = Arrays::default();
    let (out, from) = (arrays.add(&[0f32; 128]), arrays.add(&input));
    let parameters = Parameters::default().with(out).with(from).0;
    let launch = Launch {
        block: [32, 1, 1],
        parameters: &parameters,
        checks: Checks::ALL,
        ..Launch::default()
    };
    program(&text, "test")
        .run(&launch, &arrays)
        .unwrap_or_else(|failure| panic!("{failure}"));
    let results = arrays.get::<f32>(out);
    for i in 0..16 {
        for k in 0..8 {
            let wanted: usize = (0..16).map(|j| one(i, j) * two(j, k)).sum();
            let (lane, register) = (i % 8 * 4 + k / 2, i / 8 * 2 + k % 2);
            assert_eq!(results[lane * 4 + register], wanted as f32, "{i} {k}");
        }
    }
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
fn carries_go_from_one_instruction_to_the_next() {
    let results = run(
        "ld.global.v2.u32 {%r4, %r5}, [%rd1]; add.cc.u32 %r6, %r4, 0xffffffff; addc.cc.u32 %r7, %r5, 0; addc.u32 %r8, 0, 0; \
         sub.cc.u32 %r9, %r4, 2; subc.u32 %r10, %r5, 0; add.u32 %r8, %r8, %r10; mov.b64 %rd2, {%r6, %r8}; st.global.u64 [%rd0], %rd2;",
        &[1, 0xffff_ffff_0000_0001],
    );
    assert_eq!(results, [0xffff_ffff << 32, 0xffff_ffff << 32]);
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
    let parameters = Parameters::default().with(out).with(from).0;
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
