//! Numbers as arguments.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;

use crate::errors::{refusal, text};
use crate::outside::Outside;

/// A number as an argument: one that is out of range is an `ArgumentError` with its value.
#[derive(Clone, Copy)]
pub(crate) struct Number<T>(pub(crate) T);

/// A type of numbers.
pub(crate) trait Allowed {
    /// The numbers that are allowed, as the error says.
    const ALLOWED: &'static str;
}

impl Allowed for usize {
    const ALLOWED: &'static str = "the ordinal of a device, at least 0";
}
impl Allowed for i64 {
    const ALLOWED: &'static str = "-1, 1, 2, or a handle of a stream of CUDA";
}
impl Allowed for u64 {
    const ALLOWED: &'static str = "a handle of a stream of CUDA";
}
impl Allowed for u32 {
    const ALLOWED: &'static str = "a number of DLPack, at least 0 and less than 2^32";
}
impl Allowed for i32 {
    const ALLOWED: &'static str = "an ordinal of DLPack, less than 2^31";
}

impl<'py, T: Allowed + for<'n> FromPyObject<'n, 'py, Error = PyErr>> FromPyObject<'_, 'py>
    for Number<T>
{
    type Error = PyErr;

    fn extract(value: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let number = value.index()?;
        let number = number.extract::<T>();
        number.map(Self).map_err(|refused| {
            match refused.is_instance_of::<PyOverflowError>(value.py()) {
                true => refusal(refused, |_| {
                    Ok(format!(
                        "a number cannot be {}: it is {}",
                        text(&value)?,
                        T::ALLOWED
                    ))
                }),
                false => refused,
            }
        })
    }
}
