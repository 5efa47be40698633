//! A group of ranks, and what they do together.
#![allow(unsafe_code, reason = "calls MPI")]

use crate::MpiError;
use crate::abi::{BYTE, ERRORS_RETURN, Handle, IN_PLACE, REQUEST_NULL};
use crate::header::{Header, Kind};
use crate::state::{Patience, State};
use cuda_um_locks::Mutex;
use std::error::Error;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
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
    /// Takes over a communicator of MPI.
    pub(crate) fn new(
        state: &'static State,
        handle: Handle,
        limit: Option<Duration>,
    ) -> Result<Self, MpiError> {
        let functions = &state.functions;
        let (mut rank, mut size): (c_int, c_int) = (0, 0);
        // SAFETY: MPI is initialised, the handle is a communicator of this process, and the pointers are valid.
        let codes = unsafe {
            [
                (functions.comm_set_errhandler)(handle, ERRORS_RETURN),
                (functions.comm_rank)(handle, &mut rank),
                (functions.comm_size)(handle, &mut size),
            ]
        };
        let names = ["MPI_Comm_set_errhandler", "MPI_Comm_rank", "MPI_Comm_size"];
        for (name, code) in names.into_iter().zip(codes) {
            functions.check(name, code)?;
        }
        Ok(Self {
            state,
            handle,
            rank: rank as usize,
            size: size as usize,
            turn: Mutex::new(()),
            limit: Mutex::new(limit),
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
        self.agree(&self.limit(), Header::new(Kind::Barrier, 0, 0))
            .map(drop)
    }

    /// Waits until all ranks have dropped their `Mpi`. A rank that still wants to do something gets an error.
    pub(crate) fn end(&self) -> Result<(), MpiError> {
        let _turn = self.turn.lock();
        loop {
            match self.agree(&self.limit(), Header::new(Kind::End, 0, 0)) {
                Err(MpiError::Order { .. }) => {}
                other => return other.map(drop),
            }
        }
    }

    fn limit(&self) -> Option<Duration> {
        *self.limit.lock()
    }

    /// Exchanges what the ranks are about to do. All have arrived when this returns.
    fn agree(&self, limit: &Option<Duration>, ours: Header) -> Result<Vec<Header>, MpiError> {
        self.state.usable()?;
        let mut bytes = vec![0; self.size * Header::BYTES];
        bytes[self.rank * Header::BYTES..][..Header::BYTES].copy_from_slice(&ours.to_bytes());
        let buffer = bytes.as_mut_ptr().cast::<c_void>();
        let start = |request: &mut Handle| {
            // SAFETY: the buffer has room for all ranks and lives until the operation ends (`run`).
            unsafe {
                (self.state.functions.iallgather)(
                    IN_PLACE,
                    0,
                    BYTE,
                    buffer,
                    Header::BYTES as c_int,
                    BYTE,
                    self.handle,
                    request,
                )
            }
        };
        let patience = Patience {
            limit: *limit,
            sleeps: true,
        };
        let bytes = self.run("MPI_Iallgather", &ours, &patience, bytes, start)?;
        let headers: Vec<Header> = bytes
            .chunks_exact(Header::BYTES)
            .map(Header::from_bytes)
            .collect();
        ours.agrees_with(&headers)?;
        Ok(headers)
    }

    /// Starts an operation on `buffers` and waits for it. After an error the buffers are never freed, because MPI may still use them.
    fn run<B>(
        &self,
        function: &'static str,
        operation: &Header,
        patience: &Patience,
        buffers: B,
        start: impl FnOnce(&mut Handle) -> c_int,
    ) -> Result<B, MpiError> {
        let mut request = REQUEST_NULL;
        let code = start(&mut request);
        let started = self.state.functions.check(function, code);
        match started.and_then(|()| self.state.wait(request, operation, patience)) {
            Ok(()) => Ok(buffers),
            Err(error) => {
                std::mem::forget(buffers);
                Err(self.state.break_with(error))
            }
        }
    }

    /// How to wait for ranks that have all arrived.
    fn at_once(limit: &Option<Duration>) -> Patience {
        Patience {
            limit: *limit,
            sleeps: false,
        }
    }

    pub(crate) fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>, MpiError> {
        let _turn = self.turn.lock();
        let limit = self.limit();
        let ours = Header::new(Kind::AllGather, 0, mine.len());
        let counts: Vec<i64> = self
            .agree(&limit, ours)?
            .iter()
            .map(|header| header.bytes as i64)
            .collect();
        let (mut places, mut total) = (Vec::new(), 0_u64);
        for &count in &counts {
            places.push(total as isize);
            total = total.saturating_add(count as u64);
        }
        let mut all = self.memory(total)?;
        all[places[self.rank] as usize..][..mine.len()].copy_from_slice(mine);
        if total > i32::MAX as u64 {
            // MPI_Iallgatherv_c of MPICH 5.0.2 does not end if a count has more than 31 bits.
            for (root, (&place, &count)) in places.iter().zip(&counts).enumerate() {
                all = self.pass_on(all, (place as usize, count), root, &ours, &limit)?;
            }
            return Ok(divide(&all, &places, &counts));
        }
        let buffer = all.as_mut_ptr().cast::<c_void>();
        let (count_list, place_list) = (counts.as_ptr(), places.as_ptr());
        let start = |request: &mut Handle| {
            // SAFETY: the buffer has room for the counts at their places; it and the lists live until the operation ends (`run`).
            unsafe {
                (self.state.functions.iallgatherv_c)(
                    IN_PLACE,
                    0,
                    BYTE,
                    buffer,
                    count_list,
                    place_list,
                    BYTE,
                    self.handle,
                    request,
                )
            }
        };
        let (all, counts, places) = self.run(
            "MPI_Iallgatherv_c",
            &ours,
            &Self::at_once(&limit),
            (all, counts, places),
            start,
        )?;
        Ok(divide(&all, &places, &counts))
    }

    fn send_from(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), MpiError> {
        let _turn = self.turn.lock();
        let limit = self.limit();
        let ours = Header::new(Kind::Broadcast, root as u64, bytes.len());
        let headers = self.agree(&limit, ours)?;
        // After the exchange, so that the ranks with another root do not wait for this one.
        let size = self.size;
        let count = headers.get(root).map(|header| header.bytes);
        let count = count.ok_or(MpiError::NoSuchRank { root, size })?;
        let message = match self.rank == root {
            true => std::mem::take(bytes),
            false => self.memory(count)?,
        };
        *bytes = self.pass_on(message, (0, count as i64), root, &ours, &limit)?;
        Ok(())
    }

    /// Sends the bytes at a place of the memory from one rank to all.
    fn pass_on(
        &self,
        mut memory: Vec<u8>,
        (place, count): (usize, i64),
        root: usize,
        operation: &Header,
        limit: &Option<Duration>,
    ) -> Result<Vec<u8>, MpiError> {
        let part = memory[place..][..count as usize].as_mut_ptr();
        let buffer = part.cast::<c_void>();
        let start = |request: &mut Handle| {
            // SAFETY: the buffer has `count` bytes on each rank, and lives until the operation ends (`run`).
            unsafe {
                (self.state.functions.ibcast_c)(
                    buffer,
                    count,
                    BYTE,
                    root as c_int,
                    self.handle,
                    request,
                )
            }
        };
        let patience = Self::at_once(limit);
        self.run("MPI_Ibcast_c", operation, &patience, memory, start)
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

/// The bytes of each rank.
fn divide(all: &[u8], places: &[isize], counts: &[i64]) -> Vec<Vec<u8>> {
    let parts = places.iter().zip(counts);
    parts
        .map(|(&place, &count)| all[place as usize..][..count as usize].to_vec())
        .collect()
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

impl Drop for Communicator<'_> {
    fn drop(&mut self) {
        let state = self.state;
        // In a panic the other ranks do not come here.
        let is_over = state.ended.load(Ordering::SeqCst) || std::thread::panicking();
        if is_over || state.broken.get().is_some() {
            return;
        }
        // SAFETY: a communicator of this value only, on which no operation runs. Its error has no consequence.
        unsafe { (state.functions.comm_free)(&mut self.handle) };
    }
}
