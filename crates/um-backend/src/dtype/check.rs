//! Comparison of a `DType` with an element type.

use std::fmt;

use cuda_um::buffer::ElementType;

use super::{DType, Element, dtype_of};
use crate::error::{CudaError, Result};

impl DType {
    /// Checks that this is the type of `T`.
    ///
    /// # Errors
    /// [`CudaError::DTypeMismatch`] if it is not.
    pub fn check<T: Element>(self) -> Result<()> {
        check_same("the element type", self, dtype_of::<T>())
    }
}

impl<T: Element> ElementType<T> for DType {
    fn check(&self) -> Result<()> {
        Self::check::<T>(*self)
    }
}

/// Refuses a type that is not the one of the elements.
pub(crate) fn check_same(what: impl fmt::Display, requested: DType, element: DType) -> Result<()> {
    match requested == element {
        true => Ok(()),
        false => Err(CudaError::DTypeMismatch {
            what: what.to_string(),
            requested: requested.to_string(),
            element: element.to_string(),
        }),
    }
}
