//! One `mma` in each warp, on random numbers from −1 to 1, whose sums are inexact.

use super::Program;
use super::forms::Bound;
use super::values::Random;
use cuda_um_ptx::math::Type;
use cuda_um_ptx::math::float::{Bf16, F16, Float};
use cuda_um_ptx::math::mma::{Mma, mma};

/// The columns of `a`, its type, and that of the result.
const SHAPES: [(usize, Type, Type); 7] = [
    (8, Type::F16, Type::F32),
    (16, Type::F16, Type::F32),
    (8, Type::F16, Type::F16),
    (16, Type::F16, Type::F16),
    (8, Type::Bf16, Type::F32),
    (16, Type::Bf16, Type::F32),
    (8, Type::Tf32, Type::F32),
];

pub const COUNT: usize = 4 * SHAPES.len();

pub fn program(seed: u64, index: usize) -> Program {
    let (k, of, d) = SHAPES[index % SHAPES.len()];
    let (grid, block) = (8, 64);
    let mut random = Random::new(seed);
    let narrow = d == Type::F16;
    let elements = if of == Type::Tf32 { 1 } else { 2 };
    let counts = [
        16 * k / 32 / elements,
        8 * k / 32 / elements,
        if narrow { 2 } else { 4 },
    ];
    let mut number = |of: Type| {
        let mut value = || (random.next() >> 11) as f64 / (1_u64 << 52) as f64 - 1.0;
        match of {
            Type::F16 => F16::near(value()).0 as u32 | u32::from(F16::near(value()).0) << 16,
            Type::Bf16 => Bf16::near(value()).0 as u32 | u32::from(Bf16::near(value()).0) << 16,
            Type::Tf32 => (value() as f32).to_bits() & !0x1fff,
            _ => (value() as f32).to_bits(),
        }
    };
    let words: usize = counts.iter().sum();
    let (mut input, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..grid * block / 32 {
        // The words of a thread lie together.
        let mut registers = [[[0; 32]; 4]; 3];
        for lane in 0..32 {
            for ((registers, count), of) in registers.iter_mut().zip(counts).zip([of, of, d]) {
                for register in &mut registers[..count] {
                    register[lane] = number(of);
                    input.push(register[lane]);
                }
            }
        }
        let form = Mma {
            m: 16,
            k,
            a: of,
            b: of,
            d,
            sat: false,
        };
        let result = mma(form, &registers[0], &registers[1], &registers[2]);
        expected.extend((0..32).flat_map(|lane| result[..counts[2]].iter().map(move |d| d[lane])));
    }
    let name = |of: Type| format!("{of:?}").to_lowercase();
    let list = |first: usize, count: usize| {
        let names: Vec<String> = (first..first + count)
            .map(|index| format!("%s{index}"))
            .collect();
        names.join(", ")
    };
    let load = (0..words).map(|word| format!("    ld.global.b32 %s{word}, [%d0+{}];\n", 4 * word));
    let store = (0..counts[2])
        .map(|word| format!("    st.global.b32 [%d1+{}], %s{};\n", 4 * word, 16 + word));
    let text = format!(
        ".version 7.8
.target sm_80
.address_size 64

.visible .entry main(.param .u64 input, .param .u64 output)
{{
    .reg .b32 %r<4>, %s<20>;
    .reg .b64 %d<3>;
    ld.param.u64 %d0, [input];
    ld.param.u64 %d1, [output];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r0, %r0, %r1, %r2;
    mad.wide.u32 %d0, %r0, {read}, %d0;
    mad.wide.u32 %d1, %r0, {written}, %d1;
{load}    mma.sync.aligned.m16n8k{k}.row.col.{d}.{of}.{of}.{d} {{{results}}}, {{{first}}}, {{{second}}}, {{{third}}};
{store}    ret;
}}
",
        read = 4 * words,
        written = 4 * counts[2],
        load = load.collect::<String>(),
        store = store.collect::<String>(),
        d = name(d),
        of = name(of),
        results = list(16, counts[2]),
        first = list(0, counts[0]),
        second = list(counts[0], counts[1]),
        third = list(counts[0] + counts[1], counts[2]),
    );
    // `math::mma` states the bound.
    let bound = Bound {
        units: u64::from(!narrow),
        absolute: (k + 2) as f64 * 0.5_f64.powi(24),
        of: Type::F32,
    };
    Program {
        name: format!("mma m16n8k{k} {of:?} {d:?}"),
        text,
        grid,
        block,
        input,
        words: expected.len(),
        expected: (!narrow).then_some(expected),
        bound: (!narrow).then_some(bound),
    }
}
