//! A group of ranks, and what they do together.
#![allow(unsafe_code, reason = "calls MPI")]

use crate::MpiError;
use crate::abi::{BYTE, Functions, Handle, IN_PLACE, REQUEST_NULL};
use crate::header::{ALL_GATHER, BARRIER, BROADCAST, END, Header};
use crate::state::{BUSY, State};
use cuda_um_locks::Mutex;
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::time::Duration;
use um_search::World;

/// A group of ranks: the [`World`] of a search. [`Mpi::world`](crate::Mpi::world) has all ranks of the program.
///
/// # Ordering
/// Every operation is collective: all ranks of the communicator call the same operations in the same order, and each one waits until all ranks
/// have called it. Before an operation the ranks exchange what they are about to do, so that different calls are an error on all ranks
/// ([`MpiError::Order`]) and not a hang; the communicator can be used again. Threads that share a communicator take turns.
///
/// # Errors
/// After an error other than [`MpiError::Order`], [`MpiError::Protocol`] and [`MpiError::NoSuchRank`], MPI is unusable: each later
/// call returns the same error, and the drop of [`Mpi`](crate::Mpi) ends all ranks.
#[doc(alias = "MPI_Comm")]
pub struct Communicator<'mpi> {
    state: &'static State,
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
        *self.limit.lock() = limit;
    }

    /// Waits until all ranks have called this.
    ///
    /// # Errors
    /// [`MpiError::Order`], [`MpiError::RankLost`], [`MpiError::TimedOut`], or a call of MPI that failed.
    #[doc(alias = "MPI_Barrier")]
    pub fn barrier(&self) -> Result<(), MpiError> {
        let _turn = self.turn.lock();
        self.agree(self.limit(), Header::new(BARRIER, 0, 0))
            .map(drop)
    }

    /// Waits until all ranks have dropped their `Mpi`. A rank that still wants to do something gets an error.
    pub(crate) fn end(&self) -> Result<(), MpiError> {
        let _turn = self.turn.lock();
        loop {
            match self.agree(self.limit(), Header::new(END, 0, 0)) {
                Err(MpiError::Order { .. }) => {}
                other => return other.map(drop),
            }
        }
    }

    fn limit(&self) -> Option<Duration> {
        *self.limit.lock()
    }

    /// Exchanges what the ranks are about to do. All have arrived when this returns.
    fn agree(&self, limit: Option<Duration>, ours: Header) -> Result<Vec<Header>, MpiError> {
        if let Some(error) = self.state.broken.get() {
            return Err(error.clone());
        }
        let mut all = vec![ours; self.size];
        let buffer = all.as_mut_ptr().cast::<c_void>();
        let (of, each) = (self.handle, size_of::<Header>() as c_int);
        // The other ranks may arrive much later.
        let all = self.run(&ours, limit, BUSY, all, |functions, request| {
            // SAFETY: the buffer has room for all ranks, any bytes are a header, and it lives until the operation ends (`run`).
            unsafe { functions.iallgather(IN_PLACE, 0, BYTE, buffer, each, BYTE, of, request) }
        })?;
        ours.agrees_with(&all)?;
        Ok(all)
    }

    /// Starts an operation on `buffers` and waits for it. After an error the buffers are never freed, because MPI may still use them.
    fn run<B>(
        &self,
        operation: &Header,
        limit: Option<Duration>,
        busy: Duration,
        buffers: B,
        start: impl FnOnce(&Functions, &mut Handle) -> Result<(), MpiError>,
    ) -> Result<B, MpiError> {
        let mut request = REQUEST_NULL;
        let started = start(&self.state.functions, &mut request);
        match started.and_then(|()| self.state.wait(request, operation, limit, busy)) {
            Ok(()) => Ok(buffers),
            Err(error) => {
                std::mem::forget(buffers);
                Err(self.state.break_with(error))
            }
        }
    }

    pub(crate) fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, MpiError> {
        let _turn = self.turn.lock();
        let limit = self.limit();
        let ours = Header::new(ALL_GATHER, 0, mine.len());
        let headers = self.agree(limit, ours)?;
        let mut counts: Vec<i64> = headers.iter().map(|header| header.bytes as i64).collect();
        let (mut places, mut total) = (Vec::new(), 0_u64);
        for &count in &counts {
            places.push(total as isize);
            total = total.saturating_add(count as u64);
        }
        let mut all = self.memory(total)?;
        all[places[self.rank] as usize..][..mine.len()].copy_from_slice(mine);
        if total > i32::MAX as u64 {
            // MPI_Iallgatherv_c of MPICH 5.0.2 does not end if a count has more than 31 bits.
            for root in 0..self.size {
                let part = (places[root] as usize, counts[root]);
                all = self.pass_on(all, part, root, &ours, limit)?;
            }
        } else {
            let (of, buffer) = (self.handle, all.as_mut_ptr().cast::<c_void>());
            let (each, at) = (counts.as_ptr(), places.as_ptr());
            let buffers = (all, counts, places);
            (all, counts, places) = self.run(
                &ours,
                limit,
                Duration::MAX,
                buffers,
                |functions, request| {
                    // SAFETY: the buffer has room for the counts at their places; it and the lists live until the operation ends (`run`).
                    unsafe {
                        functions
                            .iallgatherv_c(IN_PLACE, 0, BYTE, buffer, each, at, BYTE, of, request)
                    }
                },
            )?;
        }
        let parts = places.iter().zip(&counts);
        let parts = parts.map(|(&place, &count)| all[place as usize..][..count as usize].to_vec());
        Ok(parts.collect())
    }

    fn send_from(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), MpiError> {
        let _turn = self.turn.lock();
        let limit = self.limit();
        let ours = Header::new(BROADCAST, root, bytes.len());
        let headers = self.agree(limit, ours)?;
        // After the exchange, so that the ranks with another root do not wait for this one.
        let size = self.size;
        let count = headers.get(root).map(|header| header.bytes);
        let count = count.ok_or(MpiError::NoSuchRank { root, size })?;
        let message = match self.rank == root {
            true => std::mem::take(bytes),
            false => self.memory(count)?,
        };
        *bytes = self.pass_on(message, (0, count as i64), root, &ours, limit)?;
        Ok(())
    }

    /// Sends the bytes at a place of the memory from one rank to all.
    fn pass_on(
        &self,
        mut memory: Vec<u8>,
        (place, count): (usize, i64),
        root: usize,
        operation: &Header,
        limit: Option<Duration>,
    ) -> Result<Vec<u8>, MpiError> {
        let part = memory[place..][..count as usize].as_mut_ptr();
        let (of, buffer) = (self.handle, part.cast::<c_void>());
        self.run(
            operation,
            limit,
            Duration::MAX,
            memory,
            |functions, request| {
                // SAFETY: the buffer has `count` bytes on each rank, and lives until the operation ends (`run`).
                unsafe { functions.ibcast_c(buffer, count, BYTE, root as c_int, of, request) }
            },
        )
    }

    /// Memory for what the other ranks send. Without it this rank cannot take part, so the other ranks must not wait.
    fn memory(&self, bytes: u64) -> Result<Vec<u8>, MpiError> {
        let memory = usize::try_from(bytes).map(bytemuck::try_zeroed_vec);
        match memory {
            Ok(Ok(memory)) => Ok(memory),
            _ => Err(self.state.break_with(MpiError::OutOfMemory { bytes })),
        }
    }
}

impl World for Communicator<'_> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, Box<dyn Error + Send + Sync>> {
        Ok(self.gather(bytes)?)
    }

    fn broadcast(
        &self,
        bytes: &mut Vec<u8>,
        root: usize,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(self.send_from(root, bytes)?)
    }
}

impl std::fmt::Debug for Communicator<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator(rank {} of {})", self.rank, self.size)
    }
}
