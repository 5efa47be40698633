//! The calls of a group.

use cuda_um_sys as sys;
use std::ffi::c_void;
use sys::{Nccl, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};

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

impl Call {
    /// # Safety
    ///
    /// The communicator is live, used by this thread only, and the memory has the size of the call until its work is done.
    pub(super) unsafe fn make(self, nccl: &Nccl, raw: ncclComm_t) -> ncclResult_t {
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
