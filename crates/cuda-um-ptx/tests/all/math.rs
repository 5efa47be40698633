//! `math` against other implementations: LLVM's APFloat, `half`, the CPU, and the manual's pseudocode. What a GPU says is in
//! `answers.rs`.

use crate::generated::values::{Draw, Random};
use cuda_um_ptx::math::convert::{cvt, pack};
use cuda_um_ptx::math::float::{self, Bf16, F16, Float};
use cuda_um_ptx::math::mma::{Mma, matrix_elements, mma, mma_f64};
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

fn quotients<F: Float + std::ops::Div<Output = F>, A: rustc_apfloat::Float>(draw: Draw) {
    let mut random = Random::new(7);
    for _ in 0..100_000 {
        let (x, y) = (draw.draw(&mut random), draw.draw(&mut random));
        for (round, direction) in &ROUNDS[..4] {
            let mode = rounding(*round);
            let expected = A::from_bits(x.into())
                .div_r(A::from_bits(y.into()), *direction)
                .value;
            assert_eq!(
                bits(float::div(F::from_bits(x), F::from_bits(y), mode)),
                oracle(expected),
                "{x:x} / {y:x} {round:?}"
            );
        }
    }
}

#[test]
fn quotients_round_as_apfloat() {
    quotients::<f32, Single>(Draw::F32);
    quotients::<f64, Double>(Draw::F64);
}

#[test]
fn roots_are_the_neighbours_of_the_exact_one() {
    let mut random = Random::new(8);
    for _ in 0..100_000 {
        let a = f64::from_bits(Draw::NumF64.draw(&mut random)).abs();
        let [near, zero, down, up] = ROUNDS
            .map(|(round, _)| float::sqrt(a, rounding(round)))
            .first_chunk()
            .copied()
            .unwrap();
        assert_eq!(near.to_bits(), a.sqrt().to_bits(), "{a:e}");
        assert_eq!(zero.to_bits(), down.to_bits());
        let exact = near * near == a && near.mul_add(near, -a) == 0.0;
        let below = near.mul_add(near, -a) < 0.0;
        if a.is_finite() && a > 1e-280 {
            assert_eq!(
                down,
                if exact || below {
                    near
                } else {
                    near.next_down()
                },
                "{a:e}"
            );
            assert_eq!(
                up,
                if exact || !below {
                    near
                } else {
                    near.next_up()
                },
                "{a:e}"
            );
        }
        let single = a as f32;
        assert_eq!(
            float::sqrt(single, Mode::PLAIN).to_bits(),
            single.sqrt().to_bits()
        );
    }
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

#[test]
fn every_half_is_what_the_crate_half_says() {
    for bits in 0..=u16::MAX {
        let (f16, bf16) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
        let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        assert!(same(F16(bits).to_f64(), f16.to_f64()), "{bits:x}");
        assert!(same(Bf16(bits).to_f64(), bf16.to_f64()), "{bits:x}");
        for wide in [Type::F32, Type::F64] {
            let there = cvt(bits.into(), Type::F16, wide, Mode::PLAIN);
            let back = cvt(there, wide, Type::F16, Mode::PLAIN);
            // A NaN keeps its payload in f64.
            let expected = match wide {
                _ if !f16.is_nan() => bits,
                Type::F64 => bits | 0x200,
                _ => 0x7fff,
            };
            assert_eq!(back as u16, expected);
        }
        // Halfway between neighbours, and just beside that.
        if f16.is_finite() {
            let next = half::f16::from_bits(bits + 1).to_f64();
            let middle = (f16.to_f64() + next) / 2.0;
            for value in [middle, middle * (1.0 - 1e-5), middle * (1.0 + 1e-5)] {
                let expected = if middle.is_infinite() {
                    f16
                } else {
                    half::f16::from_f64(value)
                };
                assert!(
                    middle.is_infinite() || F16::near(value).0 == expected.to_bits(),
                    "{value:e}"
                );
            }
        }
    }
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

/// The layouts of the manual's figures: 9.7.14.5.
#[test]
fn matrices_multiply() {
    let mut random = Random::new(13);
    let small = |random: &mut Random| random.below(9) as i32 - 4;
    for (m, k, of, width) in [
        (16, 16, Type::F16, 16),
        (16, 8, Type::Bf16, 16),
        (16, 8, Type::Tf32, 32),
        (16, 32, Type::S8, 8),
        (8, 16, Type::S8, 8),
        (16, 32, Type::E4m3, 8),
    ] {
        let (each, group) = (32 / width, |lane: usize| (lane / 4, lane % 4));
        let rows: Vec<Vec<i32>> = (0..m)
            .map(|_| (0..k).map(|_| small(&mut random)).collect())
            .collect();
        let columns: Vec<Vec<i32>> = (0..8)
            .map(|_| (0..k).map(|_| small(&mut random)).collect())
            .collect();
        let integer = of == Type::S8;
        let encode = |value: i32| match integer {
            true => value as u32 & 0xff,
            false => cvt((value as f32).to_bits().into(), Type::F32, of, Mode::PLAIN) as u32,
        };
        let count = |height: usize| height / 8 * k / (4 * each);
        let fill = |matrix: &[Vec<i32>]| -> Vec<[u32; 32]> {
            let height = matrix.len();
            (0..count(height))
                .map(|register| {
                    std::array::from_fn(|lane| {
                        let (group, thread) = group(lane);
                        let row = if height == 16 && register % 2 == 1 {
                            group + 8
                        } else {
                            group
                        };
                        let start = register / (height / 8) * 4 * each + thread * each;
                        (0..each)
                            .map(|i| encode(matrix[row][start + i]) << (i * width))
                            .sum()
                    })
                })
                .collect()
        };
        let d = if integer { Type::S32 } else { Type::F32 };
        let c = [[if integer { 5 } else { 5_f32.to_bits() }; 32]; 4];
        let result = mma(
            Mma {
                m,
                k,
                a: of,
                b: of,
                d,
                sat: false,
            },
            &fill(&rows),
            &fill(&columns),
            &c,
        );
        for (row, values) in rows.iter().enumerate() {
            for (column, factors) in columns.iter().enumerate() {
                let expected = 5 + values.iter().zip(factors).map(|(a, b)| a * b).sum::<i32>();
                let word = result[row / 8 * 2 + column % 2][row % 8 * 4 + column / 2];
                let value = if integer {
                    word as i32
                } else {
                    f32::from_bits(word) as i32
                };
                assert_eq!(value, expected, "{of:?} {m} {k}: {row}, {column}");
            }
        }
    }
    let ones = [[1_f64.to_bits(); 32]];
    let sum = mma_f64(8, 4, &ones, &ones, &[[0.5_f64.to_bits(); 32]; 2]);
    assert_eq!(f64::from_bits(sum[1][31]), 4.5);
    assert_eq!(matrix_elements(5, false), [(1, 2), (1, 3)]);
    assert_eq!(matrix_elements(5, true), [(2, 1), (3, 1)]);
}
