//! Conversions: `cvt` and `cvt.pack` (9.7.9.21, 9.7.9.22).

use super::float::{Bf16, F16, Float};
use super::soft::{self, Format, Number};
use super::{Round, Type};

/// The modifiers of `cvt`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How results are rounded. Unimportant where the result is exact. To an integer: `.rni` is [`Round::Near`], and so on.
    pub round: Round,
    /// `.rni`, `.rzi`, `.rmi`, `.rpi` between floats: the result is an integer.
    pub integer: bool,
    /// `.ftz`: subnormal f32, as the source or the result, become zeros of their sign.
    pub ftz: bool,
    /// `.sat`: integers are clamped to the range of the type, floats to 0 to 1 (a NaN becomes 0).
    pub sat: bool,
    /// `.relu`: negative results become 0.
    pub relu: bool,
    /// `.satfinite`: too large results become the largest number.
    pub finite: bool,
}

enum Kind {
    Integer { bits: u32, signed: bool },
    Float(Format),
}

fn kind(of: Type) -> Kind {
    let integer = |bits, signed| Kind::Integer { bits, signed };
    match of {
        Type::U4 => integer(4, false),
        Type::U8 => integer(8, false),
        Type::U16 => integer(16, false),
        Type::U32 => integer(32, false),
        Type::U64 => integer(64, false),
        Type::S4 => integer(4, true),
        Type::S8 => integer(8, true),
        Type::S16 => integer(16, true),
        Type::S32 => integer(32, true),
        Type::S64 => integer(64, true),
        Type::F16 => Kind::Float(soft::F16),
        Type::Bf16 => Kind::Float(soft::BF16),
        Type::Tf32 => Kind::Float(soft::TF32),
        Type::F32 => Kind::Float(soft::F32),
        Type::F64 => Kind::Float(soft::F64),
        Type::E4m3 => Kind::Float(soft::E4M3),
        Type::E5m2 => Kind::Float(soft::E5M2),
    }
}

/// The value of the lower bits of `a` as an integer type.
#[inline(always)]
pub fn extend(a: u64, from: Type) -> i128 {
    match kind(from) {
        Kind::Integer { bits, signed: true } => {
            i128::from((a << (64 - bits)) as i64 >> (64 - bits))
        }
        Kind::Integer {
            bits,
            signed: false,
        } => i128::from(a << (64 - bits) >> (64 - bits)),
        Kind::Float(_) => i128::from(a),
    }
}

/// `cvt`: the lower bits of `a` from one type to another. A result of less than 32 bits is extended by its sign, if its type has one.
#[inline(always)]
pub fn cvt(a: u64, from: Type, to: Type, rules: Rules) -> u64 {
    let plain = !rules.sat && !rules.relu && !rules.integer && !rules.ftz && !rules.finite;
    let word = a as u32;
    match (from, to, rules.round) {
        (Type::S32, Type::F32, Round::Near) if plain => (word as i32 as f32).to_bits().into(),
        (Type::U32, Type::F32, Round::Near) if plain => (word as f32).to_bits().into(),
        (Type::S32, Type::F64, _) if plain => f64::from(word as i32).to_bits(),
        (Type::U32, Type::F64, _) if plain => f64::from(word).to_bits(),
        (Type::F32, Type::S32, Round::Zero) if plain => (f32::from_bits(word) as i32 as u32).into(),
        (Type::F32, Type::U32, Round::Zero) if plain => (f32::from_bits(word) as u32).into(),
        (Type::F16, Type::F32, _) if plain => narrow(F16(a as u16)),
        (Type::Bf16, Type::F32, _) if plain => (a & 0xffff) << 16,
        (Type::F32, Type::F16, Round::Near) if plain => {
            F16::near(f32::from_bits(word).into()).bits()
        }
        (Type::F32, Type::Bf16, Round::Near) if plain => {
            Bf16::near(f32::from_bits(word).into()).bits()
        }
        _ => general(a, from, to, rules),
    }
}

#[inline(always)]
fn narrow<F: Float>(a: F) -> u64 {
    if a.is_nan() {
        soft::F32.nan()
    } else {
        (a.to_f64() as f32).to_bits().into()
    }
}

fn general(a: u64, from: Type, to: Type, rules: Rules) -> u64 {
    match (kind(from), kind(to)) {
        (Kind::Integer { .. }, Kind::Integer { bits, signed }) => {
            let value = extend(a, from);
            (if rules.sat {
                clamp(value, bits, signed)
            } else {
                extend(value as u64, to)
            }) as u64
        }
        (Kind::Integer { .. }, Kind::Float(format)) => {
            let value = extend(a, from);
            let number = Number {
                negative: value < 0,
                exponent: 0,
                significand: value.unsigned_abs(),
            };
            to_float(number, to, format, rules)
        }
        (Kind::Float(format), Kind::Integer { bits, signed }) => {
            let a = source(a, from, rules.ftz);
            if format.is_nan(a) {
                // As the manual has it: 0, but for 64 bits on either side only the highest bit.
                let wide = from == Type::F64 || bits == 64;
                return extend(if wide { 1 << (bits - 1) } else { 0 }, to) as u64;
            }
            if a & format.nan() == format.infinity() {
                return clamp(
                    if a & format.sign() != 0 {
                        i128::MIN
                    } else {
                        i128::MAX
                    },
                    bits,
                    signed,
                ) as u64;
            }
            clamp(
                Number::unpack(format, a).to_integer(rules.round),
                bits,
                signed,
            ) as u64
        }
        (Kind::Float(format), Kind::Float(target)) => {
            // As the device, rounding to f16 sees what `.ftz` flushes elsewhere.
            let a = source(a, from, rules.ftz && to != Type::F16);
            let negative = a & format.sign() != 0;
            if format.is_nan(a) {
                return match to {
                    _ if rules.sat => 0,
                    Type::F64 if from == Type::F32 && rules.ftz => (target.nan() >> 29) << 29,
                    // From and to f64, sign and payload are kept.
                    _ if from == Type::F64 || to == Type::F64 => {
                        let payload = (a & ((1 << format.fraction) - 1)) << (52 - format.fraction);
                        let sign = if negative { target.sign() } else { 0 };
                        let quiet = 1 << (target.fraction - 1);
                        sign | target.infinity() | quiet | payload >> (52 - target.fraction)
                    }
                    Type::Tf32 if rules.round == Round::Away => a & !0x1fff,
                    Type::Tf32 => target.nan() << 13,
                    _ => target.nan(),
                };
            }
            if a & format.nan() == format.infinity() && format != soft::E4M3 {
                let magnitude = if rules.finite {
                    target.largest()
                } else {
                    target.infinity()
                };
                return limit(
                    magnitude | if negative { target.sign() } else { 0 },
                    to,
                    target,
                    rules,
                );
            }
            let mut number = Number::unpack(format, a);
            if rules.integer && number.exponent < 0 {
                number.significand = number.to_integer(rules.round).unsigned_abs();
                number.exponent = 0;
            }
            to_float(number, to, target, rules)
        }
    }
}

fn clamp(value: i128, bits: u32, signed: bool) -> i128 {
    let (least, largest) = if signed {
        (-1 << (bits - 1), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    };
    value.clamp(least, largest)
}

/// The bits of a float in the place of its format.
fn source(a: u64, from: Type, ftz: bool) -> u64 {
    match from {
        Type::Tf32 => a >> 13,
        Type::F32 => f32::from_bits(a as u32).flush(ftz).bits(),
        _ => a,
    }
}

fn to_float(number: Number, to: Type, format: Format, rules: Rules) -> u64 {
    let mut bits = number.round(format, rules.round);
    if rules.finite && bits & format.nan() == format.infinity() {
        bits -= 1;
    }
    limit(bits, to, format, rules)
}

fn limit(bits: u64, to: Type, format: Format, rules: Rules) -> u64 {
    let negative = bits & format.sign() != 0;
    match to {
        _ if negative && (rules.relu || rules.sat) => 0,
        Type::F16 if rules.sat => bits.min(F16::near(1.0).bits()),
        Type::Bf16 if rules.sat => bits.min(Bf16::near(1.0).bits()),
        Type::F32 if rules.sat => f32::from_bits(bits as u32).min(1.0).flush(rules.ftz).bits(),
        Type::F64 if rules.sat => f64::from_bits(bits).min(1.0).bits(),
        Type::F32 => f32::from_bits(bits as u32).flush(rules.ftz).bits(),
        Type::Tf32 => bits << 13,
        _ => bits,
    }
}

/// `cvt` of two floats to a packed type: `high` to the upper half. E4M3 and E5M2 have 8 bits each, the others 16.
#[inline(always)]
pub fn pack(high: u64, low: u64, from: Type, to: Type, rules: Rules) -> u32 {
    let width = if matches!(to, Type::E4m3 | Type::E5m2) {
        8
    } else {
        16
    };
    (cvt(high, from, to, rules) << width | cvt(low, from, to, rules)) as u32
}

/// `cvt` of a packed type to a packed type (`.f16x2` from `.e4m3x2`, and back).
#[inline(always)]
pub fn repack(a: u32, from: Type, to: Type, rules: Rules) -> u32 {
    let width = if matches!(from, Type::E4m3 | Type::E5m2) {
        8
    } else {
        16
    };
    let low = u64::from(a) & ((1 << width) - 1);
    pack(u64::from(a >> width), low, from, to, rules)
}

/// `cvt.pack.sat` (9.7.9.22): `a` and `b` (s32), clamped to `to`, above the lower bits of `c`.
pub fn cvt_pack(a: u32, b: u32, c: u32, to: Type) -> u32 {
    let Kind::Integer { bits, signed } = kind(to) else {
        return c;
    };
    let mask = (1_u64 << bits) - 1;
    let clamped = |value: u32| clamp(i128::from(value as i32), bits, signed) as u64 & mask;
    (u64::from(c) << (2 * bits) | clamped(a) << bits | clamped(b)) as u32
}
