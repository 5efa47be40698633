//! What a module's text says, before any meaning: directives, and instructions as `{guard, opcode, modifiers, operands}`.

mod lexer;
mod parser;

pub use lexer::Text;
pub use parser::parse;

/// 5.2.1 Fundamental Types, 5.2.3 Packed Data Types; a register or variable has one of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    U16x2,
    S16x2,
    Tf32,
    F32,
    F32x2,
    F64,
    /// A texture, sampler or surface: 64 bits that only the driver understands.
    Opaque,
}

impl Type {
    /// The type of a modifier, without its dot.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "pred" => Self::Pred,
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "f16x2" => Self::F16x2,
            "bf16" => Self::Bf16,
            "bf16x2" => Self::Bf16x2,
            "u16x2" => Self::U16x2,
            "s16x2" => Self::S16x2,
            "tf32" => Self::Tf32,
            "f32" => Self::F32,
            "f32x2" => Self::F32x2,
            "f64" => Self::F64,
            "texref" | "samplerref" | "surfref" => Self::Opaque,
            _ => return None,
        })
    }

    /// The size in memory.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Pred | Self::B8 | Self::U8 | Self::S8 => 1,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 2,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 | Self::F32x2 | Self::Opaque => 8,
            Self::B128 => 16,
            _ => 4,
        }
    }

    pub fn signed(self) -> bool {
        matches!(
            self,
            Self::S8 | Self::S16 | Self::S32 | Self::S64 | Self::S16x2
        )
    }

    pub fn integer(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64)
            || self.signed() && self != Self::S16x2
    }
}

/// 5.1 State Spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Space {
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
    /// The address of a variable, `generic()` or within its state space. `shift` selects a byte: `0xFF00(name)` is 8.
    Address {
        name: Text,
        offset: i64,
        generic: bool,
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

/// A parsed module.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub version: (u32, u32),
    pub targets: Vec<Text>,
    pub files: Vec<(u32, Text)>,
    pub variables: Vec<Variable>,
    pub functions: Vec<Function>,
}
