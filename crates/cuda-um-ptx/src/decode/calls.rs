//! 9.7.12.5 call: the functions that a kernel reaches, and what is passed to them.

use super::{Binding, Decoder, Form, Result, Type};
use crate::program::{Address, Code, Op, System};
use crate::syntax::{Function, Operand, Space, Statement};

/// A function that the kernel reaches.
pub(super) struct Known<'m> {
    pub function: &'m Function,
    /// Its results, then its parameters: where each is, and its size.
    pub formals: Vec<(Binding, u32)>,
    pub start: u32,
}

impl<'m> Decoder<'m> {
    /// The index of a function in `functions`, which decodes it later.
    pub(super) fn declare(&mut self, function: &'m Function) -> Result<usize> {
        let known =
            (self.functions.iter()).position(|known| std::ptr::eq(known.function, function));
        if let Some(known) = known {
            return Ok(known);
        }
        let mut parameters = self.program.parameters.clone().into_iter();
        let formals = function.variables().map(|variable| {
            let place = match parameters.next().filter(|_| function.entry) {
                Some(parameter) => Binding::Parameter(parameter.offset as u32),
                None if variable.register => Binding::Slot(self.new_slot(variable.kind)?),
                None => Binding::Local(self.local(variable)?),
            };
            Ok((place, variable.bytes() as u32))
        });
        let formals = formals.collect::<Result<Vec<_>>>()?;
        let start = 0;
        self.functions.push(Known {
            function,
            formals,
            start,
        });
        Ok(self.functions.len() - 1)
    }

    /// Parameters are bytes of local memory of the caller, copied to those of the callee.
    pub(super) fn call(&mut self, form: &Form) -> Result<bool> {
        let (results, rest): (&[Operand], _) = match form.operands {
            [Operand::List(results), rest @ ..] => (results, rest),
            rest => (&[], rest),
        };
        let (name, arguments): (_, &[Operand]) = match rest {
            [Operand::Name(name), Operand::List(arguments), ..] => (name, arguments),
            [Operand::Name(name), ..] => (name, &[]),
            _ => return self.bad("the name of a function is expected"),
        };
        let module = self.module;
        let name = module.str(*name);
        let named = |function: &&Function| module.str(function.name) == name;
        let mut functions = module.tree().functions.iter();
        let function = functions.find(|function| named(function) && function.body.is_some());
        let system = match (function, name, arguments.len()) {
            (None, "vprintf", 2) => Some(System::Print),
            (None, "__assertfail", 3..) => Some(System::Assert),
            (None, "cudaGraphSetConditional", 2) => Some(System::SetConditional),
            _ => None,
        };
        if let Some(system) = system {
            let mut local = |operand: &Operand| match self.passed(operand, 32)? {
                Binding::Local(offset) => Ok(offset),
                _ => self.unsupported("an argument that is no variable in `.param`"),
            };
            let arguments = arguments.iter().map(&mut local).collect::<Result<_>>()?;
            let result = results.first().map(local).transpose()?;
            let op = Op::Call {
                system,
                arguments,
                result,
            };
            self.emit_op(op, &[], &[]);
            return Ok(true);
        }
        let Some(function) = function.filter(|function| !function.entry) else {
            return self.unsupported(format!(
                "a call of `{name}`, which the module does not define"
            ));
        };
        let callee = self.declare(function)?;
        let mut returned = self.functions[callee].formals.clone();
        let formals = returned.split_off(function.results.len());
        let (inputs, outputs) = (formals.len(), returned.len());
        if inputs != arguments.len() || outputs != results.len() {
            return self.bad(format!(
                "`{name}` has {inputs} parameters and {outputs} results"
            ));
        }
        // A function has one set of registers and of variables, which is enough for lanes at different places; only a function that
        // may call its caller needs them once more.
        let recursive = self.calls(function, self.functions[self.current].function);
        if recursive {
            self.emit_op(Op::Save, &[], &[]);
        }
        for (operand, (place, bytes)) in arguments.iter().zip(formals) {
            let from = self.passed(operand, bytes * 8)?;
            self.pass(from, place, bytes)?;
        }
        self.emit(Code::Call, callee as u32, 0, 0, 0);
        if recursive {
            let of = |&(place, bytes): &(Binding, u32)| match place {
                Binding::Local(offset) => (offset, bytes, None),
                Binding::Slot(slot) => (0, 0, Some(slot)),
                _ => (0, 0, None),
            };
            self.emit_op(Op::Restore(returned.iter().map(of).collect()), &[], &[]);
        }
        for (operand, (place, bytes)) in results.iter().zip(returned) {
            let to = match operand {
                Operand::Name(name)
                    if !matches!(self.lookup(*name)?, Some(Binding::Slot(_)) | None) =>
                {
                    self.passed(operand, bytes * 8)?
                }
                operand => Binding::Slot(self.target(operand)?),
            };
            self.pass(place, to, bytes)?;
        }
        Ok(true)
    }

    fn passed(&mut self, operand: &Operand, bits: u32) -> Result<Binding> {
        if let Operand::Name(name) = operand
            && let Some(local @ Binding::Local(_)) = self.lookup(*name)?
        {
            return Ok(local);
        }
        Ok(Binding::Slot(self.source(operand, bits)?))
    }

    fn pass(&mut self, from: Binding, to: Binding, bytes: u32) -> Result<()> {
        let address = |offset: u32| Address {
            space: Space::Local,
            base: None,
            offset: offset.into(),
        };
        let kind = match bytes {
            1 => Type::B8,
            2 => Type::B16,
            4 => Type::B32,
            _ => Type::B64,
        };
        match (from, to) {
            (Binding::Local(from), Binding::Local(to)) => {
                self.emit_op(Op::Copy { from, to, bytes }, &[], &[]);
            }
            (Binding::Slot(from), Binding::Slot(to)) => self.copy(to, from)?,
            (Binding::Local(from), Binding::Slot(to)) => {
                self.emit_access(Code::Load, address(from), kind, vec![Some(to)], false)
            }
            (Binding::Slot(from), Binding::Local(to)) => {
                self.emit_access(Code::Store, address(to), kind, vec![Some(from)], false)
            }
            _ => return self.bad("a variable in `.param` or a register is expected"),
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
                let Statement::Instruction(instruction) = statement else {
                    continue;
                };
                if self.str(instruction.opcode).starts_with("call") {
                    let named = |function: &&Function| {
                        let name = |operand: &Operand| matches!(operand, Operand::Name(name) if self.str(*name) == self.str(function.name));
                        function.body.is_some() && instruction.operands.iter().any(name)
                    };
                    work.extend(self.module.tree().functions.iter().filter(named));
                }
            }
        }
        false
    }
}
