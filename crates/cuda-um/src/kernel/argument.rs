//! The types that a kernel accepts as arguments.

use crate::buffer;
use crate::buffer::memory::Memory;
use crate::buffer::view::{InPlace, View, ViewMut};
use crate::context::tracker::Access;
use crate::error::Result;
use crate::kernel::arguments::{Arguments, Kind};
use crate::scalar::{Role, Scalar};
use bytemuck::NoUninit;

/// One argument of a kernel:
///
/// - `&buffer` or a [`View`] to read, `&mut buffer` or a [`ViewMut`] to read and write, [`ViewMut::in_place`] for input and output at once;
/// - a number, `usize` or `bool`, or an array of them, or other plain old data as a [`Scalar`]; in a capture as a
///   [`constant`](crate::constant) or with a name ([`Recording::scalar`](crate::graph::Recording::scalar)).
///
/// A crate above can implement it for its own types of buffers and values: [`pass`](Self::pass) adds what this crate knows.
///
/// ```
/// use cuda_um::{Result, UnifiedBuffer, constant, kernel::{Arguments, KernelArg}};
///
/// struct Tensor {
///     data: UnifiedBuffer<f32>,
///     shape: [u32; 4],
/// }
///
/// /// A kernel's parameters `const float* data, Shape shape`.
/// impl KernelArg for &Tensor {
///     fn pass<'a>(self, arguments: &mut Arguments<'a>) -> Result<()>
///     where
///         Self: 'a,
///     {
///         self.data.view(..)?.pass(arguments)?;
///         constant(self.shape).pass(arguments)
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of a kernel",
    label = "not an argument of a kernel",
    note = "pass `&buffer` or a `View` to read, `&mut buffer` or a `ViewMut` to write, a number, `bool`, or an array of them",
    note = "kernels do not use memory of the host, such as a `Vec`: make a buffer of it first (`UnifiedBuffer::from_slice`); of an `Arc`, pass `&*arc`",
    note = "other plain old data goes by value as `constant(…)`; a type of buffers of your own can implement `KernelArg`"
)]
pub trait KernelArg: Sized {
    /// Adds the argument to the list: the views and values that stand for it.
    ///
    /// # Errors
    ///
    /// A kernel cannot use the argument. The launch returns the error, and the kernel does not run.
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> Result<()>
    where
        Self: 'a;
}

/// A tuple of up to 16 [`KernelArg`]s, or a list of them ([`Arguments`]).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of arguments of a kernel",
    note = "the arguments are a tuple of at most 16, such as `(&mut buffer, 1u32)` or `(&mut buffer,)`, or `Arguments`"
)]
pub trait KernelArgs {
    #[doc(hidden)]
    fn collect<R>(self, launch: impl FnOnce(&mut Arguments<'_>) -> Result<R>) -> Result<R>;
}

impl<'a> Arguments<'a> {
    /// Adds the next argument: `&buffer`, `&mut buffer`, a view, or a value. A launch with the list returns the error of an argument that
    /// cannot be passed.
    pub fn push(&mut self, argument: impl KernelArg + 'a) {
        if let Err(error) = argument.pass(self) {
            self.error.get_or_insert(error);
        }
    }
}

impl KernelArgs for Arguments<'_> {
    fn collect<R>(mut self, launch: impl FnOnce(&mut Arguments<'_>) -> Result<R>) -> Result<R> {
        match self.error.take() {
            None => launch(&mut self),
            Some(error) => Err(error),
        }
    }
}

impl<T: NoUninit> KernelArg for Scalar<T> {
    #[inline]
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> Result<()>
    where
        Self: 'a,
    {
        let kind = match self.role() {
            Role::Plain => Kind::PLAIN,
            Role::Constant => Kind::CONSTANT,
            Role::Named { capture, index } => arguments.named(capture, index)?,
        };
        arguments.push_value(&self.value(), kind);
        Ok(())
    }
}

macro_rules! kinds {
    ($([$($generics:tt)*] $of:ty: |$argument:ident, $list:ident| $push:expr;)*) => {$(
        impl<$($generics)*> KernelArg for $of {
            #[inline]
            fn pass<'a>(self, $list: &mut Arguments<'a>) -> Result<()>
            where
                Self: 'a,
            {
                let $argument = self;
                $push;
                Ok(())
            }
        }
    )*};
}

kinds! {
    [T: NoUninit, const N: usize] [T; N]: |values, list| list.push_bytes(bytemuck::cast_slice(&values), Kind::PLAIN);
    [T, K: buffer::kind::Kind] &Memory<T, K>: |memory, list| memory.as_view().pass(list)?;
    [T, K: buffer::kind::Kind] &mut Memory<T, K>: |memory, list| memory.as_view_mut().pass(list)?;
    [T] &View<'_, T>: |view, list| (*view).pass(list)?;
    [T] &ViewMut<'_, T>: |view, list| view.as_view().pass(list)?;
    [T] &mut ViewMut<'_, T>: |view, list| view.as_view_mut().pass(list)?;
    [T] View<'_, T>: |view, list| list.push_buffer(view.raw, view.bytes(), Access::Read);
    [T] ViewMut<'_, T>: |view, list| list.push_buffer(view.raw, view.bytes(), Access::Write);
    [T] InPlace<'_, T>: |view, list| {
        let (raw, bytes, access) = view.raw_part();
        list.push_buffer(raw, bytes, access);
    };
}

macro_rules! numbers {
    ($($of:ty)*) => {
        kinds! { $([] $of: |value, list| list.push_value(&value, Kind::PLAIN);)* }
    };
}
numbers!(bool u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64);
#[cfg(feature = "half")]
numbers!(half::f16 half::bf16);

macro_rules! tuples {
    ($($argument:ident)*) => {
        tuples!(@ [] $($argument)*);
    };
    (@ [$($taken:ident)*]) => {
        tuple!($($taken)*);
    };
    (@ [$($taken:ident)*] $next:ident $($rest:ident)*) => {
        tuple!($($taken)*);
        tuples!(@ [$($taken)* $next] $($rest)*);
    };
}
macro_rules! tuple {
    ($($argument:ident)*) => {
        impl<$($argument: KernelArg),*> KernelArgs for ($($argument,)*) {
            #[allow(non_snake_case, unused_variables, reason = "one variable for each type, and none for no arguments")]
            fn collect<Out>(self, launch: impl FnOnce(&mut Arguments<'_>) -> Result<Out>) -> Result<Out> {
                let mut arguments = Arguments::new();
                let ($($argument,)*) = self;
                $($argument.pass(&mut arguments)?;)*
                launch(&mut arguments)
            }
        }
    };
}
tuples!(A B C D E F G H I J K L M N O P);
