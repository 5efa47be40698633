//! NCCL, NVIDIA's library of collective operations: the few functions that move and reduce buffers of several devices.
//!
//! For a real runtime, libnccl is opened at run time like libcudart. If a [`Table`](crate::Table) is filled from other symbols, as
//! the simulator does, NCCL's symbols are looked up there too.

mod types;

pub use types::*;

use crate::bindings::common::cudaStream_t;
use crate::optional::library;
use std::ffi::{c_char, c_int, c_void};

/// Opens libnccl, in the same way as [`Table::nccl`](crate::Table::nccl) for a loaded runtime.
///
/// # Errors
/// As for [`Table::nccl`](crate::Table::nccl).
pub fn open_nccl() -> Result<Nccl, NcclError> {
    // The name is the same in all versions from 2.0 on. The folders are those of a toolkit, or of an installation of NCCL.
    Nccl::open("libnccl.so.2", &["lib64", "lib"])
}

// The configuration of the oldest version, `ncclConfig_t`, is the one that newer versions read.
library! {
    "NCCL" in "CUDA_UM_NCCL" from "2.17.0";
    /// The functions of one NCCL: a real libnccl, or the functions of a [`Table`](crate::Table).
    ///
    /// It derefs to [`NcclFunctions`] and keeps their library alive. Only [`Table::nccl`](crate::Table::nccl) and [`open_nccl`] return it, so
    /// safe code may rely on the documented behaviour of the functions.
    Nccl: NcclFunctions, NcclError;
    /// The version that it reports: 21605 is 2.16.5, and 2805 is 2.8.5.
    found: i32 = ncclGetVersion() >= 21_700;
    /// The version: 22707 is 2.27.7.
    #[doc(alias = "ncclGetVersion")]
    version;
    functions return ncclResult_t;
    /// `ncclGetVersion`: 22707 for version 2.27.7.
    ncclGetVersion(version: *mut c_int);
    /// `ncclGetUniqueId`: what the ranks of a new communicator need to find each other.
    ncclGetUniqueId(id: *mut ncclUniqueId);
    /// `ncclCommInitRankConfig`: a communicator of the current device.
    ncclCommInitRankConfig(communicator: *mut ncclComm_t, ranks: c_int, id: ncclUniqueId, rank: c_int, config: *mut ncclConfig_t);
    /// `ncclCommDestroy`: waits for the work of the communicator and frees it.
    ncclCommDestroy(communicator: ncclComm_t);
    /// `ncclCommAbort`: ends the work of the communicator and frees it.
    ncclCommAbort(communicator: ncclComm_t);
    /// `ncclCommGetAsyncError`: the state of a communicator.
    ncclCommGetAsyncError(communicator: ncclComm_t, state: *mut ncclResult_t);
    /// `ncclGetErrorString`: the text of a result.
    ncclGetErrorString(result: ncclResult_t) -> *const c_char;
    /// `ncclGetLastError`: the text of the last failure; the communicator may be null.
    ncclGetLastError(communicator: ncclComm_t) -> *const c_char;
    /// `ncclGroupStart`: calls of this thread begin nothing until `ncclGroupEnd`.
    ncclGroupStart();
    /// `ncclGroupEnd`: begins the calls of the group together.
    ncclGroupEnd();
    /// `ncclBroadcast`: the elements of one rank, for all.
    ncclBroadcast(
        source: *const c_void, target: *mut c_void, count: usize, datatype: ncclDataType_t, root: c_int,
        communicator: ncclComm_t, stream: cudaStream_t,
    );
    /// `ncclAllReduce`: the reduced elements of all ranks, for all.
    ncclAllReduce(
        source: *const c_void, target: *mut c_void, count: usize, datatype: ncclDataType_t, operation: ncclRedOp_t,
        communicator: ncclComm_t, stream: cudaStream_t,
    );
    /// `ncclReduceScatter`: the reduced elements of all ranks, a part for each. `count` is the size of a part.
    ncclReduceScatter(
        source: *const c_void, target: *mut c_void, count: usize, datatype: ncclDataType_t, operation: ncclRedOp_t,
        communicator: ncclComm_t, stream: cudaStream_t,
    );
    /// `ncclAllGather`: the elements of all ranks, for all. `count` is the size of a part.
    ncclAllGather(
        source: *const c_void, target: *mut c_void, count: usize, datatype: ncclDataType_t,
        communicator: ncclComm_t, stream: cudaStream_t,
    );
    /// `ncclSend`: elements for one other rank.
    ncclSend(
        source: *const c_void, count: usize, datatype: ncclDataType_t, peer: c_int, communicator: ncclComm_t, stream: cudaStream_t,
    );
    /// `ncclRecv`: elements of one other rank.
    ncclRecv(
        target: *mut c_void, count: usize, datatype: ncclDataType_t, peer: c_int, communicator: ncclComm_t, stream: cudaStream_t,
    );
}
