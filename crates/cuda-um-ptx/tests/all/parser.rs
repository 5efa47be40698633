//! What the parser and the decoder say about texts that are wrong, and that nothing makes them panic.

use cuda_um_ptx::{Device, Failure, Launch, Module};

use crate::generated::values::Random;
use crate::support::{Arrays, body};

#[test]
fn errors_name_line_text_and_what_is_expected() {
    let error = |text: &str| Module::parse(text).unwrap_err().to_string();
    assert_eq!(
        error(""),
        "line 1: found the end of the text, expected `.version` at the beginning of the module"
    );
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
    assert_eq!(
        error(&format!("{head}.entry k() {{ add.u32 %r1, %r2 }}")),
        "line 4: found `}`, expected `;` or an operand"
    );
    assert_eq!(
        error(&format!("{head}.entry k(.param .x32 a) {{ }}")),
        "line 4: found `.x32`, expected a type"
    );
    assert_eq!(
        error(&format!("{head}.entry k() {{\n\n ret;")),
        "line 6: found the end of the text, expected an instruction, a label, a directive or `}`"
    );
    assert_eq!(
        error(&format!("{head}.global .u32 a[2] = {{1, 2, 3}};")),
        "line 4: found `;`, expected an initialiser that is no longer than its variable"
    );
}

#[test]
fn invalid_kernels_are_refused_with_line_and_rule() {
    let error = |text: &str| {
        let text = body(text);
        Module::parse(&text)
            .unwrap()
            .kernel("test")
            .unwrap()
            .load(&Device::default())
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("add.u32 %r4, q, 1;"),
        "line 8: `q` is not declared: `add.u32 %r4, q, 1;`"
    );
    assert!(error("add.u32 %rd4, %rd5, %rd6;").contains("an operand of 32 bits is expected"));
    assert!(error("bra NOWHERE;").contains("there is no label `NOWHERE`"));
    assert!(error("A: A: ret;").contains("two labels `A`"));
    assert!(error("ld.global.u64 %r4, [%rd1];").contains("narrower than what is loaded"));
    assert!(error("mov.u32 %r99, 1;").contains("%r99"));
    assert!(error("setp.eq.u32 %r1, %r2, 3;").contains("`%r1` is not a predicate"));
}

#[test]
fn blocks_have_registers_and_labels_of_their_own() {
    let results = crate::support::run(
        "{ .reg .b32 t; mov.u32 t, 5; again: sub.u32 t, t, 1; setp.ne.u32 %p0, t, 0; @%p0 bra again; { .reg .b32 t; mov.u32 t, 9; mov.u32 %r4, t; } add.u32 %r4, %r4, t; } \
         { .reg .b64 t; cvt.u64.u32 t, %r4; again: st.global.u64 [%rd0], t; }",
        &[0],
    );
    assert_eq!(results, [9]);
}

/// Loads and runs what a changed text still says; anything but a panic or a hang is right. How many kernels ran.
fn survives(text: &str) -> usize {
    let Ok(module) = Module::parse(text) else {
        return 0;
    };
    let mut ran = 0;
    let variables = vec![0x10000; module.variables().count()];
    for kernel in module.kernels().take(2) {
        let Ok(program) = kernel.load(&Device::default()) else {
            continue;
        };
        let mut arrays = Arrays::default();
        let base = arrays.add(&[1u64; 512]);
        let bytes = kernel
            .parameters()
            .last()
            .map_or(0, |last| last.offset + last.bytes);
        let parameters: Vec<u8> = base.to_le_bytes().into_iter().cycle().take(bytes).collect();
        let launch = Launch {
            grid: [2, 1, 1],
            block: [40, 1, 1],
            parameters: &parameters,
            variables: &variables,
            instructions: 3000,
            threads: 1,
            ..Launch::default()
        };
        let _: Result<_, Failure> = program.run(&launch, &arrays);
        ran += 1;
    }
    ran
}

/// `CHANGED_TEXTS` is how many of each file, and the seed; 700 without.
#[test]
fn changed_texts_are_refused_or_run() {
    let root = format!("{}/../..", env!("CARGO_MANIFEST_DIR"));
    let seeds = [
        "kernels/ptx/scale.ptx",
        "kernels/ptx/reduce.ptx",
        "conformance/src/kernels.ptx",
        "crates/cuda-um-ptx/tests/wrong/wrong.ptx",
        "crates/cuda-um-ptx/tests/triton/softmax.ptx",
    ];
    let count = std::env::var("CHANGED_TEXTS").map_or(700, |text| text.parse().unwrap());
    let mut random = Random::new(count);
    let pieces: Vec<&str> = "%r1 [ ] { } ; , 0 -1 .u32 .v4 @%p1 bra shared 0f < 999999999 \" /* ( | ! .b64 ret; \0 é .b128 .f16x2 .wide .sat .cc .sync \
        .s16 .pred _ mov.b64 cvt.rn.f16.f32 set.lt.f32.f32 mad atom.global.cas.b32 vadd4.u32.u32.u32 shfl.sync.up.b32 mma selp.b32 call bar.red.popc.u32"
        .split_whitespace()
        .collect();
    let mut ran = 0;
    for seed in seeds {
        let text = std::fs::read_to_string(format!("{root}/{seed}")).unwrap();
        for _ in 0..count {
            let mut changed: Vec<char> = text.chars().take(3000 + random.below(6000)).collect();
            for _ in 0..1 + random.below(4) {
                let at = random.below(changed.len());
                match random.below(4) {
                    0 => changed.truncate(at.max(60)),
                    1 => {
                        let end = (at + random.below(12)).min(changed.len());
                        changed.drain(at..end);
                    }
                    2 => {
                        let (from, length) = (random.below(changed.len()), random.below(40));
                        let copy: Vec<char> =
                            changed[from..(from + length).min(changed.len())].to_vec();
                        changed.splice(at..at, copy);
                    }
                    _ => {
                        changed.splice(at..at, pieces[random.below(pieces.len())].chars());
                    }
                }
            }
            ran += survives(&changed.into_iter().collect::<String>());
        }
    }
    println!("{ran} kernels ran");
    assert!(ran as u64 > count / 4, "{ran} kernels ran");
}

#[test]
fn deep_and_long_texts_end() {
    let head = ".version 8.0 .target sm_80 .address_size 64 ";
    for text in [
        format!("{head}.entry k() {{ {} }}", "{".repeat(10_000)),
        format!(
            "{head}.entry k() {{ mov.u32 a, {}1{}; }}",
            "{".repeat(10_000),
            "}".repeat(10_000)
        ),
        format!("{head}.global .u32 a[4] = {}", "{".repeat(100_000)),
        format!("{head}.entry k() {{ .reg .b32 %r<4000000000>; mov.u32 %r3999999999, 1; }}"),
        format!("{head}.entry k() {{ .shared .b8 a[1000000000]; st.shared.u8 [a], 1; }}"),
        format!("{head}.global .b8 a[1000000][1000000][1000000];"),
        format!(
            "{head}.entry k() {{ {} }}",
            (0..20_000)
                .map(|i| format!("L{i}: @%p bra L{}; ", (i * 7919) % 20_000))
                .collect::<String>()
        ),
    ] {
        survives(&text);
    }
}
