//! An input and an output that may be one range of memory.

use std::cell::Cell;

use bytemuck::Pod;

use super::{LaunchContext, ReferenceError};

/// The elements of a kernel's input. They change while the kernel writes its output, if the launch passed one range as both.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a, T: Copy>(&'a [Cell<T>]);

impl<'a, T: Copy> Elements<'a, T> {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads an element.
    ///
    /// # Panics
    /// If there is no such element.
    pub fn get(&self, index: usize) -> T {
        self.0[index].get()
    }

    /// Reads the elements in order, each when the iterator reaches it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = T> + 'a {
        self.0.iter().map(Cell::get)
    }
}

impl<'a> LaunchContext<'a> {
    /// The `len` elements behind two pointer parameters, an input and an output that a launch may pass as one range, in place. The same
    /// code then serves both kinds of launches:
    ///
    /// ```
    /// # use cuda_um_sim::{LaunchContext, ReferenceError};
    /// fn scale(launch: &mut LaunchContext<'_>) -> Result<(), ReferenceError> {
    ///     let (len, factor) = (launch.value::<u32>(2)? as usize, launch.value::<f32>(3)?);
    ///     let (input, output) = launch.in_place::<f32>(0, 1, len)?;
    ///     input.iter().zip(output).for_each(|(x, y)| y.set(x * factor));
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// As for [`slice`](Self::slice) and [`slice_mut`](Self::slice_mut): the two ranges must be the same or apart.
    pub fn in_place<T: Pod>(
        &self,
        input: usize,
        output: usize,
        len: usize,
    ) -> Result<(Elements<'a, T>, &'a [Cell<T>]), ReferenceError> {
        let is_one = self.value::<u64>(input)? == self.value::<u64>(output)?;
        let written = self.acquire::<T>(output, 0..len, true, false)?;
        let read = match is_one {
            // The same memory, with an extent of its own.
            true => {
                let bytes = len.saturating_mul(size_of::<T>());
                self.noted(self.check_declared(input, 0..bytes, false))?;
                written
            }
            false => self.acquire::<T>(input, 0..len, false, false)?,
        };
        let cells = |view: Option<usize>| match view {
            // SAFETY: as in `read` and `write`: `acquire` checked that `len` aligned elements at `view` lie in mapped memory that is the
            // kernel's to use, and no slice of this launch overlaps them, except that both may be one range, as cells may. The cells of
            // an input of its own are only read, for `Elements` has no other access.
            Some(view) => unsafe { std::slice::from_raw_parts(view as *const Cell<T>, len) },
            None => &[],
        };
        Ok((Elements(cells(read)), cells(written)))
    }
}
