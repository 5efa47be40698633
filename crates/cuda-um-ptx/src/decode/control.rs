//! 9.7.12 control flow, 9.7.13 barriers, votes and shuffles, 9.7.19 miscellaneous.

use super::{
    Binding, Class, Code, Decoder, Extra, Form, Formal, Function, Operand, Passed, Result, Slot,
    Space, Statement, Text, Type,
};
use crate::math::float;
use crate::program::{Access, Address, Reduce, Shuffle, Vote};

impl<'m> Decoder<'m> {
    pub(super) fn control(&mut self, form: &Form) -> Result<bool> {
        match form.name {
            "bra" => {
                let Operand::Name(label) = self.at(form, 0)? else {
                    return self.bad("a label is expected");
                };
                let label = self.label_number(*label)?;
                self.emit(Code::Branch, label, 0, 0, 0);
            }
            "brx" => return self.indexed(form),
            "call" => return self.call(form),
            "ret" => self.emit(
                if self.entry { Code::Exit } else { Code::Return },
                0,
                0,
                0,
                0,
            ),
            "exit" => self.emit(Code::Exit, 0, 0, 0, 0),
            "trap" | "brkpt" => self.emit_extra(Extra::Trap),
            "nanosleep" => self.emit_extra(Extra::Sleep),
            "membar" | "fence" => self.emit_extra(Extra::Fence),
            "pmevent" | "setmaxnreg" | "griddepcontrol" => {}
            "bar" | "barrier" => return self.barrier(form),
            "shfl" => return self.shuffle(form),
            "vote" => return self.vote(form),
            "match" => return self.matching(form),
            "redux" => return self.redux(form),
            "activemask" => {
                let d = self.target(self.at(form, 0)?)?;
                self.emit_extra(Extra::ActiveMask { d });
            }
            "elect" => {
                let (d, p) = match self.at(form, 0)? {
                    Operand::Pair(d, p) if d.start == d.end => (None, *p),
                    Operand::Pair(d, p) => (Some(self.target(&Operand::Name(*d))?), *p),
                    _ => return self.bad("`d|p` is expected"),
                };
                let (p, members) = (self.predicate(p)?, self.source(self.at(form, 1)?, 32)?);
                self.emit_extra(Extra::Elect { d, p, members });
            }
            "alloca" | "stacksave" | "stackrestore" => return Ok(false),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn label_number(&self, label: Text) -> Result<u32> {
        let name = self.str(label);
        for scope in self.scopes.iter().rev() {
            if let Some(&number) = self.labels.get(&(scope.block, name)) {
                return Ok(number as u32);
            }
        }
        self.bad(format!("there is no label `{name}`"))
    }

    /// 9.7.12.4 brx.idx.
    fn indexed(&mut self, form: &Form) -> Result<bool> {
        let (index, Operand::Name(list)) = (self.source(self.at(form, 0)?, 32)?, self.at(form, 1)?)
        else {
            return self.bad("a list of labels is expected");
        };
        let names = self.functions[self.current]
            .function
            .body
            .iter()
            .flatten()
            .find_map(|statement| match statement {
                Statement::Targets { label, names } if self.str(*label) == self.str(*list) => {
                    Some(names.clone())
                }
                _ => None,
            });
        let Some(names) = names else {
            return self.bad("there is no such list of labels");
        };
        let table = names
            .iter()
            .map(|name| self.label_number(*name))
            .collect::<Result<Vec<_>>>()?;
        self.program.tables.push(table);
        self.emit(
            Code::Indexed,
            self.program.tables.len() as u32 - 1,
            index.index,
            0,
            0,
        );
        Ok(true)
    }

    /// 9.7.12.5 call. Parameters are bytes of local memory of the caller, copied to those of the callee.
    fn call(&mut self, form: &Form) -> Result<bool> {
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
        let local = |decoder: &mut Self, operand: &Operand| match decoder.passed(operand, 32)? {
            Passed::Local(offset) => Ok(offset),
            Passed::Register(_) => {
                decoder.unsupported("an argument that is no variable in `.param`")
            }
        };
        match (function, name, arguments) {
            (None, "vprintf", [format, values]) => {
                let (format, arguments) = (local(self, format)?, local(self, values)?);
                let result = results
                    .first()
                    .map(|result| local(self, result))
                    .transpose()?;
                self.emit_extra(Extra::Print {
                    format,
                    arguments,
                    result,
                });
                return Ok(true);
            }
            (None, "__assertfail", [message, file, line, ..]) => {
                let (message, file, line) = (
                    local(self, message)?,
                    local(self, file)?,
                    local(self, line)?,
                );
                self.emit_extra(Extra::Assert {
                    message,
                    file,
                    line,
                });
                return Ok(true);
            }
            (None, "cudaGraphSetConditional", [handle, value]) => {
                let (handle, value) = (local(self, handle)?, local(self, value)?);
                self.emit_extra(Extra::SetConditional { handle, value });
                return Ok(true);
            }
            _ => {}
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
            self.emit_extra(Extra::Save);
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
            self.emit_extra(Extra::Restore {
                keep: returned.iter().map(of).collect(),
            });
        }
        for (operand, formal) in results.iter().zip(&returned) {
            let to = match operand {
                Operand::Name(name) if matches!(self.lookup(*name)?, Some((_, None))) => {
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
            && let Some((Binding::Local(offset), None)) = self.lookup(*name)?
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
                self.emit_extra(Extra::Copy { from, to, bytes })
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

    /// 9.7.13.1 bar, barrier; 9.7.13.2 bar.warp.sync; 9.7.13.3 barrier.cluster of clusters of one block.
    fn barrier(&mut self, form: &Form) -> Result<bool> {
        if form.has("warp") {
            let members = self.source(self.at(form, 0)?, 32)?;
            self.emit_extra(Extra::WarpBarrier { members });
            return Ok(true);
        }
        if form.has("cluster") {
            if form.has("wait") {
                let id = self.word_value(0)?;
                self.emit_extra(Extra::Barrier {
                    id,
                    count: None,
                    arrive: false,
                    reduce: None,
                });
            }
            return Ok(true);
        }
        let arrive = form.has("arrive");
        if !form.has("red") {
            let id = self.source(self.at(form, 0)?, 32)?;
            let count = match form.operands.get(1) {
                Some(operand) => Some(self.source(operand, 32)?),
                None => None,
            };
            self.emit_extra(Extra::Barrier {
                id,
                count,
                arrive,
                reduce: None,
            });
            return Ok(true);
        }
        let op = match () {
            () if form.has("popc") => Reduce::Popc,
            () if form.has("and") => Reduce::And,
            () if form.has("or") => Reduce::Or,
            () => return Ok(false),
        };
        let d = self.target(self.at(form, 0)?)?;
        let id = self.source(self.at(form, 1)?, 32)?;
        let count = if form.operands.len() == 4 {
            Some(self.source(self.at(form, 2)?, 32)?)
        } else {
            None
        };
        let (source, negated) = self.condition(self.at(form, form.operands.len() - 1)?)?;
        self.emit_extra(Extra::Barrier {
            id,
            count,
            arrive: false,
            reduce: Some((op, d, source, negated)),
        });
        Ok(true)
    }

    /// A first operand `d|p`.
    fn pair(&mut self, form: &Form) -> Result<(Slot, Option<Slot>)> {
        match self.at(form, 0)? {
            Operand::Pair(d, p) if d.start == d.end => {
                Ok((self.temporary(Class::Word)?, Some(self.predicate(*p)?)))
            }
            Operand::Pair(d, p) => {
                Ok((self.target(&Operand::Name(*d))?, Some(self.predicate(*p)?)))
            }
            operand => Ok((self.target(operand)?, None)),
        }
    }

    /// 9.7.9.6 shfl.sync, and the older shfl of active lanes.
    fn shuffle(&mut self, form: &Form) -> Result<bool> {
        let mode = match () {
            () if form.has("up") => Shuffle::Up,
            () if form.has("down") => Shuffle::Down,
            () if form.has("bfly") => Shuffle::Butterfly,
            () => Shuffle::Index,
        };
        let (d, p) = self.pair(form)?;
        let a = self.source(self.at(form, 1)?, 32)?;
        let (b, c) = (
            self.source(self.at(form, 2)?, 32)?,
            self.source(self.at(form, 3)?, 32)?,
        );
        let members = if form.has("sync") {
            Some(self.source(self.at(form, 4)?, 32)?)
        } else {
            None
        };
        self.emit_extra(Extra::Shuffle {
            mode,
            d,
            p,
            a,
            b,
            c,
            members,
        });
        Ok(true)
    }

    /// 9.7.13.8 vote.
    fn vote(&mut self, form: &Form) -> Result<bool> {
        let mode = match () {
            () if form.has("all") => Vote::All,
            () if form.has("any") => Vote::Any,
            () if form.has("uni") => Vote::Uniform,
            () => Vote::Ballot,
        };
        let d = self.target(self.at(form, 0)?)?;
        let (source, negated) = self.condition(self.at(form, 1)?)?;
        let members = if form.has("sync") {
            Some(self.source(self.at(form, 2)?, 32)?)
        } else {
            None
        };
        self.emit_extra(Extra::Vote {
            mode,
            d,
            source,
            negated,
            members,
        });
        Ok(true)
    }

    /// 9.7.13.9 match.sync.
    fn matching(&mut self, form: &Form) -> Result<bool> {
        let bits = form.kind().map_or(32, |kind| kind.bytes() as u32 * 8);
        let (d, p) = self.pair(form)?;
        let (a, members) = (
            self.source(self.at(form, 1)?, bits)?,
            self.source(self.at(form, 2)?, 32)?,
        );
        self.emit_extra(Extra::Match {
            all: form.has("all"),
            d,
            p,
            a,
            members,
        });
        Ok(true)
    }

    /// 9.7.13.11 redux.sync.
    fn redux(&mut self, form: &Form) -> Result<bool> {
        let Some(kind) = form.kind() else {
            return Ok(false);
        };
        let signed = kind.signed();
        let extreme = float::Extreme {
            nan: form.has("NaN"),
            ..float::Extreme::default()
        };
        let (absolute, least) = (form.has("abs"), form.has("min"));
        let function: crate::program::Scalar = match () {
            () if kind == Type::F32 => Box::new(move |v| {
                let [a, b] = [v[0], v[1]]
                    .map(|bits| f32::from_bits(bits as u32))
                    .map(|value| if absolute { value.abs() } else { value });
                let op = if least {
                    float::min::<f32>
                } else {
                    float::max::<f32>
                };
                op(a, b, extreme).to_bits().into()
            }),
            () if form.has("add") => Box::new(|v| v[0].wrapping_add(v[1])),
            () if form.has("and") => Box::new(|v| v[0] & v[1]),
            () if form.has("or") => Box::new(|v| v[0] | v[1]),
            () if form.has("xor") => Box::new(|v| v[0] ^ v[1]),
            () if form.has("min") && signed => {
                Box::new(|v| (v[0] as i32).min(v[1] as i32) as u32 as u64)
            }
            () if form.has("max") && signed => {
                Box::new(|v| (v[0] as i32).max(v[1] as i32) as u32 as u64)
            }
            () if form.has("min") => Box::new(|v| (v[0] as u32).min(v[1] as u32).into()),
            () if form.has("max") => Box::new(|v| (v[0] as u32).max(v[1] as u32).into()),
            () => return Ok(false),
        };
        let d = self.target(self.at(form, 0)?)?;
        let (a, members) = (
            self.source(self.at(form, 1)?, 32)?,
            self.source(self.at(form, 2)?, 32)?,
        );
        self.emit_extra(Extra::Redux {
            function,
            d,
            a,
            members,
        });
        Ok(true)
    }
}
