//! A group of ranks, and what they do together.
#![allow(unsafe_code, reason = "calls MPI")]

use crate::MpiError;
use crate::abi::{BYTE, Handle, IN_PLACE, REQUEST_NULL};
use crate::header::{ALL_GATHER, BARRIER, BROADCAST, Header, SHORT, copied, zeroed};
use crate::state::{BUSY, State, lock};
use bytemuck::Pod;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use std::time::Duration;
use um_search::World;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Long messages of the same length go together if they are at most this many bytes; others go one by one, without another copy.
const TOGETHER: usize = 64 << 20;

/// A group of ranks: the [`World`] of a search. [`Mpi::world`](crate::Mpi::world) has all ranks of the program.
///
/// # Ordering
/// Every operation is collective: all ranks of the communicator call the same operations in the same order, and each one waits until all ranks
/// have called it. Before an operation the ranks exchange what they are about to do, so that different calls are an error on all ranks
/// ([`MpiError::Order`]) and not a hang; the communicator can be used again. Threads that share a communicator take turns.
///
/// # Errors
/// After an error other than [`MpiError::Order`], [`MpiError::Protocol`], [`MpiError::NoSuchRank`] and [`MpiError::Forked`], MPI is unusable: each later
/// call returns the same error, and the drop of [`Mpi`](crate::Mpi) ends all ranks.
#[doc(alias = "MPI_Comm")]
pub struct Communicator<'mpi> {
    pub(crate) state: &'static State,
    handle: Handle,
    rank: usize,
    size: usize,
    /// Held during an operation.
    turn: Mutex<()>,
    /// The time limit of the operations.
    limit: Mutex<Option<Duration>>,
    mpi: PhantomData<&'mpi ()>,
}

impl Communicator<'_> {
    /// Takes over a communicator of MPI, which is not freed before the end.
    pub(crate) fn new(state: &'static State, handle: Handle) -> Result<Self, MpiError> {
        let (rank, size) = state.functions.take(handle)?;
        Ok(Self {
            state,
            handle,
            rank,
            size,
            turn: Mutex::new(()),
            limit: Mutex::new(None),
            mpi: PhantomData,
        })
    }

    /// Bounds how long an operation that begins later waits for the other ranks; `None`, the default, waits for ever, like MPI.
    ///
    /// Without a limit a rank that ended is still noticed if it ran on this machine, or if the launcher ends the job; a limit also notices a rank
    /// that hangs, and a machine that is gone. It must be longer than the longest work between two operations.
    pub fn set_time_limit(&self, limit: Option<Duration>) {
        *lock(&self.limit) = limit;
    }

    /// Waits until all ranks have called this.
    ///
    /// # Errors
    /// [`MpiError::Order`], [`MpiError::RankLost`], [`MpiError::TimedOut`], or a call of MPI that failed.
    #[doc(alias = "MPI_Barrier")]
    pub fn barrier(&self) -> Result<(), MpiError> {
        self.exchange(BARRIER, 0, &[]).map(drop)
    }

    /// Does an operation together with the other ranks, which gives each one the messages of all.
    pub(crate) fn exchange(
        &self,
        operation: u32,
        root: usize,
        mine: &[u8],
    ) -> Result<Vec<Vec<u8>>, MpiError> {
        // Before the lock, which a child made by fork may find held for ever.
        self.state.check_fork()?;
        let _turn = lock(&self.turn);
        if let Some(error) = self.state.broken.get() {
            return Err(error.clone());
        }
        self.send(&Header::new(operation, root, mine), mine)
            .map_err(|error| match error {
                MpiError::Order { .. } | MpiError::Protocol { .. } => error,
                // Memory may still be in use by an operation that never ends, or the other ranks wait for a message of this one.
                error => self.state.broken.get_or_init(|| error).clone(),
            })
    }

    /// Sends the header, and a long message after it.
    fn send(&self, ours: &Header, mine: &[u8]) -> Result<Vec<Vec<u8>>, MpiError> {
        let limit = *lock(&self.limit);
        // The other ranks may arrive much later.
        let headers = self.gather(ours, std::slice::from_ref(ours), limit, BUSY)?;
        ours.agrees_with(&headers)?;
        let (len, most) = (mine.len(), TOGETHER / self.size);
        if (SHORT + 1..=most).contains(&len) && headers.iter().all(|it| it.bytes == len) {
            let all = self.gather(ours, mine, limit, Duration::MAX)?;
            return all.chunks(len).map(copied).collect();
        }
        let messages = headers.iter().map(Header::message);
        let mut messages = ManuallyDrop::new(messages.collect::<Result<Vec<_>, _>>()?);
        messages[self.rank].copy_from_slice(mine);
        // Not MPI_Iallgatherv_c: that of MPICH 5.0.2 does not end if a count has more than 31 bits.
        for (root, message) in (0..).zip(messages.iter_mut()) {
            if message.len() > SHORT {
                let (buffer, count) = (message.as_mut_ptr().cast(), message.len() as i64);
                let (functions, mut request) = (&self.state.functions, REQUEST_NULL);
                // SAFETY: the buffer has `count` bytes on each rank, and lives until the operation ends, or for ever.
                unsafe {
                    functions.ibcast_c(buffer, count, BYTE, root, self.handle, &mut request)
                }?;
                self.state.wait(request, ours, limit, Duration::MAX)?;
            }
        }
        Ok(ManuallyDrop::into_inner(messages))
    }

    /// The parts of all ranks, which have the same length.
    fn gather<T: Pod>(
        &self,
        operation: &Header,
        mine: &[T],
        limit: Option<Duration>,
        busy: Duration,
    ) -> Result<Vec<T>, MpiError> {
        let mut all = ManuallyDrop::new(zeroed::<T>(mine.len() * self.size)?);
        all[self.rank * mine.len()..][..mine.len()].copy_from_slice(mine);
        let (buffer, each) = (all.as_mut_ptr().cast(), size_of_val(mine) as c_int);
        let (functions, mut request) = (&self.state.functions, REQUEST_NULL);
        let of = self.handle;
        // SAFETY: the buffer has room for the parts of all ranks, and lives until the operation ends, or for ever.
        unsafe { functions.iallgather(IN_PLACE, 0, BYTE, buffer, each, BYTE, of, &mut request) }?;
        self.state.wait(request, operation, limit, busy)?;
        Ok(ManuallyDrop::into_inner(all))
    }
}

impl World for Communicator<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Failure> {
        Ok(self.exchange(ALL_GATHER, 0, bytes)?)
    }

    fn broadcast(&self, bytes: &mut Vec<u8>, root: usize) -> Result<(), Failure> {
        let mine = if root == self.rank { &bytes[..] } else { &[] };
        let all = self.exchange(BROADCAST, root, mine)?;
        let (size, sent) = (self.size, all.into_iter().nth(root));
        *bytes = sent.ok_or(MpiError::NoSuchRank { root, size })?;
        Ok(())
    }
}

impl std::fmt::Debug for Communicator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator(rank {} of {})", self.rank, self.size)
    }
}
