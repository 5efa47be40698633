//! NCCL: communicators, and groups of calls.
#![allow(unsafe_code, reason = "calls NCCL")]

mod call;

pub(crate) use call::{Call, What};

use crate::driver::api::Api;
use crate::driver::check::{Subject, text};
use crate::driver::current::Current;
use crate::driver::owned::Handle;
use crate::error::{Error, Result};
use crate::fork;
use cuda_um_sys as sys;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sys::ncclResult_t;

/// One rank of a communicator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rank {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    pub(crate) ordinal: u32,
}

/// A communicator's handle, and its rank for errors.
#[derive(Clone, Copy)]
pub(crate) struct NcclComm(sys::ncclComm_t, Rank);

// SAFETY: NCCL's communicators may be used from any thread, by one at a time, which `collective` ensures.
unsafe impl Send for NcclComm {}
// SAFETY: as above.
unsafe impl Sync for NcclComm {}

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

impl Api {
    fn nccl(&self) -> Result<Arc<sys::Nccl>> {
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
        work: impl FnOnce(&sys::Nccl) -> ncclResult_t,
    ) -> Result<bool> {
        let nccl = self.nccl()?;
        let result = work(&nccl);
        let checked = self.nccl_check(&nccl, call, of, result);
        checked.map_err(|error| self.lost_or(error, [of]))
    }

    fn nccl_check(
        &self,
        nccl: &sys::Nccl,
        call: &'static str,
        of: Rank,
        result: ncclResult_t,
    ) -> Result<bool> {
        if let ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress = result {
            return Ok(result == ncclResult_t::ncclInProgress);
        }
        fork::check(call)?;
        // SAFETY: any number is permitted, and so is no communicator; both texts live as long as the library.
        let (message, last) = unsafe {
            (
                text((nccl.ncclGetErrorString)(result)),
                text((nccl.ncclGetLastError)(std::ptr::null_mut())),
            )
        };
        let details = if last.is_empty() { "" } else { ": " };
        let message = format!("{message}{details}{}", last.trim());
        Err(nccl_error(call, of, result, message))
    }

    /// The error of the first device of these ranks that is lost, which may be the cause of this one: every call of CUDA for it says so.
    #[cold]
    fn lost_or(&self, error: Error, ranks: impl IntoIterator<Item = Rank>) -> Error {
        let Error::Collective { call, .. } = error else {
            return error;
        };
        let lost = ranks.into_iter().find_map(|of| {
            let asked = Current::set(self, of.ordinal, call).and_then(|_current| {
                let (mut free, mut total) = (0, 0);
                // SAFETY: both pointers are valid for one write.
                let code = unsafe { (self.table.cudaMemGetInfo)(&mut free, &mut total) };
                let subject = || Subject::new(format_args!("rank {} of {}", of.rank, of.ranks));
                self.check(call, code, Some(of.ordinal), subject)
            });
            asked.err().filter(Error::is_sticky)
        });
        lost.unwrap_or(error)
    }

    /// What the ranks of a new communicator need to find each other.
    pub(crate) fn nccl_unique_id(&self, ordinal: u32) -> Result<[u8; 128]> {
        let mut id = sys::ncclUniqueId { internal: [0; 128] };
        let of = Rank {
            rank: 0,
            ranks: 0,
            ordinal,
        };
        let _current = Current::set(self, ordinal, "ncclGetUniqueId")?;
        // SAFETY: the pointer is valid for one write.
        self.nccl_call("ncclGetUniqueId", of, |nccl| unsafe {
            (nccl.ncclGetUniqueId)(&mut id)
        })?;
        Ok(id.internal)
    }

    /// Makes communicators for these ranks of one clique, as one group. With a limit, calls of them return before they are done.
    pub(crate) fn nccl_join(
        &self,
        id: [u8; 128],
        ranks: &[Rank],
        limit: Option<Duration>,
    ) -> Result<Vec<NcclComm>> {
        const CALL: &str = "ncclCommInitRankConfig";
        let mut raw = vec![std::ptr::null_mut(); ranks.len()];
        let mut join = |nccl: &sys::Nccl| -> Result<()> {
            let id = sys::ncclUniqueId { internal: id };
            for (place, of) in raw.iter_mut().zip(ranks) {
                let mut config = sys::ncclConfig_t::INITIALIZER;
                config.blocking = i32::from(limit.is_none());
                let _current = Current::set(self, of.ordinal, CALL)?;
                let (all, rank) = (of.ranks as i32, of.rank as i32);
                // SAFETY: the places are valid for the call, and until the end of the group.
                let result =
                    unsafe { (nccl.ncclCommInitRankConfig)(place, all, id, rank, &mut config) };
                self.nccl_check(nccl, CALL, *of, result)?;
            }
            Ok(())
        };
        let joined = self.nccl_group(ranks[0], &mut join);
        let made = raw.into_iter().zip(ranks).filter(|(raw, _)| !raw.is_null());
        let made: Vec<_> = made.map(|(raw, of)| NcclComm(raw, *of)).collect();
        let waited = joined.and_then(|goes_on| {
            let limit = limit.filter(|_| goes_on);
            self.nccl_wait(made.iter().copied(), CALL, limit)
        });
        if waited.is_err() {
            made.iter().for_each(|made| drop(self.nccl_abort(*made)));
        }
        let waited = waited.map_err(|error| self.lost_or(error, ranks.iter().copied()));
        waited.map(|()| made)
    }

    /// Does calls as one group, which ends also if one fails. Returns true if the group goes on.
    fn nccl_group(
        &self,
        of: Rank,
        calls: &mut dyn FnMut(&sys::Nccl) -> Result<()>,
    ) -> Result<bool> {
        let _current = Current::set(self, of.ordinal, "ncclGroupStart")?;
        let nccl = self.nccl()?;
        // SAFETY: no preconditions.
        let started = unsafe { (nccl.ncclGroupStart)() };
        let started = self.nccl_check(&nccl, "ncclGroupStart", of, started);
        let called = started.and_then(|_| calls(&nccl));
        if called.is_err() {
            self.nccl_fail_group(&nccl);
        }
        // SAFETY: the group of this thread began above; otherwise the call is refused.
        let ended = unsafe { (nccl.ncclGroupEnd)() };
        let ended = self.nccl_check(&nccl, "ncclGroupEnd", of, ended);
        called.and(ended)
    }

    /// Makes the group of this thread fail: without one of its calls the others would wait for ever. A call that is refused does that.
    fn nccl_fail_group(&self, nccl: &sys::Nccl) {
        let mut none = std::ptr::null_mut();
        let mut config = sys::ncclConfig_t::INITIALIZER;
        let id = sys::ncclUniqueId { internal: [0; 128] };
        // SAFETY: the places are valid for the call, which refuses 0 ranks.
        unsafe { (nccl.ncclCommInitRankConfig)(&mut none, 0, id, 0, &mut config) };
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
        let mut each = |nccl: &sys::Nccl| -> Result<()> {
            for &(NcclComm(raw, of), call) in calls {
                // SAFETY: the caller's promise.
                let result = unsafe { call.make(nccl, raw) };
                self.nccl_check(nccl, call.what.name(), of, result)?;
            }
            Ok(())
        };
        let ranks = calls.iter().map(|call| call.0);
        let grouped = self.nccl_group(calls[0].0.1, &mut each);
        let begun = grouped.and_then(|goes_on| {
            self.nccl_wait(ranks.clone(), "ncclGroupEnd", limit.filter(|_| goes_on))
        });
        begun.map_err(|error| self.lost_or(error, ranks.map(|NcclComm(_, of)| of)))
    }

    /// With a limit, waits until what a call began is enqueued.
    fn nccl_wait(
        &self,
        of: impl Iterator<Item = NcclComm>,
        call: &'static str,
        limit: Option<Duration>,
    ) -> Result<()> {
        let (begun, Some(limit)) = (Instant::now(), limit) else {
            return Ok(());
        };
        for communicator in of {
            while self.nccl_state(communicator)? {
                if begun.elapsed() >= limit {
                    return Err(timeout(call, communicator.1, limit));
                }
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        Ok(())
    }

    /// Returns true if a call of the communicator goes on, and the error of one that failed.
    pub(crate) fn nccl_state(&self, NcclComm(raw, of): NcclComm) -> Result<bool> {
        const CALL: &str = "ncclCommGetAsyncError";
        let _current = Current::set(self, of.ordinal, CALL)?;
        let mut state = ncclResult_t::ncclSuccess;
        self.nccl_call(CALL, of, |nccl| {
            // SAFETY: the communicator is live, and the pointer is valid for one write.
            match unsafe { (nccl.ncclCommGetAsyncError)(raw, &mut state) } {
                ncclResult_t::ncclSuccess => state,
                failed => failed,
            }
        })
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

/// The error of work that did not come to its end.
pub(crate) fn timeout(call: &'static str, of: Rank, limit: Duration) -> Error {
    let message = format!(
        "not done after {limit:?}: a rank is lost, or does not make the same calls; the communicator is aborted"
    );
    nccl_error(call, of, ncclResult_t::ncclTimeout, message)
}

pub(crate) fn nccl_error(
    call: &'static str,
    of: Rank,
    result: ncclResult_t,
    message: String,
) -> Error {
    Error::Collective {
        call,
        rank: of.rank,
        ranks: of.ranks,
        code: result.0,
        name: result.name().unwrap_or("a result without a name"),
        message,
    }
}
