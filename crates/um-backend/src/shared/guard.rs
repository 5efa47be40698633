//! Guards of a part of shared storage.

use std::ops::{Deref, DerefMut};

use cuda_um::{Arguments, KernelArg, ReadArg, View, ViewMut, WriteArg};

use crate::dtype::Element;
use crate::erased::ErasedBuffer;
use crate::error::Result;

/// Read access to a part of shared storage: [`SharedBuffer::read`](crate::SharedBuffer::read). It derefs to an [`ErasedBuffer`] of the part.
///
/// `&guard` is an argument of a kernel.
#[derive(Debug)]
pub struct SharedRead(ErasedBuffer);

/// Read and write access to a part of shared storage: [`SharedBuffer::write`](crate::SharedBuffer::write). It derefs to an [`ErasedBuffer`] of the
/// part.
///
/// `&mut guard` is an argument of a kernel, and so are disjoint parts of [`view_mut`](Self::view_mut).
///
/// # Examples
/// ```
/// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer, kernels::Saxpy};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// # if backend.device().capabilities().compute_capability < (6, 0) { return Ok(()); } // the kernel needs it
/// let saxpy = Saxpy::load(backend.device().as_cuda_um())?;
/// let cache = SharedBuffer::new(backend.create_erased(BufferKind::Cuda, DType::F32, 8)?);
/// let mut guard = cache.write()?;
/// guard.typed_mut::<f32>()?.fill(1.0)?;
/// let (x, y) = guard.view_mut::<f32>()?.split_at(4)?;
/// saxpy.launch(backend.device().stream(), 2.0, x.as_view(), y)?;
/// drop(guard); // the launch may still run
/// assert_eq!(cache.host::<f32>()?[3..5], [1.0, 3.0]);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct SharedWrite(ErasedBuffer);

impl SharedWrite {
    /// The elements as an argument of a kernel that reads and writes them.
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn view_mut<T: Element>(&mut self) -> Result<ViewMut<'_, T>> {
        self.0.check_type::<T>()?;
        let bytes = self.0.bytes_mut().memory_mut().device_view_mut()?;
        Ok(bytes.cast()?)
    }
}

impl DerefMut for SharedWrite {
    fn deref_mut(&mut self) -> &mut ErasedBuffer {
        &mut self.0
    }
}

macro_rules! guards {
    ($($guard:ident),*) => {$(
        impl $guard {
            pub(super) fn new(part: ErasedBuffer) -> Self {
                Self(part)
            }

            /// The elements as an argument of a kernel that reads them.
            ///
            /// # Errors
            /// [`CudaError::DTypeMismatch`](crate::CudaError::DTypeMismatch) unless `T` is the element type;
            /// [`InvalidArgument`](cuda_um::Error::InvalidArgument) if the part is not aligned for it;
            /// [`NotSupported`](cuda_um::Error::NotSupported) for memory that kernels cannot access.
            pub fn view<T: Element>(&self) -> Result<View<'_, T>> {
                self.0.check_type::<T>()?;
                Ok(self.0.bytes().memory().device_view()?.cast()?)
            }

            /// The part as a buffer that keeps the access until it is dropped.
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

        impl KernelArg for &$guard {
            fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
            where
                Self: 'a,
            {
                (&self.0).pass(arguments)
            }
        }

        impl<T: Element> ReadArg<T> for &$guard {
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

impl KernelArg for &mut SharedWrite {
    fn pass<'a>(self, arguments: &mut Arguments<'a>) -> cuda_um::Result<()>
    where
        Self: 'a,
    {
        (&mut self.0).pass(arguments)
    }
}

impl<T: Element> WriteArg<T> for &mut SharedWrite {
    fn into_view_mut<'a>(self) -> cuda_um::Result<ViewMut<'a, T>>
    where
        Self: 'a,
    {
        (&mut self.0).into_view_mut()
    }
}
