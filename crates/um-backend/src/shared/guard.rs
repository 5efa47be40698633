//! Guards of a part of shared storage.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::MutexGuard;

use cuda_um::ViewMut;

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::erased::ErasedBuffer;
use crate::error::Result;

/// Keeps a guard on its thread: it is `Sync`, and not `Send`.
type OfThread = PhantomData<MutexGuard<'static, ()>>;

/// Read access to a part of shared storage: [`SharedBuffer::read`](crate::SharedBuffer::read). It derefs to an [`ErasedBuffer`] of the part.
///
/// `&guard` is an argument of a kernel. A guard stays on its thread:
/// ```compile_fail
/// # use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
/// # let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
/// let shared = SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1).unwrap());
/// let guard = shared.read().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
#[derive(Debug)]
pub struct SharedRead(ErasedBuffer, OfThread);

/// Read and write access to a part of shared storage: [`SharedBuffer::write`](crate::SharedBuffer::write). It has the methods of an
/// [`ErasedBuffer`] of the part.
///
/// `&mut guard` is an argument of a kernel, and so are disjoint parts of [`view_mut`](Self::view_mut).
///
/// # Examples
/// ```
/// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer, kernels::Saxpy};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// # if backend.device().capabilities().compute_capability < (6, 0) { return Ok(()); } // the kernel needs it
/// let saxpy = Saxpy::load(backend.device())?;
/// let cache = SharedBuffer::new(backend.create_erased(BufferKind::Cuda, DType::F32, 8)?);
/// let mut guard = cache.write()?;
/// guard.typed_mut::<f32>()?.fill(1.0)?;
/// let (x, y) = guard.view_mut::<f32>()?.split_at(4)?;
/// saxpy.launch(backend.device().stream(), 2.0, x.as_view(), y)?;
/// drop(guard); // the launch may still run
/// assert_eq!(cache.host::<f32>()?[3..5], [1.0, 3.0]);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
///
/// A guard, and the buffer in it, stay on its thread:
/// ```compile_fail
/// # use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
/// # let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
/// let shared = SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1).unwrap());
/// let guard = shared.write().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
/// ```compile_fail,E0596
/// # use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
/// # let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
/// # let new = || SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1).unwrap());
/// let (first, second) = (new(), new());
/// std::mem::swap(&mut *first.write().unwrap(), &mut *second.write().unwrap());
/// ```
#[derive(Debug)]
pub struct SharedWrite(ErasedBuffer, OfThread);

macro_rules! guards {
    ($($guard:ident),*) => {$(
        impl $guard {
            pub(super) fn new(part: ErasedBuffer) -> Self {
                Self(part, PhantomData)
            }

            /// The part as a buffer that keeps the access until it is dropped, on any thread. A call of the thread that took the guard still does
            /// not wait for it; a thread that it moves to may wait for itself: see [`SharedBuffer`](crate::SharedBuffer).
            #[must_use]
            pub fn into_erased(self) -> ErasedBuffer {
                self.0
            }
        }

        impl Deref for $guard {
            type Target = ErasedBuffer;

            fn deref(&self) -> &ErasedBuffer {
                &self.0
            }
        }
    )*};
}
guards!(SharedRead, SharedWrite);

// Not `DerefMut`: `mem::swap` of two guards' buffers would move the access of a thread to another thread.
macro_rules! methods_of_erased_buffer {
    ($(fn $name:ident $(<$element:ident>)? ($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        impl SharedWrite {
            $(
                #[doc = concat!("Does the same as [`ErasedBuffer::", stringify!($name), "`], with the same errors.")]
                #[allow(clippy::missing_errors_doc, reason = "they are those of the method that is named")]
                pub fn $name $(<$element: Element>)? (&mut self, $($arg: $kind),*) -> $result {
                    self.0.$name($($arg),*)
                }
            )*
        }
    };
}
methods_of_erased_buffer! {
    fn bytes_mut() -> &mut dyn Buffer<u8>;
    fn typed_mut<T>() -> Result<&mut dyn Buffer<T>>;
    fn view_mut<T>() -> Result<ViewMut<'_, T>>;
    fn copy_from(source: &ErasedBuffer) -> Result<()>;
}
