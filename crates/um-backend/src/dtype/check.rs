//! Comparison of a `DType` with an element type.

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

pub(crate) fn check_same(what: &str, requested: DType, element: DType) -> Result<()> {
    match requested == element {
        true => Ok(()),
        false => Err(CudaError::DTypeMismatch {
            what: what.to_owned(),
            requested: requested.to_string(),
            element: element.to_string(),
        }),
    }
}
