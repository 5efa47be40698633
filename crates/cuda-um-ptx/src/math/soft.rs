//! Binary floating-point formats of any size: exact intermediate results, one rounding.

use super::Round;

/// Widths of a format's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Format {
    exponent: u32,
    pub fraction: u32,
    /// The largest exponent has finite values, too; only all ones is a NaN (E4M3).
    no_infinity: bool,
}

pub const F16: Format = Format::new(5, 10);
pub const BF16: Format = Format::new(8, 7);
/// In the upper bits of an f32.
pub const TF32: Format = Format::new(8, 10);
pub const F32: Format = Format::new(8, 23);
pub const F64: Format = Format::new(11, 52);
pub const E5M2: Format = Format::new(5, 2);
pub const E4M3: Format = Format {
    no_infinity: true,
    ..Format::new(4, 3)
};

impl Format {
    #[inline(always)]
    const fn new(exponent: u32, fraction: u32) -> Self {
        Self {
            exponent,
            fraction,
            no_infinity: false,
        }
    }

    #[inline(always)]
    pub const fn sign(self) -> u64 {
        1 << (self.exponent + self.fraction)
    }

    /// All bits of exponent and fraction: the NaN that NVIDIA's devices return for every format but f64.
    #[inline(always)]
    pub const fn nan(self) -> u64 {
        self.sign() - 1
    }

    /// An exponent of ones; in a format without infinity the NaN.
    #[inline(always)]
    pub const fn infinity(self) -> u64 {
        if self.no_infinity {
            self.nan()
        } else {
            self.sign() - (1 << self.fraction)
        }
    }

    #[inline(always)]
    pub const fn one(self) -> u64 {
        (self.bias() as u64) << self.fraction
    }

    /// With `.ftz`, subnormal numbers become zeros of their sign.
    #[inline(always)]
    pub const fn flush(self, bits: u64, ftz: bool) -> u64 {
        let subnormal = bits & (self.sign() - (1 << self.fraction)) == 0;
        if ftz && subnormal {
            bits & self.sign()
        } else {
            bits
        }
    }

    #[inline(always)]
    pub const fn largest(self) -> u64 {
        self.infinity() - 1
    }

    #[inline(always)]
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    #[inline(always)]
    pub const fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & self.nan();
        magnitude > self.infinity() || self.no_infinity && magnitude == self.nan()
    }
}

/// `significand × 2^exponent`. Lost bits are kept as a one in the lowest bit ("sticky").
#[derive(Clone, Copy, Debug)]
pub struct Number {
    pub negative: bool,
    pub exponent: i32,
    pub significand: u128,
}

impl Number {
    /// A finite number.
    pub fn unpack(format: Format, bits: u64) -> Self {
        let field = (bits & format.nan()) >> format.fraction;
        let fraction = bits & ((1 << format.fraction) - 1);
        let hidden = if field == 0 { 0 } else { 1 << format.fraction };
        Self {
            negative: bits & format.sign() != 0,
            exponent: (field.max(1) as i32) - format.bias() - format.fraction as i32,
            significand: u128::from(fraction | hidden),
        }
    }

    /// The highest bit is moved to bit 126.
    fn normal(self) -> Self {
        if self.significand == 0 {
            return Self {
                exponent: i32::MIN / 2,
                ..self
            };
        }
        let shift = self.significand.leading_zeros() as i32 - 1;
        let significand = if shift < 0 {
            self.significand >> 1 | self.significand & 1
        } else {
            self.significand << shift
        };
        Self {
            exponent: self.exponent - shift,
            significand,
            ..self
        }
    }

    /// The sum; of an exact zero the sign is not defined by `self`, but by [`Number::zero_sign`].
    pub fn add(self, other: Self) -> Self {
        let (a, b) = (self.normal(), other.normal());
        let (large, small) = if a.exponent >= b.exponent {
            (a, b)
        } else {
            (b, a)
        };
        let shift = (large.exponent - small.exponent) as u32;
        let shifted = match shift {
            0..=127 => {
                small.significand >> shift
                    | u128::from(small.significand << (127 - shift) << 1 != 0)
            }
            _ => u128::from(small.significand != 0),
        };
        let (negative, significand) = if large.negative == small.negative {
            (large.negative, large.significand + shifted)
        } else if large.significand >= shifted {
            (large.negative, large.significand - shifted)
        } else {
            (small.negative, shifted - large.significand)
        };
        Self {
            negative,
            exponent: large.exponent,
            significand,
        }
    }

    /// The product of two unpacked numbers.
    pub fn mul(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent,
            significand: self.significand * other.significand,
        }
    }

    /// The quotient of two unpacked numbers other than zero.
    pub fn div(self, other: Self) -> Self {
        let (a, shift) = (self.normal(), other.significand.leading_zeros() - 64);
        // 127 bits by 64 bits: a quotient of at least 63.
        let divisor = other.significand << shift;
        let quotient = a.significand / divisor;
        let rest = u128::from(a.significand % divisor != 0);
        Self {
            negative: self.negative != other.negative,
            exponent: a.exponent - (other.exponent - shift as i32),
            significand: quotient << 1 | rest,
        }
        .halve()
    }

    fn halve(self) -> Self {
        Self {
            exponent: self.exponent - 1,
            ..self
        }
    }

    /// The square root of a positive number.
    pub fn sqrt(self) -> Self {
        let mut a = self.normal();
        if a.exponent & 1 != 0 {
            a.significand <<= 1;
            a.exponent -= 1;
        }
        let root = a.significand.isqrt();
        let rest = u128::from(root * root != a.significand);
        Self {
            negative: false,
            exponent: a.exponent / 2,
            significand: root << 1 | rest,
        }
        .halve()
    }

    /// The bits of the nearest number of `format` in the direction of `round`; too large ones become infinities or the largest number.
    pub fn round(self, format: Format, round: Round) -> u64 {
        let sign = if self.negative { format.sign() } else { 0 };
        if self.significand == 0 {
            return sign;
        }
        let zeros = self.significand.leading_zeros();
        let (significand, exponent) = (
            self.significand << zeros,
            self.exponent - zeros as i32 + 127,
        );
        // Below 1 - bias the numbers are subnormal, and have fewer bits.
        let missing = (1 - format.bias() - exponent).max(0);
        let keep = format.fraction as i32 + 1 - missing;
        let (kept, rest) = match keep {
            1.. => ((significand >> (128 - keep)) as u64, significand << keep),
            0 => (0, significand),
            _ => (0, 1),
        };
        let up = round_up(
            round,
            self.negative,
            kept & 1 != 0,
            rest.cmp(&(1 << 127)),
            rest != 0,
        );
        let field = if missing > 0 {
            0
        } else {
            (exponent + format.bias() - 1) as u64
        };
        let bits = if field > 1 << format.exponent {
            u64::MAX
        } else {
            (field << format.fraction) + kept + u64::from(up)
        };
        if bits >= format.infinity() {
            let to_infinity = match round {
                Round::Near | Round::Away => true,
                Round::Zero => false,
                Round::Down => self.negative,
                Round::Up => !self.negative,
            };
            return sign
                | if to_infinity {
                    format.infinity()
                } else {
                    format.largest()
                };
        }
        sign | bits
    }

    /// The integer in the direction of `round`, saturated to 64 bits and a sign.
    pub fn to_integer(self, round: Round) -> i128 {
        let magnitude = match self.exponent {
            65.. if self.significand != 0 => u128::from(u64::MAX) + 1,
            0.. => {
                (self.significand << (self.exponent.min(64) as u32)).min(u128::from(u64::MAX) + 1)
            }
            _ => {
                let shift = self.exponent.unsigned_abs();
                let (kept, rest) = match shift {
                    1..=127 => (self.significand >> shift, self.significand << (128 - shift)),
                    _ => (0, u128::from(self.significand != 0)),
                };
                kept + u128::from(round_up(
                    round,
                    self.negative,
                    kept & 1 != 0,
                    rest.cmp(&(1 << 127)),
                    rest != 0,
                ))
            }
        };
        if self.negative {
            -(magnitude as i128)
        } else {
            magnitude as i128
        }
    }
}

/// Whether a magnitude is rounded away from zero, by the dropped part against one half.
fn round_up(
    round: Round,
    negative: bool,
    odd: bool,
    half: std::cmp::Ordering,
    inexact: bool,
) -> bool {
    match round {
        Round::Near => half.is_gt() || half.is_eq() && odd,
        Round::Away => half.is_ge(),
        Round::Zero => false,
        Round::Down => negative && inexact,
        Round::Up => !negative && inexact,
    }
}

/// `a × b + c` of finite numbers with one rounding. An exact zero of different signs is negative when rounding down.
pub fn fma(format: Format, a: u64, b: u64, c: u64, round: Round) -> u64 {
    let product = Number::unpack(format, a).mul(Number::unpack(format, b));
    let c = Number::unpack(format, c);
    let mut sum = product.add(c);
    if sum.significand == 0 {
        sum.negative = if product.negative == c.negative {
            c.negative
        } else {
            round == Round::Down
        };
    }
    sum.round(format, round)
}
