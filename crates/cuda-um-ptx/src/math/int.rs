//! Integer arithmetic: 9.7.1; with carries: 9.7.2; logic and shifts: 9.7.8.

/// An integer type of PTX's arithmetic.
pub trait Int: Copy + Ord {
    /// The type of `.wide` results.
    type Wide;
    /// How many bits it has.
    const BITS: u32;
    /// The lower and upper half of the product: `mul.lo`, `mul.hi` (9.7.1.3).
    fn mul(self, other: Self) -> [Self; 2];
    /// The whole product: `mul.wide` (9.7.1.3).
    fn wide(self, other: Self) -> Self::Wide;
    /// `a + b + carry`, and the carry out: `add.cc`, `addc` (9.7.2.1, 9.7.2.2).
    fn add_carry(self, other: Self, carry: bool) -> (Self, bool);
    /// `a − b − borrow`, and the borrow out: `sub.cc`, `subc` (9.7.2.3, 9.7.2.4).
    fn sub_borrow(self, other: Self, borrow: bool) -> (Self, bool);
    /// `div` (9.7.1.8): all ones for a divisor of zero, as the device; the least number for the least by −1.
    fn div(self, other: Self) -> Self;
    /// `rem` (9.7.1.9): all ones for a divisor of zero, as the device; 0 for the least by −1.
    fn rem(self, other: Self) -> Self;
    /// `sad` (9.7.1.7): `addend + |a − b|`.
    fn sad(self, other: Self, addend: Self) -> Self;
    /// `shl` (9.7.8.8): 0 by more than the width.
    fn shl(self, by: u32) -> Self;
    /// `shr` (9.7.8.9): the sign, or 0, by more than the width.
    fn shr(self, by: u32) -> Self;
    /// `bfe` (9.7.1.19): `length` bits at `position`, extended by their sign if the type has one.
    fn bfe(self, position: u32, length: u32) -> Self;
    /// `bfind` (9.7.1.17): the position of the highest bit that is not the sign; all ones if there is none.
    fn bfind(self, shift_amount: bool) -> u32;
}

/// The position and length of a bit field: the lower 8 bits; of 64-bit operands all of them, as the device, unlike 9.7.1.19.
#[inline(always)]
fn field(position: u32, length: u32, bits: u32) -> (u32, u32) {
    let mask = if bits == 64 { u32::MAX } else { 0xff };
    (position & mask, length & mask)
}

macro_rules! int {
    ($($type:ident $unsigned:ident $wide:ident;)*) => {$(
        impl Int for $type {
            type Wide = $wide;
            const BITS: u32 = $type::BITS;
            #[inline(always)]
            fn mul(self, other: Self) -> [Self; 2] {
                let product = self as $wide * other as $wide;
                [product as $type, (product >> $type::BITS) as $type]
            }
            #[inline(always)]
            fn wide(self, other: Self) -> $wide {
                self as $wide * other as $wide
            }
            #[inline(always)]
            fn add_carry(self, other: Self, carry: bool) -> (Self, bool) {
                let (sum, first) = (self as $unsigned).overflowing_add(other as $unsigned);
                let (sum, second) = sum.overflowing_add(carry.into());
                (sum as $type, first | second)
            }
            #[inline(always)]
            fn sub_borrow(self, other: Self, borrow: bool) -> (Self, bool) {
                let (difference, first) = (self as $unsigned).overflowing_sub(other as $unsigned);
                let (difference, second) = difference.overflowing_sub(borrow.into());
                (difference as $type, first | second)
            }
            #[inline(always)]
            fn div(self, other: Self) -> Self {
                if other == 0 { $unsigned::MAX as $type } else { self.wrapping_div(other) }
            }
            #[inline(always)]
            fn rem(self, other: Self) -> Self {
                if other == 0 { !other } else { self.wrapping_rem(other) }
            }
            #[inline(always)]
            fn sad(self, other: Self, addend: Self) -> Self {
                addend.wrapping_add(self.abs_diff(other) as $type)
            }
            #[inline(always)]
            fn shl(self, by: u32) -> Self {
                self.checked_shl(by).unwrap_or(0)
            }
            #[inline(always)]
            fn shr(self, by: u32) -> Self {
                self >> by.min($type::BITS - 1) >> u32::from(by >= $type::BITS)
            }
            #[inline(always)]
            fn bfe(self, position: u32, length: u32) -> Self {
                let (position, length) = field(position, length, $type::BITS);
                if length == 0 {
                    return 0;
                }
                // Above the highest bit, the field continues with the sign.
                let bits = Int::shr(self, position);
                let unused = $type::BITS.saturating_sub(length);
                bits << unused >> unused
            }
            #[inline(always)]
            fn bfind(self, shift_amount: bool) -> u32 {
                let zeros = (if self < (0 as $type) { !self } else { self }).leading_zeros();
                match zeros {
                    $type::BITS => u32::MAX,
                    _ if shift_amount => zeros,
                    _ => $type::BITS - 1 - zeros,
                }
            }
        }
    )*};
}

int! {
    u16 u16 u32;
    i16 u16 i32;
    u32 u32 u64;
    i32 u32 i64;
    u64 u64 u128;
    i64 u64 i128;
}

/// `mad.hi.sat.s32`: 9.7.1.4.
pub fn mad_hi_sat(a: i32, b: i32, c: i32) -> i32 {
    a.mul(b)[1].saturating_add(c)
}

/// `mul24`: 9.7.1.5. `high`: bits 16 to 47 of the product, otherwise 0 to 31.
#[inline(always)]
pub fn mul24(a: u32, b: u32, signed: bool, high: bool) -> u32 {
    let extend = |value: u32| {
        let value = value << 8;
        if signed {
            i64::from(value as i32 >> 8)
        } else {
            i64::from(value >> 8)
        }
    };
    ((extend(a) * extend(b)) >> if high { 16 } else { 0 }) as u32
}

/// `mad24`: 9.7.1.6. `sat` is that of `mad24.hi.sat.s32`.
#[inline(always)]
pub fn mad24(a: u32, b: u32, c: u32, signed: bool, high: bool, sat: bool) -> u32 {
    let product = mul24(a, b, signed, high);
    if sat {
        (product as i32).saturating_add(c as i32) as u32
    } else {
        product.wrapping_add(c)
    }
}

/// `shf` (9.7.8.7) of `high:low` by `by` modulo 32, or at most 32 if `clamp`: the upper word shifted left, or the lower word shifted
/// right.
#[inline(always)]
pub fn shf(low: u32, high: u32, by: u32, left: bool, clamp: bool) -> u32 {
    let by = if clamp { by.min(32) } else { by & 31 };
    let pair = u64::from(high) << 32 | u64::from(low);
    if left {
        (pair << by >> 32) as u32
    } else {
        (pair >> by) as u32
    }
}

/// `bfi` (9.7.1.20) in the lower `bits` bits (32 or 64): `length` bits of `field` replace those of `base` at `position`.
#[inline(always)]
pub fn bfi(field: u64, base: u64, position: u32, length: u32, bits: u32) -> u64 {
    let (position, length) = self::field(position, length, bits);
    if length == 0 || position >= bits {
        return base;
    }
    let mask = (u64::MAX >> (64 - length.min(64))) << position;
    base & !mask | field << position & mask
}

/// `fns` (9.7.1.18): the position of the `offset`-th set bit from `base` on, upward or (if negative) downward; all ones if there is
/// none.
pub fn fns(mask: u32, base: u32, offset: i32) -> u32 {
    let set = |bit: &u32| mask >> bit & 1 != 0;
    let found = match offset {
        0 => Some(base).filter(|base| *base < 32).filter(set),
        1.. => (base..32).filter(set).nth(offset as usize - 1),
        _ if base >= 32 => None,
        _ => (0..=base)
            .rev()
            .filter(set)
            .nth(offset.unsigned_abs() as usize - 1),
    };
    found.unwrap_or(u32::MAX)
}

/// `szext`: 9.7.1.21. The lower `width` bits, extended; `wrap`: modulo 32, otherwise at most 32.
#[inline(always)]
pub fn szext(a: u32, width: u32, signed: bool, wrap: bool) -> u32 {
    let width = if wrap { width & 31 } else { width.min(32) };
    if width == 0 {
        return 0;
    }
    let unused = 32 - width;
    if signed {
        ((a << unused) as i32 >> unused) as u32
    } else {
        a << unused >> unused
    }
}

/// `bmsk`: 9.7.1.22. `width` ones from `position` on; `wrap`: both modulo 32, otherwise at most 32.
#[inline(always)]
pub fn bmsk(position: u32, width: u32, wrap: bool) -> u32 {
    let limit = |value: u32| if wrap { value & 31 } else { value.min(32) };
    ((1_u64 << limit(width)).wrapping_sub(1) << limit(position)) as u32
}

/// The modes of `prmt`: 9.7.9.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are those of PTX")]
pub enum Permute {
    #[default]
    Any,
    F4e,
    B4e,
    Rc8,
    Ecl,
    Ecr,
    Rc16,
}

/// `prmt` (9.7.9.7): four of the eight bytes of `b:a`; with [`Permute::Any`] bit 3 of a selector repeats the byte's sign.
#[inline(always)]
pub fn prmt(a: u32, b: u32, selectors: u32, mode: Permute) -> u32 {
    let bytes = u64::from(b) << 32 | u64::from(a);
    let select = selectors & 3;
    let mut result = 0;
    for i in 0..4 {
        let selector = match mode {
            Permute::Any => selectors >> (4 * i) & 15,
            Permute::F4e => select + i,
            Permute::B4e => select.wrapping_sub(i) & 7,
            Permute::Rc8 => select,
            Permute::Ecl => select.max(i),
            Permute::Ecr => select.min(i),
            Permute::Rc16 => (select & 1) * 2 + (i & 1),
        };
        let byte = (bytes >> (8 * (selector & 7))) as u8;
        let byte = if selector & 8 != 0 {
            (byte as i8 >> 7) as u8
        } else {
            byte
        };
        result |= u32::from(byte) << (8 * i);
    }
    result
}

/// `lop3`: 9.7.8.6. Bit `4a + 2b + c` of `table` is the result for these bits.
#[inline(always)]
pub fn lop3(a: u32, b: u32, c: u32, table: u8) -> u32 {
    (0..8).filter(|i| table >> i & 1 != 0).fold(0, |result, i| {
        let term = |value: u32, bit: u32| if i & bit != 0 { value } else { !value };
        result | term(a, 4) & term(b, 2) & term(c, 1)
    })
}

/// `dp4a`: 9.7.1.23. The four products of bytes are added to `c`.
#[inline(always)]
pub fn dp4a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool) -> u32 {
    (0..4).fold(c, |sum, i| {
        sum.wrapping_add(byte(a, i, a_signed).wrapping_mul(byte(b, i, b_signed)) as u32)
    })
}

/// `dp2a`: 9.7.1.24. The products of the halves of `a` with the two lower (or `high`) bytes of `b` are added to `c`.
#[inline(always)]
pub fn dp2a(a: u32, b: u32, c: u32, a_signed: bool, b_signed: bool, high: bool) -> u32 {
    (0..2).fold(c, |sum, i| {
        let half = if a_signed {
            i32::from((a >> (16 * i)) as i16)
        } else {
            i32::from((a >> (16 * i)) as u16)
        };
        sum.wrapping_add(half.wrapping_mul(byte(b, i + if high { 2 } else { 0 }, b_signed)) as u32)
    })
}

#[inline(always)]
fn byte(word: u32, index: u32, signed: bool) -> i32 {
    let byte = (word >> (8 * index)) as u8;
    if signed {
        i32::from(byte as i8)
    } else {
        i32::from(byte)
    }
}
