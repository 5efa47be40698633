//! A kernel's statements to a [`Program`]: names to slots, constants to slots that are filled before a warp runs, labels to positions,
//! blocks to an order in which lanes meet again.

mod compare;
mod control;
mod convert;
mod memory;
mod order;
mod registers;
mod scalar;
mod video;

use std::collections::HashMap;

use crate::error::LoadError;
use crate::math::Scalar;
use crate::module::{Kernel, Module, in_memory};
use crate::program::{Address, Class, Code, Constant, Extra, Inst, Op, Place, Program, Slot};
use crate::syntax::{Function, Instruction, Operand, Space, Statement, Text, Type, Variable};

type Result<T> = std::result::Result<T, LoadError>;

/// Slots of one class, instructions of a kernel, bytes of local memory: more is a mistake or an attack.
const LIMIT: usize = 1 << 20;

pub fn decode(kernel: Kernel<'_>) -> Result<Program> {
    let module = kernel.module;
    let parameters = kernel.parameters();
    let files = module.tree().files.iter();
    let product = |dims: [u32; 3]| dims.iter().fold(1u32, |all, n| all.saturating_mul(*n));
    let program = Program {
        name: kernel.name().into(),
        text: module.text().clone(),
        files: files
            .map(|&(number, name)| (number, module.str(name).into()))
            .collect(),
        parameter_bytes: parameters.last().map_or(0, |last| last.offset + last.bytes),
        parameters,
        variables: module.variables().count(),
        max_threads: kernel.max_threads().map(product),
        required_threads: kernel.function.required_threads,
        ..Program::default()
    };
    let mut decoder = Decoder {
        module,
        program,
        dynamic_align: 16,
        scopes: Vec::new(),
        labels: HashMap::new(),
        blocks: 0,
        constants: HashMap::new(),
        shared: HashMap::new(),
        functions: Vec::new(),
        current: 0,
        entry: true,
        guard: 0,
        place: Place::default(),
        code: Vec::new(),
        code_places: Vec::new(),
        targets: Vec::new(),
        carry: None,
    };
    if decoder.program.parameter_bytes > 32_764 {
        return Err(decoder.invalid(kernel.function.line, "more than 32764 bytes of parameters"));
    }
    if kernel
        .function
        .cluster
        .is_some_and(|dims| product(dims) > 1)
    {
        decoder.place.line = kernel.function.line;
        return decoder.unsupported("a cluster of more than one block");
    }
    decoder.declare(kernel.function)?;
    let mut next = 0;
    while next < decoder.functions.len() {
        decoder.function(next)?;
        next += 1;
    }
    Ok(decoder.finish())
}

/// What a name means in its block.
#[derive(Clone, Copy)]
enum Binding {
    Slot(Slot),
    /// A register that has no slot yet: kernels declare many more than they use.
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
struct Scope<'m> {
    names: HashMap<&'m str, Binding>,
    block: u32,
}

/// A function that the kernel reaches.
struct Known<'m> {
    function: &'m Function,
    results: Vec<Formal>,
    parameters: Vec<Formal>,
    start: u32,
}

#[derive(Clone, Copy)]
struct Formal {
    place: Passed,
    bytes: u32,
}

/// Where a parameter or argument of a call is.
#[derive(Clone, Copy)]
enum Passed {
    Local(u32),
    Register(Slot),
}

struct Decoder<'m> {
    module: &'m Module,
    scopes: Vec<Scope<'m>>,
    /// Labels by their block, and the position of a label's number in `targets`.
    labels: HashMap<(u32, &'m str), usize>,
    blocks: u32,
    constants: HashMap<(Class, u32, Constant), u32>,
    shared: HashMap<Text, u64>,
    functions: Vec<Known<'m>>,
    /// The function that is decoded.
    current: usize,
    entry: bool,
    guard: u32,
    place: Place,
    /// The function's code in the order of the text; branches have numbers of labels as targets.
    code: Vec<Inst>,
    code_places: Vec<Place>,
    targets: Vec<usize>,
    carry: Option<Slot>,
    dynamic_align: u64,
    program: Program,
}

impl<'m> Decoder<'m> {
    fn str(&self, text: Text) -> &'m str {
        self.module.str(text)
    }

    fn line_text(&self, line: u32) -> String {
        self.program.line(line).chars().take(120).collect()
    }

    fn invalid(&self, line: u32, what: impl Into<String>) -> LoadError {
        LoadError::Invalid {
            line,
            text: self.line_text(line),
            what: what.into(),
        }
    }

    fn bad<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(self.invalid(self.place.line, what))
    }

    fn unsupported<T>(&self, what: impl Into<String>) -> Result<T> {
        Err(LoadError::Unsupported {
            line: self.place.line,
            text: self.line_text(self.place.line),
            what: what.into(),
        })
    }

    // ---- functions ----

    /// The index of a function in `functions`, which decodes it later.
    fn declare(&mut self, function: &'m Function) -> Result<usize> {
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

    fn local(&mut self, variable: &Variable) -> Result<u32> {
        let offset = (self.program.local_bytes as u64).next_multiple_of(variable.align);
        let end = offset + variable.bytes();
        if end > LIMIT as u64 {
            return Err(self.invalid(variable.line, "more than 1 MiB of local memory"));
        }
        self.program.local_bytes = end as usize;
        Ok(offset as u32)
    }

    fn function(&mut self, index: usize) -> Result<()> {
        let function = self.functions[index].function;
        let Some(body) = &function.body else {
            return Err(self.invalid(
                function.line,
                format!("`{}` has no body", self.str(function.name)),
            ));
        };
        self.entry = function.entry;
        self.current = index;
        self.place = Place {
            line: function.line,
            source: (0, 0),
        };
        (self.blocks, self.guard) = (0, 0);
        self.labels.clear();
        self.targets.clear();
        self.collect_labels(body)?;
        self.blocks = 0;
        self.scopes = vec![Scope::default()];
        let known = &self.functions[index];
        let formals: Vec<Passed> = known
            .results
            .iter()
            .chain(&known.parameters)
            .map(|formal| formal.place)
            .collect();
        if function.entry {
            for (variable, parameter) in function
                .parameters
                .iter()
                .zip(self.program.parameters.clone())
            {
                self.bind(variable.name, Binding::Parameter(parameter.offset as u32));
            }
        } else {
            for (variable, place) in function
                .results
                .iter()
                .chain(&function.parameters)
                .zip(formals)
            {
                let binding = match place {
                    Passed::Local(offset) => Binding::Local(offset),
                    Passed::Register(slot) => Binding::Slot(slot),
                };
                self.bind(variable.name, binding);
            }
        }
        for statement in body {
            self.statement(statement)?;
            if self.code.len() + self.program.code.len() > LIMIT {
                return self.bad("more than a million instructions");
            }
        }
        self.guard = 0;
        self.emit(
            if function.entry {
                Code::Exit
            } else {
                Code::Return
            },
            0,
            0,
            0,
            0,
        );
        self.lay_out(index)
    }

    fn collect_labels(&mut self, body: &'m [Statement]) -> Result<()> {
        let (mut stack, mut next) = (vec![0u32], 0);
        for statement in body {
            match statement {
                Statement::Open => {
                    next += 1;
                    stack.push(next);
                }
                Statement::Close => {
                    stack.pop();
                }
                Statement::Label(label) => {
                    let number = self.targets.len();
                    self.targets.push(usize::MAX);
                    let block = *stack.last().unwrap_or(&0);
                    if self
                        .labels
                        .insert((block, self.module.str(*label)), number)
                        .is_some()
                    {
                        return self.bad(format!("two labels `{}` in one block", self.str(*label)));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn bind(&mut self, name: Text, binding: Binding) {
        let name = self.str(name);
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, binding);
        }
    }

    fn statement(&mut self, statement: &'m Statement) -> Result<()> {
        match statement {
            Statement::Open => {
                self.blocks += 1;
                self.scopes.push(Scope {
                    block: self.blocks,
                    ..Scope::default()
                });
            }
            Statement::Close => {
                self.scopes.pop();
            }
            Statement::Label(label) => {
                let block = self.scopes.last().map_or(0, |scope| scope.block);
                if let Some(&number) = self.labels.get(&(block, self.str(*label))) {
                    self.targets[number] = self.code.len();
                }
            }
            Statement::Registers {
                kind,
                vector,
                name,
                count,
                line,
            } => {
                if *vector > 1 || matches!(kind, Type::B128 | Type::Opaque) {
                    self.place.line = *line;
                    return self.unsupported("a register of this type");
                }
                let kind = *kind;
                let binding = match *count {
                    Some(count) => Binding::Family { kind, count },
                    None => Binding::Register(kind),
                };
                self.bind(*name, binding);
            }
            Statement::Variable(variable) => self.variable(variable)?,
            Statement::Targets { .. } => {}
            Statement::Instruction(instruction) => self.guarded(instruction)?,
        }
        Ok(())
    }

    fn variable(&mut self, variable: &'m Variable) -> Result<()> {
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

    // ---- names ----

    /// What a name means: in the innermost block first, then in the module. A register gets a slot.
    fn lookup(&mut self, name: Text) -> Result<Option<Binding>> {
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

    fn emit(&mut self, code: Code, d: u32, a: u32, b: u32, c: u32) {
        self.code.push(Inst {
            code,
            guard: self.guard,
            d,
            a,
            b,
            c,
        });
        self.code_places.push(self.place);
    }

    /// An instruction without a loop of its own.
    fn emit_op(&mut self, op: Op, d: &[Option<Slot>], s: &[Slot]) -> &mut Extra {
        self.emit(Code::Extra, self.program.extras.len() as u32, 0, 0, 0);
        let (d, s) = (d.to_vec(), s.to_vec());
        self.program.extras.push(Extra {
            op,
            d,
            s,
            address: Address::default(),
            members: None,
        });
        let last = self.program.extras.len() - 1;
        &mut self.program.extras[last]
    }

    fn scalar(&mut self, d: Slot, sources: &[Slot], function: Scalar) {
        self.emit_op(Op::Scalar(function), &[Some(d)], sources);
    }

    fn guarded(&mut self, instruction: &Instruction) -> Result<()> {
        self.place = Place {
            line: instruction.line,
            source: instruction.source,
        };
        self.guard = 0;
        if let Some((name, negated)) = instruction.guard {
            let mut slot = self.predicate(name)?;
            // An instruction of several steps may write its own guard in the first.
            if let Some(Operand::Name(first) | Operand::Pair(first, _)) =
                instruction.operands.first()
                && self.str(*first) == self.str(name)
            {
                let copy = self.temporary(Class::Pred)?;
                self.emit(Code::Logic, copy.index, slot.index, slot.index, 0b1100);
                slot = copy;
            }
            self.guard = (slot.index + 1) << 1 | u32::from(negated);
        }
        let opcode = self.str(instruction.opcode);
        let mut parts = opcode.split('.').map(str::trim);
        let name = parts.next().unwrap_or("");
        let modifiers: Vec<&str> = parts.collect();
        let form = Form {
            name,
            modifiers: &modifiers,
            operands: &instruction.operands,
        };
        let done = self.arithmetic(&form)?
            || self.conversion(&form)?
            || self.memory(&form)?
            || self.control(&form)?;
        self.guard = 0;
        if done {
            Ok(())
        } else {
            self.unsupported(format!("the instruction {opcode}"))
        }
    }

    /// Blocks in their order, appended to the program.
    fn lay_out(&mut self, index: usize) -> Result<()> {
        let code = std::mem::take(&mut self.code);
        let places = std::mem::take(&mut self.code_places);
        let mut leader = vec![false; code.len() + 1];
        leader[0] = true;
        for &target in &self.targets {
            leader[target.min(code.len() - 1)] = true;
        }
        let jumps = |inst: &Inst| {
            matches!(
                inst.code,
                Code::Branch | Code::Indexed | Code::Return | Code::Exit
            )
        };
        for (at, inst) in code.iter().enumerate() {
            leader[at + 1] |= jumps(inst);
        }
        let starts: Vec<usize> = (0..code.len()).filter(|&at| leader[at]).collect();
        let block_of = |at: usize| starts.partition_point(|&start| start <= at) - 1;
        let end = |block: usize| starts.get(block + 1).copied().unwrap_or(code.len());
        let falls = |block: usize| {
            let last = &code[end(block) - 1];
            (!jumps(last) || last.guard != 0) && block + 1 < starts.len()
        };
        let successors: Vec<Vec<usize>> = (0..starts.len())
            .map(|block| {
                let last = &code[end(block) - 1];
                let mut next = Vec::new();
                match last.code {
                    Code::Branch => next.push(block_of(self.targets[last.d as usize])),
                    Code::Indexed => next.extend(
                        self.program.tables[last.d as usize]
                            .iter()
                            .map(|&label| block_of(self.targets[label as usize])),
                    ),
                    _ => {}
                }
                if falls(block) {
                    next.push(block + 1);
                }
                next
            })
            .collect();
        let order = order::order(&successors);
        let base = self.program.code.len();
        let mut position = vec![u32::MAX; starts.len()];
        let mut joints = HashMap::new();
        for (rank, &block) in order.iter().enumerate() {
            position[block] = self.program.code.len() as u32;
            self.program
                .code
                .extend_from_slice(&code[starts[block]..end(block)]);
            self.program
                .places
                .extend_from_slice(&places[starts[block]..end(block)]);
            if falls(block) && order.get(rank + 1) != Some(&(block + 1)) {
                joints.insert(self.program.code.len(), block + 1);
                self.program.code.push(Inst {
                    code: Code::Branch,
                    guard: 0,
                    d: 0,
                    a: 0,
                    b: 0,
                    c: 0,
                });
                self.program.places.push(places[end(block) - 1]);
            }
        }
        let mut tables = Vec::new();
        for (at, inst) in self.program.code.iter_mut().enumerate().skip(base) {
            if let Some(&block) = joints.get(&at) {
                inst.d = position[block];
            } else if inst.code == Code::Branch {
                inst.d = position[block_of(self.targets[inst.d as usize])];
            } else if inst.code == Code::Indexed {
                tables.push(inst.d);
            }
        }
        for table in tables {
            for label in &mut self.program.tables[table as usize] {
                *label = position[block_of(self.targets[*label as usize])];
            }
        }
        self.functions[index].start = position[0];
        Ok(())
    }

    fn finish(mut self) -> Program {
        for inst in &mut self.program.code {
            if inst.code == Code::Call {
                inst.d = self.functions[inst.d as usize].start;
            }
        }
        self.program.dynamic_shared =
            (self.program.shared_bytes as u64).next_multiple_of(self.dynamic_align);
        self.program
    }
}

/// An instruction in parts.
struct Form<'a> {
    name: &'a str,
    modifiers: &'a [&'a str],
    operands: &'a [Operand],
}

impl Form<'_> {
    fn has(&self, modifier: &str) -> bool {
        self.modifiers.contains(&modifier)
    }

    /// The state space among the modifiers.
    fn space(&self) -> Option<Space> {
        self.modifiers
            .iter()
            .find_map(|modifier| Space::named(modifier))
    }

    /// The types among the modifiers, in their order.
    fn types(&self) -> impl DoubleEndedIterator<Item = Type> {
        self.modifiers
            .iter()
            .filter_map(|modifier| Type::named(modifier))
    }

    /// The last type: most instructions have one.
    fn kind(&self) -> Option<Type> {
        self.types().next_back()
    }
}
