//! The functions about errors.

use super::{Code, Cuda};
use crate::Failure;
use std::ffi::{CStr, c_char};

impl Code {
    /// Converts the code to a result, for `?` in preparations.
    pub(crate) fn done(self, cuda: &Cuda<'_>, what: &str) -> Result<(), Failure> {
        cuda.ok(what, self)
    }
}

impl Cuda<'_> {
    /// `cudaGetLastError`
    pub(crate) fn last_error(&self) -> Code {
        self.asked.borrow_mut().push("cudaGetLastError");
        self.forget_error()
    }

    /// `cudaGetLastError`, so that the next case starts without an error.
    pub(crate) fn forget_error(&self) -> Code {
        call!(self.table(), cudaGetLastError())
    }

    /// `cudaPeekAtLastError`
    pub(crate) fn peek_error(&self) -> Code {
        self.asked.borrow_mut().push("cudaPeekAtLastError");
        call!(self.table(), cudaPeekAtLastError())
    }

    /// `cudaGetErrorName`
    pub(crate) fn error_name(&self, code: Code) -> String {
        self.asked.borrow_mut().push("cudaGetErrorName");
        self.name(code)
    }

    fn name(&self, code: Code) -> String {
        // SAFETY: takes any number; gives a static text.
        unsafe {
            text(cuda_um_testkit::call!(
                self.table(),
                cudaGetErrorName(cuda_um_sys::cudaError(code.0))
            ))
        }
    }

    /// `cudaGetErrorString`
    pub(crate) fn error_string(&self, code: Code) -> String {
        self.asked.borrow_mut().push("cudaGetErrorString");
        // SAFETY: takes any number; gives a static text.
        unsafe {
            text(cuda_um_testkit::call!(
                self.table(),
                cudaGetErrorString(cuda_um_sys::cudaError(code.0))
            ))
        }
    }

    /// `cuGetErrorName`, and its code
    pub(crate) fn driver_error_name(&self, code: Code) -> Result<(Code, String), Failure> {
        let mut name = std::ptr::null();
        let got = call!(
            self.driver()?,
            cuGetErrorName(cuda_um_sys::CUresult(code.0), &mut name)
        );
        // SAFETY: null, or a static text.
        Ok((got, unsafe { text(name) }))
    }

    /// `cuGetErrorString`, and its code
    pub(crate) fn driver_error_string(&self, code: Code) -> Result<(Code, String), Failure> {
        let mut string = std::ptr::null();
        let got = call!(
            self.driver()?,
            cuGetErrorString(cuda_um_sys::CUresult(code.0), &mut string)
        );
        // SAFETY: null, or a static text.
        Ok((got, unsafe { text(string) }))
    }

    /// "1 cudaErrorInvalidValue".
    pub(crate) fn text(&self, code: Code) -> String {
        format!("{} {}", code.0, self.name(code))
    }
}

/// # Safety
/// Null, or a NUL-terminated text.
pub(super) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return "(null)".to_owned();
    }
    // SAFETY: required of the caller.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}
