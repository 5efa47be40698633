//! The table of one loaded runtime, with what keeps it loaded.

use crate::bindings::common::{PFN_cudaGetLastError, PFN_cudaRuntimeGetVersion, cudaError};
use crate::cupti::{Addresses, Cupti, CuptiError};
use crate::error::LoadError;
use crate::symbols::{DriverSymbols, Resolve, Symbols};
use crate::table::{DriverTable, Functions, LATE};
use crate::version::RuntimeVersion;
use std::any::Any;
use std::ffi::{CStr, c_void};
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

/// The oldest version that is supported.
const OLDEST: RuntimeVersion = RuntimeVersion::new(11, 8);

/// The newest major version whose signatures are known. Within a major version CUDA keeps them.
const NEWEST_MAJOR: u32 = 13;

/// The functions of one CUDA runtime: a real libcudart, or anything else that fills the table.
///
/// Derefs to [`Functions`]. It keeps the library loaded (or the simulator alive) that the functions belong to, and can be made
/// only by [`Table::from_symbols`] and the loader, whose callers promise that the functions do what CUDA documents. So safe code
/// may rely on a table in its hands.
pub struct Table {
    functions: Functions,
    version: RuntimeVersion,
    driver: OnceLock<DriverTable>,
    /// CUPTI's symbols, from where the others are; `None`: a library of its own has them.
    cupti: Option<Addresses>,
    owner: Arc<dyn Any + Send + Sync>,
}

impl Table {
    /// Fills a table by name from whatever `resolve` finds; a null pointer says that a symbol is absent.
    ///
    /// `soname_major` is the major version in the library's file name, if it has one. Which signature the plain names have is
    /// decided here, once: the new one from 13 on, the old one before; `_v2` names before 13 have the new one.
    ///
    /// # Errors
    /// [`LoadError::MissingSymbol`] if a function is absent that every supported version has, [`LoadError::UnsupportedVersion`]
    /// before 11.8 and from 14 on, [`LoadError::UnknownVersion`] if nothing tells the version.
    ///
    /// # Safety
    /// - Every pointer that `resolve` gives is a function with the signature and the behaviour that CUDA (for names that begin with
    ///   `cupti`, CUPTI) documents for its name in the version that `cudaRuntimeGetVersion` (or, where that tells nothing, `soname_major`) names.
    /// - The functions may be called from any thread for as long as `owner` lives.
    #[doc(alias = "cudaRuntimeGetVersion")]
    pub unsafe fn from_symbols(
        owner: Arc<dyn Any + Send + Sync>,
        soname_major: Option<u32>,
        resolve: &mut dyn FnMut(&CStr) -> *const c_void,
    ) -> Result<Self, LoadError> {
        // SAFETY: the caller's promise; the two functions have one signature in every major version.
        let mut symbols = unsafe { Symbols::new(0, resolve) };
        let get_version: PFN_cudaRuntimeGetVersion = symbols
            .late(c"cudaRuntimeGetVersion")
            .ok_or(LoadError::UnknownVersion)?;
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
            _ => version_by_symbols(soname_major, resolve).ok_or(LoadError::UnknownVersion)?,
        };
        if version < OLDEST || version.major > NEWEST_MAJOR {
            return Err(LoadError::UnsupportedVersion { version });
        }
        // SAFETY: the caller's promise, for this major version.
        let mut symbols = unsafe { Symbols::new(version.major, resolve) };
        let functions = Functions::find(&mut symbols).map_err(|error| match error {
            LoadError::MissingSymbol { symbol, .. } => LoadError::MissingSymbol {
                symbol,
                version: Some(version),
            },
            error => error,
        })?;
        Ok(Self {
            functions,
            version,
            driver: OnceLock::new(),
            cupti: Some(Addresses::ask(resolve)),
            owner,
        })
    }

    /// The version of the runtime library. Where it tells none (there is no driver), the major version is that of its name and
    /// the minor one the newest that its symbols prove: the library may be newer than that.
    #[doc(alias = "cudaRuntimeGetVersion")]
    pub fn version(&self) -> RuntimeVersion {
        self.version
    }

    /// The functions of the driver, looked up on the first call. A failure is not kept: the next call looks again.
    ///
    /// # Errors
    /// [`LoadError::DriverFunction`] if the driver lacks one, or if there is no driver.
    #[doc(alias = "cudaGetDriverEntryPoint")]
    pub fn driver(&self) -> Result<&DriverTable, LoadError> {
        if let Some(driver) = self.driver.get() {
            return Ok(driver);
        }
        let found = DriverTable::find(&DriverSymbols {
            entry_point: self.functions.cudaGetDriverEntryPoint,
            clear_last_error: self.functions.cudaGetLastError,
        })?;
        Ok(self.driver.get_or_init(|| found))
    }

    /// The table of a real runtime library: CUPTI is another one.
    pub(crate) fn with_cupti_of_its_own(self) -> Self {
        Self {
            cupti: None,
            ..self
        }
    }

    /// The CUPTI of this runtime, to collect records with.
    ///
    /// A table that came from [`Table::from_symbols`] has CUPTI's functions from the same place. For a loaded runtime libcupti is
    /// opened: `CUDA_UM_CUPTI` alone if it is set (a trusted path), else the library that goes with the runtime's major version, by the
    /// name that the system's loader knows, and in `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda*`. It stays in the process.
    ///
    /// # Errors
    /// [`CuptiError::NotFound`], [`CuptiError::MissingSymbol`], [`CuptiError::UnsupportedVersion`].
    #[doc(alias = "libcupti")]
    pub fn cupti(&self) -> Result<Arc<Cupti>, CuptiError> {
        match &self.cupti {
            // SAFETY: whoever made the table promised the signature of every symbol, for as long as the owner lives.
            Some(addresses) => unsafe { Cupti::from_addresses(addresses, Arc::clone(&self.owner)) },
            None => Cupti::open(self.version.major),
        }
        .map(Arc::new)
    }

    /// The first version that has a function which this crate knows as optional: `cudaMemPrefetchBatchAsync` came with 13.0.
    /// `None` for any other name.
    pub fn available_since(field: &str) -> Option<RuntimeVersion> {
        LATE.iter()
            .find(|(name, ..)| *name == field)
            .map(|&(_, major, minor)| RuntimeVersion::new(major, minor))
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
        f.debug_struct("Table")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// Symbols that tell a version from the ones before it, newest first.
const MARKS: &[(&CStr, RuntimeVersion)] = &[
    (c"cudaMemGetLocationInfo", RuntimeVersion::new(13, 4)),
    (c"cudaMemPrefetchBatchAsync", RuntimeVersion::new(13, 0)),
    (c"cudaMemcpyBatchAsync", RuntimeVersion::new(12, 8)),
    (
        c"cudaGetDriverEntryPointByVersion",
        RuntimeVersion::new(12, 5),
    ),
    (c"cudaMemPrefetchAsync_v2", RuntimeVersion::new(12, 2)),
    (
        c"cudaGraphInstantiateWithParams",
        RuntimeVersion::new(12, 0),
    ),
    (c"cudaLaunchKernelExC", RuntimeVersion::new(11, 8)),
];

/// The newest version that the symbols prove, within the major version that the library's name tells.
fn version_by_symbols(soname_major: Option<u32>, resolve: Resolve<'_>) -> Option<RuntimeVersion> {
    MARKS
        .iter()
        .filter(|(_, version)| soname_major.is_none_or(|major| version.major == major))
        .find(|(name, _)| !resolve(name).is_null())
        .map(|(_, version)| *version)
        .or(soname_major.map(|major| RuntimeVersion::new(major, 0)))
}
