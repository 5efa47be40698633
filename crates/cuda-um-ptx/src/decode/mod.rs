//! A kernel's statements to a [`Program`]: names to slots, constants to slots that are filled before a warp runs, labels to positions,
//! blocks to an order in which lanes meet again.

mod calls;
mod compare;
mod control;
mod convert;
mod memory;
mod names;
mod order;
mod registers;
mod scalar;
mod video;

use std::collections::HashMap;

use crate::error::LoadError;
use crate::math::Scalar;
use crate::module::{Kernel, Module};
use crate::program::{Address, Class, Code, Constant, Extra, Inst, Op, Place, Program, Slot};
use crate::syntax::{Instruction, Operand, Space, Statement, Text, Type};
use calls::Known;
use names::{Binding, Scope};

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
    decoder.place.line = kernel.function.line;
    if kernel.function.cluster.map_or(1, product) > 1 {
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

    fn function(&mut self, index: usize) -> Result<()> {
        let function = self.functions[index].function;
        let (line, source) = (function.line, (0, 0));
        self.place = Place { line, source };
        let Some(body) = &function.body else {
            return self.bad(format!("`{}` has no body", self.str(function.name)));
        };
        (self.entry, self.current) = (function.entry, index);
        (self.blocks, self.guard) = (0, 0);
        self.labels.clear();
        self.targets.clear();
        self.collect_labels(body)?;
        self.blocks = 0;
        self.scopes = vec![Scope::default()];
        let formals = self.functions[index].formals.clone();
        for (variable, (place, _)) in function.variables().zip(formals) {
            self.bind(variable.name, place);
        }
        for statement in body {
            self.statement(statement)?;
            if self.code.len() + self.program.code.len() > LIMIT {
                return self.bad("more than a million instructions");
            }
        }
        self.guard = 0;
        self.leave();
        self.lay_out(index);
        Ok(())
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
                    let (block, name) = (*stack.last().unwrap_or(&0), self.str(*label));
                    if self.labels.insert((block, name), number).is_some() {
                        return self.bad(format!("two labels `{name}` in one block"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'m Statement) -> Result<()> {
        match statement {
            Statement::Open => {
                self.blocks += 1;
                let (names, block) = (HashMap::new(), self.blocks);
                self.scopes.push(Scope { names, block });
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

    fn leave(&mut self) {
        let code = if self.entry { Code::Exit } else { Code::Return };
        self.emit(code, 0, 0, 0, 0);
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
        let parts: Vec<&str> = opcode.split('.').map(str::trim).collect();
        let form = Form {
            name: parts[0],
            modifiers: &parts[1..],
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

    /// What belongs to the first of the names that is a modifier.
    fn pick<T: Copy>(&self, choices: &[(&str, T)]) -> Option<T> {
        let choice = choices.iter().find(|(name, _)| self.has(name));
        choice.map(|(_, value)| *value)
    }

    /// The state space among the modifiers.
    fn space(&self) -> Option<Space> {
        self.modifiers.iter().find_map(|name| Space::named(name))
    }

    /// The types among the modifiers, in their order.
    fn types(&self) -> impl DoubleEndedIterator<Item = Type> {
        self.modifiers.iter().filter_map(|name| Type::named(name))
    }

    /// The last type: most instructions have one.
    fn kind(&self) -> Option<Type> {
        self.types().next_back()
    }
}
