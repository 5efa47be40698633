//! Finds functions by name and gives them the types of the table.

use crate::bindings::common::{PFN_cudaGetDriverEntryPoint, cudaError};
use crate::error::LoadError;
use crate::table::LATE;
use crate::version::RuntimeVersion;
use std::ffi::{CStr, c_void};
use std::mem::size_of;

/// Looks up a symbol; null if there is none.
pub(crate) type Resolve<'a> = &'a mut dyn FnMut(&CStr) -> *const c_void;

/// The symbols of one runtime library.
///
/// The caller that creates one guarantees that every symbol is a function with the signature that CUDA documents for its name
/// in the given version. The methods rely on this.
pub(crate) struct Symbols<'a> {
    resolve: Resolve<'a>,
    version: RuntimeVersion,
}

impl<'a> Symbols<'a> {
    /// # Safety
    /// See the documentation of the type.
    pub(crate) unsafe fn new(version: RuntimeVersion, resolve: Resolve<'a>) -> Self {
        Self { resolve, version }
    }

    /// A function that every version has.
    pub(crate) fn required<F: Copy>(&mut self, name: &CStr) -> Result<F, LoadError> {
        self.late(name).ok_or_else(|| LoadError::MissingSymbol {
            symbol: name.to_string_lossy().into_owned(),
            version: None,
        })
    }

    /// A function that some versions lack. A library may have the names of later versions, too, without these functions: the simulator's
    /// library does.
    pub(crate) fn late<F: Copy>(&mut self, name: &CStr) -> Option<F> {
        if self.is_later(name) {
            return None;
        }
        // SAFETY: the creator of `self` guaranteed the signature; `F` is generated from the declaration of that name.
        unsafe { function((self.resolve)(name)) }
    }

    /// Whether a later version added the function. Before 13, `_v2` names have the signature of 13, and a plain name that was added has
    /// the signature of 12.
    fn is_later(&self, name: &CStr) -> bool {
        let name = name.to_str().unwrap_or_default();
        let field = match name.strip_suffix("_v2") {
            Some(plain) => format!("{plain}_v13"),
            None if self.version.major < 13 => format!("{name}_v12"),
            None => name.to_owned(),
        };
        let mut added = LATE
            .iter()
            .filter(|(late, ..)| *late == name || *late == field);
        added.any(|&(_, major, minor)| self.version < RuntimeVersion::new(major, minor))
    }

    /// A name that has this signature only in libraries before this major version.
    pub(crate) fn before<F: Copy>(&mut self, major: u32, name: &CStr) -> Option<F> {
        if self.version.major < major {
            self.late(name)
        } else {
            None
        }
    }

    /// A name that has this signature only in libraries from this major version on.
    pub(crate) fn since<F: Copy>(&mut self, major: u32, name: &CStr) -> Option<F> {
        if self.version.major >= major {
            self.late(name)
        } else {
            None
        }
    }
}

/// The functions of the driver, which the runtime returns.
pub(crate) struct DriverSymbols {
    pub(crate) entry_point: PFN_cudaGetDriverEntryPoint,
    pub(crate) clear_last_error: crate::bindings::common::PFN_cudaGetLastError,
}

impl DriverSymbols {
    /// A function that every version has.
    pub(crate) fn required<F: Copy>(&self, name: &CStr) -> Result<F, LoadError> {
        self.find(name).map_err(|code| LoadError::DriverFunction {
            symbol: name.to_string_lossy().into_owned(),
            code: code.0,
        })
    }

    /// A function that some versions lack.
    pub(crate) fn late<F: Copy>(&self, name: &CStr) -> Option<F> {
        self.find(name).ok()
    }

    fn find<F: Copy>(&self, name: &CStr) -> Result<F, cudaError> {
        let mut pointer: *mut c_void = std::ptr::null_mut();
        let mut status = crate::bindings::common::cudaDriverEntryPointQueryResult(0);
        // SAFETY: the name is NUL-terminated and both places are valid for the call. CUDA 11 takes three arguments and ignores
        // the fourth. Flags 0 is cudaEnableDefault.
        let code = unsafe { (self.entry_point)(name.as_ptr(), &mut pointer, 0, &mut status) };
        if code != cudaError::cudaSuccess {
            // SAFETY: no preconditions.
            unsafe { (self.clear_last_error)() };
            return Err(code);
        }
        // SAFETY: the runtime returns the driver's function of that name; `F` is generated from its declaration.
        unsafe { function(pointer) }.ok_or(code)
    }
}

/// # Safety
/// `pointer` is null or a function of the type `F`, which is a function pointer.
pub(crate) unsafe fn function<F: Copy>(pointer: *const c_void) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*const c_void>()) };
    // SAFETY: not null, and the caller guarantees a function of this type; both are one pointer in size.
    (!pointer.is_null()).then(|| unsafe { std::mem::transmute_copy(&pointer) })
}
