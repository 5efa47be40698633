//! The instructions that have a loop of their own, as one table: what each computes for a lane. The loops become vector instructions.
//!
//! Results go to the register when all lanes have one, so that it may be one of the sources.

use crate::math::float::{add, fma, max, min, mul, sub};
use crate::math::{Class, Mode, Type, convert};
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
     $($name:ident $names:literal ($($lane:ident $file:ident),+) $d:ident = $value:expr;)*
     ; $($test:ident $tests:literal ($x:ident, $y:ident) $of:ident = $holds:expr;)*) => {
        /// Instructions of which the machine has a loop of its own; `Extra` has the others.
        ///
        /// Suffixes: `W` is 32 bits, `L` 64 bits, `S` signed, `F` f32, `D` f64.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
            #[default]
            Exit,
            /// `Program::accesses[d]`.
            Load,
            Store,
            /// `Program::extras[d]`.
            Extra,
        }

        /// The instructions that a code is for, with the class of their type (`i`: all integers and bits) and its size.
        const NAMES: &[(&str, Code)] = &[
            $(($names, Code::$name),)*
            $(($tests, Code::$test),)*
            ("selp.i16 selp.i32 selp.f32", Code::SelW),
            ("selp.i64 selp.f64", Code::SelL),
        ];

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

impl Code {
    /// The code of an instruction with modifiers that change nothing, if there is one.
    pub fn named(name: &str, kind: Type) -> Option<Self> {
        let class = match kind.class() {
            Class::Bits | Class::Unsigned => 'u',
            Class::Signed => 's',
            _ if matches!(kind, Type::F32 | Type::F64) => 'f',
            _ => return None,
        };
        let any = if class == 'f' { 'f' } else { 'i' };
        let wanted = [class, any].map(|class| format!("{name}.{class}{}", kind.bits()));
        let fits = |(names, _): &&(&str, _)| {
            names
                .split(' ')
                .any(|name| wanted.iter().any(|wanted| wanted == name))
        };
        NAMES.iter().find(fits).map(|row| row.1)
    }
}

codes! {
    words longs;
    MovW "" (a words) words = a;
    MovL "" (a longs) longs = a;
    AddW "add.i16 add.i32" (a words, b words) words = a.wrapping_add(b);
    SubW "sub.i16 sub.i32" (a words, b words) words = a.wrapping_sub(b);
    MulW "mul.i16 mul.i32" (a words, b words) words = a.wrapping_mul(b);
    MadW "mad.i16 mad.i32" (a words, b words, c words) words = a.wrapping_mul(b).wrapping_add(c);
    AndW "and.i16 and.i32" (a words, b words) words = a & b;
    OrW "or.i16 or.i32" (a words, b words) words = a | b;
    XorW "xor.i16 xor.i32" (a words, b words) words = a ^ b;
    NotW "not.i16 not.i32" (a words) words = !a;
    ShlW "shl.i32" (a words, b words) words = if b < 32 { a << (b & 31) } else { 0 };
    ShrW "shr.u32" (a words, b words) words = if b < 32 { a >> (b & 31) } else { 0 };
    ShrS "shr.s32" (a words, b words) words = (a as i32 >> (if b < 31 { b } else { 31 })) as u32;
    MinW "min.u16 min.u32" (a words, b words) words = if a < b { a } else { b };
    MaxW "max.u16 max.u32" (a words, b words) words = if a > b { a } else { b };
    MinS "min.s32" (a words, b words) words = if (a as i32) < b as i32 { a } else { b };
    MaxS "max.s32" (a words, b words) words = if a as i32 > b as i32 { a } else { b };
    AddL "add.i64" (a longs, b longs) longs = a.wrapping_add(b);
    SubL "sub.i64" (a longs, b longs) longs = a.wrapping_sub(b);
    MulL "mul.i64" (a longs, b longs) longs = a.wrapping_mul(b);
    MadL "mad.i64" (a longs, b longs, c longs) longs = a.wrapping_mul(b).wrapping_add(c);
    AndL "and.i64" (a longs, b longs) longs = a & b;
    OrL "or.i64" (a longs, b longs) longs = a | b;
    XorL "xor.i64" (a longs, b longs) longs = a ^ b;
    NotL "not.i64" (a longs) longs = !a;
    ShlL "shl.i64" (a longs, b words) longs = if b < 64 { a << (b & 63) } else { 0 };
    ShrL "shr.u64" (a longs, b words) longs = if b < 64 { a >> (b & 63) } else { 0 };
    MinL "min.u64" (a longs, b longs) longs = if a < b { a } else { b };
    MaxL "max.u64" (a longs, b longs) longs = if a > b { a } else { b };
    WideW "mul.wide.u32" (a words, b words) longs = wide(a, b);
    WideS "mul.wide.s32" (a words, b words) longs = wide_signed(a, b);
    WideMadW "mad.wide.u32" (a words, b words, c longs) longs = wide(a, b).wrapping_add(c);
    WideMadS "mad.wide.s32" (a words, b words, c longs) longs = wide_signed(a, b).wrapping_add(c);
    Extend "" (a words) longs = u64::from(a);
    ExtendS "" (a words) longs = i64::from(a as i32) as u64;
    Low "" (a longs) words = a as u32;
    High "" (a longs) words = (a >> 32) as u32;
    Join "" (a words, b words) longs = u64::from(b) << 32 | u64::from(a);
    AddF "add.f32" (a words, b words) words = add(f(a), f(b), PLAIN).to_bits();
    SubF "sub.f32" (a words, b words) words = sub(f(a), f(b), PLAIN).to_bits();
    MulF "mul.f32" (a words, b words) words = mul(f(a), f(b), PLAIN).to_bits();
    FmaF "fma.f32 mad.f32" (a words, b words, c words) words = fma(f(a), f(b), f(c), PLAIN).to_bits();
    MinF "min.f32" (a words, b words) words = min(f(a), f(b), PLAIN).to_bits();
    MaxF "max.f32" (a words, b words) words = max(f(a), f(b), PLAIN).to_bits();
    NegF "neg.f32" (a words) words = a ^ 1 << 31;
    AbsF "abs.f32" (a words) words = a & !(1 << 31);
    AddD "add.f64" (a longs, b longs) longs = add(d(a), d(b), PLAIN).to_bits();
    SubD "sub.f64" (a longs, b longs) longs = sub(d(a), d(b), PLAIN).to_bits();
    MulD "mul.f64" (a longs, b longs) longs = mul(d(a), d(b), PLAIN).to_bits();
    FmaD "fma.f64 mad.f64" (a longs, b longs, c longs) longs = fma(d(a), d(b), d(c), PLAIN).to_bits();
    FloatS "" (a words) words = (a as i32 as f32).to_bits();
    FloatW "" (a words) words = (a as f32).to_bits();
    HalfF "" (a words) words = convert::cvt(a.into(), Type::F16, Type::F32, PLAIN) as u32;
    ;
    EqW "eq.i16 eq.i32" (a, b) words = a == b;
    LtW "lt.u16 lt.u32" (a, b) words = a < b;
    LeW "le.u16 le.u32" (a, b) words = a <= b;
    LtS "lt.s32" (a, b) words = (a as i32) < b as i32;
    LeS "le.s32" (a, b) words = a as i32 <= b as i32;
    EqL "eq.i64" (a, b) longs = a == b;
    LtL "lt.u64" (a, b) longs = a < b;
    LeL "le.u64" (a, b) longs = a <= b;
    LtLS "lt.s64" (a, b) longs = (a as i64) < b as i64;
    LeLS "le.s64" (a, b) longs = a as i64 <= b as i64;
    EqF "eq.f32" (a, b) words = f(a) == f(b);
    LtF "lt.f32" (a, b) words = f(a) < f(b);
    LeF "le.f32" (a, b) words = f(a) <= f(b);
    EqD "eq.f64" (a, b) longs = d(a) == d(b);
    LtD "lt.f64" (a, b) longs = d(a) < d(b);
    LeD "le.f64" (a, b) longs = d(a) <= d(b);
}
