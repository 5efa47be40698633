//! 9.7.1 to 9.7.8: instructions that are a function of one lane. The common forms have a [`Code`]; [`math::function`] has the others.

use super::{Class, Code, Constant, Decoder, Form, Op, Operand, Result, Slot, Type};
use crate::math::{self, Mode, Scalar, float, int};

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
pub(super) fn negate(mut table: u32, a: bool, b: bool) -> u32 {
    if a {
        table = (table & 0b1100) >> 2 | (table & 0b0011) << 2;
    }
    if b {
        table = (table & 0b1010) >> 1 | (table & 0b0101) << 1;
    }
    table
}

impl Decoder<'_> {
    pub(super) fn at<'a>(&self, form: &Form<'a>, index: usize) -> Result<&'a Operand> {
        match form.operands.get(index) {
            Some(operand) => Ok(operand),
            None => self.bad("an operand is missing"),
        }
    }

    /// The operands after the first, one for each size.
    fn sources<const N: usize>(&mut self, form: &Form, sizes: [u32; N]) -> Result<[Slot; N]> {
        if form.operands.len() != N + 1 {
            return self.bad(format!("{N} operands are expected after the first"));
        }
        let mut slots = [self.zero(Class::Word)?; N];
        for (index, bits) in sizes.into_iter().enumerate() {
            slots[index] = self.source(self.at(form, index + 1)?, bits)?;
        }
        Ok(slots)
    }

    /// A function of operands as [`math::function`] describes them.
    fn apply(&mut self, form: &Form, kind: Type, operands: &str, function: Scalar) -> Result<bool> {
        let d = self.target(self.at(form, 0)?)?;
        let mut sources = Vec::new();
        for (index, letter) in operands.bytes().enumerate() {
            let operand = self.at(form, index + 1)?;
            let bits = match letter {
                b't' => kind.bits(),
                b'x' if form.has("wide") => 2 * kind.bits(),
                b'x' => kind.bits(),
                b'i' if !matches!(operand, Operand::Integer(_)) => {
                    return self.bad("a constant is expected");
                }
                _ => 32,
            };
            sources.push(self.source(operand, bits)?);
        }
        self.scalar(d, &sources, function);
        Ok(true)
    }

    pub(super) fn arithmetic(&mut self, form: &Form) -> Result<bool> {
        let video = form.name.starts_with('v') && form.modifiers.len() >= 2;
        let Some(kind) = form.kind() else {
            return if video { self.video(form) } else { Ok(false) };
        };
        match form.name {
            "setp" => return self.setp(form, kind),
            "set" => return self.set(form, kind),
            "selp" => return self.select(form, kind.bits()),
            "and" | "or" | "xor" | "not" | "mov" if kind == Type::Pred => return self.logic(form),
            "addc" | "subc" | "madc" => return self.carries(form, kind),
            "add" | "sub" | "mad" if form.has("cc") => return self.carries(form, kind),
            "mul" | "mad" if form.has("wide") && kind.bits() != 16 => return self.wide(form, kind),
            "shl" | "shr" if kind.bits() != 16 && (form.name, kind) != ("shr", Type::S64) => {
                return self.shift(form, kind);
            }
            _ if video => return self.video(form),
            _ => {}
        }
        if let Some(code) = own_code(form, kind) {
            return self.coded(form, code, kind.bits());
        }
        let types: Vec<Type> = form.types().collect();
        let special = match (form.name, types.as_slice()) {
            ("testp", _) => form
                .modifiers
                .first()
                .and_then(|class| float::testp(kind, class))
                .map(|f| ("t", f)),
            ("dp4a", [a, b]) => Some(("www", int::dot(8, [a.signed(), b.signed()], false))),
            ("dp2a", [a, b]) => Some((
                "www",
                int::dot(16, [a.signed(), b.signed()], form.has("hi")),
            )),
            ("slct", &[value, chooser]) => {
                let ftz = form.has("ftz");
                let function: Scalar = Box::new(move |v| {
                    let first = match chooser {
                        Type::F32 => float::value(chooser, v[2], ftz) >= 0.0,
                        _ => v[2] as i32 >= 0,
                    };
                    if first { v[0] } else { v[1] }
                });
                return self.apply(form, value, "ttw", function);
            }
            ("prmt", _) => form
                .modifiers
                .last()
                .and_then(|mode| int::permute(mode))
                .map(|f| ("www", f)),
            _ => None,
        };
        let mode = Mode::of(form.modifiers);
        let count = form.operands.len().saturating_sub(1);
        let named = |count| math::function(form.name, count, kind, mode);
        match special.or_else(|| named(count)) {
            Some((operands, function)) if types.len() == 1 || operands == "www" => {
                self.apply(form, kind, operands, function)
            }
            None if (1..=4).any(|count| named(count).is_some()) => {
                self.bad("another number of operands is expected")
            }
            _ => Ok(false),
        }
    }

    /// A form with its own code.
    fn coded(&mut self, form: &Form, code: Code, bits: u32) -> Result<bool> {
        let d = self.target(self.at(form, 0)?)?;
        let [a, b, c] = match code {
            Code::NotW | Code::NotL | Code::NegF | Code::AbsF => {
                let [a] = self.sources(form, [bits])?;
                [a; 3]
            }
            Code::MadW | Code::MadL | Code::FmaF | Code::FmaD => self.sources(form, [bits; 3])?,
            _ => {
                let [a, b] = self.sources(form, [bits; 2])?;
                [a, b, b]
            }
        };
        self.fits(d, bits)?;
        self.emit(code, d.index, a.index, b.index, c.index);
        // Wide registers may hold a narrower result.
        if bits == 16 && !matches!(code, Code::AndW | Code::OrW | Code::XorW) {
            let mask = self.word_value(0xffff)?;
            self.emit(Code::AndW, d.index, d.index, mask.index, 0);
        }
        Ok(true)
    }

    /// Whether a register can have a result of this size.
    fn fits(&self, d: Slot, bits: u32) -> Result<()> {
        let class = if bits == 64 { Class::Long } else { Class::Word };
        if d.class == class {
            Ok(())
        } else {
            self.bad(format!("a register of {bits} bits is expected"))
        }
    }

    fn select(&mut self, form: &Form, bits: u32) -> Result<bool> {
        let p = self.condition(self.at(form, 3)?)?;
        let d = self.target(self.at(form, 0)?)?;
        let [a, b] = [
            self.source(self.at(form, 1)?, bits)?,
            self.source(self.at(form, 2)?, bits)?,
        ];
        self.fits(d, bits)?;
        let code = if bits == 64 { Code::SelL } else { Code::SelW };
        self.emit(code, d.index, a.index, b.index, p.index);
        Ok(true)
    }

    /// 9.7.2 Extended-Precision Integer Arithmetic.
    fn carries(&mut self, form: &Form, kind: Type) -> Result<bool> {
        let (subtract, bits) = (form.name.starts_with("sub"), kind.bits());
        let d = self.target(self.at(form, 0)?)?;
        let [a, b] = if form.name.starts_with("mad") {
            let [a, b, c] = self.sources(form, [bits; 3])?;
            let product = self.new_slot(kind)?;
            let Some((_, function)) = math::function("mul", 2, kind, Mode::of(form.modifiers))
            else {
                return Ok(false);
            };
            self.scalar(product, &[a, b], function);
            [product, c]
        } else {
            self.sources(form, [bits; 2])?
        };
        let carry = match self.carry {
            Some(carry) => carry,
            None => self.temporary(Class::Pred)?,
        };
        self.carry = Some(carry);
        let (carry_in, carry_out) = (form.name.ends_with('c'), form.has("cc"));
        let op = Op::Carry {
            subtract,
            carry_in,
            carry_out,
        };
        self.emit_op(op, &[Some(d)], &[a, b, carry]);
        Ok(true)
    }

    /// `mul.wide`, `mad.wide` of 32 bits.
    fn wide(&mut self, form: &Form, kind: Type) -> Result<bool> {
        let d = self.target(self.at(form, 0)?)?;
        let (code, [a, b, c]) = match (form.name, kind) {
            ("mad", Type::U32) => (Code::WideMadW, self.sources(form, [32, 32, 64])?),
            ("mad", Type::S32) => (Code::WideMadS, self.sources(form, [32, 32, 64])?),
            (_, Type::U32 | Type::S32) => {
                let [a, b] = self.sources(form, [32; 2])?;
                (
                    if kind.signed() {
                        Code::WideS
                    } else {
                        Code::WideW
                    },
                    [a, b, b],
                )
            }
            _ => return Ok(false),
        };
        self.fits(d, 64)?;
        self.emit(code, d.index, a.index, b.index, c.index);
        Ok(true)
    }

    /// 9.7.8.8 shl, 9.7.8.9 shr.
    fn shift(&mut self, form: &Form, kind: Type) -> Result<bool> {
        let (left, long) = (form.name == "shl", kind.bits() == 64);
        let code = match (left, long, kind.signed()) {
            (true, false, _) => Code::ShlW,
            (true, true, _) => Code::ShlL,
            (false, false, false) => Code::ShrW,
            (false, false, true) => Code::ShrS,
            (false, true, _) => Code::ShrL,
        };
        let d = self.target(self.at(form, 0)?)?;
        let [a, b] = self.sources(form, [kind.bits(), 32])?;
        self.fits(d, kind.bits())?;
        self.emit(code, d.index, a.index, b.index, 0);
        Ok(true)
    }

    fn logic(&mut self, form: &Form) -> Result<bool> {
        let d = self.target(self.at(form, 0)?)?;
        let a = self.condition(self.at(form, 1)?)?;
        let (b, logic) = match form.name {
            "not" => (a, 0b0011),
            "mov" => (a, 0b1100),
            name => (self.condition(self.at(form, 2)?)?, table(name).unwrap_or(0)),
        };
        if d.class != Class::Pred {
            return self.bad("a predicate is expected");
        }
        self.emit(Code::Logic, d.index, a.index, b.index, logic);
        Ok(true)
    }

    /// A constant of 0 for a missing operand.
    pub(super) fn zero(&mut self, class: Class) -> Result<Slot> {
        self.constant(class, class.bits(), Constant::Value(0))
    }
}

fn own_code(form: &Form, kind: Type) -> Option<Code> {
    let plain =
        |modifier: &&str| Type::named(modifier).is_some() || matches!(*modifier, "lo" | "rn");
    if !form.modifiers.iter().all(plain) || form.types().count() != 1 || kind.element().1 {
        return None;
    }
    let pick = |word: Code, long: Code| if kind.bits() <= 32 { word } else { long };
    let low_bits = kind.integer() || matches!(kind, Type::B16 | Type::B32 | Type::B64);
    Some(match (form.name, kind) {
        ("add", _) if low_bits => pick(Code::AddW, Code::AddL),
        ("sub", _) if low_bits => pick(Code::SubW, Code::SubL),
        ("mul", _) if low_bits && form.has("lo") => pick(Code::MulW, Code::MulL),
        ("mad", _) if low_bits && form.has("lo") => pick(Code::MadW, Code::MadL),
        ("and", _) => pick(Code::AndW, Code::AndL),
        ("or", _) => pick(Code::OrW, Code::OrL),
        ("xor", _) => pick(Code::XorW, Code::XorL),
        ("not", _) => pick(Code::NotW, Code::NotL),
        ("min", Type::U16 | Type::U32 | Type::U64) => pick(Code::MinW, Code::MinL),
        ("max", Type::U16 | Type::U32 | Type::U64) => pick(Code::MaxW, Code::MaxL),
        ("min", Type::S32) => Code::MinS,
        ("max", Type::S32) => Code::MaxS,
        ("add", Type::F32 | Type::F64) => pick(Code::AddF, Code::AddD),
        ("sub", Type::F32 | Type::F64) => pick(Code::SubF, Code::SubD),
        ("mul", Type::F32 | Type::F64) => pick(Code::MulF, Code::MulD),
        ("fma" | "mad", Type::F32 | Type::F64) => pick(Code::FmaF, Code::FmaD),
        ("min", Type::F32) => Code::MinF,
        ("max", Type::F32) => Code::MaxF,
        ("neg", Type::F32) => Code::NegF,
        ("abs", Type::F32) => Code::AbsF,
        _ => return None,
    })
}
