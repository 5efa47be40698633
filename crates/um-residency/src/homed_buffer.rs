//! `Homed` as a `Buffer` of the backend.

use std::any::Any;

use um_backend::cuda_um::{fork, range};
use um_backend::{
    Buffer, Device, Element, Result,
    memory::{BufferMemory, BufferMemoryMut},
};

use crate::homed::Homed;
use crate::host::{put_home, with_home};

impl<T: Element> Homed<T> {
    /// Writes contents that only the arena has to the home.
    ///
    /// # Ordering
    /// Waits for the work that writes the buffer, and for the transfer: the home has the contents when this returns.
    ///
    /// # Errors
    /// Errors of CUDA and of the file.
    pub fn write_back(&self) -> Result<()> {
        with_home(&self.shared, self.id, "Homed::write_back", |home| {
            home.settle()
        })
    }

    /// Replaces elements in the home.
    fn put(&mut self, offset: usize, source: &[T], call: &'static str) -> Result<()> {
        let part = range::check_at(offset, source.len(), self.len)?;
        let start = range::to_bytes::<T>(&part).start;
        let (device, bytes) = (&self.shared.device, self.len * size_of::<T>());
        let keeps = part.len() < self.len;
        put_home(&self.shared, self.id, call, keeps, |home| {
            home.put(start, bytemuck::cast_slice(source), device, bytes)
        })
    }
}

impl<T: Element> Buffer<T> for Homed<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn device(&self) -> Option<&Device> {
        Some(&self.shared.device)
    }

    /// Opaque: kernels take the guards of a working set.
    fn memory(&self) -> BufferMemory<'_, T> {
        BufferMemory::Opaque
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Opaque
    }

    /// Makes a buffer of the same arena and role, with a home in pinned memory.
    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(Box::new(Self::zeroed(&self.arena(), len, self.role)?))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn set_name(&mut self, name: &str) {
        // A child made by `fork` does not take the lock.
        if !fork::is_inherited() {
            self.shared.state.lock().entry(self.id).name = name.into();
        }
        self.name = Some(name.to_owned());
    }

    fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
        self.put(offset, source, "copy_from_host_at")
    }

    fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
        let part = range::check_at(offset, target.len(), self.len)?;
        let start = range::to_bytes::<T>(&part).start;
        with_home(&self.shared, self.id, "copy_to_host_at", |home| {
            home.get(start, bytemuck::cast_slice_mut(target))
        })
    }
}
