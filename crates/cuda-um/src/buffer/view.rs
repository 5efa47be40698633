//! Views: parts of buffers, as arguments of kernels.

use crate::error::Result;
use crate::range;
use crate::resource::allocation::Allocation;
use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;

/// A range of a buffer's elements that a kernel reads.
pub struct View<'a, T> {
    pub(crate) raw: &'a Allocation,
    start: usize,
    len: usize,
    _elements: PhantomData<&'a [T]>,
}

/// A range of a buffer's elements that a kernel reads and writes.
pub struct ViewMut<'a, T> {
    pub(crate) raw: &'a Allocation,
    start: usize,
    len: usize,
    _elements: PhantomData<&'a mut [T]>,
}

impl<'a, T> View<'a, T> {
    pub(crate) fn new(raw: &'a Allocation, range: impl RangeBounds<usize>) -> Result<Self> {
        let range = range::check(range, raw.bytes() / size_of::<T>())?;
        Ok(Self {
            raw,
            start: range.start,
            len: range.len(),
            _elements: PhantomData,
        })
    }
}

impl<'a, T> ViewMut<'a, T> {
    pub(crate) fn new(raw: &'a mut Allocation, range: impl RangeBounds<usize>) -> Result<Self> {
        let range = range::check(range, raw.bytes() / size_of::<T>())?;
        Ok(Self {
            raw,
            start: range.start,
            len: range.len(),
            _elements: PhantomData,
        })
    }
}

impl<T> ViewMut<'_, T> {
    /// Returns a part of the view for as long as the view is borrowed, so that several launches can use it. Index 0 is the view's first
    /// element.
    ///
    /// # Errors
    ///
    /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds).
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> Result<ViewMut<'_, T>> {
        let part = range::check(range, self.len)?;
        Ok(ViewMut {
            raw: self.raw,
            start: self.start + part.start,
            len: part.len(),
            _elements: PhantomData,
        })
    }
}

macro_rules! view {
    ($view:ident) => {
        impl<T> $view<'_, T> {
            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.len
            }

            /// Returns true if the view has no elements.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }

            /// Returns a part of the view. Index 0 is the view's first element.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds).
            pub fn slice(self, range: impl RangeBounds<usize>) -> Result<Self> {
                let part = range::check(range, self.len)?;
                Ok(Self {
                    start: self.start + part.start,
                    len: part.len(),
                    ..self
                })
            }

            /// The view's range of bytes in the buffer.
            pub(crate) fn bytes(&self) -> std::ops::Range<usize> {
                range::to_bytes::<T>(&(self.start..self.start + self.len))
            }
        }

        impl<T> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($view))
                    .field("buffer", &self.raw.id())
                    .field("range", &(self.start..self.start + self.len))
                    .finish_non_exhaustive()
            }
        }
    };
}
view!(View);
view!(ViewMut);

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for View<'_, T> {}
