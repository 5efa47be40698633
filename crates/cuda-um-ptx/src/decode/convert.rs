//! 9.7.9: moves, packing, conversions of numbers and of addresses.

use super::{Binding, Class, Code, Decoder, Form, Op, Operand, Result, Slot, Space, Type};
use crate::math::{Mode, Round, convert};
use crate::program::{Constant, LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES};

fn window(space: Space) -> Option<u64> {
    match space {
        Space::Shared => Some(SHARED_WINDOW),
        Space::Local => Some(LOCAL_WINDOW),
        Space::Param => Some(PARAM_WINDOW),
        _ => None,
    }
}

/// Special registers that change while a thread runs: whether cycles, or nanoseconds, and from which bit on.
fn clock(name: &str) -> Option<(bool, u32)> {
    Some(match name {
        "%clock" | "%clock64" => (true, 0),
        "%clock_hi" => (true, 32),
        "%globaltimer" | "%globaltimer_lo" => (false, 0),
        "%globaltimer_hi" => (false, 32),
        _ => return None,
    })
}

impl Decoder<'_> {
    pub(super) fn conversion(&mut self, form: &Form) -> Result<bool> {
        match form.name {
            "mov" => self.mov(form),
            "cvt" => self.cvt(form),
            "cvta" => self.cvta(form),
            "isspacep" => self.isspacep(form),
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
                let sources = parts.iter().map(|part| self.source(part, width));
                let sources = sources.collect::<Result<Vec<_>>>()?;
                let mask = u64::MAX >> (64 - width.max(1));
                match (bits, sources.as_slice()) {
                    (64, &[low, high]) if d.class == Class::Long => {
                        self.emit(Code::Join, d.index, low.index, high.index, 0)
                    }
                    (_, &[_, _]) => {
                        let join = move |v: [u64; 4]| v[0] & mask | (v[1] & mask) << width;
                        self.scalar(d, &sources, Box::new(join));
                    }
                    (_, &[_, _, _, _]) => {
                        let join = move |v: [u64; 4]| {
                            v.iter()
                                .rev()
                                .fold(0, |all, part| all << width | part & mask)
                        };
                        self.scalar(d, &sources, Box::new(join));
                    }
                    _ => return self.unsupported("a vector of this size"),
                }
            }
            (target, &Operand::Name(name)) if clock(self.str(name)).is_some() => {
                let (d, (cycles, shift)) = (
                    self.target(target)?,
                    clock(self.str(name)).unwrap_or_default(),
                );
                self.emit_op(Op::Clock { cycles, shift }, &[Some(d)], &[]);
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
        let (mut mode, d) = (Mode::of(form.modifiers), self.result(form)?);
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
        if packed {
            let low = if from_packed { 1 } else { 2 };
            let sources = [self.read(form, 1, bits)?, self.read(form, low, bits)?];
            let shift = if from_packed { element.bits() } else { 0 };
            let mask = u64::MAX >> (64 - element.bits());
            let pack =
                move |v: [u64; 4]| convert::pack(v[0] >> shift, v[1] & mask, element, to, mode);
            self.scalar(d, &sources, Box::new(pack));
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
        let code = match (from, to) {
            (Type::S32, Type::F32) if exact && mode.round == Round::Near => Some(Code::FloatS),
            (Type::U32, Type::F32) if exact && mode.round == Round::Near => Some(Code::FloatW),
            (Type::F16, Type::F32) if exact => Some(Code::HalfF),
            _ if !plain => None,
            _ => match (d.class, a.class) {
                (Class::Long, Class::Word) if bits == 32 && to.bits() == 64 => {
                    Some(if from.signed() {
                        Code::ExtendS
                    } else {
                        Code::Extend
                    })
                }
                (Class::Word, Class::Long) if bits == 64 && to.bits() == 32 => Some(Code::Low),
                // A narrow result in a wide register is extended by the sign of its type.
                (Class::Word, Class::Word)
                    if !to.signed() && !from.signed()
                        || to.bits() == 16 && bits >= 16 && d.bits == 16 =>
                {
                    let mask = self.word_value((u64::MAX >> (64 - bits.min(to.bits()))) as u32)?;
                    self.emit(Code::AndW, d.index, a.index, mask.index, 0);
                    return Ok(true);
                }
                _ => None,
            },
        };
        match code {
            Some(code) => self.emit(code, d.index, a.index, 0, 0),
            None => {
                let function = move |v: [u64; 4]| convert::cvt(v[0], from, to, mode);
                self.scalar(d, &[a], Box::new(function));
            }
        }
        Ok(true)
    }

    /// 9.7.9.22 cvt.pack.sat.
    fn cvt_pack(&mut self, form: &Form, d: Slot, to: Type) -> Result<bool> {
        if !to.integer() {
            return Ok(false);
        }
        let low = form.operands.get(3).unwrap_or(&Operand::Integer(0));
        let sources = [
            self.read(form, 1, 32)?,
            self.read(form, 2, 32)?,
            self.source(low, 32)?,
        ];
        let function = move |v: [u64; 4]| {
            let [a, b, c, _] = v.map(|value| value as u32);
            convert::cvt_pack(a, b, c, to).into()
        };
        self.scalar(d, &sources, Box::new(function));
        Ok(true)
    }

    /// 9.7.9.20 cvta.
    fn cvta(&mut self, form: &Form) -> Result<bool> {
        let (Some(space), Some(kind)) = (form.space(), form.kind()) else {
            return Ok(false);
        };
        let d = self.result(form)?;
        // The address of a variable, if it is one that only the launch knows.
        if let (Operand::Name(name), false) = (self.at(form, 1)?, form.has("to"))
            && let Some(Binding::DynamicShared) = self.lookup(*name)?
        {
            let (offset, generic) = (0, true);
            let a = Constant::DynamicShared { offset, generic };
            let a = self.constant(Class::Long, 64, a)?;
            self.copy(d, a)?;
            return Ok(true);
        }
        let a = self.read(form, 1, kind.bits())?;
        match window(space) {
            Some(base) if d.class == Class::Long => {
                let to = form.has("to");
                let base = self.long_value(if to { base.wrapping_neg() } else { base })?;
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
        let (p, a) = (self.result(form)?, self.read(form, 1, 64)?);
        let (low, bytes) = match window(space) {
            Some(base) => (base, WINDOW_BYTES),
            None => (0, SHARED_WINDOW),
        };
        let within = move |v: [u64; 4]| u64::from(v[0].wrapping_sub(low) < bytes);
        self.scalar(p, &[a], Box::new(within));
        Ok(true)
    }
}
