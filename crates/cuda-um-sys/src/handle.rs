//! The table of one loaded runtime, and the owner that keeps it loaded.

use crate::bindings::common::{
    PFN_cuLaunchKernel, PFN_cudaGetLastError, PFN_cudaRuntimeGetVersion, cudaError,
};
use crate::cupti::{self, Cupti, CuptiError, open_cupti};
use crate::declared::{self, DeclareHostAccess, SimulatedAvailable};
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

/// The newest major version with known signatures. CUDA does not change signatures within a major version.
const NEWEST_MAJOR: u32 = 13;

/// The functions of one CUDA runtime: a real libcudart, or any other implementation.
///
/// Derefs to [`Functions`]. It keeps the library loaded (or the simulator alive). Only [`Table::from_symbols`] and the loader
/// create a table, and their callers guarantee that the functions behave as CUDA documents. Therefore safe code may rely on a
/// table.
pub struct Table {
    functions: Functions,
    version: RuntimeVersion,
    driver: OnceLock<DriverTable>,
    declared_launch: Option<PFN_cuLaunchKernel>,
    declared_host_access: Option<DeclareHostAccess>,
    simulated_available: Option<SimulatedAvailable>,
    /// CUPTI's symbols, if they come from the same place as the others; `None` if they are in a separate library.
    cupti: Option<cupti::Found>,
    owner: Arc<dyn Any + Send + Sync>,
}

impl Table {
    /// Fills a table: `resolve` returns the address of a symbol, or a null pointer if it is absent.
    ///
    /// `soname_major` is the major version in the library's file name, if it has one. The signature of the plain names is
    /// decided here, once: the new one from 13 on, the old one before. Before 13, the `_v2` names have the new one.
    ///
    /// # Errors
    /// [`LoadError::MissingSymbol`] if a function is absent that every supported version has, [`LoadError::UnsupportedVersion`]
    /// before 11.8 and from 14 on, [`LoadError::UnknownVersion`] if the version cannot be found.
    ///
    /// # Safety
    /// - Every pointer that `resolve` returns is a function with the signature and the behaviour that CUDA (CUPTI, for names that
    ///   begin with `cupti`) documents for its name. The version is the one that `cudaRuntimeGetVersion` reports, or otherwise
    ///   `soname_major`.
    /// - The functions may be called from any thread for as long as `owner` lives.
    #[doc(alias = "cudaRuntimeGetVersion")]
    pub unsafe fn from_symbols(
        owner: Arc<dyn Any + Send + Sync>,
        soname_major: Option<u32>,
        resolve: &mut dyn FnMut(&CStr) -> *const c_void,
    ) -> Result<Self, LoadError> {
        // SAFETY: required of the caller; the two functions have the same signature in every major version.
        let mut symbols = unsafe { Symbols::new(RuntimeVersion::new(0, 0), resolve) };
        let get_version: PFN_cudaRuntimeGetVersion = symbols
            .late(c"cudaRuntimeGetVersion")
            .ok_or(LoadError::UnknownVersion)?;
        let clear: PFN_cudaGetLastError = symbols.required(c"cudaGetLastError")?;
        let mut number = 0;
        // SAFETY: the place is valid for the call; clearing the error has no preconditions.
        unsafe {
            // Without a driver, 11.8 fails and writes nothing, and 12 and 13 succeed and write 0.
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
        // SAFETY: required of the caller, for this version.
        let mut symbols = unsafe { Symbols::new(version, resolve) };
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
            declared_launch: declared::launch(resolve),
            declared_host_access: declared::host_access(resolve),
            simulated_available: declared::available(resolve),
            // SAFETY: required of the caller.
            cupti: Some(unsafe { cupti::Found::ask(resolve) }),
            owner,
        })
    }

    /// The version of the runtime library. Without a driver the library reports no version. Then the major version is that of
    /// its file name, and the minor version is the newest one that its symbols prove; the library may be newer.
    #[doc(alias = "cudaRuntimeGetVersion")]
    pub fn version(&self) -> RuntimeVersion {
        self.version
    }

    /// The functions of the driver. The first call looks them up. A failure is not stored: the next call looks them up again.
    ///
    /// # Errors
    /// [`LoadError::DriverFunction`] if the driver lacks a function, or if there is no driver.
    #[doc(alias = "cudaGetDriverEntryPoint")]
    #[inline]
    pub fn driver(&self) -> Result<&DriverTable, LoadError> {
        match self.driver.get() {
            Some(driver) => Ok(driver),
            None => self.find_driver(),
        }
    }

    #[cold]
    fn find_driver(&self) -> Result<&DriverTable, LoadError> {
        let found = DriverTable::find(&DriverSymbols {
            entry_point: self.functions.cudaGetDriverEntryPoint,
            clear_last_error: self.functions.cudaGetLastError,
        })?;
        Ok(self.driver.get_or_init(|| found))
    }

    /// The simulator's function that launches a kernel with declared arguments, in place of `cuLaunchKernel`; `None` for a GPU.
    ///
    /// Its last argument, `extra` of `cuLaunchKernel`, is the address of an array with one [`DeclaredArgument`](crate::DeclaredArgument)
    /// for each parameter of the kernel. An access of the kernel beyond its declared argument is a fault of the kernel.
    #[inline]
    pub fn declared_launch(&self) -> Option<PFN_cuLaunchKernel> {
        self.declared_launch
    }

    /// The simulator's function to call before the host accesses system memory that kernels use, too; `None` for a GPU.
    ///
    /// The simulator sees the host's accesses of managed memory, but not those of the program's own memory: a declared access faults and
    /// migrates pages as an access would. The call touches no memory, and is no call of CUDA: it is not traced and cannot fail.
    #[inline]
    pub fn declared_host_access(&self) -> Option<DeclareHostAccess> {
        self.declared_host_access
    }

    /// The simulator's function that returns the bytes that a simulated device (the argument) could still allocate: what the operating system
    /// of its machine has free or can reclaim, such as a page cache. `None` for a GPU, for whose host the operating system answers.
    ///
    /// The call is no call of CUDA: it is not traced and cannot fail.
    #[inline]
    pub fn simulated_available(&self) -> Option<SimulatedAvailable> {
        self.simulated_available
    }

    /// The table of a real runtime library, which has CUPTI in a separate library.
    pub(crate) fn with_library_for_cupti(self) -> Self {
        Self {
            cupti: None,
            ..self
        }
    }

    /// The CUPTI of this runtime, to collect records.
    ///
    /// A table from [`Table::from_symbols`] has CUPTI's functions from the same place. For a loaded runtime, libcupti is
    /// opened. If `CUDA_UM_CUPTI` (a trusted path) is set, only this path is tried. Otherwise the library for the runtime's
    /// major version is searched by the name for the system's loader, and in `CUDA_HOME`, `CUDA_PATH` and `/usr/local/cuda*`.
    /// On Windows its name does not tell the major version: the newest one in `CUDA_HOME` or `CUDA_PATH` is opened. It is never unloaded.
    ///
    /// # Errors
    /// [`CuptiError::NotFound`], [`CuptiError::MissingSymbol`], [`CuptiError::UnsupportedVersion`].
    #[doc(alias = "libcupti")]
    pub fn cupti(&self) -> Result<Arc<Cupti>, CuptiError> {
        match &self.cupti {
            // SAFETY: the creator of the table guaranteed every symbol for as long as the owner lives.
            Some(found) => unsafe { Cupti::new(found, Some(Arc::clone(&self.owner))) },
            None => open_cupti(self.version.major),
        }
        .map(Arc::new)
    }

    /// The first version that has an optional function: `cudaMemPrefetchBatchAsync` was added in 13.0.
    /// `None` for any other name.
    pub fn available_since(field: &str) -> Option<RuntimeVersion> {
        LATE.iter()
            .find(|(name, ..)| *name == field)
            .map(|&(_, major, minor)| RuntimeVersion::new(major, minor))
    }
}

impl Deref for Table {
    type Target = Functions;

    #[inline]
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

/// Symbols that distinguish a version from older ones, newest first.
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

/// The newest version that the symbols prove, within the major version of the library's name.
fn version_by_symbols(soname_major: Option<u32>, resolve: Resolve<'_>) -> Option<RuntimeVersion> {
    MARKS
        .iter()
        .filter(|(_, version)| soname_major.is_none_or(|major| version.major == major))
        .find(|(name, _)| !resolve(name).is_null())
        .map(|(_, version)| *version)
        .or(soname_major.map(|major| RuntimeVersion::new(major, 0)))
}
