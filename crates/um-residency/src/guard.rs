//! Guards: buffers in the arena, as arguments of kernels.

use std::fmt;
use std::marker::PhantomData;

use um_backend::cuda_um::{
    self, View, ViewMut,
    kernel::{Arguments, KernelArg, ReadArg, WriteArg},
};
use um_backend::{CudaError, Element};

use crate::held::Held;
use crate::homed::Homed;

/// A buffer in the arena, to be read: `&guard` is an argument of kernels. Slots are held until
/// the guard is dropped.
///
/// A guard is needed only until the work is enqueued: later buffers in the same slots are ordered after that work. It stays on its thread.
pub struct ReadGuard<'a, T> {
    held: Held,
    // Covariant in `'a`; elements are plain data, so `T` has no subtypes.
    _buffer: PhantomData<&'a Homed<T>>,
}

/// A buffer in the arena, to be read and written: `&mut guard` is an argument of kernels. Its slots are held until the guard is dropped.
///
/// A guard is needed only until the work is enqueued: later buffers in the same slots are ordered after that work. It stays on its thread.
pub struct WriteGuard<'a, T> {
    held: Held,
    _buffer: PhantomData<&'a Homed<T>>,
}

impl<T: Element> WriteGuard<'_, T> {
    /// The elements, for kernels and copies.
    ///
    /// # Panics
    /// Never: slots are aligned for every element, and the buffer has whole elements.
    pub fn view_mut(&mut self) -> ViewMut<'_, T> {
        self.elements_mut()
            .expect("slots are aligned for every element")
    }

    fn elements_mut(&mut self) -> cuda_um::Result<ViewMut<'_, T>> {
        self.held.view_mut().cast()
    }
}

impl<T: Element> KernelArg for &mut WriteGuard<'_, T> {
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
    where
        Self: 'a,
    {
        self.elements_mut()?.pass(arguments)
    }
}

impl<T: Element> WriteArg<T> for &mut WriteGuard<'_, T> {
    fn into_view_mut<'a>(self) -> cuda_um::Result<ViewMut<'a, T>>
    where
        Self: 'a,
    {
        self.elements_mut()
    }
}

macro_rules! guards {
    ($($guard:ident),*) => {$(
        impl<T: Element> $guard<'_, T> {
            pub(crate) fn new(held: Held) -> Self {
                let _buffer = PhantomData;
                Self { held, _buffer }
            }

            /// The number of elements.
            #[must_use]
            pub fn len(&self) -> usize {
                self.view().len()
            }

            /// Whether there are no elements.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// The elements, for kernels and copies.
            ///
            /// # Panics
            /// Never: slots are aligned for every element, and the buffer has whole elements.
            pub fn view(&self) -> View<'_, T> {
                self.elements().expect("slots are aligned for every element")
            }

            /// Copies the elements to the host.
            ///
            /// # Ordering
            /// Waits for earlier writes of the buffer.
            ///
            /// # Errors
            /// Errors of CUDA.
            pub fn to_vec(&self) -> um_backend::Result<Vec<T>> {
                self.elements()?.to_vec().map_err(CudaError::from)
            }

            fn elements(&self) -> cuda_um::Result<View<'_, T>> {
                self.held.view().cast()
            }
        }

        impl<T: Element> KernelArg for &$guard<'_, T> {
            fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
            where
                Self: 'a,
            {
                self.elements()?.pass(arguments)
            }
        }

        impl<T: Element> ReadArg<T> for &$guard<'_, T> {
            fn into_view<'a>(self) -> cuda_um::Result<View<'a, T>>
            where
                Self: 'a,
            {
                self.elements()
            }
        }

        impl<T: Element> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($guard))
                    .field("memory", &self.held)
                    .finish()
            }
        }
    )*};
}
guards!(ReadGuard, WriteGuard);
