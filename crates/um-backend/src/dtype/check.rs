//! Comparison of a `DType` with an element type.

use super::{DType, Element, dtype_of};
use crate::error::{CudaError, Result};

impl DType {
    /// Checks that this is the type of `T`.
    ///
    /// # Errors
    /// [`CudaError::DTypeMismatch`] if it is not.
    pub fn check<T: Element>(self) -> Result<()> {
        let element = dtype_of::<T>();
        if self == element {
            Ok(())
        } else {
            Err(CudaError::DTypeMismatch {
                requested: self,
                element,
            })
        }
    }
}
