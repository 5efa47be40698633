//! 9.7.9.8 to 9.7.9.17 (ld, st, prefetch, cp.async), 9.7.13.5 (atom, red), 9.7.13.15 (mbarrier), 9.7.14.5 (matrices of a warp).

use super::{Binding, Class, Code, Decoder, Form, Op, Operand, Result, Slot, Space, Type};
use crate::math::{self, Mode, mma::Mma};
use crate::program::{Access, Address, Constant, Mbarrier};

impl Decoder<'_> {
    /// An address operand in `space`.
    pub(super) fn address(&mut self, operand: &Operand, space: Space) -> Result<Address> {
        let (base, offset) = match operand {
            Operand::Address { base, offset, more } if more.is_empty() => (*base, *offset),
            _ => return self.bad("an address in brackets is expected"),
        };
        let (base, space, offset) = match base.map(|name| (name, self.lookup(name))) {
            None => (None, space, offset),
            Some((name, binding)) => match binding? {
                Some(Binding::Slot(slot)) if slot.class == Class::Pred || slot.bits < 32 => {
                    return self.bad("an address has 32 or 64 bits");
                }
                Some(Binding::Slot(slot)) if space == Space::Param && !self.entry => {
                    (Some(slot), Space::Local, offset)
                }
                Some(Binding::Slot(slot)) => (Some(slot), space, offset),
                Some(Binding::Shared(base)) => {
                    (None, Space::Shared, offset.wrapping_add_unsigned(base))
                }
                Some(Binding::Local(base)) => {
                    (None, Space::Local, offset.wrapping_add(base.into()))
                }
                Some(Binding::Parameter(base)) => {
                    (None, Space::Param, offset.wrapping_add(base.into()))
                }
                Some(Binding::DynamicShared) => (Some(self.value(name, offset)?), Space::Shared, 0),
                Some(Binding::Memory(_)) => (Some(self.value(name, offset)?), Space::Global, 0),
                _ => return self.bad(format!("`{}` is not declared", self.str(name))),
            },
        };
        Ok(Address {
            space,
            base,
            offset,
        })
    }

    pub(super) fn space(form: &Form) -> Space {
        form.space().unwrap_or(Space::Generic)
    }

    pub(super) fn memory(&mut self, form: &Form) -> Result<bool> {
        match form.name {
            "ld" | "ldu" => return self.load(form),
            "st" => return self.store(form),
            "atom" | "red" => return self.atomic(form),
            "prefetch" | "prefetchu" | "applypriority" | "discard" => {}
            "createpolicy" => {
                let (d, zero) = (self.result(form)?, self.zero(Class::Long)?);
                self.copy(d, zero)?;
            }
            "cp" if form.has("async") => return self.copy_async(form),
            "mbarrier" => return self.mbarrier(form),
            "ldmatrix" | "stmatrix" => return self.matrix(form),
            "mma" => return self.mma(form),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The elements of a vector, or the one operand.
    fn items<'a>(&self, form: &Form<'a>, index: usize) -> Result<&'a [Operand]> {
        Ok(match self.at(form, index)? {
            Operand::Vector(items) => items,
            operand => std::slice::from_ref(operand),
        })
    }

    /// The registers that results go to; a sink has none.
    fn targets(&mut self, form: &Form, index: usize) -> Result<Vec<Option<Slot>>> {
        let items = self.items(form, index)?.iter();
        let slot = |item: &Operand| match item {
            Operand::Sink => Ok(None),
            item => self.target(item).map(Some),
        };
        items.map(slot).collect()
    }

    fn values(&mut self, form: &Form, index: usize, bits: u32) -> Result<Vec<Slot>> {
        self.items(form, index)?
            .iter()
            .map(|item| self.source(item, bits))
            .collect()
    }

    fn load(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind().filter(in_memory) else {
            return Ok(false);
        };
        let slots = self.targets(form, 0)?;
        check_width(self, form, slots.len())?;
        let address = self.address(self.at(form, 1)?, Self::space(form))?;
        let bytes = kind.bytes() as u32;
        let narrow = |slot: &Slot| slot.class == Class::Pred || slot.bits < bytes * 8;
        if slots.iter().flatten().any(narrow) {
            return self.bad("a register is narrower than what is loaded");
        }
        if address.space == Space::Param && address.base.is_none() {
            for (index, slot) in slots.iter().enumerate() {
                let Some(d) = *slot else { continue };
                let offset = address.offset.wrapping_add(index as i64 * i64::from(bytes));
                let offset = u32::try_from(offset).ok();
                let within =
                    |offset: &u32| (*offset + bytes) as usize <= self.program.parameter_bytes;
                let Some(offset) = offset.filter(within) else {
                    return self.bad("the address is outside of the parameters");
                };
                let constant = Constant::Parameter {
                    offset,
                    bytes,
                    signed: kind.signed(),
                };
                let a = self.constant(d.class, d.bits, constant)?;
                self.copy(d, a)?;
            }
            return Ok(true);
        }
        self.emit_access(Code::Load, address, kind, slots, strong(form));
        Ok(true)
    }

    pub(super) fn emit_access(
        &mut self,
        code: Code,
        address: Address,
        kind: Type,
        slots: Vec<Option<Slot>>,
        strong: bool,
    ) {
        self.emit(code, self.program.accesses.len() as u32, 0, 0, 0);
        self.program.accesses.push(Access {
            address,
            bytes: kind.bytes() as u32,
            signed: kind.signed(),
            slots,
            strong,
        });
    }

    fn store(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind().filter(in_memory).filter(|_| !form.has("async")) else {
            return Ok(false);
        };
        let bits = kind.bits();
        let values = self.items(form, 1)?;
        check_width(self, form, values.len())?;
        let mut slots = Vec::new();
        for value in values {
            let slot = match value {
                // The register may be wider than the type.
                Operand::Name(name) => self.value(*name, 0)?,
                value => self.source(value, bits)?,
            };
            if slot.class == Class::Pred || slot.bits < bits {
                return self.bad("a register is narrower than what is stored");
            }
            slots.push(Some(slot));
        }
        let address = self.address(self.at(form, 0)?, Self::space(form))?;
        if address.space == Space::Param {
            return self.bad("parameters of a kernel are read-only");
        }
        self.emit_access(Code::Store, address, kind, slots, strong(form));
        Ok(true)
    }

    fn atomic(&mut self, form: &Form) -> Result<bool> {
        let op = form.modifiers.iter().find_map(|modifier| match *modifier {
            op @ ("and" | "or" | "xor" | "add" | "min" | "max") => Some(op),
            "exch" => Some("atom.exch"),
            "cas" => Some("atom.cas"),
            "inc" => Some("atom.inc"),
            "dec" => Some("atom.dec"),
            _ => None,
        });
        let (Some(op), Some(kind), false) = (op, form.kind(), form.has("async")) else {
            return Ok(false);
        };
        let count = if op == "atom.cas" { 3 } else { 2 };
        let function = math::function(op, count, kind, Mode::PLAIN);
        let Some((_, function)) = function.filter(|_| in_memory(&kind)) else {
            return Ok(false);
        };
        let (first, bits) = (usize::from(form.name == "atom"), kind.bits());
        let address = self.address(self.at(form, first)?, Self::space(form))?;
        let mut sources = self.values(form, first + 1, bits)?;
        let d = if first == 1 {
            self.targets(form, 0)?
        } else {
            vec![None; sources.len()]
        };
        if sources.is_empty() || d.len() != sources.len() {
            return self.bad("a vector of another size is expected");
        }
        if count == 3 {
            sources.push(self.read(form, first + 2, bits)?);
        }
        let bytes = kind.bytes();
        let op = Op::Atomic { function, bytes };
        self.emit_op(op, &d, &sources).address = address;
        Ok(true)
    }

    /// 9.7.9.25.3 cp.async: complete at once, which every wait allows.
    fn copy_async(&mut self, form: &Form) -> Result<bool> {
        if form.has("mbarrier") && form.has("arrive") {
            // With all copies done it is an arrival, or nothing if the count includes it.
            if form.has("noinc") {
                let address = self.address(self.at(form, 0)?, Self::space(form))?;
                let op = Op::Mbarrier(Mbarrier::Arrive { drop: false });
                self.emit_op(op, &[], &[]).address = address;
            }
            return Ok(true);
        }
        if form.has("bulk") || form.has("mbarrier") {
            return Ok(false);
        }
        if form.has("commit_group") || form.has("wait_group") || form.has("wait_all") {
            return Ok(true);
        }
        let to = self.address(self.at(form, 0)?, Space::Shared)?;
        let from = self.address(self.at(form, 1)?, Space::Global)?;
        let Operand::Integer(bytes @ (4 | 8 | 16)) = *self.at(form, 2)? else {
            return self.bad("4, 8 or 16 bytes are expected");
        };
        let (mut ignore, mut size) = (self.zero(Class::Pred)?, self.word_value(bytes as u32)?);
        match form.operands.get(3) {
            Some(operand @ Operand::Name(name)) => match self.value(*name, 0)? {
                slot if slot.class == Class::Pred => ignore = slot,
                slot if slot.class == Class::Word => size = slot,
                _ if form.has("L2::cache_hint") => {}
                _ => size = self.source(operand, 32)?,
            },
            Some(operand @ Operand::Not(_)) => ignore = self.condition(operand)?,
            Some(operand) => size = self.source(operand, 32)?,
            None => {}
        }
        let bytes = bytes as u32;
        let op = Op::CopyAsync { from, bytes };
        self.emit_op(op, &[], &[ignore, size]).address = to;
        Ok(true)
    }

    fn mbarrier(&mut self, form: &Form) -> Result<bool> {
        let op = match form.modifiers.first() {
            _ if form.has("expect_tx") => return Ok(false),
            Some(&"init") => Mbarrier::Init,
            Some(&"inval") => Mbarrier::Inval,
            Some(&"arrive") => Mbarrier::Arrive { drop: false },
            Some(&"arrive_drop") => Mbarrier::Arrive { drop: true },
            Some(&("test_wait" | "try_wait")) => Mbarrier::Wait {
                parity: form.has("parity"),
            },
            _ => return Ok(false),
        };
        // `[d,] [address] [, operand]`
        let (d, at) = match self.at(form, 0)? {
            Operand::Address { .. } => (None, 0),
            Operand::Sink => (None, 1),
            operand => (Some(self.target(operand)?), 1),
        };
        let address = self.address(self.at(form, at)?, Self::space(form))?;
        let bits = if op == (Mbarrier::Wait { parity: false }) {
            64
        } else {
            32
        };
        let operand = form
            .operands
            .get(at + 1)
            .map(|operand| self.source(operand, bits));
        let sources = Vec::from_iter(operand.transpose()?);
        self.emit_op(Op::Mbarrier(op), &[d], &sources).address = address;
        Ok(true)
    }

    fn matrix(&mut self, form: &Form) -> Result<bool> {
        let (store, transposed) = (form.name == "stmatrix", form.has("trans"));
        if !form.has("m8n8") || !form.has("b16") {
            return Ok(false);
        }
        let (d, s) = match store {
            true => (Vec::new(), self.values(form, 1, 32)?),
            false => (self.targets(form, 0)?, Vec::new()),
        };
        let words = d
            .iter()
            .all(|slot| slot.is_some_and(|slot| slot.class == Class::Word));
        if !matches!(d.len() + s.len(), 1 | 2 | 4) || !words {
            return self.bad("1, 2 or 4 registers of 32 bits are expected");
        }
        let address = self.address(self.at(form, usize::from(!store))?, Self::space(form))?;
        self.emit_op(Op::Matrix { transposed, store }, &d, &s)
            .address = address;
        Ok(true)
    }

    /// 9.7.14.5.14 mma.
    fn mma(&mut self, form: &Form) -> Result<bool> {
        let Some((m, k)) = form.modifiers.iter().find_map(|shape| {
            let (m, rest) = shape.strip_prefix('m')?.split_once('n')?;
            let (n, k) = rest.split_once('k')?;
            (n == "8").then_some((m.parse::<usize>().ok()?, k.parse::<usize>().ok()?))
        }) else {
            return Ok(false);
        };
        let layout = form.has("row") && form.has("col");
        if !layout
            || ["sp", "xor", "and"]
                .into_iter()
                .any(|modifier| form.has(modifier))
        {
            return Ok(false);
        }
        let types: Vec<Type> = form.types().collect();
        let &[d_kind, a_kind, b_kind, c_kind] = types.as_slice() else {
            return Ok(false);
        };
        let register = if d_kind == Type::F64 { 64 } else { 32 };
        let d = self.targets(form, 0)?;
        let [mut a, b, c] = [
            self.values(form, 1, register)?,
            self.values(form, 2, register)?,
            self.values(form, 3, register)?,
        ];
        let count = |elements: usize, kind: Type| {
            (elements * kind.bits() as usize / 32).div_ceil(register as usize)
        };
        let results = m * 8 / 32 * if d_kind == Type::F16 { 16 } else { 32 } / 32;
        let fits = matches!(m, 8 | 16) && (4..=64).contains(&k) && c_kind == d_kind;
        // m8n8k4 of f16 has a layout of its own (Volta).
        if !fits
            || m == 8 && a_kind.bits() == 16
            || [d.len(), c.len(), a.len(), b.len()]
                != [results, results, count(m * k, a_kind), count(8 * k, b_kind)]
            || d.contains(&None)
        {
            return self.unsupported("this shape of mma");
        }
        let form = Mma {
            m,
            k,
            a: a_kind,
            b: b_kind,
            d: d_kind,
            sat: form.has("satfinite"),
        };
        let op = Op::Mma {
            form,
            a: a.len(),
            b: b.len(),
        };
        a.extend(b);
        a.extend(c);
        self.emit_op(op, &d, &a);
        Ok(true)
    }
}

/// Types of elements that are loaded and stored.
fn in_memory(kind: &Type) -> bool {
    matches!(kind.bits(), 8 | 16 | 32 | 64)
}

/// `.v2` has two elements, and so on.
fn check_width(decoder: &Decoder, form: &Form, elements: usize) -> Result<()> {
    if form.pick(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1) == elements {
        Ok(())
    } else {
        decoder.bad("a vector of another size is expected")
    }
}

/// Accesses that other threads may see or change meanwhile (8. Memory Consistency Model).
fn strong(form: &Form) -> bool {
    ["volatile", "relaxed", "acquire", "release", "mmio"]
        .iter()
        .any(|modifier| form.has(modifier))
}
