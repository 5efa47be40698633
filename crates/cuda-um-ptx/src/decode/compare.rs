//! 9.7.5 to 9.7.6: comparisons.

use super::scalar::{negate, table};
use super::{Class, Code, Decoder, Form, Operand, Result, Slot, Type};
use crate::math::float::{self, Compare};
use crate::math::{self, Scalar};

/// A comparison of one lane.
fn comparison(op: Compare, kind: Type, ftz: bool) -> Scalar {
    let (bits, signed) = (kind.bits(), kind.signed());
    match kind.class() {
        math::Class::Float(_) => Box::new(move |v| {
            op.holds(float::value(kind, v[0], ftz), float::value(kind, v[1], ftz))
                .into()
        }),
        _ if signed => Box::new(move |v| {
            let extend = |value: u64| (value << (64 - bits)) as i64;
            op.holds(extend(v[0]), extend(v[1])).into()
        }),
        _ => Box::new(move |v| op.holds(v[0], v[1]).into()),
    }
}

impl Decoder<'_> {
    /// 9.7.6.2, 9.7.7.2 setp: `p[|q] = (a op b) [bool c]`.
    pub(super) fn setp(&mut self, form: &Form, kind: Type) -> Result<bool> {
        let Some(op) = form.modifiers.first().and_then(|name| Compare::named(name)) else {
            return Ok(false);
        };
        let (p, q) = match self.at(form, 0)? {
            Operand::Pair(p, q) if p.start == p.end => (None, Some(self.predicate(*q)?)),
            Operand::Pair(p, q) => (Some(self.predicate(*p)?), Some(self.predicate(*q)?)),
            Operand::Name(p) => (Some(self.predicate(*p)?), None),
            _ => return self.bad("a predicate is expected"),
        };
        let [a, b] = [
            self.source(self.at(form, 1)?, kind.bits())?,
            self.source(self.at(form, 2)?, kind.bits())?,
        ];
        let combined = form.modifiers.iter().find_map(|modifier| table(modifier));
        // `c` may be one of the results.
        let c = match combined {
            Some(_) => {
                let c = self.condition(self.at(form, 3)?)?;
                let copy = if Some(c) == p {
                    self.temporary(Class::Pred)?
                } else {
                    c
                };
                if copy != c {
                    self.copy(copy, c)?;
                }
                Some(copy)
            }
            None => None,
        };
        let ftz = form.has("ftz");
        let (element, two) = kind.element();
        let direct = match p {
            Some(p) if combined.is_none() && q.is_none() => p,
            _ => self.temporary(Class::Pred)?,
        };
        // Of two halves, the predicates are of the lower and the upper one.
        let other = if two {
            let upper = self.temporary(Class::Pred)?;
            for (slot, shift) in [(direct, 0), (upper, element.bits())] {
                let (function, mask) = (
                    comparison(op, element, ftz),
                    u64::MAX >> (64 - element.bits()),
                );
                let half = move |v: [u64; 4]| function(v.map(|value| value >> shift & mask));
                self.scalar(slot, &[a, b], Box::new(half));
            }
            (upper, false)
        } else {
            self.compare(op, kind, ftz, direct, a, b)?;
            (direct, true)
        };
        for (slot, (of, negated)) in [(p, (direct, false)), (q, other)] {
            let Some(slot) = slot else { continue };
            let logic = negate(combined.unwrap_or(0b1100), negated, false);
            let c = c.unwrap_or(of);
            if slot != of {
                self.emit(Code::Logic, slot.index, of.index, c.index, logic);
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
        let codes = match kind {
            Type::U16 | Type::B16 | Type::U32 | Type::B32 => [Code::EqW, Code::LtW, Code::LeW],
            Type::S32 => [Code::EqW, Code::LtS, Code::LeS],
            Type::U64 | Type::B64 => [Code::EqL, Code::LtL, Code::LeL],
            Type::S64 => [Code::EqL, Code::LtLS, Code::LeLS],
            Type::F32 if !ftz => [Code::EqF, Code::LtF, Code::LeF],
            Type::F64 if !ftz => [Code::EqD, Code::LtD, Code::LeD],
            _ => [Code::Extra; 3],
        };
        // `a > b` is `b < a`, and `geu` is `!(a < b)`; nothing is unordered among integers.
        let ordered = matches!(kind.class(), math::Class::Float(_));
        let direct = match op.0 {
            0b0010 => Some((0, false, false)),
            0b0101 if !ordered => Some((0, false, true)),
            0b1101 => Some((0, false, true)),
            0b0001 => Some((1, false, false)),
            0b0011 => Some((2, false, false)),
            0b0100 => Some((1, true, false)),
            0b0110 => Some((2, true, false)),
            0b1110 => Some((1, false, true)),
            0b1100 => Some((2, false, true)),
            0b1011 => Some((1, true, true)),
            0b1001 => Some((2, true, true)),
            _ => None,
        };
        match direct {
            Some((code, swap, negated)) if codes[code] != Code::Extra => {
                let (a, b) = if swap { (b, a) } else { (a, b) };
                self.emit(codes[code], p.index, a.index, b.index, negated.into());
            }
            _ => self.scalar(p, &[a, b], comparison(op, kind, ftz)),
        }
        Ok(())
    }

    /// 9.7.6.1 set: all ones or 1.0.
    pub(super) fn set(&mut self, form: &Form, kind: Type) -> Result<bool> {
        let op = form.modifiers.first().and_then(|name| Compare::named(name));
        let (Some(op), Some(to)) = (op, form.types().next()) else {
            return Ok(false);
        };
        let one = match to.element().0.class() {
            math::Class::Float(format) => format.one(),
            _ => u64::MAX,
        };
        let combined = form.modifiers.iter().find_map(|modifier| table(modifier));
        let ((element, two), ftz) = (kind.element(), form.has("ftz"));
        let compare = comparison(op, element, ftz);
        let d = self.target(self.at(form, 0)?)?;
        let mut sources = vec![
            self.source(self.at(form, 1)?, kind.bits())?,
            self.source(self.at(form, 2)?, kind.bits())?,
        ];
        if combined.is_some() {
            sources.push(self.condition(self.at(form, 3)?)?);
        }
        let logic = combined.unwrap_or(0b1100);
        let function = move |v: [u64; 4], c: u64| {
            let holds = compare(v);
            if logic >> (holds << 1 | c & 1) & 1 != 0 {
                one
            } else {
                0
            }
        };
        let function: Scalar = if two {
            // The predicate is for both halves.
            let bits = element.bits();
            let mask = (1 << bits) - 1;
            Box::new(move |v| {
                let half = |shift: u32| function(v.map(|value| value >> shift & mask), v[2]) & mask;
                half(bits) << bits | half(0)
            })
        } else {
            Box::new(move |v| function(v, v[2]))
        };
        self.scalar(d, &sources, function);
        Ok(true)
    }
}
