//! 9.7.9: moves, packing, conversions of numbers and of addresses.

use super::arithmetic::round;
use super::{Binding, Class, Code, Decoder, Extra, Form, Operand, Result, Slot, Space, Type};
use crate::math;
use crate::math::convert::{self, Rules};
use crate::program::{Clock, Constant, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES};

/// The type of a conversion; packed ones and those of 4 to 8 bits are no types of registers.
fn number(name: &str) -> Option<(math::Type, bool)> {
    Some(match name {
        "u8" => (math::Type::U8, false),
        "u16" => (math::Type::U16, false),
        "u32" => (math::Type::U32, false),
        "u64" => (math::Type::U64, false),
        "s8" => (math::Type::S8, false),
        "s16" => (math::Type::S16, false),
        "s32" => (math::Type::S32, false),
        "s64" => (math::Type::S64, false),
        "f16" => (math::Type::F16, false),
        "bf16" => (math::Type::Bf16, false),
        "tf32" => (math::Type::Tf32, false),
        "f32" => (math::Type::F32, false),
        "f64" => (math::Type::F64, false),
        "f16x2" => (math::Type::F16, true),
        "bf16x2" => (math::Type::Bf16, true),
        "e4m3x2" => (math::Type::E4m3, true),
        "e5m2x2" => (math::Type::E5m2, true),
        _ => return None,
    })
}

fn bits_of(kind: math::Type) -> u32 {
    match kind {
        math::Type::U8 | math::Type::S8 | math::Type::E4m3 | math::Type::E5m2 => 8,
        math::Type::U16 | math::Type::S16 | math::Type::F16 | math::Type::Bf16 => 16,
        math::Type::U64 | math::Type::S64 | math::Type::F64 => 64,
        _ => 32,
    }
}

fn signed(kind: math::Type) -> bool {
    matches!(
        kind,
        math::Type::S8 | math::Type::S16 | math::Type::S32 | math::Type::S64
    )
}

fn is_integer(kind: math::Type) -> bool {
    signed(kind)
        || matches!(
            kind,
            math::Type::U8 | math::Type::U16 | math::Type::U32 | math::Type::U64
        )
}

fn window(space: Space) -> Option<u64> {
    match space {
        Space::Shared => Some(SHARED_WINDOW),
        Space::Local => Some(LOCAL_WINDOW),
        Space::Param => Some(PARAM_WINDOW),
        _ => None,
    }
}

impl Decoder<'_> {
    pub(super) fn conversion(&mut self, form: &Form) -> Result<bool> {
        match form.name {
            "mov" => self.mov(form),
            "cvt" => self.cvt(form),
            "cvta" => self.cvta(form),
            "isspacep" => self.isspacep(form),
            // Clusters have one block each: 9.7.9.23 mapa, 9.7.9.24 getctarank.
            "mapa" => {
                let bits = form.kind().map_or(64, |kind| kind.bytes() as u32 * 8);
                let (d, a) = (
                    self.target(self.first(form)?)?,
                    self.source(self.at(form, 1)?, bits)?,
                );
                self.copy(d, a)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn first<'a>(&self, form: &Form<'a>) -> Result<&'a Operand> {
        self.at(form, 0)
    }

    pub(super) fn at<'a>(&self, form: &Form<'a>, index: usize) -> Result<&'a Operand> {
        match form.operands.get(index) {
            Some(operand) => Ok(operand),
            None => self.bad("an operand is missing"),
        }
    }

    /// `d = a` for registers of one class.
    pub(super) fn copy(&mut self, d: Slot, a: Slot) -> Result<()> {
        match (d.class, a.class) {
            (Class::Word, Class::Word) if a.bits <= d.bits => {
                self.emit(Code::MovW, d.index, a.index, 0, 0)
            }
            (Class::Word, Class::Word) => {
                let mask = self.word_value(d.mask() as u32)?;
                self.emit(Code::AndW, d.index, a.index, mask.index, 0);
            }
            (Class::Long, Class::Long) => self.emit(Code::MovL, d.index, a.index, 0, 0),
            (Class::Long, Class::Word) => self.emit(Code::Extend, d.index, a.index, 0, 0),
            (Class::Word, Class::Long) => self.emit(Code::Low, d.index, a.index, 0, 0),
            (Class::Pred, Class::Pred) => self.emit(Code::Logic, d.index, a.index, a.index, 0b1100),
            _ => return self.bad("a predicate is no number"),
        }
        Ok(())
    }

    fn mov(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind() else {
            return self.bad("a type is expected");
        };
        let bits = if kind == Type::Pred {
            1
        } else {
            kind.bytes() as u32 * 8
        };
        match (self.first(form)?, self.at(form, 1)?) {
            (Operand::Vector(parts), source) => {
                // Into parts, the lowest first.
                let a = self.source(source, bits)?;
                let width = bits / parts.len().max(1) as u32;
                for (index, part) in parts.iter().enumerate() {
                    if matches!(part, Operand::Sink) {
                        continue;
                    }
                    let d = self.target(part)?;
                    let shift = index as u32 * width;
                    match (bits, width, shift) {
                        (64, 32, 0) => self.emit(Code::Low, d.index, a.index, 0, 0),
                        (64, 32, _) => self.emit(Code::High, d.index, a.index, 0, 0),
                        _ => {
                            let mask = u64::MAX >> (64 - width.max(1));
                            self.scalar(d, vec![a], Box::new(move |v| v[0] >> shift & mask));
                        }
                    }
                }
            }
            (target, Operand::Vector(parts)) => {
                let d = self.target(target)?;
                let width = bits / parts.len().max(1) as u32;
                let sources = parts
                    .iter()
                    .map(|part| self.source(part, width))
                    .collect::<Result<Vec<_>>>()?;
                match (bits, sources.as_slice()) {
                    (64, &[low, high]) if d.class == Class::Long => {
                        self.emit(Code::Join, d.index, low.index, high.index, 0)
                    }
                    (_, parts) if (2..=4).contains(&parts.len()) => {
                        let mask = u64::MAX >> (64 - width.max(1));
                        self.scalar(
                            d,
                            sources,
                            Box::new(move |v| {
                                (0..4)
                                    .filter(|i| i * width < 64)
                                    .fold(0, |all, i| all | (v[i as usize] & mask) << (i * width))
                            }),
                        );
                    }
                    _ => return self.unsupported("a vector of this size"),
                }
            }
            (target, Operand::Name(name))
                if self.str(*name).starts_with("%clock")
                    || self.str(*name).starts_with("%globaltimer") =>
            {
                let d = self.target(target)?;
                let (clock, shift) = match self.str(*name) {
                    "%clock" | "%clock64" => (Clock::Cycles, 0),
                    "%clock_hi" => (Clock::Cycles, 32),
                    "%globaltimer" | "%globaltimer_lo" => (Clock::Nanoseconds, 0),
                    "%globaltimer_hi" => (Clock::Nanoseconds, 32),
                    _ => return Ok(false),
                };
                self.emit_extra(Extra::Clock { d, clock, shift });
            }
            (target, source) => {
                let (d, a) = (self.target(target)?, self.source(source, bits)?);
                if d.class != a.class {
                    return self.bad(format!("a register of {bits} bits is expected"));
                }
                self.copy(d, a)?;
            }
        }
        Ok(true)
    }

    /// 9.7.9.21 cvt.
    fn cvt(&mut self, form: &Form) -> Result<bool> {
        let numbers: Vec<_> = form
            .modifiers
            .iter()
            .filter_map(|modifier| number(modifier))
            .collect();
        if form.has("pack") {
            return self.cvt_pack(form);
        }
        let &[(to, to_packed), (from, from_packed)] = numbers.as_slice() else {
            return Ok(false);
        };
        let modifier_named = |names: &[&str]| {
            form.modifiers
                .iter()
                .any(|modifier| names.contains(modifier))
        };
        let rules = Rules {
            round: round(form),
            integer: modifier_named(&["rni", "rzi", "rmi", "rpi"]) && !is_integer(to),
            ftz: form.has("ftz"),
            sat: form.has("sat"),
            relu: form.has("relu"),
            finite: form.has("satfinite"),
        };
        let d = self.target(self.first(form)?)?;
        let bits = bits_of(from);
        if to_packed && !from_packed {
            let (high, low) = (
                self.source(self.at(form, 1)?, bits)?,
                self.source(self.at(form, 2)?, bits)?,
            );
            self.scalar(
                d,
                vec![high, low],
                Box::new(move |v| convert::pack(v[0], v[1], from, to, rules).into()),
            );
            return Ok(true);
        }
        let operand = self.at(form, 1)?;
        if to_packed {
            let a = self.source(operand, bits * 2)?;
            self.scalar(
                d,
                vec![a],
                Box::new(move |v| convert::repack(v[0] as u32, from, to, rules).into()),
            );
            return Ok(true);
        }
        // The register may be wider than the type.
        let a = match operand {
            Operand::Name(name) => match self.value(*name, 0)? {
                slot if slot.class == Class::Pred => return self.bad("a number is expected"),
                slot => slot,
            },
            operand => self.source(operand, bits)?,
        };
        let plain = !rules.sat && is_integer(from) && is_integer(to);
        match (plain, d.class, a.class) {
            // A narrow result in a wide register is extended by the sign of its type.
            (true, Class::Long, Class::Word) if bits == 32 && bits_of(to) == 64 => {
                self.emit(
                    if signed(from) {
                        Code::ExtendS
                    } else {
                        Code::Extend
                    },
                    d.index,
                    a.index,
                    0,
                    0,
                );
            }
            (true, Class::Word, Class::Long) if bits_of(to) == 32 && bits == 64 => {
                self.emit(Code::Low, d.index, a.index, 0, 0)
            }
            (true, Class::Word, Class::Word)
                if !signed(to) && !signed(from)
                    || bits_of(to) == 16 && bits >= 16 && d.bits == 16 =>
            {
                let mask = self.word_value((u64::MAX >> (64 - bits.min(bits_of(to)))) as u32)?;
                self.emit(Code::AndW, d.index, a.index, mask.index, 0);
            }
            (true, Class::Long, Class::Word)
                if !signed(from) && bits < 32 && bits_of(to) == 64 && a.bits <= bits =>
            {
                self.emit(Code::Extend, d.index, a.index, 0, 0);
            }
            _ => {
                let code = match (from, to) {
                    _ if rules.sat || rules.ftz || rules.relu || d.class != Class::Word => None,
                    (math::Type::S32, math::Type::F32) if rules.round == math::Round::Near => {
                        Some(Code::FloatS)
                    }
                    (math::Type::U32, math::Type::F32) if rules.round == math::Round::Near => {
                        Some(Code::FloatW)
                    }
                    (math::Type::F16, math::Type::F32) => Some(Code::HalfF),
                    _ => None,
                };
                match code {
                    Some(code) => self.emit(code, d.index, a.index, 0, 0),
                    None => self.scalar(
                        d,
                        vec![a],
                        Box::new(move |v| convert::cvt(v[0], from, to, rules)),
                    ),
                }
            }
        }
        Ok(true)
    }

    /// 9.7.9.22 cvt.pack.sat.
    fn cvt_pack(&mut self, form: &Form) -> Result<bool> {
        let to = match form.modifiers.iter().find(|modifier| {
            matches!(
                **modifier,
                "u16" | "s16" | "u8" | "s8" | "u4" | "s4" | "u2" | "s2"
            )
        }) {
            Some(&"u16") => math::Type::U16,
            Some(&"s16") => math::Type::S16,
            Some(&"u8") => math::Type::U8,
            Some(&"s8") => math::Type::S8,
            Some(&"u4") => math::Type::U4,
            Some(&"s4") => math::Type::S4,
            _ => return Ok(false),
        };
        let d = self.target(self.first(form)?)?;
        let (a, b) = (
            self.source(self.at(form, 1)?, 32)?,
            self.source(self.at(form, 2)?, 32)?,
        );
        let c = match form.operands.get(3) {
            Some(operand) => self.source(operand, 32)?,
            None => self.zero(Class::Word)?,
        };
        self.scalar(
            d,
            vec![a, b, c],
            Box::new(move |v| convert::cvt_pack(v[0] as u32, v[1] as u32, v[2] as u32, to).into()),
        );
        Ok(true)
    }

    /// 9.7.9.20 cvta.
    fn cvta(&mut self, form: &Form) -> Result<bool> {
        let Some(space) = form.space() else {
            return Ok(false);
        };
        let Some(kind) = form.kind() else {
            return Ok(false);
        };
        let d = self.target(self.first(form)?)?;
        // The address of a variable, if it is one that only the launch knows.
        if let (Operand::Name(name), false) = (self.at(form, 1)?, form.has("to"))
            && let Some((Binding::DynamicShared, None)) = self.lookup(*name)?
        {
            let a = self.constant(
                Class::Long,
                64,
                Constant::DynamicShared {
                    offset: 0,
                    generic: true,
                },
            )?;
            self.copy(d, a)?;
            return Ok(true);
        }
        let a = self.source(self.at(form, 1)?, kind.bytes() as u32 * 8)?;
        match window(space) {
            Some(base) if d.class == Class::Long => {
                let base = self.long_value(if form.has("to") {
                    base.wrapping_neg()
                } else {
                    base
                })?;
                self.emit(Code::AddL, d.index, a.index, base.index, 0);
            }
            _ => self.copy(d, a)?,
        }
        Ok(true)
    }

    /// 9.7.9.19 isspacep.
    fn isspacep(&mut self, form: &Form) -> Result<bool> {
        let Some(space) = form.space() else {
            return Ok(false);
        };
        let (p, a) = (
            self.target(self.first(form)?)?,
            self.source(self.at(form, 1)?, 64)?,
        );
        let (low, bytes) = match window(space) {
            Some(base) => (base, WINDOW_BYTES),
            None => (0, SHARED_WINDOW),
        };
        self.scalar(
            p,
            vec![a],
            Box::new(move |v| u64::from(v[0].wrapping_sub(low) < bytes)),
        );
        Ok(true)
    }
}
