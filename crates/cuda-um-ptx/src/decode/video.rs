//! 9.7.19 video instructions.

use super::{Decoder, Form, Operand, Result, Slot, Type};
use crate::math::Scalar;
use crate::math::float::Compare;
use crate::math::video::{Operation, Part, Video, Vmad};

/// A register with a selector: `-a.b0`, `a.h31`.
struct Selected {
    slot: Slot,
    negative: bool,
    /// The size of a part, and the digits, of the lowest lane first.
    bits: u32,
    digits: Vec<u32>,
}

impl Selected {
    /// The part that `.b2` or `.h1` names, in a pair of registers from bit `base` on.
    fn part(&self, base: u32) -> Part {
        let number = self
            .digits
            .first()
            .map_or(0, |digit| digit % (32 / self.bits));
        Part {
            shift: base + number * self.bits,
            bits: self.bits,
        }
    }
}

impl Decoder<'_> {
    fn selected(&mut self, operand: &Operand) -> Result<Selected> {
        let (name, negative) = match operand {
            Operand::Name(name) => (*name, false),
            Operand::Negative(name) => (*name, true),
            operand => {
                let slot = self.source(operand, 32)?;
                return Ok(Selected {
                    slot,
                    negative: false,
                    bits: 32,
                    digits: Vec::new(),
                });
            }
        };
        let text = self.str(name);
        let (base, selector) = text.split_once('.').unwrap_or((text, ""));
        let mut register = name;
        register.end = register.start + base.len() as u32;
        let bits = match selector.as_bytes().first() {
            Some(b'b') => 8,
            Some(_) => 16,
            None => 32,
        };
        let digits = selector
            .chars()
            .rev()
            .filter_map(|digit| digit.to_digit(10))
            .collect();
        Ok(Selected {
            slot: self.source(&Operand::Name(register), 32)?,
            negative,
            bits,
            digits,
        })
    }

    pub(super) fn video(&mut self, form: &Form) -> Result<bool> {
        let name = &form.name[1..];
        let (base, count) = match name.as_bytes().last() {
            Some(b'2') => (&name[..name.len() - 1], 2),
            Some(b'4') => (&name[..name.len() - 1], 4),
            _ => (name, 1),
        };
        let compare = form
            .modifiers
            .iter()
            .find_map(|modifier| Compare::named(modifier));
        let operation = match (base, compare) {
            ("add" | "mad", _) => Operation::Add,
            ("sub", _) => Operation::Sub,
            ("absdiff", _) => Operation::Absdiff,
            ("min", _) => Operation::Min,
            ("max", _) => Operation::Max,
            ("avrg", _) => Operation::Average,
            ("shl", _) => Operation::Shl,
            ("shr", _) => Operation::Shr,
            ("set", Some(compare)) => Operation::Set(compare),
            _ => return Ok(false),
        };
        // `vset` has no type of its result.
        let types: Vec<bool> = form.types().map(Type::signed).collect();
        let (signed, sources) = match *types.as_slice() {
            [a, b] => (false, [a, b]),
            [d, a, b] => (d, [a, b]),
            _ => return self.bad("two or three types are expected"),
        };
        let d = self.selected(self.at(form, 0)?)?;
        let [a, b] = [
            self.selected(self.at(form, 1)?)?,
            self.selected(self.at(form, 2)?)?,
        ];
        let c = self.selected(form.operands.get(3).unwrap_or(&Operand::Integer(0)))?;
        let slots = vec![a.slot, b.slot, c.slot];
        let sat = form.has("sat");
        let function: Scalar = if base == "mad" {
            let mode = Vmad {
                sources,
                parts: [a.part(0), b.part(0)],
                negative: [a.negative != b.negative, c.negative],
                plus_one: form.has("po"),
                sat,
                shift: if form.has("shr7") {
                    7
                } else {
                    15 * u32::from(form.has("shr15"))
                },
            };
            Box::new(move |v| mode.run(v[0] as u32, v[1] as u32, v[2] as u32).into())
        } else {
            let secondary: Option<fn(i64, i64) -> i64> = match form.modifiers.last() {
                Some(&"add") => Some(|a, b| a + b),
                Some(&"min") if count == 1 => Some(i64::min),
                Some(&"max") if count == 1 => Some(i64::max),
                _ => None,
            };
            let lanes = if count == 1 {
                vec![[a.part(0), b.part(32), d.part(0)]]
            } else {
                lanes(count, [&a, &b, &d])
            };
            let video = Video {
                operation,
                sources,
                signed,
                lanes,
                sat,
                wrap: form.has("wrap"),
                secondary,
            };
            Box::new(move |v| video.run(v[0] as u32, v[1] as u32, v[2] as u32).into())
        };
        self.scalar(d.slot, &slots, function);
        Ok(true)
    }
}

/// The lanes of a SIMD instruction that are in the mask of the result.
fn lanes(count: u32, [a, b, d]: [&Selected; 3]) -> Vec<[Part; 3]> {
    let bits = 32 / count;
    let part = |number: u32| Part {
        shift: number * bits,
        bits,
    };
    let pick = |of: &Selected, lane: u32, usual: u32| {
        part(
            of.digits
                .get(lane as usize)
                .map_or(usual, |digit| (*digit).min(2 * count - 1)),
        )
    };
    let masked = |lane: &u32| {
        d.digits.is_empty()
            || d.digits
                .iter()
                .any(|digit| (*digit).min(count - 1) == *lane)
    };
    (0..count)
        .filter(masked)
        .map(|lane| [pick(a, lane, lane), pick(b, lane, count + lane), part(lane)])
        .collect()
}
