//! CUPTI, NVIDIA's profiling library: the few functions that collect activity records.
//!
//! For a real runtime, libcupti is opened at run time like libcudart. If a [`Table`](crate::Table) is filled from other
//! symbols, as the simulator does, CUPTI's symbols are looked up there too.

mod types;

pub use types::*;

use crate::Attempt;
use crate::optional::library;
use std::ffi::{c_char, c_void};

/// The folders of a toolkit that may contain it.
const FOLDERS: [&str; 5] = ["extras/CUPTI/lib64", "lib64", "lib", "bin/x64", "bin"];

/// Opens the libcupti for a runtime of this major version, in the same way as [`Table::cupti`](crate::Table::cupti) for a
/// loaded runtime.
///
/// # Errors
/// As for [`Table::cupti`](crate::Table::cupti).
pub fn open_cupti(major: u32) -> Result<Cupti, CuptiError> {
    let name = name(major);
    Cupti::open(&name, &FOLDERS).map_err(|error| match error {
        CuptiError::NotFound { attempts } if attempts.is_empty() => CuptiError::NotFound {
            attempts: vec![Attempt {
                library: name,
                reason: "in no toolkit of CUDA_HOME and CUDA_PATH".to_owned(),
            }],
        },
        error => error,
    })
}

/// The library's file name. On Windows it does not follow from the major version: it has the year and number of a release of CUPTI
/// (`cupti64_2025.3.1.dll`), and from CUDA 13.5 on `cupti64_13.dll`.
fn name(major: u32) -> String {
    match major {
        _ if cfg!(windows) => "cupti64_*.dll".to_owned(),
        11 => "libcupti.so.11.8".to_owned(),
        major => format!("libcupti.so.{major}"),
    }
}

// The oldest version is that of CUDA 11.8.
library! {
    "CUPTI" in "CUDA_UM_CUPTI" from "CUDA 11.8";
    /// The functions of one CUPTI: a real libcupti, or the functions of a [`Table`](crate::Table).
    ///
    /// It derefs to [`CuptiFunctions`] and keeps their library alive. Only [`Table::cupti`](crate::Table::cupti) and [`open_cupti`]
    /// return it, so safe code may rely on the documented behaviour of the functions.
    Cupti: CuptiFunctions, CuptiError;
    /// The API version that it reports.
    found: u32 = cuptiGetVersion() >= 18;
    /// The API version: 18 (CUDA 11.8), 20 (12.2), 28 (12.9), 130001 (13.0).
    #[doc(alias = "cuptiGetVersion")]
    version;
    functions return CUptiResult;
    /// `cuptiGetVersion`: the API version, 18 for CUDA 11.8.
    cuptiGetVersion(version: *mut u32);
    /// `cuptiGetTimestamp`: the clock of the records, in nanoseconds.
    cuptiGetTimestamp(timestamp: *mut u64);
    /// `cuptiGetResultString`: the name of a result.
    cuptiGetResultString(result: CUptiResult, text: *mut *const c_char);
    /// `cuptiActivityRegisterCallbacks`: sets the callbacks that provide and take back the buffers for records.
    cuptiActivityRegisterCallbacks(requested: CUpti_BuffersCallbackRequestFunc, completed: CUpti_BuffersCallbackCompleteFunc);
    /// `cuptiActivityConfigureUnifiedMemoryCounter`: selects the counters and devices.
    cuptiActivityConfigureUnifiedMemoryCounter(configurations: *mut CUpti_ActivityUnifiedMemoryCounterConfig, count: u32);
    /// `cuptiActivityEnable`: starts collecting records of a kind.
    cuptiActivityEnable(kind: CUpti_ActivityKind);
    /// `cuptiActivityDisable`: stops collecting records of a kind.
    cuptiActivityDisable(kind: CUpti_ActivityKind);
    /// `cuptiActivityFlushAll`: returns buffers with records; with the flag 1 also those that are not full.
    cuptiActivityFlushAll(flag: u32);
    /// `cuptiActivityGetNextRecord`: iterates over the records of a buffer.
    cuptiActivityGetNextRecord(buffer: *mut u8, validSize: usize, record: *mut *mut CUpti_Activity);
    /// `cuptiActivityGetNumDroppedRecords`: number of records since the last call that were dropped because there was no
    /// buffer.
    cuptiActivityGetNumDroppedRecords(context: *mut c_void, streamId: u32, dropped: *mut usize);
}

impl Cupti {
    /// True for a real libcupti; false if the functions come from the same symbols as the table.
    pub fn is_library(&self) -> bool {
        self.owner.is_none()
    }
}

#[cfg(all(test, not(windows)))]
mod tests {
    #[test]
    fn the_name_goes_with_the_major_version() {
        let names = [11, 12, 13].map(super::name);
        let expected = ["libcupti.so.11.8", "libcupti.so.12", "libcupti.so.13"];
        assert_eq!(names, expected);
    }
}
