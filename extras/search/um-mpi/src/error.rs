//! Errors of MPI.

use std::time::Duration;

/// The versions that have the ABI, and what to do.
const NEEDED: &str = "the ABI of MPI 5 is in MPICH from 5.0, in Open MPI from 6.0 and in Intel MPI from 2021.18 (a preview): install one of them \
    (`pip install mpich` needs no administrator), start the program with the mpiexec of the same library, and set CUDA_UM_MPI to the path of its \
    libmpi_abi if the system's loader does not find it";

/// The reason why MPI is not available, or why a call of it failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// No MPI library with the ABI of MPI 5 was found.
    #[error("no MPI library with the ABI of MPI 5 found (tried {}); {NEEDED}", tried.join("; "))]
    NotFound {
        /// The libraries that were tried, in order, each with the loader's message, or with its version and what it lacks.
        tried: Vec<String>,
    },
    /// MPI is already initialised in this process, or it was finalised. A process can do this once.
    #[error(
        "MPI was initialised before, and can be only once: keep one Mpi until the program ends"
    )]
    AlreadyInitialized,
    /// This process is a child that a rank made by `fork`. It is not a rank, and calls no function of MPI; its drop of [`Mpi`](crate::Mpi)
    /// does nothing.
    #[error(
        "process {pid} is a child that rank {rank} (PID {parent}) made by fork, and not a rank: only the parent can use MPI"
    )]
    Forked {
        /// This process.
        pid: u32,
        /// The rank of the parent.
        rank: usize,
        /// The process that initialised MPI.
        parent: u32,
    },
    /// The library does not allow calls from several threads.
    #[error("the MPI library has thread level {provided}; MPI_THREAD_MULTIPLE (4096) is needed")]
    ThreadLevel {
        /// The level, as in the ABI: 0 single, 1024 funneled, 2048 serialized.
        provided: i32,
    },
    /// The launcher started several processes, but each one is alone for the MPI library.
    #[error(
        "the launcher says {variable}={value}, but for the MPI library this process is alone: start the program with the mpiexec of the library \
         that is loaded ({library})"
    )]
    OtherLauncher {
        /// The variable of the launcher.
        variable: &'static str,
        /// Its value, the number of processes.
        value: String,
        /// The library that was loaded.
        library: String,
    },
    /// A function of MPI failed.
    #[error("{function} failed: {message} (class {class})")]
    Call {
        /// The C name.
        function: &'static str,
        /// The error's class in the standard, for example 2 (`MPI_ERR_COUNT`).
        class: i32,
        /// The text of `MPI_Error_string`.
        message: String,
    },
    /// The process of another rank ended without finalising MPI.
    #[error(
        "rank {rank} of {size} (PID {pid} at {host}) ended without MPI_Finalize: it was killed, crashed, or left the program early"
    )]
    RankLost {
        /// The rank in the world.
        rank: usize,
        /// The number of ranks in the world.
        size: usize,
        /// Its process.
        pid: u32,
        /// The name of its machine.
        host: String,
    },
    /// The other ranks did not arrive within the time limit.
    #[error(
        "{operation} waited {limit:?} for the other ranks, its time limit: a rank hangs, or does not call it, or needs a longer limit"
    )]
    TimedOut {
        /// The operation.
        operation: String,
        /// The limit of [`Communicator::set_time_limit`](crate::Communicator::set_time_limit).
        limit: Duration,
    },
    /// The ranks called different operations at the same time. All ranks get this error, and the communicator can be used again.
    #[error(
        "rank {rank} called {theirs} while this rank called {ours}: all ranks of a communicator must call the same operations in the same order"
    )]
    Order {
        /// The first rank that differs from this one.
        rank: usize,
        /// Its operation.
        theirs: String,
        /// The operation of this rank.
        ours: String,
    },
    /// The programs of two ranks do not have the same um-mpi.
    #[error(
        "rank {rank} runs version {theirs} of um-mpi's protocol, this rank version {ours}: start the same program on all ranks"
    )]
    Protocol {
        /// The first rank that differs from this one.
        rank: usize,
        /// Its version.
        theirs: u32,
        /// The version of this rank.
        ours: u32,
    },
    /// The root of a broadcast is not a rank.
    #[error("the root {root} is not a rank of this communicator, which has {size}: use 0 to {}", size - 1)]
    NoSuchRank {
        /// The root.
        root: usize,
        /// The number of ranks.
        size: usize,
    },
    /// There is no host memory for the bytes of the other ranks.
    #[error("no host memory for the {bytes} bytes that the ranks send")]
    OutOfMemory {
        /// The bytes.
        bytes: u64,
    },
    /// A rank cannot choose a device where there is none.
    #[error("there is no device to choose from: device_for_local_rank needs at least one")]
    NoDevice,
}
