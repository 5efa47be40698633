//! 9.7.19 video instructions.

use super::arithmetic::boxed;
use super::compare::compare_named;
use super::{Decoder, Form, Operand, Result, Slot, Type};
use crate::math::float::Compare;
use crate::math::video::{self, Part, Scalar, Secondary, Simd, Video, Vmad};

/// A register with a selector: `-a.b0`, `a.h31`.
struct Selected<'m> {
    slot: Slot,
    negative: bool,
    selector: &'m str,
}

impl Selected<'_> {
    /// The part that `.b2` or `.h1` names.
    fn part(&self) -> Part {
        let number = self
            .selector
            .get(1..)
            .and_then(|digits| digits.parse().ok())
            .unwrap_or(0);
        match self.selector.as_bytes().first() {
            Some(b'b') => Part {
                shift: 8 * (number & 3),
                bits: 8,
            },
            Some(_) => Part {
                shift: 16 * (number & 1),
                bits: 16,
            },
            None => Part::ALL,
        }
    }

    /// The digits behind the letter, of the lowest lane first.
    fn digits(&self) -> impl Iterator<Item = u32> {
        self.selector
            .chars()
            .skip(1)
            .filter_map(|digit| digit.to_digit(10))
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
    }
}

impl<'m> Decoder<'m> {
    fn selected(&mut self, operand: &Operand) -> Result<Selected<'m>> {
        let (name, negative) = match operand {
            Operand::Name(name) => (*name, false),
            Operand::Negative(name) => (*name, true),
            operand => {
                return Ok(Selected {
                    slot: self.source(operand, 32)?,
                    negative: false,
                    selector: "",
                });
            }
        };
        let (base, selector) = self
            .str(name)
            .split_once('.')
            .unwrap_or((self.str(name), ""));
        let mut register = name;
        register.end = register.start + base.len() as u32;
        Ok(Selected {
            slot: self.source(&Operand::Name(register), 32)?,
            negative,
            selector,
        })
    }

    pub(super) fn video(&mut self, form: &Form) -> Result<bool> {
        let name = &form.name[1..];
        let (base, lanes) = match name.as_bytes().last() {
            Some(b'2') => (&name[..name.len() - 1], 2),
            Some(b'4') => (&name[..name.len() - 1], 4),
            _ => (name, 1),
        };
        let op = match (
            base,
            form.modifiers
                .iter()
                .find_map(|modifier| compare_named(modifier)),
        ) {
            ("add" | "mad", _) => Video::Add,
            ("sub", _) => Video::Sub,
            ("absdiff", _) => Video::Absdiff,
            ("min", _) => Video::Min,
            ("max", _) => Video::Max,
            ("avrg", _) => Video::Average,
            ("shl", _) => Video::Shl,
            ("shr", _) => Video::Shr,
            ("set", Some(Compare::Eq)) => Video::Eq,
            ("set", Some(Compare::Ne)) => Video::Ne,
            ("set", Some(Compare::Lt)) => Video::Lt,
            ("set", Some(Compare::Le)) => Video::Le,
            ("set", Some(Compare::Gt)) => Video::Gt,
            ("set", Some(Compare::Ge)) => Video::Ge,
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
        let (a, b) = (
            self.selected(self.at(form, 1)?)?,
            self.selected(self.at(form, 2)?)?,
        );
        let c = match form.operands.get(3) {
            Some(operand) => self.selected(operand)?,
            None => Selected {
                slot: self.word_value(0)?,
                negative: false,
                selector: "",
            },
        };
        let (sat, parts) = (form.has("sat"), [a.part(), b.part()]);
        let function = match (base, lanes) {
            ("mad", _) => {
                let shift = if form.has("shr7") {
                    7
                } else {
                    15 * u32::from(form.has("shr15"))
                };
                let (negate_product, plus_one) = (a.negative != b.negative, form.has("po"));
                let mode = Vmad {
                    sources,
                    parts,
                    negate_product,
                    negate_c: c.negative,
                    plus_one,
                    sat,
                    shift,
                };
                boxed(move |v| video::vmad(v[0] as u32, v[1] as u32, v[2] as u32, mode).into())
            }
            (_, 1) => {
                let into = (!d.selector.is_empty()).then(|| d.part());
                let secondary = match form.modifiers.last() {
                    Some(&"add") => Secondary::Add,
                    Some(&"min") => Secondary::Min,
                    Some(&"max") => Secondary::Max,
                    _ => Secondary::None,
                };
                let mode = Scalar {
                    signed,
                    sources,
                    parts,
                    into,
                    sat,
                    wrap: form.has("wrap"),
                    secondary,
                };
                boxed(move |v| {
                    video::scalar(op, v[0] as u32, v[1] as u32, v[2] as u32, mode).into()
                })
            }
            (_, 2) => {
                let mode = simd::<2>(form, signed, sources, [&d, &a, &b]);
                boxed(move |v| video::simd(op, v[0] as u32, v[1] as u32, v[2] as u32, mode).into())
            }
            _ => {
                let mode = simd::<4>(form, signed, sources, [&d, &a, &b]);
                boxed(move |v| video::simd(op, v[0] as u32, v[1] as u32, v[2] as u32, mode).into())
            }
        };
        self.scalar(d.slot, vec![a.slot, b.slot, c.slot], function);
        Ok(true)
    }
}

fn simd<const N: usize>(
    form: &Form,
    signed: bool,
    sources: [bool; 2],
    [d, a, b]: [&Selected; 3],
) -> Simd<N> {
    let mut mode = Simd {
        signed,
        sources,
        select: std::array::from_fn(|operand| {
            std::array::from_fn(|lane| (operand * N + lane) as u32)
        }),
        mask: [d.selector.is_empty(); N],
        sat: form.has("sat"),
        accumulate: form.has("add"),
    };
    for (select, of) in mode.select.iter_mut().zip([a, b]) {
        for (lane, digit) in select.iter_mut().zip(of.digits()) {
            *lane = digit.min(2 * N as u32 - 1);
        }
    }
    for lane in d.digits() {
        mode.mask[(lane as usize).min(N - 1)] = true;
    }
    mode
}
