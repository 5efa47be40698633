//! Integer arithmetic: 9.7.1; logic and shifts: 9.7.8; `prmt`: 9.7.9.7.

use super::{Class, Mode, Row, Scalar};

/// The lower bits of a number as one of a type.
#[inline(always)]
pub fn extend(value: u64, bits: u32, signed: bool) -> i128 {
    let unused = 64 - bits;
    if signed {
        i128::from((value << unused) as i64 >> unused)
    } else {
        i128::from(value << unused >> unused)
    }
}

/// The type and the modifiers of an instruction.
#[derive(Clone, Copy)]
struct Of {
    bits: u32,
    signed: bool,
    mode: Mode,
}

impl Of {
    /// `.sat`
    #[inline(always)]
    fn clamp(self, value: i128) -> i128 {
        if !self.mode.sat {
            return value;
        }
        value.clamp(-1 << (self.bits - 1), (1 << (self.bits - 1)) - 1)
    }

    /// `.lo`, `.hi`, `.wide` of a product.
    #[inline(always)]
    fn part(self, product: i128) -> i128 {
        if self.mode.high {
            product >> self.bits
        } else {
            product
        }
    }

    /// `.relu`
    #[inline(always)]
    fn relu(self, value: i128) -> i128 {
        if self.mode.relu { value.max(0) } else { value }
    }

    /// The product of the lower 24 bits: bits 0 to 31, or 16 to 47.
    fn product24(self, a: i128, b: i128) -> i128 {
        let product = extend(a as u64, 24, self.signed) * extend(b as u64, 24, self.signed);
        if self.mode.high {
            product >> 16
        } else {
            product
        }
    }

    /// A number of bits, modulo 32 or at most 32.
    fn within(self, count: i128) -> i128 {
        if self.mode.wrap {
            count & 31
        } else {
            count.min(32)
        }
    }

    /// Position and length of a bit field: the lower 8 bits; of 64-bit operands all of them, as the device, unlike 9.7.1.19.
    fn field(self, position: i128, length: i128) -> (u32, u32) {
        let mask = if self.bits == 64 { u32::MAX } else { 0xff };
        (position as u32 & mask, length as u32 & mask)
    }

    fn zeros(self, a: i128) -> i128 {
        i128::from(a.leading_zeros()) - 128 + i128::from(self.bits)
    }

    /// 9.7.1.19: above the highest bit, the field continues with the sign.
    fn bfe(self, a: i128, position: i128, length: i128) -> i128 {
        let (position, length) = self.field(position, length);
        match length.min(self.bits) {
            0 => 0,
            length => extend((a >> position.min(127)) as u64, length, self.signed),
        }
    }

    /// 9.7.1.20: `length` bits of `field` replace those of `base` at `position`.
    fn bfi(self, field: i128, base: i128, position: i128, length: i128) -> i128 {
        let (position, length) = self.field(position, length);
        if position >= self.bits {
            return base;
        }
        let mask = ((1 << length.min(64)) - 1) << position;
        base & !mask | field << position & mask
    }
}

/// `number` operands, exact numbers of the instruction's type or words, to a number that is cut to the type.
macro_rules! rows {
    ($($name:literal $operands:literal |$of:pat_param, $($operand:ident)+| $value:expr;)*) => {
        &[$(($name, $operands, |kind, mode| {
            let of = Of { bits: kind.bits(), signed: kind.class() == Class::Signed, mode };
            let result = if mode.wide { 2 * of.bits } else { of.bits };
            Box::new(move |v: [u64; 4]| {
                let mut operands = v.iter().zip($operands.bytes()).map(|(value, letter)| match letter {
                    b't' => extend(*value, of.bits, of.signed),
                    b'x' => extend(*value, result, of.signed),
                    _ => i128::from(*value as u32),
                });
                $(let $operand = operands.next().unwrap_or(0);)+
                let $of = of;
                extend(i128::from($value) as u64, result, of.signed) as u64
            })
        }),)*]
    };
}

pub(super) const ROWS: &[Row] = rows! {
    "add" "tt" |of, a b| of.clamp(a + b);
    "sub" "tt" |of, a b| of.clamp(a - b);
    "mul" "tt" |of, a b| of.part(a.wrapping_mul(b));
    "mad" "ttx" |of, a b c| of.clamp(of.part(a.wrapping_mul(b)).wrapping_add(c));
    "mul24" "tt" |of, a b| of.product24(a, b);
    "mad24" "ttt" |of, a b c| of.clamp(of.product24(a, b) + c);
    "sad" "ttt" |_, a b c| c + (a - b).abs();
    // By zero all ones, as the device.
    "div" "tt" |_, a b| if b == 0 { -1 } else { quotient(a, b) };
    "rem" "tt" |_, a b| if b == 0 { -1 } else { a - quotient(a, b) * b };
    "abs" "t" |_, a| a.abs();
    "neg" "t" |_, a| -a;
    "min" "tt" |of, a b| of.relu(a.min(b));
    "max" "tt" |of, a b| of.relu(a.max(b));
    "popc" "t" |_, a| a.count_ones();
    "clz" "t" |of, a| of.zeros(a);
    "brev" "t" |of, a| (a as u64).reverse_bits() >> (64 - of.bits);
    "bfind" "t" |of, a| bfind(of.bits.into(), of.zeros(if a < 0 { !a } else { a }), of.mode.amount);
    "cnot" "t" |_, a| a == 0;
    "fns" "www" |_, mask base offset| fns(mask as u32, base as u32, offset as i32);
    "bfe" "tww" |of, a position length| of.bfe(a, position, length);
    "bfi" "ttww" |of, a b position length| of.bfi(a, b, position, length);
    "szext" "tw" |of, a width| of.bfe(a, 0, of.within(width));
    "bmsk" "ww" |of, position width| ((1_i128 << of.within(width)) - 1) << of.within(position);
    "prmt" "www" |_, a b c| prmt(a, b, [0, 1, 2, 3].map(|i| c >> (4 * i) & 15));
    "and" "tt" |_, a b| a & b;
    "or" "tt" |_, a b| a | b;
    "xor" "tt" |_, a b| a ^ b;
    "not" "t" |_, a| !a;
    "lop3" "wwwi" |_, a b c table| lop3(a as u32, b as u32, c as u32, table as u8);
    "shf" "www" |of, low high by| shf(of.mode, low as u64, high as u64, by as u32);
    "shl" "tw" |_, a by| if by < 64 { a << by } else { 0 };
    "shr" "tw" |_, a by| a >> by.min(64);
    // 9.7.13.5: `atom` has the old value first.
    "atom.exch" "tt" |_, _old new| new;
    "atom.cas" "ttt" |_, old like new| if old == like { new } else { old };
    "atom.inc" "tt" |_, old limit| if old >= limit { 0 } else { old + 1 };
    "atom.dec" "tt" |_, old limit| if old == 0 || old > limit { limit } else { old - 1 };
};

/// The product of a byte or half of each word, extended by its sign if its type has one.
fn part(word: u64, index: u32, bits: u32, signed: bool) -> i128 {
    extend(word >> (index * bits), bits, signed)
}

/// `dp4a` (9.7.1.23): the four products of bytes are added to `c`. `dp2a` (9.7.1.24): those of the halves of `a` with the two lower (or
/// upper) bytes of `b`.
pub fn dot(width: u32, signs: [bool; 2], high: bool) -> Scalar {
    let first = if width == 16 && high { 2 } else { 0 };
    Box::new(move |[a, b, c, _]| {
        (0..32 / width).fold(i128::from(c), |sum, i| {
            sum + part(a, i, width, signs[0]) * part(b, i + first, 8, signs[1])
        }) as u64
    })
}

#[inline(always)]
fn quotient(a: i128, b: i128) -> i128 {
    match (i64::try_from(a), i64::try_from(b)) {
        (Ok(a), Ok(b)) if b != -1 => (a / b).into(),
        _ => a / b,
    }
}

/// 9.7.1.17: the position of the highest bit that is not the sign; all ones if there is none.
fn bfind(bits: i128, zeros: i128, amount: bool) -> i128 {
    match zeros == bits {
        true => -1,
        false if amount => zeros,
        false => bits - 1 - zeros,
    }
}

/// 9.7.1.18: the position of the `offset`-th set bit from `base` on, upward or (if negative) downward; all ones if there is none.
fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let set = |bit: &u32| mask >> bit & 1 != 0;
    let found = match (offset, offset.unsigned_abs() as usize) {
        (0, _) => Some(base).filter(|base| *base < 32).filter(set),
        (1.., count) => (base..32).filter(set).nth(count - 1),
        _ if base >= 32 => None,
        (_, count) => (0..=base).rev().filter(set).nth(count - 1),
    };
    found.unwrap_or(u32::MAX)
}

/// 9.7.8.7: `high:low` shifted by `by` modulo 32, or at most 32 if `.clamp`.
fn shf(mode: Mode, low: u64, high: u64, by: u32) -> u32 {
    let by = if mode.clamp { by.min(32) } else { by & 31 };
    let pair = high << 32 | low;
    (if mode.left {
        pair << by >> 32
    } else {
        pair >> by
    }) as u32
}

/// 9.7.9.7: four of the eight bytes of `b:a`; bit 3 of a selector repeats the byte's sign.
fn prmt(a: i128, b: i128, selectors: [i128; 4]) -> i128 {
    let bytes = b << 32 | a;
    selectors.iter().rev().fold(0, |result, selector| {
        let byte = bytes >> (8 * (selector & 7));
        let byte = if selector & 8 != 0 {
            (byte as i8 >> 7).into()
        } else {
            byte
        };
        result << 8 | byte & 0xff
    })
}

/// The selectors of `prmt` with a mode, by the lower two bits of its operand.
pub fn permute(mode: &str) -> Option<Scalar> {
    let selectors: fn(i128) -> [i128; 4] = match mode {
        "f4e" => |s| [0, 1, 2, 3].map(|i| s + i),
        "b4e" => |s| [0, 1, 2, 3].map(|i| (s - i) & 7),
        "rc8" => |s| [s; 4],
        "ecl" => |s| [0, 1, 2, 3].map(|i| s.max(i)),
        "ecr" => |s| [0, 1, 2, 3].map(|i| s.min(i)),
        "rc16" => |s| [0, 1, 2, 3].map(|i| (s & 1) * 2 + (i & 1)),
        _ => return None,
    };
    Some(Box::new(move |[a, b, c, _]| {
        prmt(a.into(), b.into(), selectors(i128::from(c & 3))) as u64
    }))
}

/// 9.7.8.6: bit `4a + 2b + c` of `table` is the result for these bits.
fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    (0..8).filter(|i| table >> i & 1 != 0).fold(0, |result, i| {
        let term = |value: u32, bit: u32| if i & bit != 0 { value } else { !value };
        result | term(a, 4) & term(b, 2) & term(c, 1)
    })
}
