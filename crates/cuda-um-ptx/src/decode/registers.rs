//! Operands to slots: registers, constants that are filled before a warp runs, special registers.

use super::{Binding, Decoder, LIMIT, Result};
use crate::program::{Class, Code, Constant, Slot, Special};
use crate::syntax::{Operand, Text, Type};

impl Decoder<'_> {
    pub(super) fn new_slot(&mut self, kind: Type) -> Result<Slot> {
        let class = Class::of(kind.bits());
        let index = self.new_index(class)?;
        Ok(Slot {
            class,
            index,
            bits: kind.bits(),
        })
    }

    pub(super) fn new_index(&mut self, class: Class) -> Result<u32> {
        let count = match class {
            Class::Pred => &mut self.program.preds,
            Class::Word => &mut self.program.words,
            Class::Long => &mut self.program.longs,
        };
        *count += 1;
        let index = (*count - 1) as u32;
        if index as usize > LIMIT / 16 {
            return self.bad("more than 65536 registers");
        }
        Ok(index)
    }

    pub(super) fn temporary(&mut self, class: Class) -> Result<Slot> {
        let index = self.new_index(class)?;
        Ok(Slot {
            class,
            index,
            bits: class.bits(),
        })
    }

    pub(super) fn constant(&mut self, class: Class, bits: u32, constant: Constant) -> Result<Slot> {
        let constant = match constant {
            Constant::Value(value) => Constant::Value(value & (u64::MAX >> (64 - bits))),
            other => other,
        };
        if let Some(&index) = self.constants.get(&(class, bits, constant)) {
            return Ok(Slot { class, index, bits });
        }
        let index = self.new_index(class)?;
        self.constants.insert((class, bits, constant), index);
        let slot = Slot { class, index, bits };
        self.program.constants.push((slot, constant));
        Ok(slot)
    }

    pub(super) fn word_value(&mut self, value: u32) -> Result<Slot> {
        self.constant(Class::Word, 32, Constant::Value(value.into()))
    }

    pub(super) fn long_value(&mut self, value: u64) -> Result<Slot> {
        self.constant(Class::Long, 64, Constant::Value(value))
    }

    // ---- operands ----

    /// A register that is written.
    pub(super) fn target(&mut self, operand: &Operand) -> Result<Slot> {
        match operand {
            Operand::Name(name) => match self.lookup(*name)? {
                Some(Binding::Slot(slot)) => Ok(slot),
                _ => self.bad(format!("`{}` is not a register", self.str(*name))),
            },
            _ => self.bad("a register is expected"),
        }
    }

    pub(super) fn predicate(&mut self, name: Text) -> Result<Slot> {
        match self.lookup(name)? {
            Some(Binding::Slot(slot)) if slot.class == Class::Pred => Ok(slot),
            _ => self.bad(format!("`{}` is not a predicate", self.str(name))),
        }
    }

    /// A value of a type of `bits` bits.
    pub(super) fn source(&mut self, operand: &Operand, bits: u32) -> Result<Slot> {
        if bits > 64 {
            return self.unsupported("an operand of this size");
        }
        let class = Class::of(bits);
        let value = match operand {
            Operand::Integer(value) if bits == 1 => u64::from(*value != 0),
            Operand::Integer(value) => *value,
            Operand::F32(value) if bits == 64 => f64::from(f32::from_bits(*value)).to_bits(),
            Operand::F32(value) => (*value).into(),
            Operand::F64(value) if bits == 64 => *value,
            Operand::F64(value) => (f64::from_bits(*value) as f32).to_bits().into(),
            Operand::Name(name) | Operand::Sum(name, _) => {
                let offset = if let Operand::Sum(_, offset) = operand {
                    *offset
                } else {
                    0
                };
                let slot = self.value(*name, offset)?;
                return self.fit(slot, class, bits);
            }
            _ => return self.bad("a register or a constant is expected"),
        };
        self.constant(class, bits, Constant::Value(value))
    }

    pub(super) fn fit(&mut self, slot: Slot, class: Class, bits: u32) -> Result<Slot> {
        if slot.class == class && slot.bits == bits
            || slot.class == class && class == Class::Word && slot.bits <= 32 && bits <= 32
        {
            return Ok(slot);
        }
        // Addresses in shared and local memory, and special registers, have either size.
        let mut constants = self.program.constants.iter();
        let same = |other: Slot| (other.class, other.index) == (slot.class, slot.index);
        match constants
            .find(|(other, _)| same(*other))
            .map(|known| known.1)
        {
            Some(
                constant @ (Constant::Value(_)
                | Constant::DynamicShared { .. }
                | Constant::Special(_)),
            ) => self.constant(class, bits, constant),
            _ => self.bad(format!("an operand of {bits} bits is expected")),
        }
    }

    /// The value of a register, a special register, or the address of a variable.
    pub(super) fn value(&mut self, name: Text, offset: i64) -> Result<Slot> {
        let constant = match self.lookup(name)? {
            Some(Binding::Slot(slot)) if offset == 0 => return Ok(slot),
            Some(Binding::Slot(_)) => {
                return self.bad("an offset to a register is only possible in an address");
            }
            Some(Binding::Shared(base)) => Some(Constant::Value(base.wrapping_add_signed(offset))),
            Some(Binding::Local(base) | Binding::Parameter(base)) => {
                Some(Constant::Value(u64::from(base).wrapping_add_signed(offset)))
            }
            Some(Binding::DynamicShared) => {
                let generic = false;
                Some(Constant::DynamicShared { offset, generic })
            }
            Some(Binding::Memory(index)) => Some(Constant::Variable { index, offset }),
            Some(Binding::Register(_) | Binding::Family { .. }) | None => None,
        };
        if let Some(constant) = constant {
            return self.constant(Class::Long, 64, constant);
        }
        let text = self.str(name);
        let mut functions = self.module.tree().functions.iter();
        match self.special(text) {
            Some((special, bits)) if offset == 0 => self.constant(Class::of(bits), bits, special),
            _ if functions.any(|function| self.str(function.name) == text) => {
                self.unsupported("the address of a function")
            }
            _ if text.starts_with('%') => {
                self.unsupported(format!("the register `{text}`, which is not declared"))
            }
            _ => self.bad(format!("`{text}` is not declared")),
        }
    }

    pub(super) fn special(&self, name: &str) -> Option<(Constant, u32)> {
        let axis = match name.rsplit_once('.') {
            Some((_, "x")) => 0,
            Some((_, "y")) => 1,
            Some((_, "z")) => 2,
            _ => 3,
        };
        let base = name.split('.').next().unwrap_or(name);
        if axis == 3 && matches!(base, "%tid" | "%ntid" | "%ctaid" | "%nctaid") {
            return None;
        }
        let special = match base {
            "%tid" => Special::Tid(axis),
            "%ntid" => Special::Ntid(axis),
            // Clusters have one block each.
            "%ctaid" | "%clusterid" => Special::Ctaid(axis),
            "%nctaid" | "%nclusterid" => Special::Nctaid(axis),
            "%cluster_ctaid" | "%cluster_ctarank" | "%is_explicit_cluster" => {
                return Some((Constant::Value(0), 32));
            }
            "%cluster_nctaid" | "%cluster_nctarank" => return Some((Constant::Value(1), 32)),
            "%laneid" => Special::Lane,
            "%warpid" => Special::Warp,
            "%nwarpid" => Special::Warps,
            "%smid" => Special::Processor,
            "%nsmid" => Special::Processors,
            "%gridid" => return Some((Constant::Special(Special::Grid), 64)),
            "%lanemask_eq" => Special::MaskEq,
            "%lanemask_le" => Special::MaskLe,
            "%lanemask_lt" => Special::MaskLt,
            "%lanemask_ge" => Special::MaskGe,
            "%lanemask_gt" => Special::MaskGt,
            "%dynamic_smem_size" => Special::DynamicShared,
            "%total_smem_size" | "%aggr_smem_size" => Special::TotalShared,
            "%envreg1" => Special::Workspace(1),
            "%envreg2" => Special::Workspace(0),
            _ if base.starts_with("%envreg") || base.starts_with("%pm") => {
                return Some((Constant::Value(0), 32));
            }
            "WARP_SZ" => return Some((Constant::Value(32), 32)),
            _ => return None,
        };
        Some((Constant::Special(special), 32))
    }

    /// A predicate as a source.
    pub(super) fn condition(&mut self, operand: &Operand) -> Result<Slot> {
        match operand {
            Operand::Name(name) => self.predicate(*name),
            Operand::Not(name) => {
                let (p, negated) = (self.predicate(*name)?, self.temporary(Class::Pred)?);
                self.emit(Code::Logic, negated.index, p.index, p.index, 0b0011);
                Ok(negated)
            }
            Operand::Integer(_) => self.source(operand, 1),
            _ => self.bad("a predicate is expected"),
        }
    }
}
