//! `math` against LLVM's APFloat, with more operands than those of `answers.rs`, which are a GPU's; and the ends of formats.

use crate::generated::values::{Draw, Random};
use cuda_um_ptx::math::convert::{cvt, pack};
use cuda_um_ptx::math::float::{self, Bf16, F16, Float};
use cuda_um_ptx::math::mma::{Mma, mma};
use cuda_um_ptx::math::{Mode, Round, Type};
use rustc_apfloat::ieee::{BFloat, Double, Float8E4M3FN, Float8E5M2, Half, Single};
use rustc_apfloat::{FloatConvert, Round as Rounding};

fn rounding(round: Round) -> Mode {
    Mode {
        round,
        ..Mode::PLAIN
    }
}

const ROUNDS: [(Round, Rounding); 5] = [
    (Round::Near, Rounding::NearestTiesToEven),
    (Round::Zero, Rounding::TowardZero),
    (Round::Down, Rounding::TowardNegative),
    (Round::Up, Rounding::TowardPositive),
    (Round::Away, Rounding::NearestTiesToAway),
];

/// The bits, or none for a NaN.
fn bits<F: Float>(value: F) -> Option<u64> {
    (!value.is_nan()).then(|| value.bits())
}

fn oracle<A: rustc_apfloat::Float>(value: A) -> Option<u64> {
    (!value.is_nan()).then(|| value.to_bits() as u64)
}

fn arithmetic<F: Float, A: rustc_apfloat::Float>(draw: Draw) {
    let mut random = Random::new(draw as u64);
    for _ in 0..100_000 {
        let [x, y, z] = [0; 3].map(|_| draw.draw(&mut random));
        let [a, b, c] = [x, y, z].map(F::from_bits);
        let [p, q, r] = [x, y, z].map(|bits| A::from_bits(bits.into()));
        for (round, direction) in &ROUNDS[..4] {
            let mode = rounding(*round);
            for (name, result, expected) in [
                ("add", float::add(a, b, mode), p.add_r(q, *direction)),
                ("sub", float::sub(a, b, mode), p.sub_r(q, *direction)),
                ("mul", float::mul(a, b, mode), p.mul_r(q, *direction)),
                (
                    "fma",
                    float::fma(a, b, c, mode),
                    p.mul_add_r(q, r, *direction),
                ),
            ] {
                let case = (name, x, y, z, round);
                assert_eq!(bits(result), oracle(expected.value), "{case:x?}");
            }
        }
    }
}

#[test]
fn arithmetic_rounds_as_apfloat() {
    arithmetic::<F16, Half>(Draw::F16H);
    arithmetic::<Bf16, BFloat>(Draw::BF16H);
    arithmetic::<f32, Single>(Draw::F32);
    arithmetic::<f64, Double>(Draw::F64);
}

fn converts<A, B>(from: Type, to: Type, draw: Draw)
where
    A: rustc_apfloat::Float + FloatConvert<B>,
    B: rustc_apfloat::Float,
{
    let mut random = Random::new(9);
    for _ in 0..50_000 {
        let a = draw.draw(&mut random);
        for (round, direction) in ROUNDS {
            let value = A::from_bits(a.into());
            let expected = value.convert_r(direction, &mut false).value;
            if value.is_nan() || to == Type::E4m3 && (!expected.is_finite() || round != Round::Near)
            {
                continue;
            }
            let result = cvt(a, from, to, rounding(round));
            assert_eq!(
                result,
                expected.to_bits() as u64,
                "{a:x} from {from:?} to {to:?} {round:?}"
            );
        }
    }
}

#[test]
fn floats_convert_as_apfloat() {
    converts::<Double, Single>(Type::F64, Type::F32, Draw::F64);
    converts::<Double, Half>(Type::F64, Type::F16, Draw::F64);
    converts::<Double, BFloat>(Type::F64, Type::Bf16, Draw::F64);
    converts::<Single, Double>(Type::F32, Type::F64, Draw::F32);
    converts::<Single, Half>(Type::F32, Type::F16, Draw::F32);
    converts::<Single, BFloat>(Type::F32, Type::Bf16, Draw::F32);
    converts::<Single, Float8E5M2>(Type::F32, Type::E5m2, Draw::SMALL32);
    converts::<Single, Float8E4M3FN>(Type::F32, Type::E4m3, Draw::SMALL32);
    converts::<Half, BFloat>(Type::F16, Type::Bf16, Draw::F16H);
    converts::<Half, Float8E4M3FN>(Type::F16, Type::E4m3, Draw::F16H);
    converts::<BFloat, Half>(Type::Bf16, Type::F16, Draw::BF16H);
}

/// 449 is nearer to the largest E4M3, 448, than to what would follow.
#[test]
fn the_smallest_floats_saturate() {
    let finite = Mode::of(&["satfinite"]);
    let e4m3 = |values: [f32; 2]| {
        let [high, low] = values.map(|value| value.to_bits().into());
        pack(high, low, Type::F32, Type::E4m3, finite)
    };
    assert_eq!(e4m3([449.0, -1e9]), 0x7efe);
    assert_eq!(e4m3([f32::NAN, f32::INFINITY]), 0x7f7e);
}

/// A product at the first place of a matrix, and an accumulator.
#[test]
fn a_matrix_product_of_the_ends_of_a_format_is_that_of_floats() {
    let two = |exponent| 2f64.powi(exponent);
    // The bits of the least number, 1, the greatest number, infinity (of E4M3 a NaN) and a NaN; the least and the greatest number.
    let formats = [
        (
            Type::F16,
            [1, 0x3c00, 0x7bff, 0x7c00, 0x7e01],
            [two(-24), 65504.0],
        ),
        (
            Type::Bf16,
            [1, 0x3f80, 0x7f7f, 0x7f80, 0x7fc1],
            [two(-133), 255.0 * two(120)],
        ),
        (
            Type::Tf32,
            [1 << 13, 0x3f80_0000, 0x7f7f_e000, 0x7f80_0000, 0x7fc0_2000],
            [two(-136), 2047.0 * two(117)],
        ),
        (Type::E5m2, [1, 0x3c, 0x7b, 0x7c, 0x7e], [two(-16), 57344.0]),
        (Type::E4m3, [1, 0x38, 0x7e, 0x7f, 0x7f], [two(-9), 448.0]),
    ];
    let result = |value: f64, of: Type| match of {
        Type::F16 if value.is_nan() => 0x7fff,
        Type::F16 => F16::near(value).0.into(),
        _ if value.is_nan() => 0x7fff_ffff,
        _ => (value as f32).to_bits(),
    };
    let first = |bits: u32| {
        let mut registers = [[0; 32]; 4];
        registers[0][0] = bits;
        registers
    };
    for (of, bits, [least, greatest]) in formats {
        let infinity = match of {
            Type::E4m3 => f64::NAN,
            _ => f64::INFINITY,
        };
        let values = [0.0, least, 1.0, greatest, infinity, f64::NAN];
        let positive = [0].into_iter().chain(bits).zip(values);
        let sign = 1u32 << (of.bits() - 1);
        let all: Vec<(u32, f64)> = positive
            .flat_map(|(bits, value)| [(bits, value), (bits | sign, -value)])
            .collect();
        let narrow = matches!(of, Type::F16 | Type::E5m2 | Type::E4m3);
        let sums: &[Type] = if narrow {
            &[Type::F32, Type::F16]
        } else {
            &[Type::F32]
        };
        for &d in sums {
            let k = 256 / of.bits() as usize;
            let form = Mma {
                m: 16,
                k,
                a: of,
                b: of,
                d,
                sat: false,
            };
            let pairs = all.iter().flat_map(|a| all.iter().map(move |b| (*a, *b)));
            let accumulators = [0.0, 1.0, -1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
            for (((a, x), (b, y)), z) in pairs.flat_map(|pair| accumulators.map(|z| (pair, z))) {
                // The other products are positive zeros.
                let sum = x * y + z + 0.0;
                if d == Type::F32 && sum.is_finite() && sum.abs() > f32::MAX.into() {
                    continue;
                }
                let found = mma(form, &first(a), &first(b), &first(result(z, d)))[0][0];
                let found = if d == Type::F16 {
                    found & 0xffff
                } else {
                    found
                };
                assert_eq!(found, result(sum, d), "{form:?}: {a:x} * {b:x} + {z}");
            }
        }
    }
}
