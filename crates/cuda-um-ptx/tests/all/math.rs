//! `math` against LLVM's APFloat, with more operands than those of `answers.rs`, which are a GPU's.

use crate::generated::values::{Draw, Random};
use cuda_um_ptx::math::convert::{cvt, pack};
use cuda_um_ptx::math::float::{self, Bf16, F16, Float};
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
