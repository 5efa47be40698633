//! Errors of working sets and plans.

use cuda_um_plan::PlanError;
use um_backend::CudaError;

/// The result of nearly every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate, or of the layers below ([`Error::Cuda`]). Every message is one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A working set needs more than the budget. Nothing was transferred.
    #[error(
        "the working set needs {needed_bytes} bytes in slots of 2 MiB, and the budget is {budget_bytes} bytes: \
         split the step, or use a larger budget"
    )]
    OverBudget {
        /// The bytes of the set, in whole slots.
        needed_bytes: u64,
        /// The budget, without the slots of forgotten guards of dropped buffers.
        budget_bytes: u64,
    },
    /// The budget is not possible.
    #[error("a budget of {given} is not possible: {reason}")]
    Budget {
        /// The given budget.
        given: String,
        /// The reason, with the values that are allowed.
        reason: String,
    },
    /// A call would wait for a working set that its own thread holds.
    #[error(
        "{call}: this thread would wait for its own working set of {held} guards: drop them first, or put all buffers in one set"
    )]
    WouldDeadlock {
        /// The function of this crate.
        call: &'static str,
        /// The guards that the thread holds.
        held: usize,
    },
    /// A write to a buffer with the role `ReadOnly`.
    #[error(
        "buffer {buffer} is `ReadOnly`, and the working set writes it: use `Input`, or make the buffer with `Role::ReadWrite`"
    )]
    ReadOnly {
        /// The buffer.
        buffer: String,
    },
    /// A working set has a buffer twice, and writes it.
    #[error(
        "the working set has buffer {buffer} twice, and writes it: name it once, with `InOut` for both"
    )]
    Twice {
        /// The buffer.
        buffer: String,
    },
    /// A working set without a buffer, or with buffers of two arenas.
    #[error("a working set has one or more buffers of one arena: this one has {found}")]
    Arenas {
        /// What was found.
        found: &'static str,
    },
    /// Contents that a plan dropped, because the recorded pass does not read them again.
    #[error(
        "the contents of buffer {buffer} are gone: the plan has no use of them after step {last_step}; write the buffer first, or record the pass again"
    )]
    ContentsGone {
        /// The buffer.
        buffer: String,
        /// The last step that uses the buffer in the plan.
        last_step: usize,
    },
    /// A buffer that kernels cannot read in its home.
    #[error("buffer {buffer} cannot be read in place, because {reason}: {advice}")]
    NotInPlace {
        /// The buffer.
        buffer: String,
        /// The role or the home that prevents it.
        reason: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// A pass is already recorded or run on this arena.
    #[error("{call}: a pass of this arena is being recorded or run: end it first")]
    PassActive {
        /// The function of this crate.
        call: &'static str,
    },
    /// A buffer of a program is not in the arena, or several are.
    #[error(
        "the program has buffer {name} ({bytes} bytes), and the arena has {found} buffers with that name, size and role: \
         give each buffer a name of its own with `set_name`"
    )]
    UnknownBuffer {
        /// The name in the program.
        name: String,
        /// The size in the program.
        bytes: u64,
        /// The number of fitting buffers.
        found: usize,
    },
    /// A plan or a program is not valid, or needs a larger budget.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// An error of the layers below.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}

impl Error {
    pub(crate) fn not_in_place(buffer: String, [reason, advice]: [&'static str; 2]) -> Self {
        Self::NotInPlace {
            buffer,
            reason,
            advice,
        }
    }
}
