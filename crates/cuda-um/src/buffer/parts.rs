//! Buffers that are parts of one.

use crate::buffer::kind::Owned;
use crate::buffer::memory::Memory;
use crate::error::{Error, Result};
use crate::range;
use std::ops::Range;

impl<T, K: Owned> Memory<T, K> {
    /// Makes a buffer of each of these ranges of elements, without a copy: each has an identifier, a name, uses and a lifetime of its own. The memory
    /// goes back when the last one is dropped.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// let buffer = cuda_um::DeviceBuffer::from_slice(&device, &[1.0f32, 2.0, 0.0, 3.0])?;
    /// let mut parts: Vec<_> = buffer.into_parts(&[0..2, 3..4])?.collect();
    /// parts[1].fill(4.0)?;
    /// assert_eq!((parts[0].to_vec()?, parts[1].to_vec()?), (vec![1.0, 2.0], vec![4.0]));
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// Work on a part is ordered after work on the buffer until now, and not after that on other parts.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`], and [`Error::InvalidArgument`] for ranges that are not in order or overlap. The buffer is then dropped.
    pub fn into_parts(
        self,
        parts: &[Range<usize>],
    ) -> Result<impl Iterator<Item = Self> + use<T, K>> {
        let mut end = 0;
        let bytes = |part: &Range<usize>| {
            let part = range::check(part.clone(), self.len())?;
            if part.start < end {
                return Err(Error::InvalidArgument {
                    what: "the parts of a buffer",
                    value: format!("{part:?}"),
                    reason: format!("it begins before {end}, the end of the part before"),
                });
            }
            end = part.end;
            Ok(part.start * size_of::<T>()..part.end * size_of::<T>())
        };
        let bytes = parts.iter().map(bytes).collect::<Result<_>>()?;
        Ok(self.raw.into_parts(bytes).map(Self::of_raw))
    }
}
