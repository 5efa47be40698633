//! Capsules: how Python passes DLPack's tensors.
#![allow(unsafe_code, reason = "calls Python's C functions for capsules")]

use std::ffi::CStr;

use pyo3::ffi;
use pyo3::prelude::*;
use um_dlpack::dlpark::ffi::{DLManagedTensor, DLManagedTensorVersioned};
use um_dlpack::dlpark::{Managed, ManagedTensorBase};

use crate::errors::{Kind, error, text};

/// A form of managed tensors, with the names of its capsules before and after it was consumed.
pub(crate) trait Form: ManagedTensorBase + Sized + 'static {
    const FRESH: &'static CStr;
    const USED: &'static CStr;
}

impl Form for DLManagedTensor {
    const FRESH: &'static CStr = c"dltensor";
    const USED: &'static CStr = c"used_dltensor";
}

impl Form for DLManagedTensorVersioned {
    const FRESH: &'static CStr = c"dltensor_versioned";
    const USED: &'static CStr = c"used_dltensor_versioned";
}

/// A tensor out of a capsule.
pub(crate) enum Tensor {
    Versioned(Managed<DLManagedTensorVersioned>),
    Old(Managed<DLManagedTensor>),
}

/// Puts a tensor into a capsule. Its deleter runs when it is consumed and dropped, or when the capsule is dropped before.
pub(crate) fn wrap<M: Form>(py: Python<'_>, tensor: Managed<M>) -> PyResult<Bound<'_, PyAny>> {
    let raw = tensor.into_raw();
    // SAFETY: the pointer is not null, and the capsule owns the tensor until a consumer renames it.
    unsafe {
        let capsule = ffi::PyCapsule_New(raw.cast(), M::FRESH.as_ptr(), Some(drop_capsule::<M>));
        if capsule.is_null() {
            M::drop_raw(raw);
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

/// # Safety
/// Python calls it with the capsule that it frees.
unsafe extern "C" fn drop_capsule<M: Form>(capsule: *mut ffi::PyObject) {
    // SAFETY: the capsule is valid, and unless it was renamed, nothing consumed its tensor.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::FRESH.as_ptr()) == 1 {
            M::drop_raw(ffi::PyCapsule_GetPointer(capsule, M::FRESH.as_ptr()).cast());
        }
    }
}

/// Takes the tensor out of a capsule, once.
pub(crate) fn take(capsule: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    if let Some(raw) = consume::<DLManagedTensorVersioned>(capsule)? {
        // SAFETY: a capsule of this name has such a tensor, which now is this call's.
        let tensor = unsafe { Managed::from_raw(raw) };
        return tensor
            .map(Tensor::Versioned)
            .map_err(|refused| error(Kind::DLPack, refused.to_string()));
    }
    if let Some(raw) = consume::<DLManagedTensor>(capsule)? {
        // SAFETY: as above.
        let tensor = unsafe { Managed::from_raw(raw) };
        return tensor
            .map(Tensor::Old)
            .map_err(|refused| error(Kind::DLPack, refused.to_string()));
    }
    Err(error(
        Kind::DLPack,
        format!(
            "{} is no DLPack capsule: pass an array of a library that has `__dlpack__`",
            text(capsule)?
        ),
    ))
}

/// The tensor, if the capsule is of this form.
fn consume<M: Form>(capsule: &Bound<'_, PyAny>) -> PyResult<Option<*mut M>> {
    let raw = capsule.as_ptr();
    // SAFETY: the functions take any object; a pointer is taken only out of a capsule of this name.
    unsafe {
        if ffi::PyCapsule_IsValid(raw, M::USED.as_ptr()) == 1 {
            return Err(error(
                Kind::DLPack,
                "the capsule was consumed before, and a capsule is consumed once: call `__dlpack__` again",
            ));
        }
        if ffi::PyCapsule_IsValid(raw, M::FRESH.as_ptr()) != 1 {
            return Ok(None);
        }
        let tensor = ffi::PyCapsule_GetPointer(raw, M::FRESH.as_ptr());
        if tensor.is_null() || ffi::PyCapsule_SetName(raw, M::USED.as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()));
        }
        Ok(Some(tensor.cast()))
    }
}
