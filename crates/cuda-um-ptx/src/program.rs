//! A decoded kernel: what the machine executes.

use std::sync::Arc;

use crate::math::{Scalar, mma::Mma};
pub(crate) use crate::run::Code;
use crate::syntax::Space;

/// Generic addresses of shared memory begin here; no pointer of a host has these bits.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;
/// Generic addresses of local memory.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 56;
/// Generic addresses of a kernel's parameters.
pub(crate) const PARAM_WINDOW: u64 = 3 << 56;
pub(crate) const WINDOW_BYTES: u64 = 1 << 56;

/// Which file of a warp holds a register.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Class {
    /// One bit a lane.
    Pred,
    /// Up to 32 bits; upper bits of narrower registers are zero.
    Word,
    Long,
}

impl Class {
    pub fn of(bits: u32) -> Self {
        match bits {
            1 => Self::Pred,
            64 => Self::Long,
            _ => Self::Word,
        }
    }

    pub fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::Word => 32,
            Self::Long => 64,
        }
    }
}

/// A register of a warp.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Slot {
    pub class: Class,
    pub index: u32,
    /// How many bits count: 1, 8, 16, 32, 64.
    pub bits: u32,
}

impl Slot {
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }
}

/// What a slot that no instruction writes holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Constant {
    Value(u64),
    /// Bytes of the parameter buffer.
    Parameter {
        offset: u32,
        bytes: u32,
        signed: bool,
    },
    /// The address of a variable in device memory.
    Variable {
        index: u32,
        offset: i64,
    },
    DynamicShared {
        offset: i64,
        generic: bool,
    },
    Special(Special),
}

/// 10. Special Registers, as far as they do not change while a warp runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    Lane,
    Warp,
    Warps,
    Processor,
    Processors,
    Grid,
    /// A half of the address of a cooperative launch's workspace.
    Workspace(u8),
    MaskEq,
    MaskLe,
    MaskLt,
    MaskGe,
    MaskGt,
    DynamicShared,
    TotalShared,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inst {
    pub code: Code,
    /// 0, or twice the predicate's index plus 2, plus 1 if negated.
    pub guard: u32,
    pub d: u32,
    pub a: u32,
    pub b: u32,
    pub c: u32,
}

/// `[base + offset]`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Address {
    pub space: Space,
    pub base: Option<Slot>,
    pub offset: i64,
}

/// 9.7.9.8 ld, 9.7.9.11 st.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub address: Address,
    /// Bytes of an element.
    pub bytes: u32,
    pub signed: bool,
    /// Where the elements go or come from; a sink has none.
    pub slots: Vec<Option<Slot>>,
    /// Volatile, relaxed and stronger: other threads may look.
    pub strong: bool,
}

/// The lane to read from: of a lane, its operand and its segment.
pub(crate) type Shuffle = fn(usize, usize, usize) -> usize;
/// The result of the lanes that vote with yes, and of all that vote.
pub(crate) type Vote = fn(u32, u32) -> u32;
/// The result of how many threads have a predicate, and of how many there are.
pub(crate) type Reduce = fn(u32, u32) -> u32;

/// 9.7.13.15 mbarrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mbarrier {
    Init,
    Inval,
    Arrive {
        drop: bool,
    },
    /// `.parity` or a state; it gives way to other warps.
    Wait {
        parity: bool,
    },
}

/// Driver functions that kernels call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum System {
    /// `vprintf`
    Print,
    /// `__assertfail`
    Assert,
    /// `cudaGraphSetConditional`
    SetConditional,
}

/// An instruction without a loop of its own: what it does, its results (a sink has none) and its sources.
pub(crate) struct Extra {
    pub op: Op,
    pub d: Vec<Option<Slot>>,
    pub s: Vec<Slot>,
    pub address: Address,
    /// The lanes that take part: `.sync`.
    pub members: Option<Slot>,
}

pub(crate) enum Op {
    Scalar(Scalar),
    /// A function of the old value, the element's source, and (of `cas`) the last source.
    Atomic {
        function: Scalar,
        bytes: u64,
    },
    Shuffle {
        from: Shuffle,
        up: bool,
    },
    Vote(Vote),
    Match {
        all: bool,
    },
    Redux(Scalar),
    ActiveMask,
    WarpBarrier,
    Barrier {
        arrive: bool,
        reduce: Option<Reduce>,
    },
    CopyAsync {
        from: Address,
        bytes: u32,
    },
    Mbarrier(Mbarrier),
    /// 9.7.14.5.15 ldmatrix, .16 stmatrix: 8 × 8 matrices of 16 bits.
    Matrix {
        transposed: bool,
        store: bool,
    },
    /// With the numbers of registers of `a` and of `b`.
    Mma {
        form: Mma,
        a: usize,
        b: usize,
    },
    /// The upper or lower bits of cycles or nanoseconds.
    Clock {
        cycles: bool,
        shift: u32,
    },
    Sleep,
    Fence,
    /// Around a call that may come back to the caller: registers and variables, except results (bytes of local memory, or a slot).
    Save,
    Restore(Vec<(u32, u32, Option<Slot>)>),
    /// Parameters of calls: bytes of a thread's local memory.
    Copy {
        from: u32,
        to: u32,
        bytes: u32,
    },
    /// Where arguments and result are in local memory.
    Call {
        system: System,
        arguments: Vec<u32>,
        result: Option<u32>,
    },
    Trap,
}

/// Where an instruction comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub line: u32,
    pub source: (u32, u32),
}

/// A kernel that is ready to run, with the functions it calls. It keeps what it needs of its module.
#[derive(Default)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) text: Arc<str>,
    pub(crate) files: Vec<(u32, String)>,
    pub(crate) code: Vec<Inst>,
    pub(crate) places: Vec<Place>,
    pub(crate) accesses: Vec<Access>,
    pub(crate) extras: Vec<Extra>,
    pub(crate) tables: Vec<Vec<u32>>,
    pub(crate) constants: Vec<(Slot, Constant)>,
    pub(crate) words: usize,
    pub(crate) longs: usize,
    pub(crate) preds: usize,
    pub(crate) shared_bytes: usize,
    pub(crate) dynamic_shared: u64,
    pub(crate) local_bytes: usize,
    pub(crate) parameter_bytes: usize,
    pub(crate) parameters: Vec<crate::Parameter>,
    pub(crate) variables: usize,
    pub(crate) max_threads: Option<u32>,
    pub(crate) required_threads: Option<[u32; 3]>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .field("instructions", &self.code.len())
            .finish_non_exhaustive()
    }
}

impl Program {
    /// The most threads of a block, if the kernel declares a limit.
    pub fn max_threads(&self) -> Option<u32> {
        self.max_threads
    }

    /// The kernel's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parameters, as in [`Kernel::parameters`](crate::Kernel::parameters).
    pub fn parameters(&self) -> &[crate::Parameter] {
        &self.parameters
    }

    /// Bytes of shared memory that the kernel declares: `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`.
    pub fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// Bytes of local memory of a thread: `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
    pub fn local_bytes(&self) -> usize {
        self.local_bytes
    }

    /// How many 32-bit registers of a thread hold values at the same time, at most 255. ptxas may need more or fewer.
    pub fn registers(&self) -> usize {
        (self.words + 2 * self.longs).min(255)
    }

    /// The text of a line of the module.
    pub(crate) fn line(&self, line: u32) -> &str {
        self.text
            .lines()
            .nth(line.saturating_sub(1) as usize)
            .unwrap_or("")
            .trim()
    }
}
