//! 9.7.9: moves, packing, conversions of numbers and of addresses.

use super::{Binding, Class, Code, Decoder, Form, Op, Operand, Result, Slot, Space, Type};
use crate::math::{Mode, Round, convert};
use crate::program::{Clock, Constant, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES};

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
                let bits = form.kind().map_or(64, Type::bits);
                let (d, a) = (
                    self.target(self.at(form, 0)?)?,
                    self.source(self.at(form, 1)?, bits)?,
                );
                self.copy(d, a)?;
                Ok(true)
            }
            _ => Ok(false),
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
        let bits = kind.bits();
        match (self.at(form, 0)?, self.at(form, 1)?) {
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
                            self.scalar(d, &[a], Box::new(move |v| v[0] >> shift & mask));
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
                            &sources,
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
                self.emit_op(Op::Clock { clock, shift }, &[Some(d)], &[]);
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
        let types: Vec<Type> = form.types().collect();
        let (mut mode, d) = (Mode::of(form.modifiers), self.target(self.at(form, 0)?)?);
        if form.has("pack") {
            return self.cvt_pack(form, d, types[0]);
        }
        let &[to, from] = types.as_slice() else {
            return Ok(false);
        };
        mode.integer &= !to.integer();
        let bits = from.bits();
        let operand = self.at(form, 1)?;
        let ((to, packed), (element, from_packed)) = (to.element(), from.element());
        if packed && !from_packed {
            let sources = vec![
                self.source(operand, bits)?,
                self.source(self.at(form, 2)?, bits)?,
            ];
            self.scalar(
                d,
                &sources,
                Box::new(move |v| convert::pack(v[0], v[1], from, to, mode)),
            );
            return Ok(true);
        }
        if packed {
            let a = self.source(operand, bits)?;
            self.scalar(
                d,
                &[a],
                Box::new(move |v| convert::repack(v[0], element, to, mode)),
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
        let plain = !mode.sat && from.integer() && to.integer();
        let exact = !mode.sat && !mode.ftz && !mode.relu && d.class == Class::Word;
        // A narrow result in a wide register is extended by the sign of its type.
        let code = match (d.class, a.class) {
            (Class::Long, Class::Word) if plain && bits == 32 && to.bits() == 64 => {
                Some(if from.signed() {
                    Code::ExtendS
                } else {
                    Code::Extend
                })
            }
            (Class::Word, Class::Long) if plain && to.bits() == 32 && bits == 64 => Some(Code::Low),
            (Class::Word, Class::Word)
                if plain
                    && (!to.signed() && !from.signed()
                        || to.bits() == 16 && bits >= 16 && d.bits == 16) =>
            {
                let mask = self.word_value((u64::MAX >> (64 - bits.min(to.bits()))) as u32)?;
                self.emit(Code::AndW, d.index, a.index, mask.index, 0);
                return Ok(true);
            }
            (Class::Long, Class::Word)
                if plain && !from.signed() && bits < 32 && to.bits() == 64 && a.bits <= bits =>
            {
                Some(Code::Extend)
            }
            _ if !exact => None,
            _ => match (from, to) {
                (Type::S32, Type::F32) if mode.round == Round::Near => Some(Code::FloatS),
                (Type::U32, Type::F32) if mode.round == Round::Near => Some(Code::FloatW),
                (Type::F16, Type::F32) => Some(Code::HalfF),
                _ => None,
            },
        };
        match code {
            Some(code) => self.emit(code, d.index, a.index, 0, 0),
            None => self.scalar(
                d,
                &[a],
                Box::new(move |v| convert::cvt(v[0], from, to, mode)),
            ),
        }
        Ok(true)
    }

    /// 9.7.9.22 cvt.pack.sat.
    fn cvt_pack(&mut self, form: &Form, d: Slot, to: Type) -> Result<bool> {
        if !to.integer() {
            return Ok(false);
        }
        let mut sources = Vec::new();
        for operand in [
            self.at(form, 1)?,
            self.at(form, 2)?,
            form.operands.get(3).unwrap_or(&Operand::Integer(0)),
        ] {
            sources.push(self.source(operand, 32)?);
        }
        let function =
            move |v: [u64; 4]| convert::cvt_pack(v[0] as u32, v[1] as u32, v[2] as u32, to).into();
        self.scalar(d, &sources, Box::new(function));
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
        let d = self.target(self.at(form, 0)?)?;
        // The address of a variable, if it is one that only the launch knows.
        if let (Operand::Name(name), false) = (self.at(form, 1)?, form.has("to"))
            && let Some(Binding::DynamicShared) = self.lookup(*name)?
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
        let a = self.source(self.at(form, 1)?, kind.bits())?;
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
            self.target(self.at(form, 0)?)?,
            self.source(self.at(form, 1)?, 64)?,
        );
        let (low, bytes) = match window(space) {
            Some(base) => (base, WINDOW_BYTES),
            None => (0, SHARED_WINDOW),
        };
        self.scalar(
            p,
            &[a],
            Box::new(move |v| u64::from(v[0].wrapping_sub(low) < bytes)),
        );
        Ok(true)
    }
}
