//! The interface of the cases to CUDA: the functions of [`Calls`], objects that release themselves, and observations.
//!
//! Cases pass wrong arguments on purpose, so an address here is a number, and CUDA checks it. The cases cannot cause undefined
//! behaviour: they read and write host memory only through [`Memory`], within its bounds; kernels get their arguments from
//! [`Cuda::add`] and similar functions, which match the parameters of each kernel; handles that CUDA may dereference come from
//! guards, or are numbers that CUDA documents.
#![allow(unsafe_code, reason = "calls the C functions of the table")]

mod graph;
mod kernel;
mod memory;
mod object;
mod range;

use crate::{Machine, Value};
use cuda_um_sys::{self as sys, Table};
pub(crate) use cuda_um_testkit::call;
pub(crate) use cuda_um_testkit::call::{At, Called, Calls, Code, Place, Shape, text, there};
pub(crate) use graph::{mode, status};
pub(crate) use kernel::{counter, load_kernels};
pub(crate) use memory::Memory;
use object::forms;
pub(crate) use object::{Event, Exec, Graph, NOT_READY, Pool, Stream};
pub(crate) use range::{Attribute, Span};
use std::cell::RefCell;
use std::ffi::{CStr, c_void};
use std::fmt::Debug;
use std::panic::{Location, resume_unwind};

/// `cudaStreamLegacy`, by its own value; the null stream is the same stream.
pub(crate) const LEGACY: usize = 1;
/// `cudaStreamPerThread`
pub(crate) const PER_THREAD: usize = 2;

/// The interface of a case: CUDA's functions, and a list of observations.
pub struct Cuda<'m> {
    pub(crate) machine: &'m Machine,
    pub(crate) seen: RefCell<Vec<(String, Value)>>,
    /// Failures in the drops of guards, which must not panic.
    pub(crate) late: RefCell<Vec<String>>,
    /// Calls of functions without a result code, which are not in a simulator's log.
    pub(crate) asked: RefCell<Vec<&'static str>>,
}

impl Calls for Cuda<'_> {
    fn table(&self) -> &Table {
        &self.machine.table
    }
}

/// For a call in a preparation: it must succeed. Returns its value.
#[track_caller]
pub(crate) fn ok<T>(got: Called<T>) -> T {
    got.unwrap_or_else(|code| panic!("{code}, at {}", Location::caller()))
}

/// The code of a result.
pub(crate) fn code_of<T>(got: &Called<T>) -> Code {
    got.as_ref().err().copied().unwrap_or(Code::SUCCESS)
}

impl<'m> Cuda<'m> {
    /// Creates the interface for one case.
    pub(crate) fn new(machine: &'m Machine) -> Self {
        let (seen, late, asked) = Default::default();
        Self {
            machine,
            seen,
            late,
            asked,
        }
    }

    /// Records an observation.
    pub(crate) fn note(&self, what: impl AsRef<str>, value: Value) {
        self.seen
            .borrow_mut()
            .push((what.as_ref().to_owned(), value));
    }

    /// For the rule: the call returns this code.
    pub(crate) fn gives<T>(&self, what: impl AsRef<str>, got: Called<T>, expected: Code) {
        let (what, code) = (what.as_ref(), code_of(&got));
        self.note(what, Value::Text(self.text(code)));
        if code != Code::SUCCESS {
            self.forget_error();
        }
        let (seen, wanted) = (self.text(code), self.text(expected));
        assert!(code == expected, "{what}: {seen}, expected {wanted}");
    }

    /// For the rule: the call succeeds. Returns its value.
    pub(crate) fn succeeds<T>(&self, what: impl AsRef<str>, got: Called<T>) -> T {
        self.gives(what, got.as_ref().map_err(|code| *code), Code::SUCCESS);
        ok(got)
    }

    /// For the rule: the call is refused. CUDA does not document a single code, so the code is recorded for the comparison.
    pub(crate) fn refuses<T>(&self, what: impl AsRef<str>, got: Called<T>) {
        self.note(&what, Value::Text(self.text(code_of(&got))));
        self.forget_error();
        assert!(got.is_err(), "{}: not refused", what.as_ref());
    }

    /// For the rule: the observation has this value.
    pub(crate) fn is<T: PartialEq + Debug>(&self, what: impl AsRef<str>, seen: T, expected: T) {
        self.note(&what, Value::Text(format!("{seen:?}")));
        let what = what.as_ref();
        assert!(seen == expected, "{what}: {seen:?}, expected {expected:?}");
    }

    /// For the rule: the condition is true.
    pub(crate) fn holds(&self, what: impl AsRef<str>, holds: bool) {
        self.is(what, holds, true);
    }

    /// Runs a part of a case on another thread.
    pub(crate) fn elsewhere<R: Send>(&self, work: impl FnOnce(&Cuda<'_>) -> R + Send) -> R {
        let machine = self.machine;
        let run = move || work(&Cuda::new(machine));
        std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|it| resume_unwind(it))
    }

    /// Runs a closure while this device is current; afterwards device 0 is current again.
    pub(crate) fn on<T>(&self, device: i32, make: impl FnOnce() -> T) -> T {
        ok(self.set_device(device));
        let made = make();
        ok(self.set_device(0));
        made
    }

    /// `cudaGetLastError`
    pub(crate) fn last_error(&self) -> Code {
        self.asked.borrow_mut().push("cudaGetLastError");
        self.forget_error()
    }

    /// `cudaPeekAtLastError`
    pub(crate) fn peek_error(&self) -> Code {
        self.asked.borrow_mut().push("cudaPeekAtLastError");
        Code(call!(self.table(), cudaPeekAtLastError()).0, "")
    }

    /// `cudaGetErrorName`, and `cudaGetErrorString`.
    pub(crate) fn error_texts(&self, code: u32) -> (String, String) {
        let both = ["cudaGetErrorName", "cudaGetErrorString"];
        self.asked.borrow_mut().extend(both);
        let string = call!(self.table(), cudaGetErrorString(sys::cudaError(code)));
        // SAFETY: a static text, for any number.
        (self.name_of(code), unsafe { text(string) })
    }

    /// `cuGetErrorName` and its code, and `cuGetErrorString`.
    pub(crate) fn driver_error_texts(&self, code: u32) -> (Called, String, String) {
        let (mut name, mut string) = (std::ptr::null(), std::ptr::null());
        let (driver, code) = (self.driver(), sys::CUresult(code));
        let got = call!(driver, cuGetErrorName(code, &mut name));
        call!(driver, cuGetErrorString(code, &mut string));
        // SAFETY: null, or static texts.
        let (name, string) = unsafe { (text(name), text(string)) };
        (Code(got.0, "cuGetErrorName").called(), name, string)
    }

    /// "1 cudaErrorInvalidValue".
    pub(crate) fn text(&self, code: Code) -> String {
        format!("{} {}", code.0, self.name_of(code.0))
    }

    /// Calls a function of the driver that the table does not have. It takes at most 8 arguments, which are numbers, handles, and addresses that
    /// are valid for the call.
    pub(crate) fn named(&self, name: &'static CStr, arguments: &[usize]) -> Called {
        type Function =
            unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize) -> u32;
        let (mut found, mut status) = (
            std::ptr::null_mut(),
            sys::cudaDriverEntryPointQueryResult(0),
        );
        let text = name.to_str().unwrap_or_default();
        let code = call!(
            self.table(),
            cudaGetDriverEntryPoint(name.as_ptr(), &mut found, 0, &mut status)
        );
        Code(code.0, text).called()?;
        assert!(!found.is_null(), "{text} is not there");
        // SAFETY: the driver's function of this name, which ignores arguments that it does not have.
        let function = unsafe { std::mem::transmute::<*mut c_void, Function>(found) };
        let mut all = [0; 8];
        all[..arguments.len()].copy_from_slice(arguments);
        let [a, b, c, d, e, f, g, h] = all;
        Code(call!(function(a, b, c, d, e, f, g, h)), text).called()
    }

    /// `cudaDeviceGetAttribute` of device 0.
    pub(crate) fn attribute(&self, which: sys::cudaDeviceAttr) -> i32 {
        ok(self.device_attribute(which.0, 0))
    }
}
