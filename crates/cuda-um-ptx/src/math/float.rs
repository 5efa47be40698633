//! Floating-point arithmetic and comparisons: 9.7.3 (f32, f64), 9.7.4 (f16, bf16), 9.7.6 and 9.7.7 (set, setp).

use super::numbers::add_odd;
pub use super::numbers::{Bf16, F16, Float};
use super::soft::{self, Number};
use super::{Mode, Round, Row, Scalar, Type};

/// With `.ftz` a result is subnormal, too, if it is the least normal number only because subnormal numbers have fewer bits: rounded to
/// as many bits as a normal one, the exact value is below it.
#[inline(always)]
fn tiny<F: Float>(value: F, mode: Mode, exact: impl FnOnce() -> f64) -> F {
    let fraction = F::FORMAT.fraction;
    if !mode.ftz || value.bits() & F::FORMAT.nan() != 1 << fraction {
        return value;
    }
    let (least, exact) = (value.to_f64().abs(), exact().abs());
    let below = |bits: u32| least - least * 0.5_f64.powi(bits as i32);
    let zero = match mode.round {
        Round::Near => exact < below(fraction + 2),
        _ => exact <= below(fraction + 1),
    };
    if zero {
        F::from_bits(value.bits() & F::FORMAT.sign())
    } else {
        value
    }
}

/// A NaN becomes the one that the device returns for these operands.
#[inline(always)]
fn finish<F: Float>(value: F, operands: [F; 3], mode: Mode) -> F {
    let format = F::FORMAT;
    let value = value.flush(mode.ftz);
    let nan = value.is_nan();
    let mut bits = if nan { nan_of(operands) } else { value.bits() };
    let negative = bits & format.sign() != 0;
    if mode.sat {
        bits = if negative || nan {
            0
        } else {
            bits.min(format.one())
        };
    }
    if mode.relu && negative && !nan {
        bits = 0;
    }
    F::from_bits(bits)
}

/// The canonical NaN; of f64 the second, third or first operand that is a NaN, made quiet, or the default one (9.7.3: payloads are
/// supported for f64).
#[inline(always)]
fn nan_of<F: Float>(operands: [F; 3]) -> u64 {
    if F::FORMAT != soft::F64 {
        return F::FORMAT.nan();
    }
    let quiet = 1 << (F::FORMAT.fraction - 1);
    let default = F::FORMAT.sign() | F::FORMAT.infinity() | quiet;
    let [a, b, c] = operands;
    [a, c, b].into_iter().fold(default, |bits, operand| {
        if operand.is_nan() {
            operand.bits() | quiet
        } else {
            bits
        }
    })
}

/// `add`: 9.7.3.3, 9.7.4.1.
#[inline(always)]
pub fn add<F: Float>(a: F, b: F, mode: Mode) -> F {
    let (a, b) = (a.flush(mode.ftz), b.flush(mode.ftz));
    finish(
        if mode.round == Round::Near {
            a.add_near(b)
        } else {
            directed(a, F::near(1.0), b, mode.round)
        },
        [a, b, b],
        mode,
    )
}

/// `sub`: 9.7.3.4, 9.7.4.2.
#[inline(always)]
pub fn sub<F: Float>(a: F, b: F, mode: Mode) -> F {
    let minus = if b.is_nan() { b } else { neg(b) };
    add(a, minus, mode)
}

/// `mul`: 9.7.3.5, 9.7.4.3.
#[inline(always)]
pub fn mul<F: Float>(a: F, b: F, mode: Mode) -> F {
    let (a, b) = (a.flush(mode.ftz), b.flush(mode.ftz));
    let product = if mode.round == Round::Near {
        a.mul_near(b)
    } else {
        // A zero of the product's sign as the addend keeps the sign of a product of zero.
        let zero = F::from_bits((a.bits() ^ b.bits()) & F::FORMAT.sign());
        directed(a, b, zero, mode.round)
    };
    let exact = || a.to_f64() * b.to_f64();
    finish(tiny(product, mode, exact), [a, b, b], mode)
}

/// `fma`, `mad`: 9.7.3.6, 9.7.3.7, 9.7.4.4. (`mad` of f32 is a `fma` since sm_20.)
#[inline(always)]
pub fn fma<F: Float>(a: F, b: F, c: F, mode: Mode) -> F {
    let (a, b, c) = (a.flush(mode.ftz), b.flush(mode.ftz), c.flush(mode.ftz));
    let sum = if mode.round == Round::Near {
        a.fma_near(b, c)
    } else {
        directed(a, b, c, mode.round)
    };
    let exact = || add_odd(a.to_f64() * b.to_f64(), c.to_f64());
    finish(tiny(sum, mode, exact), [a, b, c], mode)
}

/// `fma.oob` (9.7.4.4): 0 if an operand is the NaN that marks an element out of bounds, 0x7ff7 or 0xfff7 in both types.
pub fn fma_oob<F: Float>(a: F, b: F, c: F, mode: Mode) -> F {
    let oob = |value: F| value.bits() & F::FORMAT.nan() == 0x7ff7;
    if oob(a) || oob(b) {
        F::from_bits(0)
    } else {
        fma(a, b, c, mode)
    }
}

fn directed<F: Float>(a: F, b: F, c: F, round: Round) -> F {
    let special = |value: F| value.bits() & F::FORMAT.infinity() == F::FORMAT.infinity();
    if special(a) || special(b) || special(c) {
        return a.fma_near(b, c);
    }
    F::from_bits(soft::fma(F::FORMAT, a.bits(), b.bits(), c.bits(), round))
}

/// `div.rn` and the other roundings: 9.7.3.8.
#[inline(always)]
pub fn div<F: Float + std::ops::Div<Output = F>>(a: F, b: F, mode: Mode) -> F {
    let (a, b) = (a.flush(mode.ftz), b.flush(mode.ftz));
    let finite = |value: F| {
        value.bits() & F::FORMAT.infinity() != F::FORMAT.infinity()
            && value.bits() & F::FORMAT.nan() != 0
    };
    let quotient = if mode.round == Round::Near || !finite(a) || !finite(b) {
        a / b
    } else {
        let exact = Number::unpack(F::FORMAT, a.bits()).div(Number::unpack(F::FORMAT, b.bits()));
        F::from_bits(exact.round(F::FORMAT, mode.round))
    };
    let exact = || a.to_f64() / b.to_f64();
    // The device divides in software, and looks at `a` first.
    finish(tiny(quotient, mode, exact), [b, a, a], mode)
}

/// `sqrt.rn` and the other roundings: 9.7.3.15.
#[inline(always)]
pub fn sqrt<F: Float>(a: F, mode: Mode) -> F {
    let a = a.flush(mode.ftz);
    let format = F::FORMAT;
    if a.is_nan() || a.bits() > format.sign() {
        return F::from_bits(nan_of([a; 3]));
    }
    if a.bits() & format.nan() == 0 || a.bits() == format.infinity() {
        return a;
    }
    F::from_bits(
        Number::unpack(format, a.bits())
            .sqrt()
            .round(format, mode.round),
    )
}

/// `min`: 9.7.3.11, 9.7.4.7. −0 is less than +0.
#[inline(always)]
pub fn min<F: Float + PartialOrd>(a: F, b: F, mode: Mode) -> F {
    extreme(a, b, mode, |a, b| a < b, |a, b| a | b)
}

/// `max`: 9.7.3.12, 9.7.4.8.
#[inline(always)]
pub fn max<F: Float + PartialOrd>(a: F, b: F, mode: Mode) -> F {
    extreme(a, b, mode, |a, b| a > b, |a, b| a & b)
}

#[inline(always)]
fn extreme<F: Float + PartialOrd>(
    a: F,
    b: F,
    mode: Mode,
    first: fn(&F, &F) -> bool,
    equal: fn(u64, u64) -> u64,
) -> F {
    let (a, b) = (a.flush(mode.ftz), b.flush(mode.ftz));
    let mut sign = (a.bits() ^ b.bits()) & F::FORMAT.sign();
    let (a, b) = if mode.xorsign {
        (abs(a), abs(b))
    } else {
        (a, b)
    };
    sign = if mode.xorsign { sign } else { 0 };
    let chosen = if first(&a, &b) {
        a.bits()
    } else if a == b {
        equal(a.bits(), b.bits())
    } else if a.is_nan() || !b.is_nan() {
        b.bits()
    } else {
        a.bits()
    };
    let nan = a.is_nan() && b.is_nan() || mode.nan && (a.is_nan() || b.is_nan());
    F::from_bits(if nan {
        nan_of([a, b, b])
    } else {
        chosen | sign
    })
}

/// Of a NaN, too, only the sign changes.
#[inline(always)]
fn abs<F: Float>(a: F) -> F {
    F::from_bits(a.bits() & !F::FORMAT.sign())
}

#[inline(always)]
fn neg<F: Float>(a: F) -> F {
    F::from_bits(a.bits() ^ F::FORMAT.sign())
}

/// The sign of `a`, the magnitude of `b`.
fn copysign<F: Float>(a: F, b: F) -> F {
    F::from_bits(a.bits() & F::FORMAT.sign() | b.bits() & !F::FORMAT.sign())
}

/// An approximation: the exact value rounded once, so that the error is half a unit in the last place, within every bound of the manual;
/// the device's results differ from these in the last bits. NaN is the canonical one.
fn near<F: Float>(exact: f64, mode: Mode) -> F {
    if exact.is_nan() {
        F::from_bits(F::FORMAT.nan())
    } else {
        F::near(exact).flush(mode.ftz)
    }
}

fn apply<F: Float>(function: fn(f64) -> f64, a: F, mode: Mode) -> F {
    near(function(a.flush(mode.ftz).to_f64()), mode)
}

/// `div.approx` (at most 2 units, and 0 or NaN by a divisor above 2^126) and `div.full`.
fn divide(a: f32, b: f32, mode: Mode) -> f32 {
    let [a, b] = [a, b].map(|value| f64::from(value.flush(mode.ftz)));
    let large = !mode.full && b.abs() > 2_f64.powi(126) && b.is_finite();
    near(if large { a * 0_f64.copysign(b) } else { a / b }, mode)
}

/// `rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64`: only the upper 32 bits of operand and result are used.
fn coarse(a: f64, function: fn(f64) -> f64) -> f64 {
    let upper = |a: f64| f64::from_bits(a.to_bits() & !0xffff_ffff);
    upper(near(
        function(upper(a).flush(true)),
        Mode {
            ftz: true,
            ..Mode::PLAIN
        },
    ))
}

macro_rules! rows {
    ($type:ty: $($name:literal $operands:literal |$mode:pat_param, $($operand:ident)+| $value:expr;)*) => {
        &[$(($name, $operands, |_, mode| {
            Box::new(move |v: [u64; 4]| {
                let ($mode, mut operands) = (mode, v.into_iter());
                $(let $operand = <$type as Float>::from_bits(operands.next().unwrap_or(0));)+
                Float::bits($value)
            })
        }),)*]
    };
}

/// The instructions of all types.
const fn common<F: Float + PartialOrd + 'static>() -> &'static [Row] {
    rows! { F:
        "add" "tt" |mode, a b| add(a, b, mode);
        "sub" "tt" |mode, a b| sub(a, b, mode);
        "mul" "tt" |mode, a b| mul(a, b, mode);
        "fma" "ttt" |mode, a b c| if mode.oob { fma_oob(a, b, c, mode) } else { fma(a, b, c, mode) };
        "mad" "ttt" |mode, a b c| fma(a, b, c, mode);
        "min" "tt" |mode, a b| min(a, b, mode);
        "min" "ttt" |mode, a b c| min(min(a, b, mode), c, mode);
        "max" "tt" |mode, a b| max(a, b, mode);
        "max" "ttt" |mode, a b c| max(max(a, b, mode), c, mode);
        "neg" "t" |mode, a| neg(a.flush(mode.ftz));
        "abs" "t" |mode, a| abs(a.flush(mode.ftz));
        "copysign" "tt" |_, a b| copysign(a, b);
        "ex2" "t" |mode, a| apply(f64::exp2, a, mode);
        "tanh" "t" |_, a| apply(f64::tanh, a, Mode::PLAIN);
    }
}

/// The tables of a type; a row of the first hides those of the second.
pub fn rows(kind: Type) -> [&'static [Row]; 2] {
    let single: &[Row] = rows! { f32:
        "div" "tt" |mode, a b| if mode.approx || mode.full { divide(a, b, mode) } else { div(a, b, mode) };
        "rcp" "t" |mode, a| if mode.approx { apply(|a| 1.0 / a, a, mode) } else { div(1.0, a, mode) };
        "sqrt" "t" |mode, a| if mode.approx { apply(f64::sqrt, a, mode) } else { sqrt(a, mode) };
        "rsqrt" "t" |mode, a| apply(|a| 1.0 / a.sqrt(), a, mode);
        "sin" "t" |mode, a| apply(f64::sin, a, mode);
        "cos" "t" |mode, a| apply(f64::cos, a, mode);
        "lg2" "t" |mode, a| apply(f64::log2, a, mode);
    };
    let double: &[Row] = rows! { f64:
        "div" "tt" |mode, a b| div(a, b, mode);
        "rcp" "t" |mode, a| if mode.approx { coarse(a, |a| 1.0 / a) } else { div(1.0, a, mode) };
        "sqrt" "t" |mode, a| sqrt(a, mode);
        "rsqrt" "t" |mode, a| if mode.ftz { coarse(a, |a| 1.0 / a.sqrt()) } else { apply(|a| 1.0 / a.sqrt(), a, mode) };
    };
    match kind {
        Type::F16 => [&[], common::<F16>()],
        Type::Bf16 => [&[], common::<Bf16>()],
        Type::F32 => [single, common::<f32>()],
        Type::F64 => [double, common::<f64>()],
        _ => [&[], &[]],
    }
}

/// The value of a float of this type, exactly.
#[inline(always)]
pub fn value(kind: Type, bits: u64, ftz: bool) -> f64 {
    match kind {
        Type::F16 => F16(bits as u16).flush(ftz).to_f64(),
        Type::Bf16 => Bf16(bits as u16).flush(ftz).to_f64(),
        Type::F32 => f32::from_bits(bits as u32).flush(ftz).to_f64(),
        _ => f64::from_bits(bits),
    }
}

/// `testp`: 9.7.3.1. A zero is normal.
pub fn testp(kind: Type, class: &str) -> Option<Scalar> {
    let format = kind.format();
    let normal = 1 << format.fraction;
    let (infinity, nan) = (format.infinity(), format.nan());
    let range = match class {
        "finite" => 0..infinity,
        "infinite" => infinity..infinity + 1,
        "number" => 0..infinity + 1,
        "notanumber" => infinity + 1..nan + 1,
        "normal" => normal..infinity,
        "subnormal" => 1..normal,
        _ => return None,
    };
    let zero = class == "normal";
    Some(Box::new(move |[a, ..]| {
        u64::from(range.contains(&(a & nan)) || zero && a & nan == 0)
    }))
}

/// A comparison of `set` and `setp` (9.7.6, 9.7.7): whether it holds if `a` is less, equal, greater, or one is a NaN, from the lowest bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Compare(pub u8);

impl Compare {
    /// With a `u` it holds for a NaN, too. `lo`, `ls`, `hi`, `hs` are the others on unsigned types.
    pub fn named(name: &str) -> Option<Self> {
        Some(Self(match name {
            "lt" | "lo" => 0b0001,
            "eq" => 0b0010,
            "le" | "ls" => 0b0011,
            "gt" | "hi" => 0b0100,
            "ne" => 0b0101,
            "ge" | "hs" => 0b0110,
            "num" => 0b0111,
            "nan" => 0b1000,
            "ltu" => 0b1001,
            "equ" => 0b1010,
            "leu" => 0b1011,
            "gtu" => 0b1100,
            "neu" => 0b1101,
            "geu" => 0b1110,
            _ => return None,
        }))
    }

    #[inline(always)]
    pub fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        let place = a.partial_cmp(&b).map_or(3, |order| order as i8 + 1);
        self.0 >> place & 1 != 0
    }
}
