//! The bytes of an erased buffer as elements of a type.

use std::marker::PhantomData;

use bytemuck::TransparentWrapper;
use cuda_um::{Device, range};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// Bytes that are whole elements. The type is private, so that no downcast finds it: `mem::swap` of what a downcast found in two write guards
/// would move their access.
#[derive(Debug, TransparentWrapper)]
#[transparent(Box<dyn Buffer<u8>>)]
#[repr(transparent)]
pub(crate) struct Typed<T> {
    bytes: Box<dyn Buffer<u8>>,
    _elements: PhantomData<T>,
}

impl<T: Element> Typed<T> {
    fn start(&self, offset: usize, count: usize) -> Result<usize> {
        let part = range::check_at(offset, count, self.len())?;
        Ok(part.start * size_of::<T>())
    }
}

impl<T: Element> Buffer<T> for Typed<T> {
    fn len(&self) -> usize {
        self.bytes.len() / size_of::<T>()
    }

    fn device(&self) -> Option<&Device> {
        self.bytes.device()
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        self.bytes.memory().cast()
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        self.bytes.memory_mut().cast()
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        let bytes = range::size_bytes::<T>(len)?;
        Ok(Box::new(Self::wrap(self.bytes.clone_empty(bytes)?)))
    }

    as_any!();

    fn set_name(&mut self, name: &str) {
        self.bytes.set_name(name);
    }

    fn name(&self) -> Option<&str> {
        self.bytes.name()
    }

    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
        let start = self.start(offset, source.len())?;
        let source = bytemuck::cast_slice(source);
        self.bytes.copy_from_host_at(start, source)
    }

    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
        let start = self.start(offset, target.len())?;
        let target = bytemuck::cast_slice_mut(target);
        self.bytes.copy_to_host_at(start, target)
    }
}
