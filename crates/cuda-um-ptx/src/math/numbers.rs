//! The floats of PTX as types: f32 and f64 by the CPU, f16 and bf16 through f64.

use super::soft::{self, Format};

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
        Self::from_bits(Self::FORMAT.flush(self.bits(), ftz))
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
