//! 9.7.5 to 9.7.6: comparisons.

use super::arithmetic::{boxed, floats, get, integers, is_float, negate, packed, table};
use super::{Class, Code, Decoder, Form, Operand, Result, Slot, Type};
use crate::math::float::{self, Bf16, Compare, F16};
use crate::program::Scalar;

pub(super) fn compare_named(name: &str) -> Option<Compare> {
    Some(match name {
        "eq" => Compare::Eq,
        "ne" => Compare::Ne,
        "lt" | "lo" => Compare::Lt,
        "le" | "ls" => Compare::Le,
        "gt" | "hi" => Compare::Gt,
        "ge" | "hs" => Compare::Ge,
        "equ" => Compare::Equ,
        "neu" => Compare::Neu,
        "ltu" => Compare::Ltu,
        "leu" => Compare::Leu,
        "gtu" => Compare::Gtu,
        "geu" => Compare::Geu,
        "num" => Compare::Num,
        "nan" => Compare::Nan,
        _ => return None,
    })
}

impl Decoder<'_> {
    /// A comparison of one lane.
    fn comparison(op: Compare, kind: Type, ftz: bool) -> Scalar {
        if is_float(kind) {
            floats!(kind, F => move |v| u64::from(float::compare_float::<F>(op, get(v[0]), get(v[1]), ftz)))
        } else {
            integers!(kind, T => move |v| u64::from(float::compare(op, v[0] as T, v[1] as T)))
        }
    }

    /// 9.7.6.2, 9.7.7.2 setp: `p[|q] = (a op b) [bool c]`.
    pub(super) fn setp(&mut self, form: &Form, kind: Type, bits: u32) -> Result<bool> {
        let Some(op) = form.modifiers.first().and_then(|name| compare_named(name)) else {
            return Ok(false);
        };
        let (p, q) = match self.operand(form, 0)? {
            Operand::Pair(p, q) if p.start == p.end => (None, Some(self.predicate(*q)?)),
            Operand::Pair(p, q) => (Some(self.predicate(*p)?), Some(self.predicate(*q)?)),
            Operand::Name(p) => (Some(self.predicate(*p)?), None),
            _ => return self.bad("a predicate is expected"),
        };
        let (a, b) = (
            self.source(self.operand(form, 1)?, bits)?,
            self.source(self.operand(form, 2)?, bits)?,
        );
        let ftz = form.has("ftz");
        let combined = form.modifiers.iter().find_map(|modifier| table(modifier));
        if matches!(kind, Type::F16x2 | Type::Bf16x2) {
            // The predicates are of the lower and the upper half.
            let half = if kind == Type::F16x2 {
                Type::F16
            } else {
                Type::Bf16
            };
            for (slot, shift) in [(p, 0), (q, 16)] {
                let Some(slot) = slot else { continue };
                let function = Self::comparison(op, half, ftz);
                self.scalar(
                    slot,
                    vec![a, b],
                    boxed(move |v| function(v.map(|value| value >> shift & 0xffff))),
                );
                if let Some(table) = combined {
                    let (c, negated) = self.condition(self.operand(form, 3)?)?;
                    self.emit(
                        Code::Logic,
                        slot.index,
                        slot.index,
                        c.index,
                        negate(table, false, negated),
                    );
                }
            }
            return Ok(true);
        }
        let direct = match p {
            Some(p) if combined.is_none() && q.is_none() => p,
            _ => self.temporary(Class::Pred)?,
        };
        self.compare(op, kind, ftz, direct, a, b)?;
        if combined.is_some() || q.is_some() {
            let (c, negated) = match combined {
                Some(_) => self.condition(self.operand(form, 3)?)?,
                None => (direct, false),
            };
            let table = combined.unwrap_or(0b1000);
            // `c` may be one of the results.
            let c = if p.is_some_and(|p| p.index == c.index) && q.is_some() {
                let copy = self.temporary(Class::Pred)?;
                self.emit(Code::Logic, copy.index, c.index, c.index, 0b1000);
                copy
            } else {
                c
            };
            if let Some(p) = p {
                self.emit(
                    Code::Logic,
                    p.index,
                    direct.index,
                    c.index,
                    negate(table, false, negated),
                );
            }
            if let Some(q) = q {
                let of_q = if combined.is_some() {
                    negate(table, true, negated)
                } else {
                    0b0001
                };
                self.emit(Code::Logic, q.index, direct.index, c.index, of_q);
            }
        }
        Ok(true)
    }

    fn compare(
        &mut self,
        op: Compare,
        kind: Type,
        ftz: bool,
        p: Slot,
        a: Slot,
        b: Slot,
    ) -> Result<()> {
        // `a > b` is `b < a`; `a ≥ b` of integers is `!(a < b)`, and so is `geu` of floats.
        let float = is_float(kind);
        let (swap, base, negated) = match op {
            Compare::Eq => (false, Compare::Eq, false),
            Compare::Ne if !float => (false, Compare::Eq, true),
            Compare::Neu => (false, Compare::Eq, true),
            Compare::Lt => (false, Compare::Lt, false),
            Compare::Le => (false, Compare::Le, false),
            Compare::Gt => (true, Compare::Lt, false),
            Compare::Ge => (true, Compare::Le, false),
            Compare::Geu => (false, Compare::Lt, true),
            Compare::Gtu => (false, Compare::Le, true),
            Compare::Leu => (true, Compare::Lt, true),
            Compare::Ltu => (true, Compare::Le, true),
            _ => (false, op, false),
        };
        let code = match (base, kind) {
            _ if ftz => None,
            (
                Compare::Eq,
                Type::U16 | Type::S16 | Type::B16 | Type::U32 | Type::S32 | Type::B32,
            ) => Some(Code::EqW),
            (Compare::Lt, Type::U16 | Type::U32) => Some(Code::LtW),
            (Compare::Le, Type::U16 | Type::U32) => Some(Code::LeW),
            (Compare::Lt, Type::S32) => Some(Code::LtS),
            (Compare::Le, Type::S32) => Some(Code::LeS),
            (Compare::Eq, Type::U64 | Type::S64 | Type::B64) => Some(Code::EqL),
            (Compare::Lt, Type::U64) => Some(Code::LtL),
            (Compare::Le, Type::U64) => Some(Code::LeL),
            (Compare::Lt, Type::S64) => Some(Code::LtLS),
            (Compare::Le, Type::S64) => Some(Code::LeLS),
            (Compare::Eq, Type::F32) => Some(Code::EqF),
            (Compare::Lt, Type::F32) => Some(Code::LtF),
            (Compare::Le, Type::F32) => Some(Code::LeF),
            (Compare::Eq, Type::F64) => Some(Code::EqD),
            (Compare::Lt, Type::F64) => Some(Code::LtD),
            (Compare::Le, Type::F64) => Some(Code::LeD),
            _ => None,
        };
        match code {
            Some(code) => {
                let (a, b) = if swap { (b, a) } else { (a, b) };
                self.emit(code, p.index, a.index, b.index, negated.into());
            }
            None => {
                let function = Self::comparison(op, kind, ftz);
                self.scalar(p, vec![a, b], function);
            }
        }
        Ok(())
    }

    /// 9.7.6.1 set: all ones or 1.0.
    pub(super) fn set(&mut self, form: &Form, kind: Type, bits: u32) -> Result<bool> {
        let Some(op) = form.modifiers.first().and_then(|name| compare_named(name)) else {
            return Ok(false);
        };
        let Some(to) = form.types().next() else {
            return Ok(false);
        };
        let one = match to {
            Type::F32 => u64::from(1f32.to_bits()),
            Type::F16 | Type::F16x2 => 0x3c00,
            Type::Bf16 | Type::Bf16x2 => 0x3f80,
            _ => u64::MAX,
        };
        let ftz = form.has("ftz");
        let combined = form.modifiers.iter().find_map(|modifier| table(modifier));
        let halves = matches!(kind, Type::F16x2 | Type::Bf16x2);
        let element = match kind {
            Type::F16x2 => Type::F16,
            Type::Bf16x2 => Type::Bf16,
            kind => kind,
        };
        let compare = Self::comparison(op, element, ftz);
        let d = self.target(self.operand(form, 0)?)?;
        let mut sources = vec![
            self.source(self.operand(form, 1)?, bits)?,
            self.source(self.operand(form, 2)?, bits)?,
        ];
        let mut logic = 0b1100;
        if let Some(table) = combined {
            let (c, negated) = self.condition(self.operand(form, 3)?)?;
            sources.push(c);
            logic = negate(table, false, negated);
        }
        let function = boxed(move |v| {
            let holds = compare([v[0], v[1], 0, 0]);
            if logic >> (holds << 1 | v[2] & 1) & 1 != 0 {
                one
            } else {
                0
            }
        });
        let function = if halves {
            boxed(move |v| {
                let half = |shift: u32| {
                    function([v[0] >> shift & 0xffff, v[1] >> shift & 0xffff, v[2], 0]) & 0xffff
                };
                half(16) << 16 | half(0)
            })
        } else {
            function
        };
        self.scalar(d, sources, function);
        Ok(true)
    }
}
