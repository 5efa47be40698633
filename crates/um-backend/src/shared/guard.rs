//! Guards of a part of shared storage.

use std::io::Read;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use cuda_um::{
    KernelArg, View, ViewMut,
    kernel::{Arguments, ReadArg, WriteArg},
};

use super::caller::OfThread;
use super::part::Part;
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::erased::ErasedBuffer;
use crate::error::Result;

/// Read access to a part of shared storage: [`SharedBuffer::read`](crate::SharedBuffer::read). It derefs to an [`ErasedBuffer`] of the part.
///
/// `&guard` is an argument of a kernel. A guard of a thread is not `Send`; one of [`read_async`](crate::SharedBuffer::read_async),
/// `SharedRead<OfTask>`, is.
///
/// ```compile_fail
/// # use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
/// # let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
/// let shared = SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1).unwrap());
/// let guard = shared.read().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
#[derive(Debug)]
pub struct SharedRead<O = OfThread>(ErasedBuffer, PhantomData<O>);

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
/// ```compile_fail
/// # use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
/// # let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
/// let shared = SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1).unwrap());
/// let guard = shared.write().unwrap();
/// std::thread::spawn(move || drop(guard));
/// ```
///
/// The buffer of a guard stays in it, so that the access of a thread stays with the thread:
/// ```compile_fail,E0596
/// # use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
/// # let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
/// # let new = || SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1).unwrap());
/// let (first, second) = (new(), new());
/// std::mem::swap(&mut *first.write().unwrap(), &mut *second.write().unwrap());
/// ```
/// ```
/// # use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer, Typed};
/// # let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default()).unwrap();
/// let shared = SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1)?);
/// assert!(shared.write()?.typed_mut::<u8>()?.as_any_mut().downcast_mut::<Typed<u8>>().is_none());
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct SharedWrite<O = OfThread>(ErasedBuffer, PhantomData<O>);

impl<O> SharedWrite<O> {
    /// The elements as an argument of a kernel that reads and writes them.
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn view_mut<T: Element>(&mut self) -> Result<ViewMut<'_, T>> {
        self.0.check_type::<T>()?;
        let bytes = self.0.bytes_mut().memory_mut().device_view_mut()?;
        bytes.cast()
    }

    /// The part as a [`Buffer`] of `T`, without a copy.
    ///
    /// # Errors
    /// As for [`ErasedBuffer::typed`].
    pub fn typed_mut<T: Element>(&mut self) -> Result<&mut dyn Buffer<T>> {
        Ok(self.0.typed_mut()?)
    }
}

// Not `DerefMut`: `mem::swap` of two guards' buffers would move the access of a thread to another thread.
macro_rules! methods_of_erased_buffer {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) -> $result:ty;)*) => {
        impl<O> SharedWrite<O> {
            $(
                #[doc = concat!("Does the same as [`ErasedBuffer::", stringify!($name), "`], with the same errors.")]
                #[allow(clippy::missing_errors_doc, reason = "they are those of the method that is named")]
                pub fn $name(&mut self, $($arg: $kind),*) -> $result {
                    self.0.$name($($arg),*)
                }
            )*
        }
    };
}
methods_of_erased_buffer! {
    fn bytes_mut() -> &mut dyn Buffer<u8>;
    fn set_name(name: &str) -> ();
    fn copy_from_bytes(source: &[u8]) -> Result<()>;
    fn copy_from_bytes_at(offset: usize, source: &[u8]) -> Result<()>;
    fn copy_from(source: &ErasedBuffer) -> Result<()>;
    fn set_zero() -> Result<()>;
    fn read_from(source: &mut dyn Read, range: Range<usize>) -> Result<()>;
}

macro_rules! guards {
    ($($guard:ident),*) => {$(
        impl<O> $guard<O> {
            pub(super) fn new(part: ErasedBuffer) -> Self {
                Self(part, PhantomData)
            }

            /// The elements as an argument of a kernel that reads them.
            ///
            /// # Errors
            /// [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch) unless `T` is the element type;
            /// [`InvalidArgument`](cuda_um::Error::InvalidArgument) if the part is not aligned for it;
            /// [`NotSupported`](cuda_um::Error::NotSupported) for memory that kernels cannot access.
            pub fn view<T: Element>(&self) -> Result<View<'_, T>> {
                self.0.check_type::<T>()?;
                self.0.bytes().memory().device_view()?.cast()
            }

            /// The part as a buffer that keeps the access until it is dropped. The buffer may move to another thread, so threads do not
            /// wait for it: see [`SharedBuffer`](crate::SharedBuffer).
            #[must_use]
            pub fn into_erased(mut self) -> ErasedBuffer {
                if let Some(part) = self.0.bytes_mut().as_any_mut().downcast_mut::<Part>() {
                    part.leaves_its_thread();
                }
                self.0
            }

            /// Does the same as [`into_erased`](Self::into_erased), for a buffer that the caller keeps on this thread. Not part of the public
            /// interface: crates of this workspace use it.
            #[doc(hidden)]
            #[must_use]
            pub fn into_part(self) -> ErasedBuffer {
                self.0
            }
        }

        impl<O> Deref for $guard<O> {
            type Target = ErasedBuffer;

            fn deref(&self) -> &ErasedBuffer {
                &self.0
            }
        }

        impl<O> KernelArg for &$guard<O> {
            fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
            where
                Self: 'a,
            {
                (&self.0).pass(arguments)
            }
        }

        impl<T: Element, O> ReadArg<T> for &$guard<O> {
            fn into_view<'a>(self) -> cuda_um::Result<View<'a, T>>
            where
                Self: 'a,
            {
                (&self.0).into_view()
            }
        }
    )*};
}
guards!(SharedRead, SharedWrite);

impl<O> KernelArg for &mut SharedWrite<O> {
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
    where
        Self: 'a,
    {
        (&mut self.0).pass(arguments)
    }
}

impl<T: Element, O> WriteArg<T> for &mut SharedWrite<O> {
    fn into_view_mut<'a>(self) -> cuda_um::Result<ViewMut<'a, T>>
    where
        Self: 'a,
    {
        (&mut self.0).into_view_mut()
    }
}
