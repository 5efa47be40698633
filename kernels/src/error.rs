//! Errors that are found before a launch.

use cuda_um::kernel::wrong_length;
use cuda_um::{Error, Result};

/// The view of an argument, or an error with the name of its parameter.
pub(crate) fn argument<V>(kernel: &str, parameter: &str, view: Result<V>) -> Result<V> {
    view.map_err(|error| error.of_argument(kernel, parameter))
}

/// Checks the length of an array.
pub(crate) fn length(
    kernel: &'static str,
    array: &str,
    expected: usize,
    found: usize,
) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(wrong_length(kernel, array, expected, found)),
    }
}

/// The error of a number outside of the allowed range.
pub(crate) fn value(kernel: &'static str, parameter: &str, found: usize, allowed: &str) -> Error {
    Error::InvalidArgument {
        what: kernel,
        value: format!("launched with {parameter} = {found}"),
        reason: format!("allowed is {allowed}"),
    }
}
