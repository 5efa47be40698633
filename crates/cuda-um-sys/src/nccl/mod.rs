//! NCCL, NVIDIA's library of collective operations: the few functions that move and reduce buffers of several devices.
//!
//! For a real runtime, libnccl is opened at run time like libcudart. If a [`Table`](crate::Table) is filled from other symbols, as
//! the simulator does, NCCL's symbols are looked up there too.

mod error;
mod library;
mod types;

pub use error::NcclError;
pub use library::open_nccl;
pub use types::*;

use crate::bindings::common::cudaStream_t;
use crate::optional::functions;
use crate::symbols::function;
use std::any::Any;
use std::ffi::{c_char, c_int, c_void};
use std::fmt;
use std::sync::Arc;

/// The oldest supported version: its [`ncclConfig_t`] is the one that newer versions read.
const OLDEST: c_int = 21_700;

functions! { NcclFunctions, NcclError;
    /// `ncclGetVersion`: 22707 for version 2.27.7.
    ncclGetVersion: unsafe extern "C" fn(version: *mut c_int) -> ncclResult_t,
    /// `ncclGetUniqueId`: what the ranks of a new communicator need to find each other.
    ncclGetUniqueId: unsafe extern "C" fn(id: *mut ncclUniqueId) -> ncclResult_t,
    /// `ncclCommInitRankConfig`: a communicator of the current device.
    ncclCommInitRankConfig: unsafe extern "C" fn(
        communicator: *mut ncclComm_t,
        ranks: c_int,
        id: ncclUniqueId,
        rank: c_int,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t,
    /// `ncclCommDestroy`: waits for the work of the communicator and frees it.
    ncclCommDestroy: unsafe extern "C" fn(communicator: ncclComm_t) -> ncclResult_t,
    /// `ncclCommAbort`: ends the work of the communicator and frees it.
    ncclCommAbort: unsafe extern "C" fn(communicator: ncclComm_t) -> ncclResult_t,
    /// `ncclCommGetAsyncError`: the state of a communicator.
    ncclCommGetAsyncError:
        unsafe extern "C" fn(communicator: ncclComm_t, state: *mut ncclResult_t) -> ncclResult_t,
    /// `ncclGetErrorString`: the text of a result.
    ncclGetErrorString: unsafe extern "C" fn(result: ncclResult_t) -> *const c_char,
    /// `ncclGetLastError`: the text of the last failure; the communicator may be null.
    ncclGetLastError: unsafe extern "C" fn(communicator: ncclComm_t) -> *const c_char,
    /// `ncclGroupStart`: calls of this thread begin nothing until `ncclGroupEnd`.
    ncclGroupStart: unsafe extern "C" fn() -> ncclResult_t,
    /// `ncclGroupEnd`: begins the calls of the group together.
    ncclGroupEnd: unsafe extern "C" fn() -> ncclResult_t,
    /// `ncclBroadcast`: the elements of one rank, for all.
    ncclBroadcast: unsafe extern "C" fn(
        source: *const c_void,
        target: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        root: c_int,
        communicator: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t,
    /// `ncclAllReduce`: the reduced elements of all ranks, for all.
    ncclAllReduce: unsafe extern "C" fn(
        source: *const c_void,
        target: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        operation: ncclRedOp_t,
        communicator: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t,
    /// `ncclReduceScatter`: the reduced elements of all ranks, a part for each. `count` is the size of a part.
    ncclReduceScatter: unsafe extern "C" fn(
        source: *const c_void,
        target: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        operation: ncclRedOp_t,
        communicator: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t,
    /// `ncclAllGather`: the elements of all ranks, for all. `count` is the size of a part.
    ncclAllGather: unsafe extern "C" fn(
        source: *const c_void,
        target: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        communicator: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t,
    /// `ncclSend`: elements for one other rank.
    ncclSend: unsafe extern "C" fn(
        source: *const c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        communicator: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t,
    /// `ncclRecv`: elements of one other rank.
    ncclRecv: unsafe extern "C" fn(
        target: *mut c_void,
        count: usize,
        datatype: ncclDataType_t,
        peer: c_int,
        communicator: ncclComm_t,
        stream: cudaStream_t,
    ) -> ncclResult_t,
}

/// The functions of one NCCL: a real libnccl, or the functions of a [`Table`](crate::Table).
///
/// It derefs to [`NcclFunctions`] and keeps their library alive. Only [`Table::nccl`](crate::Table::nccl) and [`open_nccl`] return it, so
/// safe code may rely on the documented behaviour of the functions.
pub struct Nccl {
    functions: NcclFunctions,
    version: c_int,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Nccl {
    /// # Safety
    /// Every address is null, or a function with the signature and the behaviour that NCCL documents for its name, and may be called
    /// from any thread for as long as `owner` lives.
    pub(crate) unsafe fn from_addresses(
        addresses: &Addresses,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, NcclError> {
        if addresses.is_empty() {
            return Err(NcclError::NotFound {
                attempts: Vec::new(),
            });
        }
        // The version first: it explains a function that is missing. An address of this name that is not null is this function.
        // SAFETY: required of the caller.
        let get: Option<unsafe extern "C" fn(*mut c_int) -> ncclResult_t> =
            unsafe { function(addresses.ncclGetVersion) };
        let mut version = 0;
        // SAFETY: the place is valid for the call.
        let result = get.map(|get| unsafe { get(&mut version) });
        if result.is_some_and(|result| result != ncclResult_t::ncclSuccess || version < OLDEST) {
            return Err(NcclError::UnsupportedVersion {
                found: version,
                oldest: OLDEST,
            });
        }
        Ok(Self {
            // SAFETY: required of the caller.
            functions: unsafe { addresses.functions() }?,
            version,
            _owner: owner,
        })
    }

    /// The version: 22707 is 2.27.7.
    #[doc(alias = "ncclGetVersion")]
    pub fn version(&self) -> i32 {
        self.version
    }
}

impl std::ops::Deref for Nccl {
    type Target = NcclFunctions;

    fn deref(&self) -> &NcclFunctions {
        &self.functions
    }
}

impl fmt::Debug for Nccl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nccl")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
