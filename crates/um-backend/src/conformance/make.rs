//! The constructor under test.

use crate::buffer::Buffer;
use crate::error::Result;

/// Allocates a buffer of the implementation under test with the given number of elements.
pub type Make<'a, T> = &'a dyn Fn(usize) -> Result<Box<dyn Buffer<T>>>;

/// The lengths for which the rules are checked.
pub const LENGTHS: [usize; 5] = [0, 1, 3, 1000, 4097];
