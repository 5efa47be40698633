//! Codes, and the functions about errors.

use super::{Cuda, Failure};
use std::ffi::{CStr, c_char};

/// What a call gives. The runtime's and the driver's numbers agree where both have the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Code(pub(crate) u32);

impl Code {
    pub(crate) const SUCCESS: Code = Code(0);
    pub(crate) const INVALID_VALUE: Code = Code(1);
    pub(crate) const OUT_OF_MEMORY: Code = Code(2);
    pub(crate) const INVALID_COPY_DIRECTION: Code = Code(21);
    pub(crate) const INVALID_DEVICE: Code = Code(101);
    pub(crate) const INVALID_HANDLE: Code = Code(400);
    pub(crate) const NOT_FOUND: Code = Code(500);
    pub(crate) const NOT_READY: Code = Code(600);
    pub(crate) const ILLEGAL_ADDRESS: Code = Code(700);
    pub(crate) const PEER_UNSUPPORTED: Code = Code(217);
    pub(crate) const PEER_ALREADY_ENABLED: Code = Code(704);
    pub(crate) const PEER_NOT_ENABLED: Code = Code(705);
    pub(crate) const ALREADY_REGISTERED: Code = Code(712);
    pub(crate) const NOT_REGISTERED: Code = Code(713);
    pub(crate) const MISALIGNED_ADDRESS: Code = Code(716);
    pub(crate) const NOT_SUPPORTED: Code = Code(801);

    /// As a result, for `?` in preparations.
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

    /// `cudaGetLastError`, so that the next case finds none.
    pub(crate) fn forget_error(&self) -> Code {
        // SAFETY: takes nothing.
        Code(unsafe { (self.table().cudaGetLastError)() }.0)
    }

    /// `cudaPeekAtLastError`
    pub(crate) fn peek_error(&self) -> Code {
        self.asked.borrow_mut().push("cudaPeekAtLastError");
        // SAFETY: takes nothing.
        Code(unsafe { (self.table().cudaPeekAtLastError)() }.0)
    }

    /// `cudaGetErrorName`
    pub(crate) fn error_name(&self, code: Code) -> String {
        self.asked.borrow_mut().push("cudaGetErrorName");
        self.name(code)
    }

    fn name(&self, code: Code) -> String {
        // SAFETY: takes any number; gives a static text.
        unsafe {
            text((self.table().cudaGetErrorName)(cuda_um_sys::cudaError(
                code.0,
            )))
        }
    }

    /// `cudaGetErrorString`
    pub(crate) fn error_string(&self, code: Code) -> String {
        self.asked.borrow_mut().push("cudaGetErrorString");
        // SAFETY: takes any number; gives a static text.
        unsafe {
            text((self.table().cudaGetErrorString)(cuda_um_sys::cudaError(
                code.0,
            )))
        }
    }

    /// `cuGetErrorName`, and its code
    pub(crate) fn driver_error_name(&self, code: Code) -> Result<(Code, String), Failure> {
        let mut name = std::ptr::null();
        // SAFETY: the place is valid for one write.
        let got =
            unsafe { (self.driver()?.cuGetErrorName)(cuda_um_sys::CUresult(code.0), &mut name) };
        // SAFETY: null, or a static text.
        Ok((Code(got.0), unsafe { text(name) }))
    }

    /// `cuGetErrorString`, and its code
    pub(crate) fn driver_error_string(&self, code: Code) -> Result<(Code, String), Failure> {
        let mut string = std::ptr::null();
        // SAFETY: the place is valid for one write.
        let got = unsafe {
            (self.driver()?.cuGetErrorString)(cuda_um_sys::CUresult(code.0), &mut string)
        };
        // SAFETY: null, or a static text.
        Ok((Code(got.0), unsafe { text(string) }))
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
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(pointer) }
        .to_string_lossy()
        .into_owned()
}
