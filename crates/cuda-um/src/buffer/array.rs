//! What kernels and copies take as arrays: buffers and views of all kinds, and types of crates above.

use crate::buffer::kind::Kind;
use crate::buffer::memory::Memory;
use crate::buffer::view::{View, ViewMut};
use crate::error::Result;

/// What a kernel or a copy reads as an array of `T`: `&` of any buffer or view, or a [`View`].
///
/// Launchers that are safe to call take it (see [`Scalar`](crate::Scalar)), and use only the view: the view is what the kernel gets.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read as an array of `{T}`",
    note = "pass `&buffer` or a `View` of a buffer of `{T}`; of a `Vec`, make a buffer first (`UnifiedBuffer::from_slice`)"
)]
pub trait ReadArg<T> {
    /// Returns the elements to read.
    ///
    /// # Errors
    ///
    /// The memory cannot be used so.
    fn into_view<'a>(self) -> Result<View<'a, T>>
    where
        Self: 'a;
}

/// What a kernel or a copy writes as an array of `T`: `&mut` of any buffer or `ViewMut`, or a [`ViewMut`]. As for [`ReadArg`], the view is what
/// the kernel gets.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be written as an array of `{T}`",
    note = "pass `&mut buffer` or a `ViewMut` of a buffer of `{T}`"
)]
pub trait WriteArg<T> {
    /// Returns the elements to read and write.
    ///
    /// # Errors
    ///
    /// The memory cannot be used so.
    fn into_view_mut<'a>(self) -> Result<ViewMut<'a, T>>
    where
        Self: 'a;
}

macro_rules! arrays {
    ($($trait:ident, $into:ident -> $view:ident: [$($generics:tt)*] $of:ty = |$argument:ident| $value:expr;)*) => {$(
        impl<T, $($generics)*> $trait<T> for $of {
            #[inline]
            fn $into<'a>(self) -> Result<$view<'a, T>>
            where
                Self: 'a,
            {
                let $argument = self;
                Ok($value)
            }
        }
    )*};
}

arrays! {
    ReadArg, into_view -> View: [K: Kind] &Memory<T, K> = |memory| memory.as_view();
    ReadArg, into_view -> View: [] &View<'_, T> = |view| *view;
    ReadArg, into_view -> View: [] &ViewMut<'_, T> = |view| view.as_view();
    ReadArg, into_view -> View: [] View<'_, T> = |view| view;
    WriteArg, into_view_mut -> ViewMut: [K: Kind] &mut Memory<T, K> = |memory| memory.as_view_mut();
    WriteArg, into_view_mut -> ViewMut: [] &mut ViewMut<'_, T> = |view| view.as_view_mut();
    WriteArg, into_view_mut -> ViewMut: [] ViewMut<'_, T> = |view| view;
}
