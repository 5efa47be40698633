//! Buffers whose element type is a value.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;

use bytemuck::TransparentWrapper;
use cuda_um::{Advice, Device, Error, Location, View, ViewMut, managed::HintOutcome, range};

use crate::buffer::Buffer;
use crate::dtype::{DType, Element, check_same, dtype_of};
use crate::error::{CudaError, Result};
use crate::memory::device_of;
use crate::typed::Typed;

/// A buffer whose element type is a value: what a tensor of any [`DType`] holds. [`CudaBackend::create_erased`](crate::CudaBackend::create_erased) allocates it.
///
/// Copies take bytes, from any address, with the order of [`Buffer`]'s. [`typed`](Self::typed) has all methods of [`Buffer`] for the element type, and [`bytes`](Self::bytes)
/// those that need no type: names, zeros, prefetches. Tensors with views share it as a [`SharedBuffer`](crate::SharedBuffer). Tensors without views share it in an [`Arc`]: reads need no lock,
/// [`Arc::get_mut`] gives the one owner write access, and [`make_mut`](Self::make_mut) copies on write.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, ErasedBuffer};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let dtype: DType = "F32".parse()?; // from a file's header
/// let mut weights = backend.create_erased(BufferKind::Unified, dtype, 3)?;
/// weights.copy_from_bytes(&[0, 0, 128, 63, 0, 0, 0, 64, 0, 0, 64, 64])?;
/// weights.typed_mut::<f32>()?.fill_range(0..1, 7.0)?;
/// assert_eq!(*weights.typed::<f32>()?.host()?, [7.0, 2.0, 3.0]);
/// let error = weights.typed::<u32>().unwrap_err();
/// assert_eq!(error.to_string(), "dtype u32 was requested, but the element type is f32: both must be the same");
///
/// let mut bytes = [0; 12];
/// weights.copy_to_bytes(&mut bytes)?;
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
        size_bytes(dtype, 0)?;
        let (this, width) = (Self { bytes, dtype }, dtype.size_bytes());
        let found = this.size_bytes();
        match found.is_multiple_of(width) {
            true => Ok(this),
            false => Err(this.refused(
                "the buffer of ErasedBuffer::from_bytes",
                found,
                format!("an element has {width} bytes"),
            )),
        }
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

    /// Write access to shared storage: to the buffer itself if this is its only handle, otherwise to a copy that replaces the handle.
    ///
    /// # Examples
    /// ```
    /// use std::sync::Arc;
    /// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, ErasedBuffer};
    ///
    /// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
    /// let first = Arc::new(backend.create_erased(BufferKind::Unified, DType::U8, 2)?);
    /// let mut second = Arc::clone(&first);
    /// ErasedBuffer::make_mut(&mut second)?.copy_from_bytes(&[1, 2])?;
    /// assert_eq!((first.bytes().to_vec()?, second.bytes().to_vec()?), (vec![0, 0], vec![1, 2]));
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`try_clone`](Self::try_clone).
    ///
    /// # Panics
    /// Never: after the copy, this is the only handle.
    pub fn make_mut(this: &mut Arc<Self>) -> Result<&mut Self> {
        if Arc::get_mut(this).is_none() {
            *this = Arc::new(this.try_clone()?);
        }
        Ok(Arc::get_mut(this).expect("the only handle"))
    }

    /// Copies all elements from bytes of the host, at any address.
    ///
    /// # Errors
    /// [`InvalidArgument`](Error::InvalidArgument) for another number of bytes, and errors of CUDA.
    pub fn copy_from_bytes(&mut self, source: &[u8]) -> Result<()> {
        self.check_all("the source of copy_from_bytes", source.len())?;
        self.bytes.copy_from_host(source)
    }

    /// Copies all elements to bytes of the host, at any address.
    ///
    /// # Errors
    /// As for [`copy_from_bytes`](Self::copy_from_bytes).
    pub fn copy_to_bytes(&self, target: &mut [u8]) -> Result<()> {
        self.check_all("the target of copy_to_bytes", target.len())?;
        self.bytes.copy_to_host(target)
    }

    /// Copies all elements of another buffer of the same element type and length, of any kind and on any device.
    ///
    /// # Errors
    /// [`InvalidArgument`](cuda_um::Error::InvalidArgument) for another element type; [`LengthMismatch`](Error::LengthMismatch); and errors of CUDA.
    pub fn copy_from(&mut self, source: &Self) -> Result<()> {
        if source.dtype != self.dtype {
            return Err(CudaError::InvalidArgument {
                what: "the source of copy_from",
                value: format!("a buffer of {}", source.dtype),
                reason: format!("the target has {}, and a copy does not convert", self.dtype),
            });
        }
        range::same_length("copy_from", self.len(), source.len())?;
        self.bytes.copy_from_buffer(source.bytes())
    }

    /// Migrates all elements to a location: as [`Buffer::prefetch`].
    ///
    /// # Errors
    /// As for [`Buffer::prefetch`].
    pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
        self.bytes.prefetch(location.into())
    }

    /// Gives advice for all elements: as [`Buffer::advise`].
    ///
    /// # Errors
    /// As for [`Buffer::advise`].
    pub fn advise(&self, advice: Advice) -> Result<HintOutcome> {
        self.bytes.advise(advice)
    }

    /// Reads a range of elements from a file, a socket or another reader.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](Error::RangeOutOfBounds) in elements, and as for [`Buffer::read_from`].
    pub fn read_from(&mut self, source: &mut dyn Read, range: Range<usize>) -> Result<()> {
        let range = self.byte_range(range)?;
        self.bytes.read_from(source, range)
    }

    /// Writes a range of elements to a file, a socket or another writer.
    ///
    /// # Errors
    /// As for [`read_from`](Self::read_from).
    pub fn write_to(&self, target: &mut dyn Write, range: Range<usize>) -> Result<()> {
        self.bytes.write_to(target, self.byte_range(range)?)
    }

    fn check_type<T: Element>(&self) -> Result<()> {
        match self.bytes.name() {
            Some(name) => check_same(
                format_args!("the element type of `{name}`"),
                dtype_of::<T>(),
                self.dtype,
            ),
            None => check_same("the element type", dtype_of::<T>(), self.dtype),
        }
    }

    fn byte_range(&self, range: Range<usize>) -> Result<Range<usize>> {
        let range = range::check(range, self.len())?;
        let width = self.dtype.size_bytes();
        Ok(range.start * width..range.end * width)
    }

    /// Refuses a slice that is not as long as the buffer.
    fn check_all(&self, what: &'static str, found: usize) -> Result<()> {
        let bytes = self.size_bytes();
        match found == bytes {
            true => Ok(()),
            false => Err(self.refused(what, found, format!("the buffer has {bytes} bytes"))),
        }
    }

    fn refused(&self, what: &'static str, bytes: usize, reason: String) -> Error {
        let (len, dtype) = (self.len(), self.dtype);
        Error::InvalidArgument {
            what,
            value: format!("{bytes} bytes"),
            reason: format!("{reason}, and its {len} elements are {dtype}"),
        }
    }
}

/// The bytes of `len` elements.
pub(crate) fn size_bytes(dtype: DType, len: usize) -> Result<usize> {
    let element_bytes = dtype.size_bytes();
    if element_bytes == 0 {
        return Err(Error::InvalidArgument {
            what: "a dtype",
            value: dtype.to_string(),
            reason: "an element has at least one byte".to_owned(),
        });
    }
    let bytes = len.checked_mul(element_bytes);
    let bytes = bytes.filter(|bytes| isize::try_from(*bytes).is_ok());
    bytes.ok_or_else(|| Error::TooLarge { len, element_bytes })
}
