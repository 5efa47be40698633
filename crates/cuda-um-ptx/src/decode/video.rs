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
        let (mut register, negative) = match operand {
            Operand::Name(name) => (*name, false),
            Operand::Negative(name) => (*name, true),
            operand => {
                return Ok(Selected {
                    slot: self.source(operand, 32)?,
                    negative: false,
                    bits: 32,
                    digits: Vec::new(),
                });
            }
        };
        let (base, selector) = self
            .str(register)
            .split_once('.')
            .unwrap_or((self.str(register), ""));
        register.end = register.start + base.len() as u32;
        let digits = selector.chars().rev();
        Ok(Selected {
            slot: self.source(&Operand::Name(register), 32)?,
            negative,
            bits: match selector.as_bytes().first() {
                Some(b'b') => 8,
                Some(_) => 16,
                None => 32,
            },
            digits: digits.filter_map(|digit| digit.to_digit(10)).collect(),
        })
    }

    pub(super) fn video(&mut self, form: &Form) -> Result<bool> {
        let name = &form.name[1..];
        let (base, count) = match name.as_bytes().last() {
            Some(b'2') => (&name[..name.len() - 1], 2),
            Some(b'4') => (&name[..name.len() - 1], 4),
            _ => (name, 1),
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
                shift: form.pick(&[("shr7", 7), ("shr15", 15)]).unwrap_or(0),
            };
            Box::new(move |v| mode.run(v[0] as u32, v[1] as u32, v[2] as u32).into())
        } else {
            let compare = form.modifiers.iter().find_map(|name| Compare::named(name));
            let operation: Operation = match (base, compare) {
                ("add", _) => Box::new(|a, b| a + b),
                ("sub", _) => Box::new(|a, b| a - b),
                ("absdiff", _) => Box::new(|a, b| (a - b).abs()),
                ("min", _) => Box::new(i64::min),
                ("max", _) => Box::new(i64::max),
                ("avrg", _) => Box::new(|a, b| (a + b + i64::from(a + b >= 0)) >> 1),
                ("shl", _) if form.has("wrap") => Box::new(|a, b| a << (b & 31)),
                ("shr", _) if form.has("wrap") => Box::new(|a, b| a >> (b & 31)),
                ("shl", _) => Box::new(|a, b| a << b.min(32)),
                ("shr", _) => Box::new(|a, b| a >> b.min(32)),
                ("set", Some(compare)) => Box::new(move |a, b| compare.holds(a, b).into()),
                _ => return Ok(false),
            };
            let add: fn(i64, i64) -> i64 = |a, b| a + b;
            let secondary = [("add", add), ("min", i64::min), ("max", i64::max)];
            let secondary = form.pick(&secondary[..if count == 1 { 3 } else { 1 }]);
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
