//! The traits that buffers and views implement.

use crate::buffer::view::{View, ViewMut};
use crate::resource::allocation::Allocation;
use std::ops::Range;

/// Elements that can be read: a buffer of any kind ([`Memory`](crate::Memory)), a [`View`], or a [`ViewMut`].
///
/// It cannot be implemented outside this crate.
pub trait Readable<T>: sealed::Raw {
    /// Returns the number of elements.
    fn element_count(&self) -> usize {
        View::of(self).len()
    }
}

/// Elements that can be read and written: a buffer of any kind, or a [`ViewMut`].
///
/// It cannot be implemented outside this crate.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no memory of `{T}` that can be written",
    note = "write to a buffer (`&mut buffer`) or to a part of it (`buffer.view_mut(…)`, a `ViewMut`); a `View` only reads"
)]
#[doc(alias = "MemoryMut")]
pub trait Writable<T>: Readable<T> + sealed::RawMut {}

mod sealed {
    use super::{Allocation, Range};

    /// Access to the untyped buffer.
    pub trait Raw {
        /// The buffer, and the range of its bytes.
        #[doc(hidden)]
        fn raw_part(&self) -> (&Allocation, Range<usize>);
    }

    /// Memory that `&mut` of this type may write.
    #[diagnostic::on_unimplemented(
        message = "`&mut {Self}` is no memory that a kernel can write",
        note = "pass `&mut buffer`, or a part of it (`buffer.view_mut(…)`, a `ViewMut`); a `View` only reads"
    )]
    pub trait RawMut: Raw {}
}
pub(crate) use sealed::{Raw, RawMut};

impl<T> Readable<T> for View<'_, T> {}
impl<T> Raw for View<'_, T> {
    fn raw_part(&self) -> (&Allocation, Range<usize>) {
        (self.raw, self.bytes())
    }
}

impl<T> Readable<T> for ViewMut<'_, T> {}
impl<T> Writable<T> for ViewMut<'_, T> {}
impl<T> RawMut for ViewMut<'_, T> {}
impl<T> Raw for ViewMut<'_, T> {
    fn raw_part(&self) -> (&Allocation, Range<usize>) {
        (self.raw, self.bytes())
    }
}
