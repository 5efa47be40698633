//! Comparison of a `DType` with an element type.

use super::{DType, Element};
use crate::error::{CudaError, Result};

impl DType {
    /// Checks that this is the type of `T`.
    ///
    /// # Errors
    /// [`CudaError::DTypeMismatch`] if it is not.
    pub fn check<T: Element>(self) -> Result<()> {
        if self == T::DTYPE {
            Ok(())
        } else {
            Err(CudaError::DTypeMismatch {
                requested: self,
                element: T::DTYPE,
            })
        }
    }
}
