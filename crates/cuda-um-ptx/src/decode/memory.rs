//! 9.7.9.8 to 9.7.9.17 (ld, st, prefetch, cp.async), 9.7.13.5 (atom, red), 9.7.13.15 (mbarrier), 9.7.14.5 (matrices of a warp).

use super::{Binding, Class, Code, Decoder, Extra, Form, Operand, Result, Slot, Space, Type};
use crate::math;
use crate::program::{Access, Address, AtomicOp, Constant, Mbarrier};

impl Decoder<'_> {
    /// An address operand in `space`.
    pub(super) fn address(&mut self, operand: &Operand, space: Space) -> Result<Address> {
        let (base, offset) = match operand {
            Operand::Address { base, offset, more } if more.is_empty() => (*base, *offset),
            _ => return self.bad("an address in brackets is expected"),
        };
        let Some(name) = base else {
            return Ok(Address {
                space,
                base: None,
                offset,
            });
        };
        let absolute = |space, base: u64| {
            Ok(Address {
                space,
                base: None,
                offset: offset.wrapping_add_unsigned(base),
            })
        };
        match self.lookup(name)? {
            Some((_, Some(slot))) if slot.class == Class::Pred || slot.bits < 32 => {
                self.bad("an address has 32 or 64 bits")
            }
            Some((_, Some(slot))) => {
                let space = if space == Space::Param && !self.entry {
                    Space::Local
                } else {
                    space
                };
                Ok(Address {
                    space,
                    base: Some(slot),
                    offset,
                })
            }
            Some((Binding::Shared(base), None)) => absolute(Space::Shared, base),
            Some((Binding::Local(base), None)) => absolute(Space::Local, base.into()),
            Some((Binding::Parameter(base), None)) => absolute(Space::Param, base.into()),
            Some((Binding::DynamicShared, None)) => {
                let base = self.constant(
                    Class::Long,
                    64,
                    Constant::DynamicShared {
                        offset,
                        generic: false,
                    },
                )?;
                Ok(Address {
                    space: Space::Shared,
                    base: Some(base),
                    offset: 0,
                })
            }
            Some((Binding::Memory(index), None)) => {
                let base = self.constant(Class::Long, 64, Constant::Variable { index, offset })?;
                Ok(Address {
                    space: Space::Global,
                    base: Some(base),
                    offset: 0,
                })
            }
            _ => self.bad(format!("`{}` is not declared", self.str(name))),
        }
    }

    pub(super) fn space(form: &Form) -> Space {
        form.space().unwrap_or(Space::Generic)
    }

    pub(super) fn memory(&mut self, form: &Form) -> Result<bool> {
        match form.name {
            "ld" | "ldu" => self.load(form),
            "st" => self.store(form),
            "atom" | "red" => self.atomic(form),
            "prefetch" | "prefetchu" | "applypriority" | "discard" | "createpolicy" => {
                if let (Some(first), "createpolicy") = (form.operands.first(), form.name) {
                    let (d, zero) = (self.target(first)?, self.zero(Class::Long)?);
                    self.copy(d, zero)?;
                }
                Ok(true)
            }
            "cp" if form.has("async") => self.copy_async(form),
            "mbarrier" => self.mbarrier(form),
            "ldmatrix" | "stmatrix" => self.matrix(form),
            "movmatrix" => {
                let (d, a) = (
                    self.target(self.at(form, 0)?)?,
                    self.source(self.at(form, 1)?, 32)?,
                );
                self.emit_extra(Extra::MoveMatrix { d, a });
                Ok(true)
            }
            "mma" => self.mma(form),
            _ => Ok(false),
        }
    }

    fn load(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind() else {
            return Ok(false);
        };
        if kind == Type::B128 {
            return Ok(false);
        }
        let slots = match self.at(form, 0)? {
            Operand::Vector(items) => items
                .iter()
                .map(|item| {
                    if matches!(item, Operand::Sink) {
                        Ok(None)
                    } else {
                        self.target(item).map(Some)
                    }
                })
                .collect::<Result<_>>()?,
            operand => vec![Some(self.target_or_sink(
                operand,
                if kind.bytes() == 8 {
                    Class::Long
                } else {
                    Class::Word
                },
            )?)],
        };
        self.check_width(form, slots.len())?;
        let address = self.address(self.at(form, 1)?, Self::space(form))?;
        let bytes = kind.bytes() as u32;
        if slots
            .iter()
            .flatten()
            .any(|slot: &Slot| slot.class == Class::Pred || slot.bits < bytes * 8)
        {
            return self.bad("a register is narrower than what is loaded");
        }
        if address.space == Space::Param && address.base.is_none() {
            for (index, slot) in slots.iter().enumerate() {
                let Some(d) = *slot else { continue };
                let offset = address.offset.wrapping_add(index as i64 * i64::from(bytes));
                let Some(offset) = u32::try_from(offset)
                    .ok()
                    .filter(|offset| (*offset + bytes) as usize <= self.program.parameter_bytes)
                else {
                    return self.bad("the address is outside of the parameters");
                };
                let a = self.constant(
                    d.class,
                    d.bits,
                    Constant::Parameter {
                        offset,
                        bytes,
                        signed: kind.signed(),
                    },
                )?;
                self.copy(d, a)?;
            }
            return Ok(true);
        }
        let access = Access {
            address,
            bytes,
            signed: kind.signed(),
            slots,
            strong: strong(form),
        };
        self.emit_access(Code::Load, access);
        Ok(true)
    }

    pub(super) fn emit_access(&mut self, code: Code, access: Access) {
        self.program.accesses.push(access);
        self.emit(code, self.program.accesses.len() as u32 - 1, 0, 0, 0);
    }

    /// `.v2` has two elements, and so on.
    fn check_width(&self, form: &Form, elements: usize) -> Result<()> {
        let wanted = form.modifiers.iter().find_map(|modifier| match *modifier {
            "v2" => Some(2),
            "v4" => Some(4),
            "v8" => Some(8),
            _ => None,
        });
        if elements == wanted.unwrap_or(1) {
            Ok(())
        } else {
            self.bad("a vector of another size is expected")
        }
    }

    fn store(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind() else {
            return Ok(false);
        };
        if kind == Type::B128 || form.has("async") {
            return Ok(false);
        }
        let bits = kind.bytes() as u32 * 8;
        let values = match self.at(form, 1)? {
            Operand::Vector(items) => items.as_slice(),
            operand => std::slice::from_ref(operand),
        };
        self.check_width(form, values.len())?;
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
        let access = Access {
            address,
            bytes: bits / 8,
            signed: false,
            slots,
            strong: strong(form),
        };
        self.emit_access(Code::Store, access);
        Ok(true)
    }

    fn atomic(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind() else {
            return Ok(false);
        };
        let op = form.modifiers.iter().find_map(|modifier| match *modifier {
            "and" => Some(AtomicOp::And),
            "or" => Some(AtomicOp::Or),
            "xor" => Some(AtomicOp::Xor),
            "exch" => Some(AtomicOp::Exchange),
            "cas" => Some(AtomicOp::Compare),
            "add" => Some(AtomicOp::Add),
            "inc" => Some(AtomicOp::Inc),
            "dec" => Some(AtomicOp::Dec),
            "min" => Some(AtomicOp::Min),
            "max" => Some(AtomicOp::Max),
            _ => None,
        });
        let (Some(op), false) = (op, kind == Type::B128 || form.has("async")) else {
            return Ok(false);
        };
        let bits = kind.bytes() as u32 * 8;
        let first = usize::from(form.name == "atom");
        let list = |operand: &Operand| match operand {
            Operand::Vector(items) => items.clone(),
            operand => vec![operand.clone()],
        };
        let address = self.address(self.at(form, first)?, Self::space(form))?;
        let mut b = Vec::new();
        for operand in list(self.at(form, first + 1)?) {
            b.push(self.source(&operand, bits)?);
        }
        let mut d = vec![None; b.len()];
        if first == 1 {
            for (slot, operand) in d.iter_mut().zip(list(self.at(form, 0)?)) {
                if !matches!(operand, Operand::Sink) {
                    *slot = Some(self.target(&operand)?);
                }
            }
        }
        let c = if op == AtomicOp::Compare {
            Some(self.source(self.at(form, first + 2)?, bits)?)
        } else {
            None
        };
        self.emit_extra(Extra::Atomic {
            address,
            op,
            kind,
            d,
            b,
            c,
        });
        Ok(true)
    }

    /// 9.7.9.25.3 cp.async: complete at once, which every wait allows.
    fn copy_async(&mut self, form: &Form) -> Result<bool> {
        if form.has("bulk") || form.has("mbarrier") {
            // `cp.async.mbarrier.arrive` with all copies done is an arrival, or nothing if the count includes it.
            if form.has("arrive") && form.has("mbarrier") {
                if form.has("noinc") {
                    let address = self.address(self.at(form, 0)?, Self::space(form))?;
                    self.emit_extra(Extra::Mbarrier {
                        op: Mbarrier::Arrive {
                            drop: false,
                            expect: false,
                            complete: false,
                        },
                        address,
                        d: None,
                        operand: None,
                    });
                }
                return Ok(true);
            }
            return Ok(false);
        }
        if form.has("commit_group") || form.has("wait_group") || form.has("wait_all") {
            return Ok(true);
        }
        let (to, from) = (
            self.address(self.at(form, 0)?, Space::Shared)?,
            self.address(self.at(form, 1)?, Space::Global)?,
        );
        let Operand::Integer(bytes @ (4 | 8 | 16)) = *self.at(form, 2)? else {
            return self.bad("4, 8 or 16 bytes are expected");
        };
        let (mut size, mut ignore) = (None, None);
        match form.operands.get(3) {
            Some(operand @ Operand::Name(name)) => match self.value(*name, 0)? {
                slot if slot.class == Class::Pred => ignore = Some((slot, false)),
                slot if slot.class == Class::Word => size = Some(slot),
                _ if form.has("L2::cache_hint") => {}
                _ => size = Some(self.source(operand, 32)?),
            },
            Some(operand @ Operand::Not(_)) => ignore = Some(self.condition(operand)?),
            Some(operand) => size = Some(self.source(operand, 32)?),
            None => {}
        }
        self.emit_extra(Extra::CopyAsync {
            to,
            from,
            bytes: bytes as u32,
            size,
            ignore,
        });
        Ok(true)
    }

    fn mbarrier(&mut self, form: &Form) -> Result<bool> {
        let Some(&name) = form.modifiers.first() else {
            return Ok(false);
        };
        let (expect, parity) = (form.has("expect_tx"), form.has("parity"));
        let op = match name {
            "init" => Mbarrier::Init,
            "inval" => Mbarrier::Inval,
            "expect_tx" => Mbarrier::ExpectTx,
            "complete_tx" => Mbarrier::CompleteTx,
            "arrive" => Mbarrier::Arrive {
                drop: false,
                expect,
                complete: form.has("noComplete"),
            },
            "arrive_drop" => Mbarrier::Arrive {
                drop: true,
                expect,
                complete: form.has("noComplete"),
            },
            "test_wait" | "try_wait" => Mbarrier::Wait { parity },
            "pending_count" => Mbarrier::Pending,
            _ => return Ok(false),
        };
        if op == Mbarrier::Pending {
            let (d, operand) = (
                self.target(self.at(form, 0)?)?,
                self.source(self.at(form, 1)?, 64)?,
            );
            let address = Address {
                space: Space::Shared,
                base: None,
                offset: 0,
            };
            self.emit_extra(Extra::Mbarrier {
                op,
                address,
                d: Some(d),
                operand: Some(operand),
            });
            return Ok(true);
        }
        let mut rest = form.operands.iter();
        let Some(mut next) = rest.next() else {
            return self.bad("an address is expected");
        };
        let mut d = None;
        if !matches!(next, Operand::Address { .. }) {
            if !matches!(next, Operand::Sink) {
                d = Some(self.target(next)?);
            }
            next = match rest.next() {
                Some(next) => next,
                None => return self.bad("an address is expected"),
            };
        }
        let address = self.address(next, Self::space(form))?;
        let bits = if matches!(op, Mbarrier::Wait { parity: false }) {
            64
        } else {
            32
        };
        let operand = match rest.next() {
            Some(operand) => Some(self.source(operand, bits)?),
            None => None,
        };
        self.emit_extra(Extra::Mbarrier {
            op,
            address,
            d,
            operand,
        });
        Ok(true)
    }

    fn matrix(&mut self, form: &Form) -> Result<bool> {
        let store = form.name == "stmatrix";
        if !form.has("m8n8") || !form.has("b16") {
            return Ok(false);
        }
        let (registers, address) = if store { (1, 0) } else { (0, 1) };
        let items = match self.at(form, registers)? {
            Operand::Vector(items) => items.as_slice(),
            operand => std::slice::from_ref(operand),
        };
        let mut slots = Vec::new();
        for item in items {
            slots.push(if store {
                self.source(item, 32)?
            } else {
                self.target(item)?
            });
        }
        if !matches!(slots.len(), 1 | 2 | 4) || slots.iter().any(|slot| slot.class != Class::Word) {
            return self.bad("1, 2 or 4 registers of 32 bits are expected");
        }
        let address = self.address(self.at(form, address)?, Self::space(form))?;
        self.emit_extra(Extra::Matrix {
            address,
            slots,
            transposed: form.has("trans"),
            store,
        });
        Ok(true)
    }

    fn registers(&mut self, operand: &Operand, bits: u32, target: bool) -> Result<Vec<Slot>> {
        let items = match operand {
            Operand::Vector(items) => items.as_slice(),
            operand => std::slice::from_ref(operand),
        };
        items
            .iter()
            .map(|item| {
                if target {
                    self.target(item)
                } else {
                    self.source(item, bits)
                }
            })
            .collect()
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
        if !form.has("row")
            || !form.has("col")
            || form.has("sp")
            || form.has("xor")
            || form.has("and")
        {
            return Ok(false);
        }
        let named = |name: &str| {
            Some(match name {
                "f16" => math::Type::F16,
                "bf16" => math::Type::Bf16,
                "tf32" => math::Type::Tf32,
                "f32" => math::Type::F32,
                "f64" => math::Type::F64,
                "s32" => math::Type::S32,
                "s8" => math::Type::S8,
                "u8" => math::Type::U8,
                "s4" => math::Type::S4,
                "u4" => math::Type::U4,
                "e4m3" => math::Type::E4m3,
                "e5m2" => math::Type::E5m2,
                _ => return None,
            })
        };
        let types: Vec<math::Type> = form
            .modifiers
            .iter()
            .filter_map(|modifier| named(modifier))
            .collect();
        let &[d_kind, a_kind, b_kind, c_kind] = types.as_slice() else {
            return Ok(false);
        };
        let double = d_kind == math::Type::F64;
        let bits = if double { 64 } else { 32 };
        let d = self.registers(self.at(form, 0)?, bits, true)?;
        let a = self.registers(self.at(form, 1)?, bits, false)?;
        let b = self.registers(self.at(form, 2)?, bits, false)?;
        let c = self.registers(self.at(form, 3)?, bits, false)?;
        let width = match a_kind {
            math::Type::S4 | math::Type::U4 => 4,
            math::Type::S8 | math::Type::U8 | math::Type::E4m3 | math::Type::E5m2 => 8,
            math::Type::F16 | math::Type::Bf16 => 16,
            math::Type::F64 => 64,
            _ => 32,
        };
        let registers = |elements: usize, width: usize| {
            (elements * width / 32).div_ceil(if double { 64 } else { 32 })
        };
        let results = m * 8 / 32 * if d_kind == math::Type::F16 { 16 } else { 32 } / 32;
        let fits = matches!(m, 8 | 16) && (4..=64).contains(&k) && c_kind == d_kind;
        // m8n8k4 of f16 has a layout of its own (Volta).
        if !fits
            || m == 8 && width == 16
            || d.len() != results
            || c.len() != results
            || a.len() != registers(m * k, width)
            || b.len() != registers(8 * k, width)
        {
            return self.unsupported("this shape of mma");
        }
        if double {
            self.emit_extra(Extra::MmaDouble { m, k, d, a, b, c });
        } else {
            let form = math::mma::Mma {
                m,
                k,
                a: a_kind,
                b: b_kind,
                d: d_kind,
                sat: form.has("satfinite"),
            };
            self.emit_extra(Extra::Mma { form, d, a, b, c });
        }
        Ok(true)
    }
}

/// Accesses that other threads may see or change meanwhile (8. Memory Consistency Model).
fn strong(form: &Form) -> bool {
    ["volatile", "relaxed", "acquire", "release", "mmio"]
        .iter()
        .any(|modifier| form.has(modifier))
}
