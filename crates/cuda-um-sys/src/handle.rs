//! The table of one loaded runtime, with what keeps it loaded.

use crate::bindings::common::{PFN_cudaGetLastError, PFN_cudaRuntimeGetVersion, cudaError};
use crate::error::LoadError;
use crate::symbols::{DriverSymbols, Symbols};
use crate::table::{DriverTable, Functions, LATE};
use crate::version::RuntimeVersion;
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The oldest version that is supported.
const OLDEST: RuntimeVersion = RuntimeVersion::new(11, 8);

/// The functions of one CUDA runtime: a real libcudart, or anything else that fills the table.
///
/// Derefs to [`Functions`]. It keeps the library loaded (or the simulator alive) that the functions belong to, and can be made
/// only by [`Table::from_symbols`] and the loader, whose callers promise that the functions do what CUDA documents. So safe code
/// may rely on a table in its hands.
pub struct Table {
    functions: Functions,
    version: RuntimeVersion,
    driver: OnceLock<Result<DriverTable, LoadError>>,
    _owner: Arc<dyn Any + Send + Sync>,
}

impl Table {
    /// Fills a table by name from whatever `resolve` finds; a null pointer says that a symbol is absent.
    ///
    /// `soname_major` is the major version in the library's file name, if it has one. Which signature the plain names have is
    /// decided here, once: the new one from 13 on, the old one before; `_v2` names before 13 have the new one.
    ///
    /// # Errors
    /// [`LoadError::MissingSymbol`] if a function is absent that every supported version has, [`LoadError::UnsupportedVersion`]
    /// before 11.8.
    ///
    /// # Safety
    /// - Every pointer that `resolve` gives is a function with the signature and the behaviour that CUDA documents for its name
    ///   in the version that `cudaRuntimeGetVersion` (or, where that tells nothing, `soname_major`) names.
    /// - The functions may be called from any thread for as long as `owner` lives.
    #[doc(alias = "cudaRuntimeGetVersion")]
    pub unsafe fn from_symbols(
        owner: Arc<dyn Any + Send + Sync>,
        soname_major: Option<u32>,
        resolve: &mut dyn FnMut(&CStr) -> *const c_void,
    ) -> Result<Self, LoadError> {
        // SAFETY: the caller's promise; the two functions have one signature in every major version.
        let mut symbols = unsafe { Symbols::new(0, resolve) };
        let get_version: PFN_cudaRuntimeGetVersion = symbols.required(c"cudaRuntimeGetVersion")?;
        let clear: PFN_cudaGetLastError = symbols.required(c"cudaGetLastError")?;
        let mut number = 0;
        // SAFETY: the place is valid for the call; clearing the error has no preconditions.
        unsafe {
            // Without a driver 11.8 fails and writes nothing, and 12 and 13 succeed and write 0.
            if get_version(&mut number) != cudaError::cudaSuccess {
                clear();
                number = 0;
            }
        }
        let version = match u32::try_from(number) {
            Ok(number) if number > 0 => RuntimeVersion::from_number(number),
            _ => version_by_symbols(soname_major, resolve),
        };
        if version < OLDEST {
            return Err(LoadError::UnsupportedVersion { version });
        }
        // SAFETY: the caller's promise, for this major version.
        let mut symbols = unsafe { Symbols::new(version.major, resolve) };
        let functions = Functions::find(&mut symbols).map_err(|error| match error {
            LoadError::MissingSymbol { symbol, .. } => LoadError::MissingSymbol { symbol, version: Some(version) },
            error => error,
        })?;
        Ok(Self { functions, version, driver: OnceLock::new(), _owner: owner })
    }

    /// The version of the runtime library; where it tells none (there is no driver), the newest that its symbols prove.
    #[doc(alias = "cudaRuntimeGetVersion")]
    pub fn version(&self) -> RuntimeVersion {
        self.version
    }

    /// The functions of the driver, looked up on the first call.
    ///
    /// # Errors
    /// [`LoadError::DriverFunction`] if the driver lacks one, or if there is no driver.
    #[doc(alias = "cudaGetDriverEntryPoint")]
    pub fn driver(&self) -> Result<&DriverTable, LoadError> {
        let find = || {
            DriverTable::find(&DriverSymbols {
                entry_point: self.functions.cudaGetDriverEntryPoint,
                clear_last_error: self.functions.cudaGetLastError,
            })
        };
        self.driver.get_or_init(find).as_ref().map_err(Clone::clone)
    }

    /// The first version that has a function which this crate knows as optional: `cudaMemPrefetchBatchAsync` came with 13.0.
    /// `None` for any other name.
    pub fn available_since(field: &str) -> Option<RuntimeVersion> {
        LATE.iter().find(|(name, ..)| *name == field).map(|&(_, major, minor)| RuntimeVersion::new(major, minor))
    }
}

impl Deref for Table {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("version", &self.version).finish_non_exhaustive()
    }
}

/// Symbols that tell a version from the ones before it, newest first.
const MARKS: &[(&CStr, RuntimeVersion)] = &[
    (c"cudaMemGetLocationInfo", RuntimeVersion::new(13, 4)),
    (c"cudaMemPrefetchBatchAsync", RuntimeVersion::new(13, 0)),
    (c"cudaMemcpyBatchAsync", RuntimeVersion::new(12, 8)),
    (c"cudaMemPrefetchAsync_v2", RuntimeVersion::new(12, 2)),
];

/// The newest version that the symbols prove. `soname_major` settles what they leave open: 11.8 and 12.0 look alike.
fn version_by_symbols(soname_major: Option<u32>, resolve: &mut dyn FnMut(&CStr) -> *const c_void) -> RuntimeVersion {
    let proven = MARKS.iter().find(|(name, _)| !resolve(name).is_null()).map(|(_, version)| *version);
    match (proven, soname_major) {
        (Some(version), None) => version,
        (Some(version), Some(major)) if version.major == major => version,
        (_, Some(11)) | (None, None) => OLDEST,
        (_, Some(major)) => RuntimeVersion::new(major, 0),
    }
}
