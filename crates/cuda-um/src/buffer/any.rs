//! The traits that buffers and views implement.

use crate::buffer::kind::Kind;
use crate::buffer::memory::Memory;
use crate::buffer::view::{View, ViewMut};

/// Elements that can be read: a buffer of any kind ([`Memory`]), a [`View`], or a [`ViewMut`].
///
/// It cannot be implemented outside this crate.
pub trait Readable: sealed::Sealed {
    /// The type of the elements.
    type Element;

    /// Returns a view of all elements, to be read.
    fn as_view(&self) -> View<'_, Self::Element>;
}

/// Elements that can be read and written: a buffer of any kind, or a [`ViewMut`].
///
/// It cannot be implemented outside this crate.
#[diagnostic::on_unimplemented(
    message = "`&mut {Self}` is no memory that can be written",
    note = "pass `&mut buffer`, or a part of it (`buffer.view_mut(…)`, a `ViewMut`); a `View` only reads"
)]
#[doc(alias = "MemoryMut")]
pub trait Writable: Readable {
    /// Returns a view of all elements, to be read and written.
    fn as_view_mut(&mut self) -> ViewMut<'_, Self::Element>;
}

mod sealed {
    pub trait Sealed {}
}

impl<T, K: Kind> sealed::Sealed for Memory<T, K> {}
impl<T, K: Kind> Readable for Memory<T, K> {
    type Element = T;

    #[inline]
    fn as_view(&self) -> View<'_, T> {
        self.as_view()
    }
}
impl<T, K: Kind> Writable for Memory<T, K> {
    #[inline]
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        self.as_view_mut()
    }
}

impl<T> sealed::Sealed for View<'_, T> {}
impl<T> Readable for View<'_, T> {
    type Element = T;

    #[inline]
    fn as_view(&self) -> View<'_, T> {
        *self
    }
}

impl<T> sealed::Sealed for ViewMut<'_, T> {}
impl<T> Readable for ViewMut<'_, T> {
    type Element = T;

    #[inline]
    fn as_view(&self) -> View<'_, T> {
        self.as_view()
    }
}
impl<T> Writable for ViewMut<'_, T> {
    #[inline]
    fn as_view_mut(&mut self) -> ViewMut<'_, T> {
        self.as_view_mut()
    }
}
