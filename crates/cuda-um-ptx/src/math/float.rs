//! Floating-point arithmetic and comparisons: 9.7.3 (f32, f64), 9.7.4 (f16, bf16), 9.7.5 (mixed), 9.7.6 and 9.7.7 (set, setp).
//!
//! Packed types are two calls, by [`super::halves`].

use super::soft::{self, Format, Number};
use super::{Mode, Round};

/// A value of `.f16`, as its bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct F16(pub u16);

/// A value of `.bf16`, as its bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bf16(pub u16);

/// A type of PTX's arithmetic.
pub trait Float: Copy {
    /// The widths of its fields.
    const FORMAT: Format;
    /// Its bits, in the lower part.
    fn bits(self) -> u64;
    /// The value with these bits.
    fn from_bits(bits: u64) -> Self;
    /// The same value, exactly.
    fn to_f64(self) -> f64;
    /// The nearest value.
    fn near(value: f64) -> Self;
    /// The sum, rounded to nearest.
    fn add_near(self, other: Self) -> Self;
    /// The product, rounded to nearest.
    fn mul_near(self, other: Self) -> Self;
    /// `self × factor + addend`, rounded to nearest once.
    fn fma_near(self, factor: Self, addend: Self) -> Self;

    /// Whether it is a NaN.
    #[inline(always)]
    fn is_nan(self) -> bool {
        self.bits() & Self::FORMAT.nan() > Self::FORMAT.infinity()
    }

    /// Subnormal values become zeros of their sign, if `ftz`.
    #[inline(always)]
    fn flush(self, ftz: bool) -> Self {
        let bits = self.bits();
        let subnormal = bits & Self::FORMAT.infinity() == 0;
        Self::from_bits(if ftz && subnormal {
            bits & Self::FORMAT.sign()
        } else {
            bits
        })
    }
}

macro_rules! native {
    ($type:ty, $bits:ty, $format:expr) => {
        impl Float for $type {
            const FORMAT: Format = $format;
            #[inline(always)]
            fn bits(self) -> u64 {
                self.to_bits().into()
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                <$type>::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn near(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn add_near(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn mul_near(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn fma_near(self, factor: Self, addend: Self) -> Self {
                self.mul_add(factor, addend)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                self != self
            }
        }
    };
}

native!(f32, u32, soft::F32);
native!(f64, u64, soft::F64);

macro_rules! half {
    ($type:ident, $format:expr) => {
        impl Float for $type {
            const FORMAT: Format = $format;
            #[inline(always)]
            fn bits(self) -> u64 {
                self.0.into()
            }
            #[inline(always)]
            fn from_bits(bits: u64) -> Self {
                Self(bits as u16)
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                widen(Self::FORMAT, self.0)
            }
            #[inline(always)]
            fn near(value: f64) -> Self {
                Self(narrow(Self::FORMAT, value))
            }
            // The exact sum or product of two may have more than 53 bits only if the smaller is below a quarter of the last place.
            #[inline(always)]
            fn add_near(self, other: Self) -> Self {
                Self::near(add_odd(self.to_f64(), other.to_f64()))
            }
            #[inline(always)]
            fn mul_near(self, other: Self) -> Self {
                Self::near(self.to_f64() * other.to_f64())
            }
            #[inline(always)]
            fn fma_near(self, factor: Self, addend: Self) -> Self {
                Self::near(add_odd(self.to_f64() * factor.to_f64(), addend.to_f64()))
            }
        }
    };
}

half!(F16, soft::F16);
half!(Bf16, soft::BF16);

/// The value of a 16-bit float.
#[inline(always)]
fn widen(format: Format, bits: u16) -> f64 {
    let magnitude = u64::from(bits) & format.nan();
    // As if the exponent's bias were that of f64; the product repairs it, for subnormal numbers too.
    let shifted = f64::from_bits(magnitude << (52 - format.fraction));
    let bias = (format.infinity() >> format.fraction) / 2;
    let scaled = shifted * f64::from_bits((1023 + 1023 - bias) << 52);
    let value = if magnitude == format.infinity() {
        f64::INFINITY
    } else {
        scaled
    };
    let value = if magnitude > format.infinity() {
        f64::NAN
    } else {
        value
    };
    if u64::from(bits) & format.sign() != 0 {
        -value
    } else {
        value
    }
}

/// The nearest 16-bit float; a NaN is the canonical one.
#[inline(always)]
fn narrow(format: Format, value: f64) -> u16 {
    let (bits, sign) = (
        value.to_bits() & !(1 << 63),
        (value.to_bits() >> 48 & 0x8000) as u16,
    );
    let bias = (format.infinity() >> format.fraction) / 2;
    let drop = 52 - format.fraction;
    let field = bits >> 52;
    let least = 1024 - bias;
    let magnitude = if field >= least {
        let rebased = bits - ((1023 - bias) << 52);
        let rounded = (rebased + ((1 << (drop - 1)) - 1) + (rebased >> drop & 1)) >> drop;
        rounded.min(format.infinity())
    } else {
        // Adding a number whose last place is that of the format's subnormal numbers rounds to it.
        let magic = f64::from_bits((least + u64::from(drop)) << 52);
        (f64::from_bits(bits) + magic).to_bits() & format.nan()
    };
    if value.is_nan() {
        format.nan() as u16
    } else {
        sign | magnitude as u16
    }
}

/// The sum of `a` and `b`; an inexact one has an odd last bit, so that a second rounding (to at most 51 bits) is like one.
#[inline(always)]
pub fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let virtual_b = sum - a;
    let error = (a - (sum - virtual_b)) + (b - virtual_b);
    let bits = sum.to_bits();
    // Toward the exact value: by one unit up in magnitude if the error has the sign of the sum, otherwise down.
    let outward = (error > 0.0) == (sum > 0.0);
    let odd = if bits & 1 == 1 || error == 0.0 || !sum.is_finite() {
        bits
    } else if outward {
        bits + 1
    } else {
        bits - 1
    };
    f64::from_bits(odd)
}

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
        let one = F::near(1.0).bits();
        bits = if negative || nan { 0 } else { bits.min(one) };
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

/// `div.rn` and the other roundings: 9.7.3.8. `div.approx` and `div.full` of f32 are in [`super::approx`].
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

/// `rcp.rn` and the other roundings: 9.7.3.13.
#[inline(always)]
pub fn rcp<F: Float + std::ops::Div<Output = F>>(a: F, mode: Mode) -> F {
    div(F::near(1.0), a, mode)
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

/// The modifiers of `min` and `max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extreme {
    /// `.ftz`
    pub ftz: bool,
    /// `.NaN`: the result is a NaN if an operand is one.
    pub nan: bool,
    /// `.xorsign.abs`: of the magnitudes, with the product's sign.
    pub xorsign_abs: bool,
}

/// `min`: 9.7.3.11, 9.7.4.7. −0 is less than +0.
#[inline(always)]
pub fn min<F: Float + PartialOrd>(a: F, b: F, mode: Extreme) -> F {
    extreme(a, b, mode, |a, b| a < b, |a, b| a | b)
}

/// `max`: 9.7.3.12, 9.7.4.8.
#[inline(always)]
pub fn max<F: Float + PartialOrd>(a: F, b: F, mode: Extreme) -> F {
    extreme(a, b, mode, |a, b| a > b, |a, b| a & b)
}

#[inline(always)]
fn extreme<F: Float + PartialOrd>(
    a: F,
    b: F,
    mode: Extreme,
    first: fn(&F, &F) -> bool,
    equal: fn(u64, u64) -> u64,
) -> F {
    let (a, b) = (a.flush(mode.ftz), b.flush(mode.ftz));
    let sign = (a.bits() ^ b.bits()) & F::FORMAT.sign();
    let (a, b) = if mode.xorsign_abs {
        (abs(a), abs(b))
    } else {
        (a, b)
    };
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
    let bits = if mode.xorsign_abs {
        chosen | sign
    } else {
        chosen
    };
    F::from_bits(if nan { nan_of([a, b, b]) } else { bits })
}

/// `abs`: 9.7.3.9, 9.7.4.6. Of a NaN, too, only the sign changes.
#[inline(always)]
pub fn abs<F: Float>(a: F) -> F {
    F::from_bits(a.bits() & !F::FORMAT.sign())
}

/// `neg`: 9.7.3.10, 9.7.4.5. Of a NaN, too, only the sign changes.
#[inline(always)]
pub fn neg<F: Float>(a: F) -> F {
    F::from_bits(a.bits() ^ F::FORMAT.sign())
}

/// `copysign`: 9.7.3.2. The sign of `a`, the magnitude of `b`.
#[inline(always)]
pub fn copysign<F: Float>(a: F, b: F) -> F {
    F::from_bits(a.bits() & F::FORMAT.sign() | b.bits() & !F::FORMAT.sign())
}

/// What `testp` asks: 9.7.3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of PTX")]
pub enum Class {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// `testp`: 9.7.3.1. A zero is normal.
pub fn testp<F: Float>(a: F, class: Class) -> bool {
    let (magnitude, infinity) = (a.bits() & F::FORMAT.nan(), F::FORMAT.infinity());
    match class {
        Class::Finite => magnitude < infinity,
        Class::Infinite => magnitude == infinity,
        Class::Number => magnitude <= infinity,
        Class::NotANumber => magnitude > infinity,
        Class::Normal => {
            magnitude < infinity && (magnitude >> F::FORMAT.fraction != 0 || magnitude == 0)
        }
        Class::Subnormal => magnitude != 0 && magnitude & infinity == 0,
    }
}

/// The comparisons of `set` and `setp`: 9.7.6, 9.7.7. `lo`, `ls`, `hi`, `hs` are the others on unsigned types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "the names are those of PTX; with a `U` they hold for a NaN too"
)]
pub enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// A comparison of integers, or of floats that are flushed already. Integers have no comparison with `U`.
#[expect(clippy::neg_cmp_op_on_partial_ord, reason = "a NaN is meant")]
#[inline(always)]
pub fn compare<T: PartialOrd>(op: Compare, a: T, b: T) -> bool {
    let order = a.partial_cmp(&b);
    match op {
        Compare::Eq => a == b,
        Compare::Ne => order.is_some() && a != b,
        Compare::Lt => a < b,
        Compare::Le => a <= b,
        Compare::Gt => a > b,
        Compare::Ge => a >= b,
        Compare::Equ => order.is_none() || a == b,
        Compare::Neu => a != b,
        Compare::Ltu => !(a >= b),
        Compare::Leu => !(a > b),
        Compare::Gtu => !(a <= b),
        Compare::Geu => !(a < b),
        Compare::Num => order.is_some(),
        Compare::Nan => order.is_none(),
    }
}

/// A comparison of floats.
#[inline(always)]
pub fn compare_float<F: Float + PartialOrd>(op: Compare, a: F, b: F, ftz: bool) -> bool {
    compare(op, a.flush(ftz), b.flush(ftz))
}

macro_rules! ordered {
    ($($type:ident)*) => {$(
        impl PartialEq for $type {
            #[inline(always)]
            fn eq(&self, other: &Self) -> bool {
                self.to_f64() == other.to_f64()
            }
        }
        impl PartialOrd for $type {
            #[inline(always)]
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                self.to_f64().partial_cmp(&other.to_f64())
            }
        }
    )*};
}

ordered!(F16 Bf16);
