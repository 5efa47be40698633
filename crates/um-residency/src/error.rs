//! Errors of working sets.

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
        "{buffer} is `ReadOnly`, and the working set writes it: use `Input`, or make the buffer with `Role::ReadWrite`"
    )]
    ReadOnly {
        /// The buffer.
        buffer: String,
    },
    /// A working set has a buffer twice, and writes it.
    #[error(
        "the working set has {buffer} twice, and writes it: name it once, with `InOut` for both"
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
    /// An error of the layers below.
    #[error(transparent)]
    Cuda(#[from] CudaError),
}
