//! Every buffer has [`Access`].

use crate::access::Access;
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

impl<T: Element, B: Buffer<T> + ?Sized> Access<T> for B {
    fn count(&self) -> usize {
        self.len()
    }

    fn read_memory(&self) -> BufferMemory<'_, T> {
        self.memory()
    }

    fn write_memory(&mut self) -> BufferMemoryMut<'_, T> {
        self.memory_mut()
    }

    fn get(&self, offset: usize, target: &mut [T]) -> Result<()> {
        self.copy_to_host_at(offset, target)
    }

    fn put(&mut self, offset: usize, source: &[T]) -> Result<()> {
        self.copy_from_host_at(offset, source)
    }

    fn get_all(&self) -> Result<Vec<T>> {
        self.to_vec()
    }

    fn put_all(&mut self, source: &[T]) -> Result<()> {
        self.copy_from_host(source)
    }
}
