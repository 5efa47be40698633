//! Several processes that search together.

use std::error::Error;

/// The error of a transport.
type Failure = Box<dyn Error + Send + Sync>;

/// The processes that hold the shards of a search, and their means to exchange bytes: MPI (crate `um-mpi`), or a transport of the program.
///
/// A process is a *rank*, numbered from 0 to [`size`](Self::size) − 1. Each process has one value for each group that it belongs to.
///
/// # Rules for an implementation
/// - `all_gather` and `broadcast` are collective: every rank calls the same methods in the same order, with the same `root`. They may wait
///   until the other ranks call them, too. The search obeys this also if it fails on one rank.
/// - They are called on the thread that called the search, one at a time for a value.
/// - Lengths may differ from rank to rank, and may be 0. Bytes arrive as they were given: the search itself fixes their order (little-endian).
/// - If another rank is lost (its process died, its connection broke), every waiting call fails within a bounded time, and the error names
///   that rank. After an error the search calls no further method for the same operation.
/// - With one rank, both return at once.
///
/// The value `()` is a world of one process.
pub trait World {
    /// The number of this process, from 0 to [`size`](Self::size) − 1.
    #[doc(alias = "MPI_Comm_rank")]
    fn rank(&self) -> usize;

    /// The number of processes, at least 1. It never changes.
    #[doc(alias = "MPI_Comm_size")]
    fn size(&self) -> usize;

    /// Gives each rank the bytes of all ranks, in the order of the ranks: [`size`](Self::size) vectors, of which number
    /// [`rank`](Self::rank) is a copy of `bytes`.
    ///
    /// # Errors
    /// The transport fails, or another rank is lost: the error names it.
    #[doc(alias = "MPI_Allgatherv")]
    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure>;

    /// Replaces `bytes` on each rank by those of the rank `root`, whatever its length was. Without a way of its own: an all-gather.
    ///
    /// # Errors
    /// The transport fails, another rank is lost (the error names it), or `root` is not below [`size`](Self::size).
    #[doc(alias = "MPI_Bcast")]
    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<(), Failure> {
        let mine = if root == self.rank() { &bytes[..] } else { &[] };
        let sent = self.all_gather(mine)?.into_iter().nth(root);
        let size = self.size();
        *bytes =
            sent.ok_or_else(|| format!("rank {root} is not one of the {size} of the world"))?;
        Ok(())
    }
}

/// A world of one process.
impl World for () {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        Ok(vec![bytes.to_vec()])
    }
}

impl<W: World + ?Sized> World for &W {
    fn rank(&self) -> usize {
        (**self).rank()
    }

    fn size(&self) -> usize {
        (**self).size()
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        (**self).all_gather(bytes)
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<(), Failure> {
        (**self).broadcast(bytes, root)
    }
}
