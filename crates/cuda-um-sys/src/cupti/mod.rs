//! CUPTI, NVIDIA's profiling library: the few functions that collect activity records.
//!
//! For a real runtime, libcupti is opened at run time like libcudart. If a [`Table`](crate::Table) is filled from other
//! symbols, as the simulator does, CUPTI's symbols are looked up there too.

mod error;
mod library;
mod types;

pub use error::CuptiError;
pub use library::open_cupti;
pub use types::*;

use crate::optional::functions;
use std::any::Any;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::sync::Arc;

/// The API version of CUDA 11.8's CUPTI: the oldest that is supported.
const OLDEST: u32 = 18;

functions! { CuptiFunctions, CuptiError;
    /// `cuptiGetVersion`: the API version, 18 for CUDA 11.8.
    cuptiGetVersion: unsafe extern "C" fn(version: *mut u32) -> CUptiResult,
    /// `cuptiGetTimestamp`: the clock of the records, in nanoseconds.
    cuptiGetTimestamp: unsafe extern "C" fn(timestamp: *mut u64) -> CUptiResult,
    /// `cuptiGetResultString`: the name of a result.
    cuptiGetResultString: unsafe extern "C" fn(result: CUptiResult, text: *mut *const c_char) -> CUptiResult,
    /// `cuptiActivityRegisterCallbacks`: sets the callbacks that provide and take back the buffers for records.
    cuptiActivityRegisterCallbacks: unsafe extern "C" fn(
        requested: CUpti_BuffersCallbackRequestFunc,
        completed: CUpti_BuffersCallbackCompleteFunc,
    ) -> CUptiResult,
    /// `cuptiActivityConfigureUnifiedMemoryCounter`: selects the counters and devices.
    cuptiActivityConfigureUnifiedMemoryCounter: unsafe extern "C" fn(
        configurations: *mut CUpti_ActivityUnifiedMemoryCounterConfig,
        count: u32,
    ) -> CUptiResult,
    /// `cuptiActivityEnable`: starts collecting records of a kind.
    cuptiActivityEnable: unsafe extern "C" fn(kind: CUpti_ActivityKind) -> CUptiResult,
    /// `cuptiActivityDisable`: stops collecting records of a kind.
    cuptiActivityDisable: unsafe extern "C" fn(kind: CUpti_ActivityKind) -> CUptiResult,
    /// `cuptiActivityFlushAll`: returns buffers with records; with the flag 1 also those that are not full.
    cuptiActivityFlushAll: unsafe extern "C" fn(flag: u32) -> CUptiResult,
    /// `cuptiActivityGetNextRecord`: iterates over the records of a buffer.
    cuptiActivityGetNextRecord:
        unsafe extern "C" fn(buffer: *mut u8, validSize: usize, record: *mut *mut CUpti_Activity) -> CUptiResult,
    /// `cuptiActivityGetNumDroppedRecords`: number of records since the last call that were dropped because there was no
    /// buffer.
    cuptiActivityGetNumDroppedRecords:
        unsafe extern "C" fn(context: *mut c_void, streamId: u32, dropped: *mut usize) -> CUptiResult,
}

/// The functions of one CUPTI: a real libcupti, or the functions of a [`Table`](crate::Table).
///
/// It derefs to [`CuptiFunctions`] and keeps their library alive. Only [`Table::cupti`](crate::Table::cupti) and [`open_cupti`]
/// return it, so safe code may rely on the documented behaviour of the functions.
pub struct Cupti {
    functions: CuptiFunctions,
    version: u32,
    library: bool,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Cupti {
    /// # Safety
    /// Every address is null, or a function with the signature and the behaviour that CUPTI documents for its name, and may be called
    /// from any thread for as long as `owner` lives.
    pub(crate) unsafe fn from_addresses(
        addresses: &Addresses,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Self, CuptiError> {
        if addresses.is_empty() {
            return Err(CuptiError::NotFound {
                attempts: Vec::new(),
            });
        }
        // SAFETY: required of the caller.
        let functions = unsafe { addresses.functions() }?;
        let mut version = 0;
        // SAFETY: the place is valid for the call.
        let code = unsafe { (functions.cuptiGetVersion)(&mut version) };
        if code != CUptiResult::CUPTI_SUCCESS || version < OLDEST {
            return Err(CuptiError::UnsupportedVersion {
                found: version,
                oldest: OLDEST,
            });
        }
        Ok(Self {
            functions,
            version,
            library: false,
            _owner: owner,
        })
    }

    /// True for a real libcupti; false if the functions come from the same symbols as the table.
    pub fn is_library(&self) -> bool {
        self.library
    }

    /// The API version: 18 (CUDA 11.8), 20 (12.2), 28 (12.9), 130001 (13.0).
    #[doc(alias = "cuptiGetVersion")]
    pub fn version(&self) -> u32 {
        self.version
    }
}

impl std::ops::Deref for Cupti {
    type Target = CuptiFunctions;

    fn deref(&self) -> &CuptiFunctions {
        &self.functions
    }
}

impl fmt::Debug for Cupti {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cupti")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}
