//! 9.7.1 to 9.7.8: arithmetic, comparisons, selection, logic and shifts; 9.7.19 video instructions.
//!
//! The common forms have a [`Code`]; the others are a function of one lane.

#![expect(clippy::unnecessary_cast, reason = "the type is the macro's")]

use super::{Class, Code, Constant, Decoder, Extra, Form, Operand, Result, Slot, Type};
use crate::math::float::{self, Bf16, Extreme, F16, Float};
use crate::math::int::{self, Int};
use crate::math::{Mode, Round, approx, halves};
use crate::program::Scalar;

macro_rules! integers {
    ($kind:expr, $type:ident => $function:expr) => {
        match $kind {
            Type::U16 | Type::B16 => {
                type $type = u16;
                boxed($function)
            }
            Type::S16 => {
                type $type = i16;
                boxed($function)
            }
            Type::U32 | Type::B32 => {
                type $type = u32;
                boxed($function)
            }
            Type::S32 => {
                type $type = i32;
                boxed($function)
            }
            Type::U64 | Type::B64 => {
                type $type = u64;
                boxed($function)
            }
            _ => {
                type $type = i64;
                boxed($function)
            }
        }
    };
}
pub(super) use integers;

macro_rules! floats {
    ($kind:expr, $type:ident => $function:expr) => {
        match $kind {
            Type::F16 => {
                type $type = F16;
                boxed($function)
            }
            Type::Bf16 => {
                type $type = Bf16;
                boxed($function)
            }
            Type::F16x2 => {
                type $type = F16;
                packed(boxed($function))
            }
            Type::Bf16x2 => {
                type $type = Bf16;
                packed(boxed($function))
            }
            Type::F32 => {
                type $type = f32;
                boxed($function)
            }
            _ => {
                type $type = f64;
                boxed($function)
            }
        }
    };
}
pub(super) use floats;

pub(super) fn boxed(function: impl Fn([u64; 4]) -> u64 + Send + Sync + 'static) -> Scalar {
    Box::new(function)
}

/// Both halves of packed operands.
pub(super) fn packed(function: Scalar) -> Scalar {
    boxed(move |v| {
        halves(v.map(|value| value as u32), |half| {
            function(half.map(u64::from)) as u16
        })
        .into()
    })
}

pub(super) fn get<F: Float>(bits: u64) -> F {
    F::from_bits(bits)
}

pub(super) fn is_float(kind: Type) -> bool {
    matches!(
        kind,
        Type::F16 | Type::Bf16 | Type::F16x2 | Type::Bf16x2 | Type::F32 | Type::F64
    )
}

pub(super) fn round(form: &Form) -> Round {
    form.modifiers
        .iter()
        .find_map(|modifier| round_named(modifier))
        .unwrap_or_default()
}

fn round_named(modifier: &str) -> Option<Round> {
    Some(match modifier {
        "rn" | "rni" => Round::Near,
        "rz" | "rzi" => Round::Zero,
        "rm" | "rmi" => Round::Down,
        "rp" | "rpi" => Round::Up,
        "rna" => Round::Away,
        _ => return None,
    })
}

/// The truth table of `a op b` for [`Code::Logic`]: bits for (1,1), (1,0), (0,1), (0,0), the highest first.
pub(super) fn table(operation: &str) -> Option<u32> {
    Some(match operation {
        "and" => 0b1000,
        "or" => 0b1110,
        "xor" => 0b0110,
        _ => return None,
    })
}

/// The table with `a` or `b` negated.
pub(super) fn negate(table: u32, a: bool, b: bool) -> u32 {
    let table = if a {
        (table & 0b1100) >> 2 | (table & 0b0011) << 2
    } else {
        table
    };
    if b {
        (table & 0b1010) >> 1 | (table & 0b0101) << 1
    } else {
        table
    }
}

impl Decoder<'_> {
    pub(super) fn operand<'a>(&self, form: &Form<'a>, index: usize) -> Result<&'a Operand> {
        match form.operands.get(index) {
            Some(operand) => Ok(operand),
            None => self.bad("an operand is missing"),
        }
    }

    /// The operands after the first as values of one size.
    fn sources(&mut self, form: &Form, bits: u32) -> Result<Vec<Slot>> {
        if form.operands.len() > 5 {
            return self.bad("too many operands");
        }
        form.operands
            .iter()
            .skip(1)
            .map(|operand| self.source(operand, bits))
            .collect()
    }

    /// `d` and `count` sources of that size.
    fn simple(&mut self, form: &Form, count: usize, bits: u32, function: Scalar) -> Result<bool> {
        let d = self.target(self.operand(form, 0)?)?;
        let sources = self.sources(form, bits)?;
        if sources.len() != count {
            return self.bad(format!("{count} operands are expected after the first"));
        }
        self.scalar(d, sources, function);
        Ok(true)
    }

    /// `d` and sources of the given sizes.
    fn mixed(&mut self, form: &Form, sizes: &[u32], function: Scalar) -> Result<bool> {
        let d = self.target(self.operand(form, 0)?)?;
        let mut sources = Vec::new();
        for (index, &bits) in sizes.iter().enumerate() {
            sources.push(self.source(self.operand(form, index + 1)?, bits)?);
        }
        self.scalar(d, sources, function);
        Ok(true)
    }

    /// A form with its own code; `bits` of all operands but those of a shift.
    fn coded(&mut self, form: &Form, code: Code, bits: u32, swap: bool) -> Result<bool> {
        let d = self.target(self.operand(form, 0)?)?;
        let sources = self.sources(form, bits)?;
        let index = |at: usize| sources.get(at).map_or(0, |slot: &Slot| slot.index);
        let (a, b) = if swap {
            (index(1), index(0))
        } else {
            (index(0), index(1))
        };
        let wanted = match code {
            Code::NotW | Code::NotL | Code::NegF | Code::AbsF | Code::MovW | Code::MovL => 1,
            Code::MadW | Code::MadL | Code::FmaF | Code::FmaD => 3,
            _ => 2,
        };
        if sources.len() != wanted {
            return self.bad(format!("{wanted} operands are expected after the first"));
        }
        let class = if bits == 64 { Class::Long } else { Class::Word };
        if d.class != class {
            return self.bad(format!("a register of {bits} bits is expected"));
        }
        self.emit(code, d.index, a, b, index(2));
        // Wide registers may hold a narrower result.
        if bits == 16 && !matches!(code, Code::AndW | Code::OrW | Code::XorW | Code::MovW) {
            let mask = self.word_value(0xffff)?;
            self.emit(Code::AndW, d.index, d.index, mask.index, 0);
        }
        Ok(true)
    }

    pub(super) fn arithmetic(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind() else {
            return match form.name {
                name if name.starts_with('v') && form.modifiers.len() >= 2 => self.video(form),
                _ => Ok(false),
            };
        };
        let bits = if kind == Type::Pred {
            1
        } else {
            kind.bytes() as u32 * 8
        };
        match form.name {
            "setp" => return self.setp(form, kind, bits),
            "set" => return self.set(form, kind, bits),
            "selp" => {
                let (p, negated) = self.condition(self.operand(form, 3)?)?;
                let d = self.target(self.operand(form, 0)?)?;
                let (mut a, mut b) = (
                    self.source(self.operand(form, 1)?, bits)?,
                    self.source(self.operand(form, 2)?, bits)?,
                );
                if negated {
                    (a, b) = (b, a);
                }
                if d.class != a.class {
                    return self.bad(format!("a register of {bits} bits is expected"));
                }
                self.emit(
                    if bits == 64 { Code::SelL } else { Code::SelW },
                    d.index,
                    a.index,
                    b.index,
                    p.index,
                );
                return Ok(true);
            }
            "and" | "or" | "xor" | "not" | "mov" if kind == Type::Pred => return self.logic(form),
            "testp" => return self.testp(form, kind, bits),
            _ => {}
        }
        if let Some(code) = self.own_code(form, kind)? {
            return self.coded(form, code, bits, false);
        }
        if form.name.starts_with('v') && form.modifiers.len() >= 2 {
            return self.video(form);
        }
        if is_float(kind) {
            self.float(form, kind, bits)
        } else {
            self.integer(form, kind, bits)
        }
    }

    fn own_code(&self, form: &Form, kind: Type) -> Result<Option<Code>> {
        let plain = form
            .modifiers
            .iter()
            .all(|modifier| Type::named(modifier).is_some() || matches!(*modifier, "lo" | "rn"));
        if !plain || form.types().count() != 1 {
            return Ok(None);
        }
        let narrow = kind.bytes() <= 4
            && !matches!(kind, Type::F16x2 | Type::Bf16x2 | Type::U16x2 | Type::S16x2);
        let pick = |word: Code, long: Code| if narrow { word } else { long };
        let low_bits = kind.integer() || matches!(kind, Type::B16 | Type::B32 | Type::B64);
        Ok(Some(match (form.name, kind) {
            ("add", _) if low_bits => pick(Code::AddW, Code::AddL),
            ("sub", _) if low_bits => pick(Code::SubW, Code::SubL),
            ("mul", _) if low_bits && form.has("lo") => pick(Code::MulW, Code::MulL),
            ("mad", _) if low_bits && form.has("lo") => pick(Code::MadW, Code::MadL),
            ("and", _) => pick(Code::AndW, Code::AndL),
            ("or", _) => pick(Code::OrW, Code::OrL),
            ("xor", _) => pick(Code::XorW, Code::XorL),
            ("not", _) => pick(Code::NotW, Code::NotL),
            ("min", Type::U16 | Type::U32) => Code::MinW,
            ("max", Type::U16 | Type::U32) => Code::MaxW,
            ("min", Type::S32) => Code::MinS,
            ("max", Type::S32) => Code::MaxS,
            ("min", Type::U64) => Code::MinL,
            ("max", Type::U64) => Code::MaxL,
            ("add", Type::F32) => Code::AddF,
            ("sub", Type::F32) => Code::SubF,
            ("mul", Type::F32) => Code::MulF,
            ("fma" | "mad", Type::F32) => Code::FmaF,
            ("min", Type::F32) => Code::MinF,
            ("max", Type::F32) => Code::MaxF,
            ("neg", Type::F32) => Code::NegF,
            ("abs", Type::F32) => Code::AbsF,
            ("add", Type::F64) => Code::AddD,
            ("sub", Type::F64) => Code::SubD,
            ("mul", Type::F64) => Code::MulD,
            ("fma" | "mad", Type::F64) => Code::FmaD,
            _ => return Ok(None),
        }))
    }

    fn integer(&mut self, form: &Form, kind: Type, bits: u32) -> Result<bool> {
        let (wide, high) = (form.has("wide"), form.has("hi"));
        let packed_kind = matches!(kind, Type::U16x2 | Type::S16x2);
        let element = match kind {
            Type::U16x2 => Type::U16,
            Type::S16x2 => Type::S16,
            kind => kind,
        };
        let finish = |function: Scalar| {
            if packed_kind {
                packed(function)
            } else {
                function
            }
        };
        let carry = form.has("cc");
        match form.name {
            "addc" | "subc" => return self.carries(form, bits, form.name == "subc", true, carry),
            "add" | "sub" if carry => {
                return self.carries(form, bits, form.name == "sub", false, true);
            }
            "mad" | "madc" if carry || form.name == "madc" => {
                return self.mad_carry(form, kind, bits, high, carry);
            }
            "mul" | "mad" if wide => return self.wide(form, kind, bits),
            "shl" | "shr" => return self.shift(form, kind, bits),
            _ => {}
        }
        let saturated = form.has("sat");
        let relu = form.has("relu");
        let (count, function) = match form.name {
            "add" if saturated => (
                2,
                boxed(|v| (v[0] as i32).saturating_add(v[1] as i32) as u64),
            ),
            "sub" if saturated => (
                2,
                boxed(|v| (v[0] as i32).saturating_sub(v[1] as i32) as u64),
            ),
            "add" => (
                2,
                finish(integers!(element, T => |v| (v[0] as T).wrapping_add(v[1] as T) as u64)),
            ),
            "mul" if high => (
                2,
                integers!(kind, T => |v| Int::mul(v[0] as T, v[1] as T)[1] as u64),
            ),
            "mad" if saturated => (
                3,
                boxed(|v| int::mad_hi_sat(v[0] as i32, v[1] as i32, v[2] as i32) as u64),
            ),
            "mad" if high => (
                3,
                integers!(kind, T => |v| Int::mul(v[0] as T, v[1] as T)[1].wrapping_add(v[2] as T) as u64),
            ),
            "mul24" => {
                let signed = kind.signed();
                (
                    2,
                    boxed(move |v| int::mul24(v[0] as u32, v[1] as u32, signed, high).into()),
                )
            }
            "mad24" => {
                let signed = kind.signed();
                (
                    3,
                    boxed(move |v| {
                        int::mad24(
                            v[0] as u32,
                            v[1] as u32,
                            v[2] as u32,
                            signed,
                            high,
                            saturated,
                        )
                        .into()
                    }),
                )
            }
            "sad" => (
                3,
                integers!(kind, T => |v| Int::sad(v[0] as T, v[1] as T, v[2] as T) as u64),
            ),
            "div" => (
                2,
                integers!(kind, T => |v| Int::div(v[0] as T, v[1] as T) as u64),
            ),
            "rem" => (
                2,
                integers!(kind, T => |v| Int::rem(v[0] as T, v[1] as T) as u64),
            ),
            "abs" => (
                1,
                integers!(kind, T => |v| if (v[0] as T) < (0 as T) { (0 as T).wrapping_sub(v[0] as T) as u64 } else { v[0] }),
            ),
            "neg" => (1, boxed(|v| v[0].wrapping_neg())),
            "min" => (
                2,
                finish(
                    integers!(element, T => move |v| { let low = (v[0] as T).min(v[1] as T); if relu && low < (0 as T) { 0 } else { low as u64 } }),
                ),
            ),
            "max" => (
                2,
                finish(
                    integers!(element, T => move |v| { let top = (v[0] as T).max(v[1] as T); if relu && top < (0 as T) { 0 } else { top as u64 } }),
                ),
            ),
            "popc" => (1, boxed(|v| v[0].count_ones().into())),
            "clz" => (
                1,
                boxed(move |v| u64::from(v[0].leading_zeros() - (64 - bits))),
            ),
            "brev" => (1, boxed(move |v| v[0].reverse_bits() >> (64 - bits))),
            "bfind" => {
                let amount = form.has("shiftamt");
                (
                    1,
                    integers!(kind, T => move |v| u64::from(Int::bfind(v[0] as T, amount))),
                )
            }
            "cnot" => (1, boxed(|v| u64::from(v[0] == 0))),
            "fns" => {
                return self.mixed(
                    form,
                    &[32, 32, 32],
                    boxed(|v| int::fns(v[0] as u32, v[1] as u32, v[2] as i32).into()),
                );
            }
            "bfe" => {
                return self.mixed(
                    form,
                    &[bits, 32, 32],
                    integers!(kind, T => |v| Int::bfe(v[0] as T, v[1] as u32, v[2] as u32) as u64),
                );
            }
            "bfi" => {
                return self.mixed(
                    form,
                    &[bits, bits, 32, 32],
                    boxed(move |v| int::bfi(v[0], v[1], v[2] as u32, v[3] as u32, bits)),
                );
            }
            "szext" | "bmsk" => {
                let (signed, wrap) = (kind.signed(), form.has("wrap"));
                if form.name == "bmsk" {
                    (
                        2,
                        boxed(move |v| int::bmsk(v[0] as u32, v[1] as u32, wrap).into()),
                    )
                } else {
                    (
                        2,
                        boxed(move |v| int::szext(v[0] as u32, v[1] as u32, signed, wrap).into()),
                    )
                }
            }
            "dp4a" | "dp2a" => {
                let signs: Vec<bool> = form.types().map(Type::signed).collect();
                let &[a, b] = signs.as_slice() else {
                    return self.bad("two types are expected");
                };
                if form.name == "dp4a" {
                    (
                        3,
                        boxed(move |v| {
                            int::dp4a(v[0] as u32, v[1] as u32, v[2] as u32, a, b).into()
                        }),
                    )
                } else {
                    (
                        3,
                        boxed(move |v| {
                            int::dp2a(v[0] as u32, v[1] as u32, v[2] as u32, a, b, high).into()
                        }),
                    )
                }
            }
            "prmt" => {
                let mode = match form.modifiers.last() {
                    Some(&"f4e") => int::Permute::F4e,
                    Some(&"b4e") => int::Permute::B4e,
                    Some(&"rc8") => int::Permute::Rc8,
                    Some(&"ecl") => int::Permute::Ecl,
                    Some(&"ecr") => int::Permute::Ecr,
                    Some(&"rc16") => int::Permute::Rc16,
                    _ => int::Permute::Any,
                };
                (
                    3,
                    boxed(move |v| int::prmt(v[0] as u32, v[1] as u32, v[2] as u32, mode).into()),
                )
            }
            "lop3" if !form.has("and") && !form.has("or") => {
                let Operand::Integer(table) = *self.operand(form, 4)? else {
                    return self.bad("the table must be a constant");
                };
                return self.mixed(
                    form,
                    &[32, 32, 32],
                    boxed(move |v| {
                        int::lop3(v[0] as u32, v[1] as u32, v[2] as u32, table as u8).into()
                    }),
                );
            }
            "shf" => {
                let (left, clamp) = (form.has("l"), form.has("clamp"));
                (
                    3,
                    boxed(move |v| {
                        int::shf(v[0] as u32, v[1] as u32, v[2] as u32, left, clamp).into()
                    }),
                )
            }
            "slct" => {
                let types: Vec<Type> = form.types().collect();
                let &[value, chooser] = types.as_slice() else {
                    return self.bad("two types are expected");
                };
                let (size, float, flush) = (
                    value.bytes() as u32 * 8,
                    chooser == Type::F32,
                    form.has("ftz"),
                );
                let function = boxed(move |v| {
                    let first = if float {
                        f32::from_bits(v[2] as u32).flush(flush) >= 0.0
                    } else {
                        v[2] as i32 >= 0
                    };
                    if first { v[0] } else { v[1] }
                });
                return self.mixed(form, &[size, size, 32], function);
            }
            _ => return Ok(false),
        };
        self.simple(form, count, bits, function)
    }

    fn carry_slot(&mut self) -> Result<Slot> {
        match self.carry {
            Some(slot) => Ok(slot),
            None => {
                let slot = self.temporary(Class::Pred)?;
                self.carry = Some(slot);
                Ok(slot)
            }
        }
    }

    /// 9.7.2 Extended-Precision Integer Arithmetic.
    fn carries(
        &mut self,
        form: &Form,
        bits: u32,
        subtract: bool,
        carry_in: bool,
        carry_out: bool,
    ) -> Result<bool> {
        let d = self.target(self.operand(form, 0)?)?;
        let sources = self.sources(form, bits)?;
        let &[a, b] = sources.as_slice() else {
            return self.bad("two operands are expected");
        };
        self.carry_slot()?;
        self.emit_carry(d, a, b, subtract, carry_in, carry_out);
        Ok(true)
    }

    fn emit_carry(
        &mut self,
        d: Slot,
        a: Slot,
        b: Slot,
        subtract: bool,
        carry_in: bool,
        carry_out: bool,
    ) {
        let carry = self.carry.map_or(0, |slot| slot.index);
        self.emit_extra(Extra::Carry {
            d,
            a,
            b,
            subtract,
            carry_in,
            carry_out,
        });
        if let Some(inst) = self.code.last_mut() {
            inst.a = carry;
        }
    }

    fn mad_carry(
        &mut self,
        form: &Form,
        kind: Type,
        bits: u32,
        high: bool,
        carry_out: bool,
    ) -> Result<bool> {
        let d = self.target(self.operand(form, 0)?)?;
        let sources = self.sources(form, bits)?;
        let &[a, b, c] = sources.as_slice() else {
            return self.bad("three operands are expected");
        };
        let product = self.new_slot(kind)?;
        let half = usize::from(high);
        self.scalar(
            product,
            vec![a, b],
            integers!(kind, T => move |v| Int::mul(v[0] as T, v[1] as T)[half] as u64),
        );
        self.carry_slot()?;
        self.emit_carry(d, product, c, false, form.name == "madc", carry_out);
        Ok(true)
    }

    /// `mul.wide`, `mad.wide`.
    fn wide(&mut self, form: &Form, kind: Type, bits: u32) -> Result<bool> {
        let d = self.target(self.operand(form, 0)?)?;
        let (a, b) = (
            self.source(self.operand(form, 1)?, bits)?,
            self.source(self.operand(form, 2)?, bits)?,
        );
        let mad = form.name == "mad";
        let c = if mad {
            Some(self.source(self.operand(form, 3)?, bits * 2)?)
        } else {
            None
        };
        if bits == 32 {
            if d.class != Class::Long {
                return self.bad("a register of 64 bits is expected");
            }
            let code = match (mad, kind.signed()) {
                (false, false) => Code::WideW,
                (false, true) => Code::WideS,
                (true, false) => Code::WideMadW,
                (true, true) => Code::WideMadS,
            };
            self.emit(
                code,
                d.index,
                a.index,
                b.index,
                c.map_or(0, |slot| slot.index),
            );
            return Ok(true);
        }
        let mut sources = vec![a, b];
        sources.extend(c);
        self.scalar(
            d,
            sources,
            integers!(kind, T => |v| (Int::wide(v[0] as T, v[1] as T) as u64).wrapping_add(v[2])),
        );
        Ok(true)
    }

    /// 9.7.8.8 shl, 9.7.8.9 shr.
    fn shift(&mut self, form: &Form, kind: Type, bits: u32) -> Result<bool> {
        let left = form.name == "shl";
        let code = match (left, bits, kind.signed()) {
            (true, 32, _) => Some(Code::ShlW),
            (false, 32, false) => Some(Code::ShrW),
            (false, 32, true) => Some(Code::ShrS),
            (true, 64, _) => Some(Code::ShlL),
            (false, 64, false) => Some(Code::ShrL),
            _ => None,
        };
        let Some(code) = code else {
            let function = if left {
                integers!(kind, T => |v| Int::shl(v[0] as T, v[1] as u32) as u64)
            } else {
                integers!(kind, T => |v| Int::shr(v[0] as T, v[1] as u32) as u64)
            };
            return self.mixed(form, &[bits, 32], function);
        };
        let d = self.target(self.operand(form, 0)?)?;
        let (a, b) = (
            self.source(self.operand(form, 1)?, bits)?,
            self.source(self.operand(form, 2)?, 32)?,
        );
        if d.class != a.class {
            return self.bad(format!("a register of {bits} bits is expected"));
        }
        self.emit(code, d.index, a.index, b.index, 0);
        Ok(true)
    }

    fn float(&mut self, form: &Form, kind: Type, bits: u32) -> Result<bool> {
        let mode = Mode {
            round: round(form),
            ftz: form.has("ftz"),
            sat: form.has("sat"),
            relu: form.has("relu"),
        };
        let extreme = Extreme {
            ftz: mode.ftz,
            nan: form.has("NaN"),
            xorsign_abs: form.has("xorsign"),
        };
        let (approximate, full, ftz) = (form.has("approx"), form.has("full"), mode.ftz);
        if form.types().count() != 1 && form.name != "slct" {
            return Ok(false);
        }
        if form.name == "slct" {
            return self.integer(form, kind, bits);
        }
        let single = kind == Type::F32;
        let (count, function) = match form.name {
            "add" => (
                2,
                floats!(kind, F => move |v| float::add::<F>(get(v[0]), get(v[1]), mode).bits()),
            ),
            "sub" => (
                2,
                floats!(kind, F => move |v| float::sub::<F>(get(v[0]), get(v[1]), mode).bits()),
            ),
            "mul" => (
                2,
                floats!(kind, F => move |v| float::mul::<F>(get(v[0]), get(v[1]), mode).bits()),
            ),
            "fma" if form.has("oob") => (
                3,
                floats!(kind, F => move |v| float::fma_oob::<F>(get(v[0]), get(v[1]), get(v[2]), mode).bits()),
            ),
            "fma" | "mad" => (
                3,
                floats!(kind, F => move |v| float::fma::<F>(get(v[0]), get(v[1]), get(v[2]), mode).bits()),
            ),
            "min" | "max" if form.operands.len() == 4 => {
                let least = form.name == "min";
                (
                    3,
                    floats!(kind, F => move |v| {
                        let op = if least { float::min::<F> } else { float::max::<F> };
                        op(op(get(v[0]), get(v[1]), extreme), get(v[2]), extreme).bits()
                    }),
                )
            }
            "min" => (
                2,
                floats!(kind, F => move |v| float::min::<F>(get(v[0]), get(v[1]), extreme).bits()),
            ),
            "max" => (
                2,
                floats!(kind, F => move |v| float::max::<F>(get(v[0]), get(v[1]), extreme).bits()),
            ),
            "neg" => (
                1,
                floats!(kind, F => move |v| float::neg::<F>(get::<F>(v[0]).flush(ftz)).bits()),
            ),
            "abs" => (
                1,
                floats!(kind, F => move |v| float::abs::<F>(get::<F>(v[0]).flush(ftz)).bits()),
            ),
            "copysign" => (
                2,
                floats!(kind, F => move |v| float::copysign::<F>(get(v[0]), get(v[1])).bits()),
            ),
            "div" if (approximate || full) && single => (
                2,
                boxed(move |v| approx::div(get(v[0]), get(v[1]), ftz, full).bits()),
            ),
            "div" if single => (
                2,
                boxed(move |v| float::div::<f32>(get(v[0]), get(v[1]), mode).bits()),
            ),
            "div" => (
                2,
                boxed(move |v| float::div::<f64>(get(v[0]), get(v[1]), mode).bits()),
            ),
            "rcp" if approximate && single => {
                (1, boxed(move |v| approx::rcp(get(v[0]), ftz).bits()))
            }
            "rcp" if approximate => (1, boxed(move |v| approx::rcp_f64(get(v[0])).bits())),
            "rcp" if single => (1, boxed(move |v| float::rcp::<f32>(get(v[0]), mode).bits())),
            "rcp" => (1, boxed(move |v| float::rcp::<f64>(get(v[0]), mode).bits())),
            "sqrt" if approximate && single => {
                (1, boxed(move |v| approx::sqrt(get(v[0]), ftz).bits()))
            }
            "sqrt" if single => (
                1,
                boxed(move |v| float::sqrt::<f32>(get(v[0]), mode).bits()),
            ),
            "sqrt" => (
                1,
                boxed(move |v| float::sqrt::<f64>(get(v[0]), mode).bits()),
            ),
            "rsqrt" if single => (1, boxed(move |v| approx::rsqrt(get(v[0]), ftz).bits())),
            "rsqrt" if ftz => (1, boxed(move |v| approx::rsqrt_coarse(get(v[0])).bits())),
            "rsqrt" => (1, boxed(move |v| approx::rsqrt_f64(get(v[0])).bits())),
            "sin" => (1, boxed(move |v| approx::sin(get(v[0]), ftz).bits())),
            "cos" => (1, boxed(move |v| approx::cos(get(v[0]), ftz).bits())),
            "lg2" => (1, boxed(move |v| approx::lg2(get(v[0]), ftz).bits())),
            "ex2" => (
                1,
                floats!(kind, F => move |v| approx::ex2::<F>(get(v[0]), ftz).bits()),
            ),
            "tanh" => (
                1,
                floats!(kind, F => move |v| approx::tanh::<F>(get(v[0])).bits()),
            ),
            _ => return Ok(false),
        };
        self.simple(form, count, bits, function)
    }

    fn testp(&mut self, form: &Form, kind: Type, bits: u32) -> Result<bool> {
        let class = match form.modifiers.first() {
            Some(&"finite") => float::Class::Finite,
            Some(&"infinite") => float::Class::Infinite,
            Some(&"number") => float::Class::Number,
            Some(&"notanumber") => float::Class::NotANumber,
            Some(&"normal") => float::Class::Normal,
            Some(&"subnormal") => float::Class::Subnormal,
            _ => return Ok(false),
        };
        self.simple(
            form,
            1,
            bits,
            floats!(kind, F => move |v| u64::from(float::testp::<F>(get(v[0]), class))),
        )
    }

    fn logic(&mut self, form: &Form) -> Result<bool> {
        let d = self.target(self.operand(form, 0)?)?;
        let (a, a_negated) = self.condition(self.operand(form, 1)?)?;
        let (b, logic, b_negated) = match form.name {
            "not" => (a, 0b0011, false),
            "mov" => (a, 0b1100, false),
            name => {
                let (b, negated) = self.condition(self.operand(form, 2)?)?;
                (b, table(name).unwrap_or(0), negated)
            }
        };
        if d.class != Class::Pred {
            return self.bad("a predicate is expected");
        }
        self.emit(
            Code::Logic,
            d.index,
            a.index,
            b.index,
            negate(logic, a_negated, b_negated),
        );
        Ok(true)
    }

    /// A constant of 0 for a missing operand.
    pub(super) fn zero(&mut self, class: Class) -> Result<Slot> {
        let bits = match class {
            Class::Pred => 1,
            Class::Word => 32,
            Class::Long => 64,
        };
        self.constant(class, bits, Constant::Value(0))
    }
}
