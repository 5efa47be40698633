//! NCCL: communicators, and groups of calls.
#![allow(unsafe_code, reason = "calls NCCL")]

use crate::driver::api::Api;
use crate::driver::check::{Subject, text};
use crate::driver::current::Current;
use crate::driver::owned::{Handle, Owned};
use crate::error::{Error, Result};
use crate::fork;
use cuda_um_sys as sys;
use std::ffi::c_void;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::{Nccl, ncclDataType_t, ncclRedOp_t, ncclResult_t};

/// One rank of a clique.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) ordinal: u32,
}

impl Rank {
    pub(crate) fn error(self, call: &'static str, result: ncclResult_t, message: String) -> Error {
        Error::Collective {
            call,
            rank: self.rank,
            ranks: self.ranks,
            code: result.0,
            name: result.name().unwrap_or("a result without a name"),
            message,
        }
    }

    /// Asks until the answer is true. `is_done` gets true if the limit is over, and is not asked again.
    pub(crate) fn wait(
        self,
        call: &'static str,
        (since, limit): (Instant, Duration),
        mut is_done: impl FnMut(bool) -> Result<bool>,
    ) -> Result<()> {
        loop {
            let is_late = since.elapsed() >= limit;
            if is_done(is_late)? {
                return Ok(());
            }
            if is_late {
                let message = format!(
                    "not done after {limit:?}: a rank is lost, or does not make the same calls; the communicator is aborted"
                );
                return Err(self.error(call, ncclResult_t::ncclTimeout, message));
            }
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}

/// A communicator's handle, and its rank. Any thread may use it, but one at a time, which `collective` ensures.
#[derive(Clone, Copy)]
pub(crate) struct NcclComm(sys::ncclComm_t, pub(crate) Rank);

impl Handle for NcclComm {
    const NAME: &'static str = "a communicator";

    unsafe fn destroy(self, api: &Api, _: u32) -> Result<()> {
        let _current = Current::set_for_release(api, self.1.ordinal, "ncclCommDestroy")?;
        // SAFETY: guaranteed by the caller.
        let done = api.nccl_call("ncclCommDestroy", self.1, |nccl| unsafe {
            (nccl.ncclCommDestroy)(self.0)
        });
        done.map(drop)
    }
}

/// The function of a call, with the arguments that only it has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum What {
    Broadcast { root: usize },
    AllReduce(ncclRedOp_t),
    ReduceScatter(ncclRedOp_t),
    AllGather,
    Send { to: usize },
    Receive { from: usize },
}

impl What {
    /// The name of the function of NCCL.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Broadcast { .. } => "ncclBroadcast",
            Self::AllReduce(_) => "ncclAllReduce",
            Self::ReduceScatter(_) => "ncclReduceScatter",
            Self::AllGather => "ncclAllGather",
            Self::Send { .. } => "ncclSend",
            Self::Receive { .. } => "ncclRecv",
        }
    }
}

/// A call of a group, with checked addresses.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) what: What,
    pub(crate) source: *const c_void,
    pub(crate) target: *mut c_void,
    pub(crate) count: usize,
    pub(crate) datatype: ncclDataType_t,
    pub(crate) stream: sys::cudaStream_t,
}

impl Call {
    /// # Safety
    ///
    /// The communicator is live, used by this thread only, and the memory has the size of the call until its work is done.
    unsafe fn make(self, nccl: &Nccl, raw: sys::ncclComm_t) -> ncclResult_t {
        let (from, to, n) = (self.source, self.target, self.count);
        let (t, stream) = (self.datatype, self.stream);
        // SAFETY: the caller's promise.
        unsafe {
            match self.what {
                What::Broadcast { root } => {
                    (nccl.ncclBroadcast)(from, to, n, t, root as i32, raw, stream)
                }
                What::AllReduce(how) => (nccl.ncclAllReduce)(from, to, n, t, how, raw, stream),
                What::ReduceScatter(how) => {
                    (nccl.ncclReduceScatter)(from, to, n, t, how, raw, stream)
                }
                What::AllGather => (nccl.ncclAllGather)(from, to, n, t, raw, stream),
                What::Send { to: peer } => (nccl.ncclSend)(from, n, t, peer as i32, raw, stream),
                What::Receive { from: peer } => (nccl.ncclRecv)(to, n, t, peer as i32, raw, stream),
            }
        }
    }
}

impl Api {
    fn nccl(&self) -> Result<Arc<Nccl>> {
        self.table.nccl().map_err(|error| Error::NotSupported {
            what: "a collective operation".to_owned(),
            needs: "NCCL 2.17 or newer (libnccl.so.2)".to_owned(),
            have: error.to_string(),
        })
    }

    /// Calls a function of NCCL; the caller makes the device current. Returns true if the call goes on (`ncclInProgress`).
    fn nccl_call(
        &self,
        call: &'static str,
        of: Rank,
        work: impl FnOnce(&Nccl) -> ncclResult_t,
    ) -> Result<bool> {
        let nccl = self.nccl()?;
        let checked = self.nccl_check(call, of, work(&nccl));
        checked.map_err(|error| self.lost_or(error, [of]))
    }

    fn nccl_check(&self, call: &'static str, of: Rank, result: ncclResult_t) -> Result<bool> {
        if let ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress = result {
            return Ok(result == ncclResult_t::ncclInProgress);
        }
        fork::check(call)?;
        let nccl = self.nccl()?;
        // SAFETY: any number is permitted, and so is no communicator; both texts live as long as the library.
        let (message, last) = unsafe {
            (
                text((nccl.ncclGetErrorString)(result)),
                text((nccl.ncclGetLastError)(std::ptr::null_mut())),
            )
        };
        let details = if last.is_empty() { "" } else { ": " };
        Err(of.error(call, result, format!("{message}{details}{}", last.trim())))
    }

    /// The error of the first device of these ranks that is lost, which may be the cause of this one: every call of CUDA for it says so.
    #[cold]
    fn lost_or(&self, error: Error, ranks: impl IntoIterator<Item = Rank>) -> Error {
        let Error::Collective { call, .. } = error else {
            return error;
        };
        let lost = ranks.into_iter().find_map(|of| {
            let subject = || Subject::new(format_args!("rank {} of {}", of.rank, of.ranks));
            let (mut free, mut total) = (0, 0);
            // SAFETY: both pointers are valid for one write.
            let asked = self.on(of.ordinal, call, subject, |table| unsafe {
                (table.cudaMemGetInfo)(&mut free, &mut total)
            });
            asked.err().filter(Error::is_sticky)
        });
        lost.unwrap_or(error)
    }

    /// What the ranks of a new communicator need to find each other.
    pub(crate) fn nccl_unique_id(&self, ordinal: u32) -> Result<[u8; 128]> {
        let mut id = sys::ncclUniqueId { internal: [0; 128] };
        let none = Rank::default();
        let of = Rank { ordinal, ..none };
        let _current = Current::set(self, ordinal, "ncclGetUniqueId")?;
        // SAFETY: the pointer is valid for one write.
        self.nccl_call("ncclGetUniqueId", of, |nccl| unsafe {
            (nccl.ncclGetUniqueId)(&mut id)
        })?;
        Ok(id.internal)
    }

    /// Makes communicators for these ranks of one clique, as one group. With a limit, calls of them return before they are done.
    pub(crate) fn nccl_join(
        self: &Arc<Self>,
        id: [u8; 128],
        ranks: &[Rank],
        limit: Option<Duration>,
    ) -> Result<Vec<Owned<NcclComm>>> {
        const CALL: &str = "ncclCommInitRankConfig";
        let new = |of: &Rank| NcclComm(std::ptr::null_mut(), *of);
        let mut made: Vec<_> = ranks.iter().map(new).collect();
        let begun = self.nccl_group(ranks[0], |nccl| {
            made.iter_mut().try_for_each(|NcclComm(place, of)| {
                let id = sys::ncclUniqueId { internal: id };
                let mut config = sys::ncclConfig_t::INITIALIZER;
                config.blocking = i32::from(limit.is_none());
                let _current = Current::set(self, of.ordinal, CALL)?;
                let (all, rank) = (of.ranks as i32, of.rank as i32);
                // SAFETY: the places are valid for the call, and until the end of the group.
                let result =
                    unsafe { (nccl.ncclCommInitRankConfig)(place, all, id, rank, &mut config) };
                self.nccl_check(CALL, *of, result).map(drop)
            })
        });
        let begun = self.nccl_begun(CALL, begun, made.iter().copied(), limit);
        if begun.is_err() {
            made.retain(|NcclComm(raw, _)| !raw.is_null());
            made.iter().for_each(|made| drop(self.nccl_abort(*made)));
        }
        // SAFETY: the communicator is live, and NCCL waits for its work before it frees it.
        let owned = |made: NcclComm| unsafe { Owned::new(self, made.1.ordinal, made) };
        begun.map(|()| made.into_iter().map(owned).collect())
    }

    /// Does calls as one group, which ends also if one fails. Returns true if the group goes on.
    fn nccl_group(&self, of: Rank, calls: impl FnOnce(&Nccl) -> Result<()>) -> Result<bool> {
        let _current = Current::set(self, of.ordinal, "ncclGroupStart")?;
        let nccl = self.nccl()?;
        // SAFETY: no preconditions.
        let started = unsafe { (nccl.ncclGroupStart)() };
        let started = self.nccl_check("ncclGroupStart", of, started);
        let called = started.and_then(|_| calls(&nccl));
        if called.is_err() {
            // A call that is refused makes the group fail: without one of its calls the others would wait for ever.
            let (mut none, mut config) = (std::ptr::null_mut(), sys::ncclConfig_t::INITIALIZER);
            let id = sys::ncclUniqueId { internal: [0; 128] };
            // SAFETY: the places are valid for the call, which refuses 0 ranks.
            unsafe { (nccl.ncclCommInitRankConfig)(&mut none, 0, id, 0, &mut config) };
        }
        // SAFETY: the group of this thread began above; otherwise the call is refused.
        let ended = unsafe { (nccl.ncclGroupEnd)() };
        let ended = self.nccl_check("ncclGroupEnd", of, ended);
        called.and(ended)
    }

    /// Enqueues calls as one group.
    ///
    /// # Safety
    ///
    /// The communicators are live and used by this thread only. The addresses are valid for the calls until their work is done.
    pub(crate) unsafe fn nccl_enqueue(
        &self,
        calls: &[(NcclComm, Call)],
        limit: Option<Duration>,
    ) -> Result<()> {
        let begun = self.nccl_group(calls[0].0.1, |nccl| {
            calls.iter().try_for_each(|&(NcclComm(raw, of), call)| {
                // SAFETY: the caller's promise.
                let result = unsafe { call.make(nccl, raw) };
                self.nccl_check(call.what.name(), of, result).map(drop)
            })
        });
        self.nccl_begun("ncclGroupEnd", begun, calls.iter().map(|it| it.0), limit)
    }

    /// Waits, with a limit, until what a group began is enqueued.
    fn nccl_begun(
        &self,
        call: &'static str,
        begun: Result<bool>,
        mut of: impl Iterator<Item = NcclComm> + Clone,
        limit: Option<Duration>,
    ) -> Result<()> {
        let (since, ranks) = (Instant::now(), of.clone().map(|NcclComm(_, of)| of));
        let waited = begun.and_then(|goes_on| match limit.filter(|_| goes_on) {
            Some(limit) => {
                of.try_for_each(|it| it.1.wait(call, (since, limit), |_| self.nccl_is_done(it)))
            }
            None => Ok(()),
        });
        waited.map_err(|error| self.lost_or(error, ranks))
    }

    /// Returns false if a call of the communicator goes on, and the error of one that failed.
    pub(crate) fn nccl_is_done(&self, NcclComm(raw, of): NcclComm) -> Result<bool> {
        const CALL: &str = "ncclCommGetAsyncError";
        let _current = Current::set(self, of.ordinal, CALL)?;
        let mut state = ncclResult_t::ncclSuccess;
        let goes_on = self.nccl_call(CALL, of, |nccl| {
            // SAFETY: the communicator is live, and the pointer is valid for one write.
            match unsafe { (nccl.ncclCommGetAsyncError)(raw, &mut state) } {
                ncclResult_t::ncclSuccess => state,
                failed => failed,
            }
        });
        goes_on.map(|goes_on| !goes_on)
    }

    /// Ends the work of a communicator and frees it.
    pub(crate) fn nccl_abort(&self, NcclComm(raw, of): NcclComm) -> Result<()> {
        let _current = Current::set_for_release(self, of.ordinal, "ncclCommAbort")?;
        // SAFETY: the communicator is live, and the caller does not use it again.
        let done = self.nccl_call("ncclCommAbort", of, |nccl| unsafe {
            (nccl.ncclCommAbort)(raw)
        });
        done.map(drop)
    }
}
