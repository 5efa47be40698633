//! Names to what they mean: registers, and variables with their places in memory.

use std::collections::HashMap;

use super::{Decoder, LIMIT, Result};
use crate::module::in_memory;
use crate::program::Slot;
use crate::syntax::{Space, Text, Type, Variable};

/// What a name means in its block.
#[derive(Clone, Copy)]
pub(super) enum Binding {
    Slot(Slot),
    /// A register; its first use gives it a slot.
    Register(Type),
    /// `%r<8>`
    Family {
        kind: Type,
        count: u32,
    },
    Shared(u64),
    DynamicShared,
    Local(u32),
    /// Offset in the kernel's parameter buffer.
    Parameter(u32),
    /// Position among the module's variables in memory.
    Memory(u32),
}

#[derive(Default)]
pub(super) struct Scope<'m> {
    pub names: HashMap<&'m str, Binding>,
    pub block: u32,
}

impl<'m> Decoder<'m> {
    pub(super) fn local(&mut self, variable: &Variable) -> Result<u32> {
        let offset = (self.program.local_bytes as u64).next_multiple_of(variable.align);
        let end = offset + variable.bytes();
        if end > LIMIT as u64 {
            return Err(self.invalid(variable.line, "more than 1 MiB of local memory"));
        }
        self.program.local_bytes = end as usize;
        Ok(offset as u32)
    }

    pub(super) fn bind(&mut self, name: Text, binding: Binding) {
        let name = self.str(name);
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, binding);
        }
    }

    pub(super) fn variable(&mut self, variable: &'m Variable) -> Result<()> {
        let binding = match variable.space {
            Space::Shared => self.shared(variable)?,
            Space::Local | Space::Param => Binding::Local(self.local(variable)?),
            _ => {
                self.place.line = variable.line;
                return self.unsupported("a variable of this state space in a function");
            }
        };
        self.bind(variable.name, binding);
        Ok(())
    }

    fn shared(&mut self, variable: &Variable) -> Result<Binding> {
        if variable.unsized_array {
            self.dynamic_align = self.dynamic_align.max(variable.align);
            return Ok(Binding::DynamicShared);
        }
        if let Some(&offset) = self.shared.get(&variable.name) {
            return Ok(Binding::Shared(offset));
        }
        let offset = (self.program.shared_bytes as u64).next_multiple_of(variable.align);
        let end = offset + variable.bytes();
        if end > LIMIT as u64 {
            return Err(self.invalid(variable.line, "more than 1 MiB of shared memory"));
        }
        self.program.shared_bytes = end as usize;
        self.shared.insert(variable.name, offset);
        Ok(Binding::Shared(offset))
    }

    /// What a name means: in the innermost block first, then in the module. A register gets a slot.
    pub(super) fn lookup(&mut self, name: Text) -> Result<Option<Binding>> {
        let (text, module) = (self.str(name), self.module);
        let first_digit = text
            .trim_end_matches(|byte: char| byte.is_ascii_digit())
            .len();
        for depth in (0..self.scopes.len()).rev() {
            let names = &self.scopes[depth].names;
            let member = || {
                (first_digit..text.len()).find_map(|split| match names.get(&text[..split]) {
                    Some(&Binding::Family { kind, count }) => {
                        let number = text[split..].parse::<u32>();
                        number.is_ok_and(|number| number < count).then_some(kind)
                    }
                    _ => None,
                })
            };
            let kind = match names.get(text) {
                Some(&Binding::Register(kind)) => kind,
                Some(Binding::Family { .. }) | None => match member() {
                    Some(kind) => kind,
                    None => continue,
                },
                Some(&binding) => return Ok(Some(binding)),
            };
            let binding = Binding::Slot(self.new_slot(kind)?);
            self.scopes[depth].names.insert(text, binding);
            return Ok(Some(binding));
        }
        let variables = module.tree().variables.iter();
        let mut named = variables
            .clone()
            .filter(|variable| module.str(variable.name) == text);
        let Some(variable) = named.next() else {
            return Ok(None);
        };
        if variable.space == Space::Shared {
            return self.shared(variable).map(Some);
        }
        if !in_memory(variable) {
            return self.unsupported("a texture, sampler or surface");
        }
        let mut others = variables.filter(|other| in_memory(other));
        let index = others.position(|other| std::ptr::eq(other, variable));
        Ok(Some(Binding::Memory(index.unwrap_or(0) as u32)))
    }
}
