//! Versions of the CUDA runtime and driver.

use std::fmt;

/// A CUDA version, as in "12.9".
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeVersion {
    /// The major version: 12 of 12.9.
    pub major: u32,
    /// The minor version: 9 of 12.9.
    pub minor: u32,
}

impl RuntimeVersion {
    /// A version from its two numbers.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Decodes CUDA's number: 12090 is 12.9.
    pub const fn from_number(number: u32) -> Self {
        Self {
            major: number / 1000,
            minor: number % 1000 / 10,
        }
    }
}

impl fmt::Display for RuntimeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}
