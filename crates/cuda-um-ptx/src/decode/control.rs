//! 9.7.12 control flow, 9.7.13 barriers, votes and shuffles, 9.7.19 miscellaneous.

use super::{
    Binding, Code, Decoder, Form, Formal, Function, Op, Operand, Passed, Result, Space, Statement,
    Text, Type,
};
use crate::math::{self, Mode};
use crate::program::{Access, Address, Reduce, Shuffle, System, Vote};

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
            "trap" | "brkpt" => _ = self.emit_op(Op::Trap, &[], &[]),
            "nanosleep" => _ = self.emit_op(Op::Sleep, &[], &[]),
            "membar" | "fence" => _ = self.emit_op(Op::Fence, &[], &[]),
            "pmevent" | "setmaxnreg" | "griddepcontrol" => {}
            "bar" | "barrier" => return self.barrier(form),
            "shfl" => {
                let mode = match () {
                    () if form.has("up") => Shuffle::Up,
                    () if form.has("down") => Shuffle::Down,
                    () if form.has("bfly") => Shuffle::Butterfly,
                    () => Shuffle::Index,
                };
                return self.together(form, Op::Shuffle(mode), &[32; 3]);
            }
            "vote" => {
                let mode = match () {
                    () if form.has("all") => Vote::All,
                    () if form.has("any") => Vote::Any,
                    () if form.has("uni") => Vote::Uniform,
                    () => Vote::Ballot,
                };
                return self.together(form, Op::Vote(mode), &[1]);
            }
            "match" => {
                let (all, bits) = (form.has("all"), form.kind().map_or(32, Type::bits));
                return self.together(form, Op::Match { all }, &[bits]);
            }
            "redux" => return self.redux(form),
            "activemask" => {
                let d = self.target(self.at(form, 0)?)?;
                self.emit_op(Op::ActiveMask, &[Some(d)], &[]);
            }
            "elect" => return self.together(form, Op::Elect, &[]),
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

    /// 9.7.13.1 bar, barrier; 9.7.13.2 bar.warp.sync; 9.7.13.3 barrier.cluster of clusters of one block.
    fn barrier(&mut self, form: &Form) -> Result<bool> {
        if form.has("warp") {
            let members = self.source(self.at(form, 0)?, 32)?;
            self.emit_op(Op::WarpBarrier, &[], &[]).members = Some(members);
            return Ok(true);
        }
        let zero = self.word_value(0)?;
        if form.has("cluster") {
            if form.has("wait") {
                let op = Op::Barrier {
                    arrive: false,
                    reduce: None,
                };
                self.emit_op(op, &[], &[zero; 2]);
            }
            return Ok(true);
        }
        let reduce = match () {
            () if !form.has("red") => None,
            () if form.has("popc") => Some(Reduce::Popc),
            () if form.has("and") => Some(Reduce::And),
            () if form.has("or") => Some(Reduce::Or),
            () => return Ok(false),
        };
        let mut operands = form.operands;
        let (mut d, mut sources) = (None, Vec::new());
        if let (Some(_), [first, middle @ .., last]) = (reduce, operands) {
            (d, operands) = (Some(self.target(first)?), middle);
            sources.push(self.condition(last)?);
        }
        // The number, and how many threads; 0 is all.
        for index in [1, 0] {
            let slot = match operands.get(index) {
                Some(operand) => self.source(operand, 32)?,
                None if index == 1 => zero,
                None => return self.bad("an operand is missing"),
            };
            sources.insert(0, slot);
        }
        let op = Op::Barrier {
            arrive: form.has("arrive"),
            reduce,
        };
        self.emit_op(op, &[d], &sources);
        Ok(true)
    }

    /// An instruction that lanes execute together: `d[|p]`, sources of these sizes, and (with `.sync`) the members.
    fn together(&mut self, form: &Form, op: Op, sizes: &[u32]) -> Result<bool> {
        let d = match self.at(form, 0)? {
            Operand::Pair(d, p) => {
                let p = self.predicate(*p)?;
                let d = if d.start == d.end {
                    None
                } else {
                    Some(self.target(&Operand::Name(*d))?)
                };
                [d, Some(p)]
            }
            operand => [Some(self.target(operand)?), None],
        };
        let mut sources = Vec::new();
        for (index, &bits) in sizes.iter().enumerate() {
            let operand = self.at(form, index + 1)?;
            sources.push(if bits == 1 {
                self.condition(operand)?
            } else {
                self.source(operand, bits)?
            });
        }
        // `elect.sync`, `match.any.sync` have members always.
        let members = match form.operands.get(sizes.len() + 1) {
            Some(operand) if form.has("sync") => Some(self.source(operand, 32)?),
            _ if form.has("sync") => return self.bad("an operand is missing"),
            _ => None,
        };
        self.emit_op(op, &d, &sources).members = members;
        Ok(true)
    }

    /// 9.7.13.11 redux.sync.
    fn redux(&mut self, form: &Form) -> Result<bool> {
        let op = ["add", "min", "max", "and", "or", "xor"]
            .into_iter()
            .find(|op| form.has(op));
        let (Some(op), Some(kind)) = (op, form.kind().filter(|kind| kind.bits() == 32)) else {
            return Ok(false);
        };
        let Some((_, function)) = math::function(op, 2, kind, Mode::of(form.modifiers)) else {
            return Ok(false);
        };
        let mask = if form.has("abs") {
            u64::from(u32::MAX >> 1)
        } else {
            u64::MAX
        };
        let function = move |v: [u64; 4]| function(v.map(|value| value & mask));
        self.together(form, Op::Redux(Box::new(function)), &[32])
    }
}
