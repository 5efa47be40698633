//! Buffers whose element type is a value.

use std::ops::Range;

use bytemuck::TransparentWrapper;
use cuda_um::{Device, Error, View, ViewMut, range};

use crate::buffer::Buffer;
use crate::dtype::{DType, Element, check_same, dtype_of};
#[cfg(doc)]
use crate::error::CudaError;
use crate::error::{Result, invalid};
use crate::memory::device_of;
use crate::typed::Typed;

/// A buffer whose element type is a value: what a tensor of any [`DType`] holds. [`CudaBackend::create_erased`](crate::CudaBackend::create_erased) allocates it.
///
/// [`typed`](Self::typed) has all methods of [`Buffer`] for the element type, and [`bytes`](Self::bytes) those that need no type: names, zeros,
/// copies of bytes from and to any address. Tensors share it as a [`SharedBuffer`](crate::SharedBuffer).
///
/// # Examples
/// ```
/// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, ErasedBuffer};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let dtype: DType = "F32".parse()?; // from a file's header
/// let mut weights = backend.create_erased(BufferKind::Unified, dtype, 3)?;
/// weights.bytes_mut().copy_from_host(&[0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64])?;
/// weights.typed_mut::<f32>()?.fill_range(0..1, 7.0)?;
/// assert_eq!(*weights.typed::<f32>()?.host()?, [7.0, 2.0, 3.0]);
/// let error = weights.typed::<u32>().unwrap_err();
/// assert_eq!(error.to_string(), "dtype u32 was requested, but the element type is f32: both must be the same");
///
/// let mut bytes = [0; 12];
/// weights.bytes().copy_to_host(&mut bytes)?;
/// weights.bytes_mut().copy_from_host_at(8, &bytes[..4])?; // bytes are counted, not elements
/// weights.bytes().copy_to_host_at(8, &mut bytes[8..])?;
/// let pinned = backend.create_erased_from(BufferKind::Pinned, dtype, &bytes)?;
/// assert_eq!(*pinned.into_typed::<f32>()?.host()?, [7.0, 2.0, 7.0]);
/// let halves = ErasedBuffer::from_bytes(backend.create(BufferKind::Cuda, 6)?, DType::F16)?;
/// assert_eq!(halves.len(), 3);
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct ErasedBuffer {
    bytes: Box<dyn Buffer<u8>>,
    dtype: DType,
}

impl ErasedBuffer {
    /// The bytes must be whole elements of a type that has a size.
    pub(crate) fn of(bytes: Box<dyn Buffer<u8>>, dtype: DType) -> Self {
        Self { bytes, dtype }
    }

    /// Makes an erased buffer of bytes of any implementation.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) if the bytes are not whole elements.
    pub fn from_bytes(bytes: Box<dyn Buffer<u8>>, dtype: DType) -> Result<Self> {
        whole_elements("the buffer of ErasedBuffer::from_bytes", dtype, bytes.len())?;
        Ok(Self { bytes, dtype })
    }

    pub(crate) fn into_bytes(self) -> Box<dyn Buffer<u8>> {
        self.bytes
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size_bytes()
    }

    /// Whether the buffer has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The size of all elements, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The place of the buffer: also the device that uses memory of the host in place.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        device_of(&*self.bytes)
    }

    /// The bytes, with all methods of [`Buffer`].
    #[must_use]
    pub fn bytes(&self) -> &dyn Buffer<u8> {
        &*self.bytes
    }

    /// The bytes, with all methods of [`Buffer`].
    pub fn bytes_mut(&mut self) -> &mut dyn Buffer<u8> {
        &mut *self.bytes
    }

    /// The buffer as a [`Buffer`] of `T`, without a copy.
    ///
    /// # Errors
    /// [`CudaError::DTypeMismatch`] unless `T` is the element type.
    pub fn typed<T: Element>(&self) -> Result<&dyn Buffer<T>> {
        self.check_type::<T>()?;
        Ok(Typed::wrap_ref(&self.bytes))
    }

    /// The buffer as a [`Buffer`] of `T`, without a copy.
    ///
    /// # Errors
    /// As for [`typed`](Self::typed).
    pub fn typed_mut<T: Element>(&mut self) -> Result<&mut dyn Buffer<T>> {
        self.check_type::<T>()?;
        Ok(Typed::wrap_mut(&mut self.bytes))
    }

    /// Converts the buffer to a [`Buffer`] of `T`, without a copy.
    ///
    /// # Errors
    /// As for [`typed`](Self::typed); the buffer is then lost.
    pub fn into_typed<T: Element>(self) -> Result<Box<dyn Buffer<T>>> {
        self.check_type::<T>()?;
        Ok(Box::new(Typed::wrap(self.bytes)))
    }

    /// The elements as an argument of a kernel that reads them.
    ///
    /// # Errors
    /// As for [`typed`](Self::typed); [`InvalidArgument`](Error::InvalidArgument) if the memory is not aligned for `T`;
    /// [`NotSupported`](Error::NotSupported) for memory that kernels cannot access.
    pub fn view<T: Element>(&self) -> Result<View<'_, T>> {
        self.check_type::<T>()?;
        self.bytes.memory().device_view()?.cast()
    }

    /// The elements as an argument of a kernel that reads and writes them.
    ///
    /// # Errors
    /// As for [`view`](Self::view).
    pub fn view_mut<T: Element>(&mut self) -> Result<ViewMut<'_, T>> {
        self.check_type::<T>()?;
        self.bytes.memory_mut().device_view_mut()?.cast()
    }

    /// Makes a buffer of each of these ranges of elements: as [`Buffer::into_parts`].
    ///
    /// # Errors
    /// As for [`Buffer::into_parts`].
    pub fn into_parts(self, parts: &[Range<usize>]) -> Result<Vec<Self>> {
        let dtype = self.dtype;
        let parts = parts.iter().map(|part| self.byte_range(part.clone()));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let parts = self.bytes.into_parts(&parts)?.into_iter();
        Ok(parts.map(|bytes| Self { bytes, dtype }).collect())
    }

    /// Allocates a buffer of `len` zeros, of the same kind and element type on the same device.
    ///
    /// # Errors
    /// As for [`CudaBackend::create_erased`](crate::CudaBackend::create_erased).
    pub fn clone_empty(&self, len: usize) -> Result<Self> {
        Ok(Self {
            bytes: self.bytes.clone_empty(size_bytes(self.dtype, len)?)?,
            dtype: self.dtype,
        })
    }

    /// Allocates a copy of the buffer.
    ///
    /// # Errors
    /// As for [`Buffer::try_clone`].
    pub fn try_clone(&self) -> Result<Self> {
        Ok(Self {
            bytes: self.bytes.try_clone()?,
            dtype: self.dtype,
        })
    }

    /// Copies all elements of another buffer of the same element type and length, of any kind and on any device.
    ///
    /// # Errors
    /// [`InvalidArgument`](cuda_um::Error::InvalidArgument) for another element type; [`LengthMismatch`](Error::LengthMismatch); and errors of CUDA.
    pub fn copy_from(&mut self, source: &Self) -> Result<()> {
        if source.dtype != self.dtype {
            let value = format!("a buffer of {}", source.dtype);
            let reason = format!("the target has {}, and a copy does not convert", self.dtype);
            return Err(invalid("the source of copy_from", value, reason));
        }
        range::same_length("copy_from", self.len(), source.len())?;
        self.bytes.copy_from_buffer(source.bytes())
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        if dtype_of::<T>() == self.dtype {
            return Ok(());
        }
        let name = self.bytes.name();
        let of = name.map_or(String::new(), |name| format!(" of `{name}`"));
        check_same(&format!("the element type{of}"), T::DTYPE, self.dtype)
    }

    fn byte_range(&self, range: Range<usize>) -> Result<Range<usize>> {
        let range = range::check(range, self.len())?;
        let width = self.dtype.size_bytes();
        Ok(range.start * width..range.end * width)
    }
}

pub(crate) fn whole_elements(what: &'static str, dtype: DType, bytes: usize) -> Result<usize> {
    size_bytes(dtype, 0)?;
    let width = dtype.size_bytes();
    match bytes.is_multiple_of(width) {
        true => Ok(bytes / width),
        false => {
            let reason = format!("an element of {dtype} has {width} bytes");
            Err(invalid(what, format!("{bytes} bytes"), reason))
        }
    }
}

pub(crate) fn size_bytes(dtype: DType, len: usize) -> Result<usize> {
    let element_bytes = dtype.size_bytes();
    if element_bytes == 0 {
        return Err(invalid(
            "a dtype",
            dtype,
            "an element has at least one byte",
        ));
    }
    let bytes = len.checked_mul(element_bytes);
    let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
    bytes.ok_or_else(|| Error::TooLarge { len, element_bytes })
}
