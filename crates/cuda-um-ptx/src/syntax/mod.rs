//! What a module's text says, before any meaning: directives, and instructions as `{guard, opcode, modifiers, operands}`.

mod lexer;
mod parser;

pub use crate::math::Type;
pub use lexer::Text;
pub use parser::parse;

/// 5.1 State Spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub enum Space {
    #[default]
    Generic,
    Global,
    Shared,
    Local,
    Const,
    Param,
}

impl Space {
    /// The space of a modifier, without its dot.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "global" | "tex" => Self::Global,
            "shared" | "shared::cta" | "shared::cluster" => Self::Shared,
            "local" => Self::Local,
            "const" => Self::Const,
            "param" | "param::entry" | "param::func" => Self::Param,
            _ => return None,
        })
    }
}

/// One element of an initialiser.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Value {
    Integer(u64),
    F32(u32),
    F64(u64),
    /// The address of a variable. `shift` selects a byte: `0xFF00(name)` is 8.
    Address {
        name: Text,
        offset: i64,
        shift: u32,
    },
}

/// A variable or parameter.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: Text,
    pub space: Space,
    /// A parameter of a function in `.reg`.
    pub register: bool,
    pub align: u64,
    pub kind: Type,
    pub elements: u64,
    /// `name[]`: its size is given at the launch, or nowhere.
    pub unsized_array: bool,
    pub initial: Vec<Value>,
    pub line: u32,
}

impl Variable {
    pub fn bytes(&self) -> u64 {
        self.elements.saturating_mul(self.kind.bytes())
    }
}

#[derive(Clone, PartialEq, Debug)]
pub enum Operand {
    /// A register, variable, label, function or special register with its component.
    Name(Text),
    /// `!p`.
    Not(Text),
    /// `-a`, of `vmad`.
    Negative(Text),
    /// `d|p`.
    Pair(Text, Text),
    /// `name+4`.
    Sum(Text, i64),
    Integer(u64),
    F32(u32),
    F64(u64),
    /// `[base+offset]`; without a base an absolute address. More operands: coordinates of a texture.
    Address {
        base: Option<Text>,
        offset: i64,
        more: Vec<Operand>,
    },
    Vector(Vec<Operand>),
    /// The arguments or results of a call.
    List(Vec<Operand>),
    /// `_`.
    Sink,
}

#[derive(Clone, Debug)]
pub struct Instruction {
    pub line: u32,
    /// File and line of the last `.loc`.
    pub source: (u32, u32),
    /// The predicate, and whether it is negated.
    pub guard: Option<(Text, bool)>,
    /// The opcode with its modifiers.
    pub opcode: Text,
    pub operands: Vec<Operand>,
}

#[derive(Clone, Debug)]
pub enum Statement {
    Open,
    Close,
    Label(Text),
    /// `.reg .b32 %r<8>` has a count.
    Registers {
        kind: Type,
        vector: u32,
        name: Text,
        count: Option<u32>,
        line: u32,
    },
    Variable(Variable),
    Instruction(Instruction),
    /// `label: .branchtargets a, b;`, also of calls.
    Targets {
        label: Text,
        names: Vec<Text>,
    },
}

#[derive(Clone, Debug)]
pub struct Function {
    pub name: Text,
    pub entry: bool,
    pub line: u32,
    pub results: Vec<Variable>,
    pub parameters: Vec<Variable>,
    /// Without: a declaration.
    pub body: Option<Vec<Statement>>,
    /// `.maxntid`, `.reqntid`.
    pub max_threads: Option<[u32; 3]>,
    pub required_threads: Option<[u32; 3]>,
    /// `.reqnctapercluster`.
    pub cluster: Option<[u32; 3]>,
}

impl Function {
    /// Its results, then its parameters.
    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.results.iter().chain(&self.parameters)
    }
}

/// A parsed module.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub version: (u32, u32),
    pub targets: Vec<Text>,
    pub files: Vec<(u32, Text)>,
    pub variables: Vec<Variable>,
    pub functions: Vec<Function>,
}
