//! 9.7.1 to 9.7.8: instructions that are a function of one lane. [`math::function`] has them; the common
//! forms have a [`Code`], too.

use super::{Class, Code, Constant, Decoder, Form, Operand, Result, Slot, Type};
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

    /// The register that the result goes to.
    pub(super) fn result(&mut self, form: &Form) -> Result<Slot> {
        self.target(self.at(form, 0)?)
    }

    /// An operand of `bits` bits.
    pub(super) fn read(&mut self, form: &Form, index: usize, bits: u32) -> Result<Slot> {
        self.source(self.at(form, index)?, bits)
    }

    /// The operands after the first, as [`math::function`] describes them.
    fn sources(&mut self, form: &Form, kind: Type, operands: &str) -> Result<Vec<Slot>> {
        let source = |(index, letter)| match (letter, self.at(form, index + 1)?) {
            (b'p', operand) => self.condition(operand),
            (b't', operand) => self.source(operand, kind.bits()),
            (b'x', operand) => self.source(operand, kind.bits() << u32::from(form.has("wide"))),
            (b'w', operand) | (_, operand @ Operand::Integer(_)) => self.source(operand, 32),
            _ => self.bad("a constant is expected"),
        };
        operands.bytes().enumerate().map(source).collect()
    }

    pub(super) fn arithmetic(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind() else {
            return Ok(false);
        };
        match form.name {
            "setp" => return self.setp(form, kind),
            "set" => return self.set(form, kind),
            "and" | "or" | "xor" | "not" | "mov" if kind == Type::Pred => return self.logic(form),
            "addc" | "subc" | "madc" => return self.carries(form, kind),
            "add" | "sub" | "mad" if form.has("cc") => return self.carries(form, kind),
            "vote" => return Ok(false),
            name if name.starts_with('v') => return self.video(form),
            _ => {}
        }
        let mode = Mode::of(form.modifiers);
        let named = |count| math::function(form.name, count, kind, mode);
        let count = form.operands.len().saturating_sub(1);
        let one_type = || named(count).filter(|_| form.types().count() == 1);
        let Some((operands, function)) = special(form).or_else(one_type) else {
            return if (1..=4).any(|count| named(count).is_some()) {
                self.bad("another number of operands is expected")
            } else {
                Ok(false)
            };
        };
        let kind = if form.name == "slct" {
            form.types().next().unwrap_or(kind)
        } else {
            kind
        };
        let (d, sources) = (self.result(form)?, self.sources(form, kind, operands)?);
        if let Some(code) = own_code(form, kind) {
            self.coded(
                code,
                d,
                &sources,
                kind.bits() << u32::from(form.has("wide")),
            )?;
        } else {
            self.scalar(d, &sources, function);
        }
        Ok(true)
    }

    fn coded(&mut self, code: Code, d: Slot, sources: &[Slot], bits: u32) -> Result<()> {
        if d.class != Class::of(bits.max(32)) {
            return self.bad(format!("a register of {bits} bits is expected"));
        }
        let source = |index: usize| sources.get(index).unwrap_or(&sources[0]).index;
        self.emit(code, d.index, source(0), source(1), source(2));
        // Wide registers may hold a narrower result.
        if bits == 16
            && matches!(
                code,
                Code::AddW | Code::SubW | Code::MulW | Code::MadW | Code::NotW
            )
        {
            let mask = self.word_value(0xffff)?;
            self.emit(Code::AndW, d.index, d.index, mask.index, 0);
        }
        Ok(())
    }

    /// 9.7.2 Extended-Precision Integer Arithmetic.
    fn carries(&mut self, form: &Form, kind: Type) -> Result<bool> {
        let mut sources = self.sources(
            form,
            kind,
            if form.name.starts_with("mad") {
                "ttt"
            } else {
                "tt"
            },
        )?;
        if sources.len() == 3 {
            let product = self.new_slot(kind)?;
            let Some((_, function)) = math::function("mul", 2, kind, Mode::of(form.modifiers))
            else {
                return Ok(false);
            };
            self.scalar(product, &sources[..2], function);
            sources.splice(..2, [product]);
        }
        let carry = match self.carry {
            Some(carry) => carry,
            None => self.temporary(Class::Pred)?,
        };
        self.carry = Some(carry);
        sources.push(carry);
        let (subtract, carry_in) = (form.name.starts_with("sub"), form.name.ends_with('c'));
        let limit = u64::MAX >> (64 - kind.bits());
        let exact = move |v: [u64; 4]| {
            let [a, b, carry, _] = v.map(i128::from);
            let b = b + if carry_in { carry } else { 0 };
            if subtract { a - b } else { a + b }
        };
        let out = self.temporary(Class::Pred)?;
        let overflow = move |v| u64::from(exact(v) < 0 || exact(v) > limit.into());
        self.scalar(out, &sources, Box::new(overflow));
        let d = self.result(form)?;
        self.scalar(d, &sources, Box::new(move |v| exact(v) as u64 & limit));
        if form.has("cc") {
            self.copy(carry, out)?;
        }
        Ok(true)
    }

    fn logic(&mut self, form: &Form) -> Result<bool> {
        let d = self.result(form)?;
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

/// Instructions with two types, or with modifiers of their own.
fn special(form: &Form) -> Option<(&'static str, Scalar)> {
    let types: Vec<Type> = form.types().collect();
    let (first, last) = (form.modifiers.first()?, form.modifiers.last()?);
    Some(match (form.name, types.as_slice()) {
        ("testp", &[kind]) => ("t", float::testp(kind, first)?),
        ("prmt", _) => ("www", int::permute(last)?),
        ("dp4a", [a, b]) => ("www", int::dot(8, [a.signed(), b.signed()], false)),
        ("dp2a", [a, b]) => (
            "www",
            int::dot(16, [a.signed(), b.signed()], form.has("hi")),
        ),
        ("selp", [_]) => ("ttp", Box::new(|v| if v[2] != 0 { v[0] } else { v[1] })),
        ("slct", &[_, chooser]) => {
            let ftz = form.has("ftz");
            let first = move |c| match chooser {
                Type::F32 => float::value(chooser, c, ftz) >= 0.0,
                _ => c as i32 >= 0,
            };
            (
                "ttw",
                Box::new(move |v| if first(v[2]) { v[0] } else { v[1] }),
            )
        }
        _ => return None,
    })
}

fn own_code(form: &Form, kind: Type) -> Option<Code> {
    let plain = |modifier: &&str| {
        Type::named(modifier).is_some() || matches!(*modifier, "lo" | "rn" | "wide")
    };
    if form.types().count() != 1 || !form.modifiers.iter().all(plain) {
        return None;
    }
    let wide = if form.has("wide") { ".wide" } else { "" };
    Code::named(&format!("{}{wide}", form.name), kind)
}
