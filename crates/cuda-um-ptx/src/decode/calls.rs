//! 9.7.12.5 call: the functions that a kernel reaches, and what is passed to them.

use super::{Binding, Decoder, Form, Result};
use crate::program::{Access, Address, Code, Op, Slot, System};
use crate::syntax::{Function, Operand, Space, Statement, Variable};

/// A function that the kernel reaches.
pub(super) struct Known<'m> {
    pub function: &'m Function,
    pub results: Vec<Formal>,
    pub parameters: Vec<Formal>,
    pub start: u32,
}

#[derive(Clone, Copy)]
pub(super) struct Formal {
    pub place: Passed,
    pub bytes: u32,
}

/// Where a parameter or argument of a call is.
#[derive(Clone, Copy)]
pub(super) enum Passed {
    Local(u32),
    Register(Slot),
}

impl<'m> Decoder<'m> {
    /// The index of a function in `functions`, which decodes it later.
    pub(super) fn declare(&mut self, function: &'m Function) -> Result<usize> {
        if let Some(known) = self
            .functions
            .iter()
            .position(|known| std::ptr::eq(known.function, function))
        {
            return Ok(known);
        }
        let mut formal = |variables: &[Variable]| -> Result<Vec<Formal>> {
            let formals = variables.iter().map(|variable| {
                let place = if variable.register {
                    Passed::Register(self.new_slot(variable.kind)?)
                } else {
                    Passed::Local(self.local(variable)?)
                };
                Ok(Formal {
                    place,
                    bytes: variable.bytes() as u32,
                })
            });
            formals.collect()
        };
        let (results, parameters) = if function.entry {
            (Vec::new(), Vec::new())
        } else {
            (formal(&function.results)?, formal(&function.parameters)?)
        };
        self.functions.push(Known {
            function,
            results,
            parameters,
            start: 0,
        });
        Ok(self.functions.len() - 1)
    }

    /// Parameters are bytes of local memory of the caller, copied to those of the callee.
    pub(super) fn call(&mut self, form: &Form) -> Result<bool> {
        let mut operands = form.operands.iter().peekable();
        let results: &[Operand] = match operands.peek() {
            Some(Operand::List(items)) => {
                operands.next();
                items
            }
            _ => &[],
        };
        let Some(Operand::Name(name)) = operands.next() else {
            return self.bad("the name of a function is expected");
        };
        let arguments: &[Operand] = match operands.next() {
            Some(Operand::List(items)) => items,
            _ => &[],
        };
        let module = self.module;
        let name = module.str(*name);
        let function = module
            .tree()
            .functions
            .iter()
            .find(|function| module.str(function.name) == name && function.body.is_some());
        let system = match (function, name, arguments.len()) {
            (None, "vprintf", 2) => Some(System::Print),
            (None, "__assertfail", 3..) => Some(System::Assert),
            (None, "cudaGraphSetConditional", 2) => Some(System::SetConditional),
            _ => None,
        };
        if let Some(system) = system {
            let mut local = |operand: &Operand| match self.passed(operand, 32)? {
                Passed::Local(offset) => Ok(offset),
                Passed::Register(_) => {
                    self.unsupported("an argument that is no variable in `.param`")
                }
            };
            let arguments = arguments.iter().map(&mut local).collect::<Result<_>>()?;
            let result = results.first().map(local).transpose()?;
            self.emit_op(
                Op::Call {
                    system,
                    arguments,
                    result,
                },
                &[],
                &[],
            );
            return Ok(true);
        }
        let Some(function) = function.filter(|function| !function.entry) else {
            return self.unsupported(format!(
                "a call of `{name}`, which the module does not define"
            ));
        };
        let callee = self.declare(function)?;
        let (formals, returned) = (
            self.functions[callee].parameters.clone(),
            self.functions[callee].results.clone(),
        );
        if formals.len() != arguments.len() || returned.len() != results.len() {
            return self.bad(format!(
                "`{name}` has {} parameters and {} results",
                formals.len(),
                returned.len()
            ));
        }
        // A function has one set of registers and of variables, which is enough for lanes at different places; only a function that
        // may call its caller needs them once more.
        let recursive = self.calls(function, self.functions[self.current].function);
        if recursive {
            self.emit_op(Op::Save, &[], &[]);
        }
        for (operand, formal) in arguments.iter().zip(&formals) {
            let from = self.passed(operand, formal.bytes * 8)?;
            self.pass(from, formal.place, formal.bytes)?;
        }
        self.emit(Code::Call, callee as u32, 0, 0, 0);
        if recursive {
            let of = |place: &Formal| match place.place {
                Passed::Local(offset) => (offset, place.bytes, None),
                Passed::Register(slot) => (0, 0, Some(slot)),
            };
            self.emit_op(Op::Restore(returned.iter().map(of).collect()), &[], &[]);
        }
        for (operand, formal) in results.iter().zip(&returned) {
            let to = match operand {
                Operand::Name(name)
                    if !matches!(self.lookup(*name)?, Some(Binding::Slot(_)) | None) =>
                {
                    self.passed(operand, formal.bytes * 8)?
                }
                operand => Passed::Register(self.target(operand)?),
            };
            self.pass(formal.place, to, formal.bytes)?;
        }
        Ok(true)
    }

    fn passed(&mut self, operand: &Operand, bits: u32) -> Result<Passed> {
        if let Operand::Name(name) = operand
            && let Some(Binding::Local(offset)) = self.lookup(*name)?
        {
            return Ok(Passed::Local(offset));
        }
        Ok(Passed::Register(self.source(operand, bits)?))
    }

    fn pass(&mut self, from: Passed, to: Passed, bytes: u32) -> Result<()> {
        let access = |offset: u32, slot| {
            let address = Address {
                space: Space::Local,
                base: None,
                offset: offset.into(),
            };
            Access {
                address,
                bytes,
                signed: false,
                slots: vec![Some(slot)],
                strong: false,
            }
        };
        match (from, to) {
            (Passed::Local(from), Passed::Local(to)) => {
                self.emit_op(Op::Copy { from, to, bytes }, &[], &[]);
            }
            (Passed::Register(from), Passed::Register(to)) => self.copy(to, from)?,
            (Passed::Local(from), Passed::Register(to)) => {
                self.emit_access(Code::Load, access(from, to))
            }
            (Passed::Register(from), Passed::Local(to)) => {
                self.emit_access(Code::Store, access(to, from))
            }
        }
        Ok(())
    }

    /// Whether `from` calls `to`, perhaps by way of other functions.
    fn calls(&self, from: &'m Function, to: &Function) -> bool {
        let (mut seen, mut work) = (Vec::new(), vec![from]);
        while let Some(function) = work.pop() {
            if std::ptr::eq(function, to) {
                return true;
            }
            if seen.contains(&function.name) {
                continue;
            }
            seen.push(function.name);
            for statement in function.body.iter().flatten() {
                if let Statement::Instruction(instruction) = statement
                    && self.str(instruction.opcode).starts_with("call")
                {
                    let names = instruction.operands.iter().filter_map(|operand| {
                        if let Operand::Name(name) = operand {
                            Some(self.str(*name))
                        } else {
                            None
                        }
                    });
                    let names: Vec<_> = names.collect();
                    work.extend(self.module.tree().functions.iter().filter(|other| {
                        other.body.is_some() && names.contains(&self.str(other.name))
                    }));
                }
            }
        }
        false
    }
}
