//! The instructions that have a loop of their own, as one table: what each computes for a lane. The loops become vector instructions.
//!
//! Results go to the register when all lanes have one, so that it may be one of the sources.

use crate::math::float::{add, fma, max, min, mul, sub};
use crate::math::{Mode, Type, convert};
use crate::program::Inst;

const PLAIN: Mode = Mode::PLAIN;

/// Writes the lanes of `mask`.
#[inline(always)]
fn put<T: Copy>(d: &mut [T; 32], values: &[T; 32], mask: u32) {
    if mask == u32::MAX {
        *d = *values;
    } else {
        for i in 0..32 {
            d[i] = if mask >> i & 1 != 0 { values[i] } else { d[i] };
        }
    }
}

/// One of two registers for each lane, by a predicate.
#[inline(always)]
fn select<T: Copy>(file: &mut [[T; 32]], chooser: u32, inst: &Inst, mask: u32) {
    let mut values = file[inst.b as usize];
    put(&mut values, &file[inst.a as usize], chooser);
    put(&mut file[inst.d as usize], &values, mask);
}

#[inline(always)]
fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

#[inline(always)]
fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

#[inline(always)]
fn wide(a: u32, b: u32) -> u64 {
    u64::from(a) * u64::from(b)
}

#[inline(always)]
fn wide_signed(a: u32, b: u32) -> u64 {
    (i64::from(a as i32) * i64::from(b as i32)) as u64
}

macro_rules! codes {
    ($words:ident $longs:ident;
     $($name:ident($($lane:ident $file:ident),+) $d:ident = $value:expr;)*
     ; $($test:ident($x:ident, $y:ident) $of:ident = $holds:expr;)*) => {
        /// Instructions of which the machine has a loop of its own; `Extra` has the others.
        ///
        /// Suffixes: `W` is 32 bits, `L` 64 bits, `S` signed, `F` f32, `D` f64.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Code {
            $($name,)*
            /// A comparison, negated if `c` is 1.
            $($test,)*
            SelW,
            SelL,
            /// `d = table[a, b]`; `c` is the table of four bits.
            Logic,
            /// To `d`; a guard makes it divergent.
            Branch,
            /// To element `a` (a word) of table `d`.
            Indexed,
            Call,
            Return,
            Exit,
            /// `Program::accesses[d]`.
            Load,
            Store,
            /// `Program::extras[d]`.
            Extra,
        }

        /// Executes an instruction that is in the table.
        #[inline(always)]
        pub(crate) fn execute(inst: &Inst, mask: u32, $words: &mut [[u32; 32]], $longs: &mut [[u64; 32]], preds: &mut [u32]) {
            match inst.code {
                $(Code::$name => {
                    $(let $lane = &$file[inst.$lane as usize];)+
                    let mut values = [0; 32];
                    for i in 0..32 {
                        $(let $lane = $lane[i];)+
                        values[i] = $value;
                    }
                    put(&mut $d[inst.d as usize], &values, mask);
                })*
                $(Code::$test => {
                    let (x, y) = (&$of[inst.a as usize], &$of[inst.b as usize]);
                    let mut bits = 0;
                    for i in 0..32 {
                        let ($x, $y) = (x[i], y[i]);
                        bits |= u32::from($holds) << i;
                    }
                    let d = &mut preds[inst.d as usize];
                    *d = *d & !mask | (bits ^ inst.c.wrapping_neg()) & mask;
                })*
                Code::SelW => select($words, preds[inst.c as usize], inst, mask),
                Code::SelL => select($longs, preds[inst.c as usize], inst, mask),
                Code::Logic => {
                    let (a, b) = (preds[inst.a as usize], preds[inst.b as usize]);
                    let term = |bit: u32, value: u32| if inst.c & bit != 0 { value } else { 0 };
                    let value = term(8, a & b) | term(4, a & !b) | term(2, !a & b) | term(1, !a & !b);
                    let d = &mut preds[inst.d as usize];
                    *d = *d & !mask | value & mask;
                }
                _ => {}
            }
        }
    };
}

codes! {
    words longs;
    MovW(a words) words = a;
    MovL(a longs) longs = a;
    AddW(a words, b words) words = a.wrapping_add(b);
    SubW(a words, b words) words = a.wrapping_sub(b);
    MulW(a words, b words) words = a.wrapping_mul(b);
    MadW(a words, b words, c words) words = a.wrapping_mul(b).wrapping_add(c);
    AndW(a words, b words) words = a & b;
    OrW(a words, b words) words = a | b;
    XorW(a words, b words) words = a ^ b;
    NotW(a words) words = !a;
    ShlW(a words, b words) words = if b < 32 { a << (b & 31) } else { 0 };
    ShrW(a words, b words) words = if b < 32 { a >> (b & 31) } else { 0 };
    ShrS(a words, b words) words = (a as i32 >> (if b < 31 { b } else { 31 })) as u32;
    MinW(a words, b words) words = if a < b { a } else { b };
    MaxW(a words, b words) words = if a > b { a } else { b };
    MinS(a words, b words) words = if (a as i32) < b as i32 { a } else { b };
    MaxS(a words, b words) words = if a as i32 > b as i32 { a } else { b };
    AddL(a longs, b longs) longs = a.wrapping_add(b);
    SubL(a longs, b longs) longs = a.wrapping_sub(b);
    MulL(a longs, b longs) longs = a.wrapping_mul(b);
    MadL(a longs, b longs, c longs) longs = a.wrapping_mul(b).wrapping_add(c);
    AndL(a longs, b longs) longs = a & b;
    OrL(a longs, b longs) longs = a | b;
    XorL(a longs, b longs) longs = a ^ b;
    NotL(a longs) longs = !a;
    ShlL(a longs, b words) longs = if b < 64 { a << (b & 63) } else { 0 };
    ShrL(a longs, b words) longs = if b < 64 { a >> (b & 63) } else { 0 };
    MinL(a longs, b longs) longs = if a < b { a } else { b };
    MaxL(a longs, b longs) longs = if a > b { a } else { b };
    WideW(a words, b words) longs = wide(a, b);
    WideS(a words, b words) longs = wide_signed(a, b);
    WideMadW(a words, b words, c longs) longs = wide(a, b).wrapping_add(c);
    WideMadS(a words, b words, c longs) longs = wide_signed(a, b).wrapping_add(c);
    Extend(a words) longs = u64::from(a);
    ExtendS(a words) longs = i64::from(a as i32) as u64;
    Low(a longs) words = a as u32;
    High(a longs) words = (a >> 32) as u32;
    Join(a words, b words) longs = u64::from(b) << 32 | u64::from(a);
    AddF(a words, b words) words = add(f(a), f(b), PLAIN).to_bits();
    SubF(a words, b words) words = sub(f(a), f(b), PLAIN).to_bits();
    MulF(a words, b words) words = mul(f(a), f(b), PLAIN).to_bits();
    FmaF(a words, b words, c words) words = fma(f(a), f(b), f(c), PLAIN).to_bits();
    MinF(a words, b words) words = min(f(a), f(b), PLAIN).to_bits();
    MaxF(a words, b words) words = max(f(a), f(b), PLAIN).to_bits();
    NegF(a words) words = a ^ 1 << 31;
    AbsF(a words) words = a & !(1 << 31);
    AddD(a longs, b longs) longs = add(d(a), d(b), PLAIN).to_bits();
    SubD(a longs, b longs) longs = sub(d(a), d(b), PLAIN).to_bits();
    MulD(a longs, b longs) longs = mul(d(a), d(b), PLAIN).to_bits();
    FmaD(a longs, b longs, c longs) longs = fma(d(a), d(b), d(c), PLAIN).to_bits();
    FloatS(a words) words = (a as i32 as f32).to_bits();
    FloatW(a words) words = (a as f32).to_bits();
    HalfF(a words) words = convert::cvt(a.into(), Type::F16, Type::F32, PLAIN) as u32;
    ;
    EqW(a, b) words = a == b;
    LtW(a, b) words = a < b;
    LeW(a, b) words = a <= b;
    LtS(a, b) words = (a as i32) < b as i32;
    LeS(a, b) words = a as i32 <= b as i32;
    EqL(a, b) longs = a == b;
    LtL(a, b) longs = a < b;
    LeL(a, b) longs = a <= b;
    LtLS(a, b) longs = (a as i64) < b as i64;
    LeLS(a, b) longs = a as i64 <= b as i64;
    EqF(a, b) words = f(a) == f(b);
    LtF(a, b) words = f(a) < f(b);
    LeF(a, b) words = f(a) <= f(b);
    EqD(a, b) longs = d(a) == d(b);
    LtD(a, b) longs = d(a) < d(b);
    LeD(a, b) longs = d(a) <= d(b);
}
