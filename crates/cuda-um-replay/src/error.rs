//! What can go wrong.

use cuda_um::profile::ProfileError;
use cuda_um_sim::SimError;

/// Why a trace cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The simulated machine cannot be built.
    #[error("the simulated machine: {0}")]
    Machine(#[from] SimError),
    /// A call of the replay failed: the machine has too little memory, say.
    #[error("{operation}: {cause}")]
    Operation {
        /// What was replayed.
        operation: String,
        /// What CUDA or the library said.
        cause: cuda_um::Error,
    },
    /// The replay would need more of this host's memory than it may have.
    #[error(
        "making `{name}` ({bytes} bytes) would need more than the {most} bytes that a replay may have at once"
    )]
    TooLarge {
        /// The buffer for which there is no room.
        name: String,
        /// Its size.
        bytes: u64,
        /// What [`Replay::max_bytes`](crate::Replay::max_bytes) allows.
        most: u64,
    },
    /// A copy from or to the program's own memory would need more of this host's memory than the replay may have.
    #[error(
        "operation {operation} copies {bytes} bytes from or to memory of the program's own, which would need more than the {most} bytes that a replay may have at once"
    )]
    CopyTooLarge {
        /// The operation's id.
        operation: u64,
        /// How much it copies.
        bytes: u64,
        /// What [`Replay::max_bytes`](crate::Replay::max_bytes) allows.
        most: u64,
    },
    /// The replay would take very long.
    #[error(
        "the host touches, copies, fills or gets back {bytes} bytes in this trace; a replay does so with at most {most}"
    )]
    TooMuchWork {
        /// What all such operations together concern.
        bytes: u64,
        /// What [`Replay::max_host_bytes`](crate::Replay::max_host_bytes) allows.
        most: u64,
    },
    /// The replay could not be recorded.
    #[error("the replay cannot be recorded: {0}")]
    Profile(#[from] ProfileError),
    /// The trace has no buffer of that name.
    #[error("no buffer of the trace is named `{name}`; there are: {known}")]
    NoSuchBuffer {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// The trace contradicts itself.
    #[error("operation {operation}: {why}")]
    Inconsistent {
        /// The operation's id.
        operation: u64,
        /// What is wrong with it.
        why: String,
    },
}
