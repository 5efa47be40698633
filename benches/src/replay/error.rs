//! Errors of a replay.

use um_backend::profile::ProfileError;
use cuda_um_sim::SimError;

/// The reason why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The simulated machine cannot be built.
    #[error("the simulated machine: {0}")]
    Machine(#[from] SimError),
    /// A call of the replay failed, for example because the machine has too little memory.
    #[error("{operation}: {cause}")]
    Operation {
        /// The replayed operation.
        operation: String,
        /// The error of CUDA or the library.
        cause: cuda_um::Error,
    },
    /// The replay would need more host memory than the limit.
    #[error(
        "allocating `{name}` ({bytes} bytes) would need more than the {most} bytes that a replay may use at once"
    )]
    TooLarge {
        /// The buffer that does not fit.
        name: String,
        /// Its size.
        bytes: u64,
        /// The value of [`Replay::max_bytes`](crate::replay::Replay::max_bytes).
        most: u64,
    },
    /// A copy from or to the program's own memory would need more host memory than the limit.
    #[error(
        "operation {operation} copies {bytes} bytes from or to the program's own memory, and this would need more than the {most} bytes that a replay may use at once"
    )]
    CopyTooLarge {
        /// The operation's id.
        operation: u64,
        /// The bytes that it copies.
        bytes: u64,
        /// The value of [`Replay::max_bytes`](crate::replay::Replay::max_bytes).
        most: u64,
    },
    /// The replay would take too long.
    #[error(
        "the host touches, copies, fills or migrates back {bytes} bytes in this trace; the limit of a replay is {most}"
    )]
    TooMuchWork {
        /// The sum over all such operations.
        bytes: u64,
        /// The value of [`Replay::max_host_bytes`](crate::replay::Replay::max_host_bytes).
        most: u64,
    },
    /// The replay could not be recorded.
    #[error("the replay cannot be recorded: {0}")]
    Profile(#[from] ProfileError),
    /// The trace has no buffer of that name.
    #[error("no buffer of the trace is named `{name}`; there are: {known}")]
    NoSuchBuffer {
        /// The requested name.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The trace contradicts itself.
    #[error("operation {operation}: {why}")]
    Inconsistent {
        /// The operation's id.
        operation: u64,
        /// The contradiction.
        why: String,
    },
}
