//! What copies, fills, slices for the host and files need of a buffer. Every [`Buffer`](crate::Buffer) has it.

use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

pub(crate) trait Access<T> {
    fn count(&self) -> usize;
    fn read_memory(&self) -> BufferMemory<'_, T>;
    fn write_memory(&mut self) -> BufferMemoryMut<'_, T>;
    /// Copies from the element `offset` on.
    fn get(&self, offset: usize, target: &mut [T]) -> Result<()>;
    /// Copies to the element `offset` and those after it.
    fn put(&mut self, offset: usize, source: &[T]) -> Result<()>;
    fn get_all(&self) -> Result<Vec<T>>;
    fn put_all(&mut self, source: &[T]) -> Result<()>;
}
