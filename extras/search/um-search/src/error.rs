//! Errors that are found before a launch.

/// The result of this crate's functions.
pub type Result<T, E = SearchError> = std::result::Result<T, E>;

/// The reason why a search was not launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SearchError {
    /// A buffer does not have the length that the launch needs.
    #[error("{kernel}: `{buffer}` has {found} elements, {expected} are needed")]
    Length {
        /// The search.
        kernel: &'static str,
        /// The buffer, with the name of the launcher's parameter.
        buffer: &'static str,
        /// The required number of elements.
        expected: usize,
        /// The actual number of elements.
        found: usize,
    },
    /// A number is outside of the allowed range.
    #[error("{kernel}: {parameter} is {found}; allowed: {allowed}")]
    Value {
        /// The search.
        kernel: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// The value given.
        found: usize,
        /// The allowed values, as text.
        allowed: String,
    },
    /// The device cannot run the search.
    #[error("{kernel} is not supported here: {reason}")]
    Unsupported {
        /// The search.
        kernel: &'static str,
        /// The reason, as text.
        reason: String,
    },
    /// The part of one device in a search over shards failed. The devices of the other shards keep working.
    #[error("shard {shard}, on device {device}: {cause}")]
    Shard {
        /// The number of the shard in this process, from 0.
        shard: usize,
        /// The ordinal of its device.
        device: u32,
        /// The error of that part.
        #[source]
        cause: Box<SearchError>,
    },
    /// The ranks of a world do not search for the same. Every rank gets this error.
    #[error(
        "the ranks differ in {what}: rank {rank} has {found}, and rank 0 has {expected}: all must give the same"
    )]
    Disagreement {
        /// The value in which they differ.
        what: &'static str,
        /// The first rank that differs from rank 0.
        rank: usize,
        /// Its value.
        found: String,
        /// The value of rank 0.
        expected: String,
    },
    /// Another rank of the world failed in its part of the search, which has no result.
    #[error("rank {rank} failed: {reason}")]
    Rank {
        /// The rank.
        rank: usize,
        /// Its error, as text.
        reason: String,
    },
    /// The ranks could not exchange bytes.
    #[error("{call} between ranks failed: {cause}")]
    World {
        /// The method of [`World`](crate::World).
        call: &'static str,
        /// The error of the transport.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An error of CUDA or of `cuda-um`.
    #[error(transparent)]
    Cuda(#[from] cuda_um::Error),
}

impl SearchError {
    /// True if there is not enough memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Cuda(error) if error.kind() == cuda_um::ErrorKind::OutOfMemory)
    }
}

/// Checks the length of a buffer.
pub(crate) fn length(
    kernel: &'static str,
    buffer: &'static str,
    expected: usize,
    found: usize,
) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(SearchError::Length {
        kernel,
        buffer,
        expected,
        found,
    })
}
