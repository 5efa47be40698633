//! The bytes of an erased buffer as elements of a type.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use bytemuck::TransparentWrapper;
use cuda_um::{Device, range};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// An [`ErasedBuffer`](crate::ErasedBuffer) as a [`Buffer`] of its element type: [`ErasedBuffer::typed`](crate::ErasedBuffer::typed).
///
/// Its bytes are always whole elements, so `bytemuck` neither makes one of bytes nor gives out its bytes:
///
/// ```compile_fail,E0308
/// # use bytemuck::TransparentWrapper;
/// # use um_backend::{Buffer, Typed};
/// # fn of(bytes: Box<dyn Buffer<u8>>) -> Typed<f32> {
/// Typed::wrap(bytes)
/// # }
/// ```
/// ```compile_fail
/// # use bytemuck::TransparentWrapper;
/// # use um_backend::Typed;
/// # fn swap(one: &mut Typed<f32>, other: &mut Typed<f32>) {
/// std::mem::swap(Typed::peel_mut(one), Typed::peel_mut(other));
/// # }
/// ```
#[derive(TransparentWrapper)]
#[repr(transparent)]
// Covariant in `T`, but elements are `'static` and have no subtypes.
pub struct Typed<T>(Opaque<T>);

/// The type that a downcast finds. It is private: a write guard gives its buffer as a `dyn Buffer`, and `mem::swap` of what a downcast found
/// would move the guard's access. It also makes the conversions of [`Typed`] private.
#[derive(TransparentWrapper)]
#[transparent(Box<dyn Buffer<u8>>)]
#[repr(transparent)]
struct Opaque<T> {
    bytes: Box<dyn Buffer<u8>>,
    _elements: PhantomData<T>,
}

impl<T: Element> Typed<T> {
    pub(crate) fn of(bytes: Box<dyn Buffer<u8>>) -> Self {
        Self::wrap(Opaque::wrap(bytes))
    }

    #[allow(clippy::borrowed_box, reason = "a box is what it wraps")]
    pub(crate) fn of_ref(bytes: &Box<dyn Buffer<u8>>) -> &Self {
        Self::wrap_ref(Opaque::wrap_ref(bytes))
    }

    pub(crate) fn of_mut(bytes: &mut Box<dyn Buffer<u8>>) -> &mut Self {
        Self::wrap_mut(Opaque::wrap_mut(bytes))
    }

    fn part(&self, offset: usize, count: usize) -> Result<Range<usize>> {
        range::check_at(offset, count, self.len())
    }
}

impl<T: Element> fmt::Debug for Typed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("dtype", &T::DTYPE)
            .field("bytes", &self.0.bytes)
            .finish()
    }
}

impl<T: Element> Buffer<T> for Typed<T> {
    fn len(&self) -> usize {
        self.0.bytes.len() / size_of::<T>()
    }

    fn device(&self) -> Option<&Device> {
        self.0.bytes.device()
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        self.0.bytes.memory().cast()
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        self.0.bytes.memory_mut().cast()
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        let bytes = range::size_bytes::<T>(len)?;
        Ok(Box::new(Self::of(self.0.bytes.clone_empty(bytes)?)))
    }

    fn as_any(&self) -> &dyn Any {
        &self.0
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        &mut self.0
    }

    fn set_name(&mut self, name: &str) {
        self.0.bytes.set_name(name);
    }

    fn name(&self) -> Option<&str> {
        self.0.bytes.name()
    }

    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
        let part = self.part(offset, source.len())?;
        let bytes = bytemuck::cast_slice(source);
        self.0
            .bytes
            .copy_from_host_at(part.start * size_of::<T>(), bytes)
    }

    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
        let part = self.part(offset, target.len())?;
        let bytes = bytemuck::cast_slice_mut(target);
        self.0
            .bytes
            .copy_to_host_at(part.start * size_of::<T>(), bytes)
    }

    fn fill(&mut self, value: T) -> Result<()> {
        self.fill_range(0..self.len(), value)
    }
}
