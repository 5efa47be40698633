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
            self.read(form, 1, kind.bits())?,
            self.read(form, 2, kind.bits())?,
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
        // `a > b` is `b < a`, and `geu` is `!(a < b)`; nothing is unordered among integers.
        let ordered = matches!(kind.class(), math::Class::Float(_));
        let (name, swap, negated) = match op.0 {
            0b0010 => ("eq", false, false),
            0b0101 if !ordered => ("eq", false, true),
            0b1101 => ("eq", false, true),
            0b0001 => ("lt", false, false),
            0b0011 => ("le", false, false),
            0b0100 => ("lt", true, false),
            0b0110 => ("le", true, false),
            0b1110 => ("lt", false, true),
            0b1100 => ("le", false, true),
            0b1011 => ("lt", true, true),
            0b1001 => ("le", true, true),
            _ => ("", false, false),
        };
        match Code::named(name, kind).filter(|_| !ftz) {
            Some(code) => {
                let (a, b) = if swap { (b, a) } else { (a, b) };
                self.emit(code, p.index, a.index, b.index, negated.into());
            }
            None => self.scalar(p, &[a, b], comparison(op, kind, ftz)),
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
        let d = self.result(form)?;
        let mut sources = vec![
            self.read(form, 1, kind.bits())?,
            self.read(form, 2, kind.bits())?,
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
