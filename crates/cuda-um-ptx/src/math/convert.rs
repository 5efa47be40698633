//! Conversions: `cvt` and `cvt.pack` (9.7.9.21, 9.7.9.22).

use super::float::{Bf16, F16, Float};
use super::int::extend;
use super::soft::{self, Format, Number};
use super::{Class, Mode, Round, Type};

/// `cvt`: the lower bits of `a` from one type to another. A result of less than 32 bits is extended by its sign, if its type has one.
#[inline(always)]
pub fn cvt(a: u64, from: Type, to: Type, mode: Mode) -> u64 {
    let plain = !mode.sat && !mode.relu && !mode.integer && !mode.ftz && !mode.finite;
    let word = a as u32;
    match (from, to, mode.round) {
        (Type::S32, Type::F32, Round::Near) if plain => (word as i32 as f32).to_bits().into(),
        (Type::U32, Type::F32, Round::Near) if plain => (word as f32).to_bits().into(),
        (Type::S32, Type::F64, _) if plain => f64::from(word as i32).to_bits(),
        (Type::U32, Type::F64, _) if plain => f64::from(word).to_bits(),
        (Type::F32, Type::S32, Round::Zero) if plain => (f32::from_bits(word) as i32 as u32).into(),
        (Type::F32, Type::U32, Round::Zero) if plain => (f32::from_bits(word) as u32).into(),
        (Type::F16, Type::F32, _) if plain => widen(F16(a as u16)),
        (Type::Bf16, Type::F32, _) if plain => (a & 0xffff) << 16,
        (Type::F32, Type::F16, Round::Near) if plain => {
            F16::near(f32::from_bits(word).into()).bits()
        }
        (Type::F32, Type::Bf16, Round::Near) if plain => {
            Bf16::near(f32::from_bits(word).into()).bits()
        }
        _ => general(a, from, to, mode),
    }
}

#[inline(always)]
fn widen(a: F16) -> u64 {
    if a.is_nan() {
        soft::F32.nan()
    } else {
        (a.to_f64() as f32).to_bits().into()
    }
}

fn general(a: u64, from: Type, to: Type, mode: Mode) -> u64 {
    let (bits, signed) = (to.bits(), to.signed());
    match (from.class(), to.class()) {
        (Class::Float(format), Class::Float(target)) => {
            // As the device, rounding to f16 sees what `.ftz` flushes elsewhere.
            floats(
                source(a, from, mode.ftz && to != Type::F16),
                (from, format),
                (to, target),
                mode,
            )
        }
        (Class::Float(format), _) => {
            let a = source(a, from, mode.ftz);
            if format.is_nan(a) {
                // As the manual has it: 0, but for 64 bits on either side only the highest bit.
                let wide = from == Type::F64 || bits == 64;
                return extend(if wide { 1 << (bits - 1) } else { 0 }, bits, signed) as u64;
            }
            let value = if a & format.nan() != format.infinity() {
                Number::unpack(format, a).to_integer(mode.round)
            } else if a & format.sign() != 0 {
                i128::MIN
            } else {
                i128::MAX
            };
            clamp(value, to) as u64
        }
        (_, Class::Float(format)) => {
            let value = extend(a, from.bits(), from.signed());
            let (negative, significand) = (value < 0, value.unsigned_abs());
            let number = Number {
                negative,
                exponent: 0,
                significand,
            };
            to_float(number, to, format, mode)
        }
        _ => {
            let value = extend(a, from.bits(), from.signed());
            (if mode.sat {
                clamp(value, to)
            } else {
                extend(value as u64, bits, signed)
            }) as u64
        }
    }
}

fn floats(a: u64, (from, format): (Type, Format), (to, target): (Type, Format), mode: Mode) -> u64 {
    let sign = if a & format.sign() != 0 {
        target.sign()
    } else {
        0
    };
    if format.is_nan(a) {
        return match to {
            _ if mode.sat => 0,
            Type::F64 if from == Type::F32 && mode.ftz => (target.nan() >> 29) << 29,
            // From and to f64, sign and payload are kept.
            _ if from == Type::F64 || to == Type::F64 => {
                let payload = (a & ((1 << format.fraction) - 1)) << (52 - format.fraction);
                let quiet = 1 << (target.fraction - 1);
                sign | target.infinity() | quiet | payload >> (52 - target.fraction)
            }
            Type::Tf32 if mode.round == Round::Away => a & !0x1fff,
            Type::Tf32 => target.nan() << 13,
            _ => target.nan(),
        };
    }
    if a & format.nan() == format.infinity() && format != soft::E4M3 {
        let magnitude = if mode.finite {
            target.largest()
        } else {
            target.infinity()
        };
        return limit(magnitude | sign, to, target, mode);
    }
    let mut number = Number::unpack(format, a);
    if mode.integer && number.exponent < 0 {
        number.significand = number.to_integer(mode.round).unsigned_abs();
        number.exponent = 0;
    }
    to_float(number, to, target, mode)
}

fn clamp(value: i128, to: Type) -> i128 {
    let bits = to.bits();
    if to.signed() {
        value.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1)
    } else {
        value.clamp(0, (1 << bits) - 1)
    }
}

/// The bits of a float in the place of its format.
fn source(a: u64, from: Type, ftz: bool) -> u64 {
    match from {
        Type::Tf32 => a >> 13,
        Type::F32 => soft::F32.flush(a, ftz),
        _ => a,
    }
}

fn to_float(number: Number, to: Type, format: Format, mode: Mode) -> u64 {
    let mut bits = number.round(format, mode.round);
    if mode.finite && bits & format.nan() == format.infinity() {
        bits -= 1;
    }
    limit(bits, to, format, mode)
}

fn limit(bits: u64, to: Type, format: Format, mode: Mode) -> u64 {
    if bits & format.sign() != 0 && (mode.relu || mode.sat) {
        return 0;
    }
    let bits = if mode.sat {
        bits.min(format.one())
    } else {
        bits
    };
    match to {
        Type::F32 => format.flush(bits, mode.ftz),
        Type::Tf32 => bits << 13,
        _ => bits,
    }
}

/// `cvt` of two floats to a packed type: `high` to the upper half.
pub fn pack(high: u64, low: u64, from: Type, to: Type, mode: Mode) -> u64 {
    cvt(high, from, to, mode) << to.bits() | cvt(low, from, to, mode)
}

/// `cvt.pack.sat` (9.7.9.22): `a` and `b` (s32), clamped to `to`, above the lower bits of `c`.
pub fn cvt_pack(a: u32, b: u32, c: u32, to: Type) -> u32 {
    let clamped = |value: u32| clamp(i128::from(value as i32), to) as u64 & ((1 << to.bits()) - 1);
    (u64::from(c) << (2 * to.bits()) | clamped(a) << to.bits() | clamped(b)) as u32
}
