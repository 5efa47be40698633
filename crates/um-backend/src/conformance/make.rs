//! What the suite makes its buffers with.

use crate::buffer::Buffer;
use crate::error::Result;

/// Makes a buffer of so many elements, of the implementation under test.
pub type Make<'a, T> = &'a dyn Fn(usize) -> Result<Box<dyn Buffer<T>>>;

/// The lengths that the rules are tried with.
pub const LENGTHS: [usize; 5] = [0, 1, 3, 1000, 4097];
