//! CUPTI, NVIDIA's profiling library: the few functions that collect activity records.
//!
//! For a real runtime, libcupti is opened at run time like libcudart. If a [`Table`](crate::Table) is filled from other
//! symbols, as the simulator does, CUPTI's symbols are looked up there too.

mod error;
mod types;

pub use error::CuptiError;
pub use types::*;

use crate::Attempt;
use crate::loader::toolkits;
use crate::open;
use crate::symbols::{Resolve, function};
use crate::variable::variable;
use std::any::Any;
use std::ffi::{CStr, c_char, c_void};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The API version of CUDA 11.8.
const OLDEST: u32 = 18;

/// The folders of a toolkit that may contain it.
const FOLDERS: [&str; 5] = ["extras/CUPTI/lib64", "lib64", "lib", "bin/x64", "bin"];

/// Opens the libcupti for a runtime of this major version, in the same way as [`Table::cupti`](crate::Table::cupti) for a
/// loaded runtime.
///
/// # Errors
/// As for [`Table::cupti`](crate::Table::cupti).
pub fn open_cupti(major: u32) -> Result<Cupti, CuptiError> {
    let name = name(major);
    Cupti::open(&name).map_err(|error| match error {
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

/// The functions: a struct of them, and one of those that a resolver found.
macro_rules! functions {
    ($($(#[$doc:meta])* $function:ident($($argument:ident: $type:ty),* $(,)?);)*) => {
        /// The functions of the library, each under its C name.
        #[derive(Clone, Copy, Debug)]
        #[allow(non_snake_case, reason = "C names")]
        pub struct CuptiFunctions {
            $($(#[$doc])* pub $function: unsafe extern "C" fn($($argument: $type),*) -> CUptiResult,)*
        }

        /// The functions that a resolver found.
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "C names")]
        pub(crate) struct Found {
            $($function: Option<unsafe extern "C" fn($($argument: $type),*) -> CUptiResult>,)*
        }

        impl Found {
            /// # Safety
            /// Every address is null, or a function with the signature and the behaviour that CUPTI documents for its name.
            pub(crate) unsafe fn ask(resolve: Resolve<'_>) -> Self {
                let mut address = |name: &'static str| {
                    resolve(CStr::from_bytes_with_nul(name.as_bytes()).expect("one NUL, at the end"))
                };
                Self {
                    // SAFETY: required of the caller; the field has the type of this name.
                    $($function: unsafe { function(address(concat!(stringify!($function), "\0"))) },)*
                }
            }

            fn is_empty(&self) -> bool {
                [$(self.$function.is_none()),*].iter().all(|is_none| *is_none)
            }

            /// All functions.
            fn complete(&self) -> Result<CuptiFunctions, CuptiError> {
                let missing = |symbol: &str| CuptiError::MissingSymbol { symbol: symbol.to_owned() };
                Ok(CuptiFunctions {
                    $($function: self.$function.ok_or_else(|| missing(stringify!($function)))?,)*
                })
            }
        }
    };
}

functions! {
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

/// The functions of one CUPTI: a real libcupti, or the functions of a [`Table`](crate::Table).
///
/// It derefs to [`CuptiFunctions`] and keeps their library alive. Only [`Table::cupti`](crate::Table::cupti) and [`open_cupti`]
/// return it, so safe code may rely on the documented behaviour of the functions.
pub struct Cupti {
    functions: CuptiFunctions,
    version: u32,
    /// Keeps the functions alive; a real library is never unloaded.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl Cupti {
    /// # Safety
    /// The functions may be called from any thread for as long as `owner` lives.
    pub(crate) unsafe fn new(
        found: &Found,
        owner: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Result<Self, CuptiError> {
        if found.is_empty() {
            return Err(CuptiError::NotFound {
                attempts: Vec::new(),
            });
        }
        // The version first: it explains a function that is missing.
        let mut version = 0;
        let get = found.cuptiGetVersion;
        // SAFETY: the place is valid for the call.
        let code = get.map(|get| unsafe { get(&mut version) });
        if code.is_some_and(|code| code != CUptiResult::CUPTI_SUCCESS || version < OLDEST) {
            return Err(CuptiError::UnsupportedVersion {
                found: version,
                oldest: OLDEST,
            });
        }
        Ok(Self {
            functions: found.complete()?,
            version,
            owner,
        })
    }

    /// Opens the file that the variable names (a trusted path), or the first one that can be used: the name for the system's loader,
    /// or a file of this name in these folders of the toolkits. Otherwise the error of one that was found, which is more useful
    /// than those of missing ones, or all attempts.
    fn open(name: &str) -> Result<Self, CuptiError> {
        let named = variable("CUDA_UM_CUPTI");
        let (mut attempts, mut unfit) = (Vec::new(), None);
        for path in open::candidates(named, name, &FOLDERS, &toolkits()) {
            let path = match path {
                Ok(path) => path,
                Err(attempt) => {
                    attempts.push(attempt);
                    continue;
                }
            };
            // SAFETY: the name is that of NVIDIA's library, or a path that the user trusts: it has the documented functions, and stays
            // loaded.
            let opened = unsafe {
                open::open_at(&path).map(|mut resolve| Self::new(&Found::ask(&mut resolve), None))
            };
            match opened {
                Ok(Ok(library)) => return Ok(library),
                Ok(Err(error)) => unfit = unfit.or(Some(error)),
                Err(attempt) => attempts.push(attempt),
            }
        }
        Err(unfit.unwrap_or(CuptiError::NotFound { attempts }))
    }

    /// The API version: 18 (CUDA 11.8), 20 (12.2), 28 (12.9), 130001 (13.0).
    #[doc(alias = "cuptiGetVersion")]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// True for a real libcupti; false if the functions come from the same symbols as the table.
    pub fn is_library(&self) -> bool {
        self.owner.is_none()
    }
}

impl Deref for Cupti {
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

#[cfg(all(test, not(windows)))]
mod tests {
    #[test]
    fn the_name_goes_with_the_major_version() {
        let names = [11, 12, 13].map(super::name);
        let expected = ["libcupti.so.11.8", "libcupti.so.12", "libcupti.so.13"];
        assert_eq!(names, expected);
    }
}
