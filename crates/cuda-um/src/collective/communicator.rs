//! Communicators: one rank each.

use crate::context::device::Device;
use crate::context::devices::check_list;
use crate::context::reclaim::Deferred;
use crate::context::stream::Stream;
use crate::context::tracker::{Access, InFlight, Use};
use crate::driver::nccl::{NcclComm, Rank};
use crate::driver::owned::Owned;
use crate::error::{Error, Result};
use crate::fork;
use crate::sync::thread;
use cuda_um_locks::{Mutex, MutexGuard};
use cuda_um_sys::ncclResult_t;
use std::fmt;
use std::time::{Duration, Instant};

/// What the ranks of a new clique need to find each other: 128 bytes, which one of them makes and passes to all others.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::{DeviceBuffer, collective::{Communicator, Reduce, UniqueId}};
/// use std::time::Duration;
///
/// let id = UniqueId::new(&device)?.to_bytes(); // in one process, which sends the bytes to the others
/// let limit = Duration::from_secs(30);
/// let rank = Communicator::join(&device, &UniqueId::from_bytes(id), 0, 1, limit)?; // rank 0 of 1
///
/// let stream = device.create_stream()?;
/// let (part, mut whole) = (DeviceBuffer::from_slice(&device, &[1.0f32, 2.0])?, DeviceBuffer::zeroed(&device, 2)?);
/// rank.all_reduce(&part, &mut whole, Reduce::Max).on(&stream).run()?;
/// rank.reduce_scatter(&part, &mut whole, Reduce::Sum).on(&stream).run()?;
/// rank.all_gather_in_place(&mut whole).on(&stream).run()?;
/// rank.broadcast(&mut whole, 0).on(&stream).run()?;
/// rank.wait(&stream, limit)?; // aborts the clique if a rank is lost
/// if rank.check().is_err() {
///     rank.abort()?;
/// }
/// rank.close()?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
#[doc(alias = "ncclUniqueId")]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; 128]);

impl UniqueId {
    /// Makes an id. The process must live until all ranks have joined.
    ///
    /// # Errors
    ///
    /// [`Error::NotSupported`] without NCCL, and the errors of `ncclGetUniqueId`.
    #[doc(alias = "ncclGetUniqueId")]
    pub fn new(device: &Device) -> Result<Self> {
        device.api().nccl_unique_id(device.ordinal()).map(Self)
    }

    /// The bytes, for the program's own transport.
    pub fn to_bytes(self) -> [u8; 128] {
        self.0
    }

    /// The id that another process made.
    pub fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("UniqueId").finish_non_exhaustive()
    }
}

/// One rank of a clique of devices.
///
/// The operations of a rank are made by one thread at a time: a second one gets [`Error::Busy`]. A drop does not wait: the rank ends when its
/// operations are done, and, if it [joined](Self::join) others, when NCCL has also ended theirs.
#[doc(alias = "ncclComm_t")]
pub struct Communicator {
    device: Device,
    id: UniqueId,
    rank: Rank,
    pub(super) limit: Option<Duration>,
    /// `None` once it is aborted. A use keeps the lock, also while it waits: no thread waits for it, so `sync` does not count it.
    raw: Mutex<Option<Owned<NcclComm>>>,
    /// All ranks were made by one call.
    is_whole: bool,
    pub(super) in_flight: InFlight,
}

/// A use of a communicator by one thread.
pub(super) type Used<'a> = MutexGuard<'a, Option<Owned<NcclComm>>>;

impl Communicator {
    /// Makes a clique of devices of one runtime: the rank of each is its place in the list. The call waits until the ranks are connected.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for an empty list and for a device that is in it twice, [`Error::RuntimeMismatch`],
    /// [`Error::NotSupported`] without NCCL, and the errors of `ncclCommInitRankConfig`.
    #[doc(alias = "ncclCommInitAll")]
    pub fn all(devices: &[Device]) -> Result<Vec<Self>> {
        let first = check_list(devices)?;
        Self::make(devices, UniqueId::new(first)?, 0, devices.len(), None)
    }

    /// Joins a clique as one of `ranks` ranks, which have the same id, on any devices of any processes. The call waits until all of them have joined.
    ///
    /// With a `limit`, this call and each later operation fail and abort the communicator if they take longer to begin, and NCCL starts a
    /// thread for each group (some 10 us). With [`Duration::MAX`] they wait for ever for a rank that is lost.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for a rank that is not below `ranks`, [`Error::NotSupported`] without NCCL, [`Error::Collective`] at the
    /// limit, and the errors of `ncclCommInitRankConfig`.
    #[doc(alias = "ncclCommInitRank")]
    #[doc(alias = "ncclCommInitRankConfig")]
    pub fn join(
        device: &Device,
        id: &UniqueId,
        rank: usize,
        ranks: usize,
        limit: Duration,
    ) -> Result<Self> {
        if rank >= ranks || i32::try_from(ranks).is_err() {
            return Err(Error::InvalidArgument {
                what: "the rank",
                value: format!("{rank} of {ranks}"),
                reason: "ranks are numbered from 0, up to 2^31".to_owned(),
            });
        }
        let limit = Some(limit).filter(|limit| *limit < Duration::MAX);
        let mut made = Self::make(std::slice::from_ref(device), *id, rank, ranks, limit)?;
        Ok(made.swap_remove(0))
    }

    fn make(
        devices: &[Device],
        id: UniqueId,
        first: usize,
        ranks: usize,
        limit: Option<Duration>,
    ) -> Result<Vec<Self>> {
        fork::check("ncclCommInitRankConfig")?;
        let rank = |(index, device): (usize, &Device)| Rank {
            rank: first + index,
            ranks,
            ordinal: device.ordinal(),
        };
        let all: Vec<_> = devices.iter().enumerate().map(rank).collect();
        devices[0].state().driver.peers.lock().keep();
        let made = devices[0].api().nccl_join(id.0, &all, limit)?;
        let made = made.into_iter().zip(devices).map(|(raw, device)| Self {
            device: device.clone(),
            id,
            rank: raw.raw().1,
            limit,
            raw: Mutex::new(Some(raw)),
            is_whole: devices.len() == ranks,
            in_flight: InFlight::default(),
        });
        Ok(made.collect())
    }

    /// The number of this rank; the first is 0.
    pub fn rank(&self) -> usize {
        self.rank.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.rank.ranks
    }

    /// The device of this rank.
    pub fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn clique(&self) -> UniqueId {
        self.id
    }

    /// Asks if an earlier operation failed, here or on another rank. The call does not wait.
    ///
    /// # Errors
    ///
    /// [`Error::Collective`], [`Error::Sticky`], and [`Error::Busy`] while another thread uses the communicator.
    #[doc(alias = "ncclCommGetAsyncError")]
    pub fn check(&self) -> Result<()> {
        let (raw, _used) = self.begin_use()?;
        self.device.api().nccl_is_done(raw).map(drop)
    }

    /// Waits until the stream's work is done. If an operation failed, or at the limit, the communicator is aborted, and its work on
    /// the stream ends: then the contents of the targets are unspecified. A failure may also be that of an operation before them.
    ///
    /// # Errors
    ///
    /// [`Error::Collective`] for a failure or at the limit, the errors of [`check`](Self::check) and those of `cudaStreamQuery`.
    pub fn wait(&self, stream: &Stream, limit: Duration) -> Result<()> {
        stream.check_capture("Communicator::wait")?;
        let limit = (Instant::now(), limit);
        let waited = self.rank.wait("Communicator::wait", limit, |is_late| {
            // Before the check: a failure may end the work.
            let is_done = stream.is_idle()?;
            match self.check() {
                Err(Error::Busy { .. }) if is_done || !is_late => Ok(is_done),
                checked => checked.map(|()| is_done),
            }
        });
        // A query that fails is no failure of an operation. The failure is the error; that of the abort has no remedy.
        waited.inspect_err(|error| match error {
            Error::Collective { .. } | Error::Sticky { .. } => drop(self.abort()),
            _ => {}
        })
    }

    /// Ends the operations of this rank that are not done, and refuses later ones. Those of the other ranks do not end by that: they see an
    /// error, or wait. The contents of the targets are unspecified.
    ///
    /// # Errors
    ///
    /// [`Error::Busy`] while another thread uses the communicator, and the errors of `ncclCommAbort`.
    #[doc(alias = "ncclCommAbort")]
    pub fn abort(&self) -> Result<()> {
        self.abort_in_use(&mut self.lock()?)
    }

    /// Aborts the communicator, which this thread uses.
    pub(super) fn abort_in_use(&self, used: &mut Used<'_>) -> Result<()> {
        let raw = used.take().map(|raw| raw.kept().raw());
        raw.map_or(Ok(()), |raw| self.device.api().nccl_abort(raw))
    }

    /// Waits for the operations of this rank and ends it. A drop does the same without the wait and without an error. NCCL also waits until the
    /// ranks of other processes end.
    ///
    /// # Errors
    ///
    /// The errors of the wait and of `ncclCommDestroy`.
    #[doc(alias = "ncclCommDestroy")]
    #[doc(alias = "ncclCommFinalize")]
    pub fn close(mut self) -> Result<()> {
        fork::check("ncclCommDestroy")?;
        let uses = self.in_flight.before(Access::Write);
        let waited = uses.iter().try_for_each(Use::wait);
        let ended = self.raw.get_mut().take().map_or(Ok(()), Owned::destroy);
        waited.and(ended)
    }

    fn lock(&self) -> Result<Used<'_>> {
        self.raw.try_lock().ok_or_else(|| Error::Busy {
            what: format!("rank {} of {}", self.rank.rank, self.rank.ranks),
            by: "another thread uses the communicator: make calls of one rank from one thread at a time"
                .to_owned(),
        })
    }

    /// Begins a use by this thread, which the drop of the second value ends.
    pub(super) fn begin_use(&self) -> Result<(NcclComm, Used<'_>)> {
        let used = self.lock()?;
        let raw = used.as_ref().map(Owned::raw).ok_or_else(|| {
            let (call, result) = ("a collective operation", ncclResult_t::ncclInvalidUsage);
            let message = "the communicator was aborted: make another one".to_owned();
            self.rank.error(call, result, message)
        })?;
        Ok((raw, used))
    }
}

impl Drop for Communicator {
    fn drop(&mut self) {
        // Otherwise the drop of the handle does nothing, either.
        let Some(raw) = self.raw.get_mut().take().filter(|_| !fork::is_over()) else {
            return;
        };
        let uses = self.in_flight.before(Access::Write);
        if self.is_whole {
            return self.device.destroy_after(uses, raw);
        }
        // On a thread of its own, because NCCL waits there for the ranks of other processes (measured:
        // docs/results/h200-x4-cuda-13.0/peer-access.txt).
        let raw = raw.kept();
        let end = move || {
            let thread = thread::Builder::new().name("cuda-um-nccl".to_owned());
            let begun = thread.spawn(|| raw.end()).map(drop);
            begun.map_err(|error| Error::Other(Box::new(error)))
        };
        self.device.reclaim().defer(Deferred {
            uses,
            what: format!("a communicator on device {}", self.rank.ordinal),
            release: Box::new(end),
        });
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Communicator").field(&self.rank).finish()
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_second_thread_is_refused_until_the_first_is_done() {
        let sim = cuda_um_sim::Sim::builder().build().unwrap();
        let runtime = crate::Runtime::from_table(sim.table()).unwrap();
        let device = runtime.device(0).unwrap();
        let rank = Communicator::all(&[device]).unwrap().pop().unwrap();
        let used = rank.lock().unwrap();
        let busy = |outcome: Result<()>| matches!(outcome, Err(Error::Busy { .. }));
        assert!(busy(rank.check()) && busy(rank.abort()));
        drop(used);
        rank.check().unwrap();
    }
}
