//! A slice for the host that owns its buffer, to be written.

use std::fmt;
use std::ops::{Deref, DerefMut};

use cuda_um::{HostMut, MemoryKind};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// The elements of a buffer that the guard owns, for the host to read and write:
/// [`SharedBuffer::host_mut`](crate::SharedBuffer::host_mut). It derefs to a slice, and has no lifetime.
///
/// As [`HostViewMut`](crate::HostViewMut), it borrows the memory, or holds a copy of memory that the host cannot access.
/// [`close`](Self::close) writes a copy back and returns the error; a drop writes it back, too, but its error is lost, and a panic writes
/// nothing back.
pub struct HostOwnedMut<T: Element>(Elements<T>);

type Owner<T> = Box<dyn Buffer<T>>;

enum Elements<T: Element> {
    Guard(cuda_um::HostOwnedMut<T, Owner<T>>),
    Host(Owner<T>),
    Copy(Vec<T>, Option<Owner<T>>),
}

fn guard<T: Element>(buffer: &mut Owner<T>) -> Result<HostMut<'_, T>> {
    Ok(buffer.memory_mut().device_view_mut()?.into_host_mut()?)
}

impl<T: Element> HostOwnedMut<T> {
    /// Takes a buffer for its elements.
    ///
    /// # Ordering
    /// Waits for earlier work on the buffer.
    ///
    /// # Errors
    /// As for [`Buffer::host_mut`].
    pub fn of(mut buffer: Box<dyn Buffer<T>>) -> Result<Self> {
        if !matches!(
            buffer.memory_mut(),
            BufferMemoryMut::Cuda(_) | BufferMemoryMut::Host(_)
        ) {
            // The error of memory that the host must not write.
            buffer.copy_from_host_at(0, &[])?;
        }
        Ok(Self(match buffer.memory() {
            BufferMemory::Host(_) => Elements::Host(buffer),
            BufferMemory::Cuda(view) if view.kind() != MemoryKind::Device => {
                Elements::Guard(cuda_um::HostOwnedMut::new(Box::new(buffer), guard)?)
            }
            BufferMemory::Cuda(_) | BufferMemory::Opaque => {
                Elements::Copy(buffer.to_vec()?, Some(buffer))
            }
        }))
    }

    /// Whether the elements are a copy, because the host cannot access the buffer's memory.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        matches!(self.0, Elements::Copy(..))
    }

    /// Ends the access. A copy is written back: its errors are returned here.
    ///
    /// # Errors
    /// As for [`Buffer::copy_from_host`], if the elements are a copy.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        match &mut self.0 {
            Elements::Copy(elements, owner) => match owner.take() {
                Some(mut owner) => owner.copy_from_host(elements),
                None => Ok(()),
            },
            Elements::Guard(_) | Elements::Host(_) => Ok(()),
        }
    }
}

impl<T: Element> Drop for HostOwnedMut<T> {
    fn drop(&mut self) {
        // Writing back may call another implementation, whose second panic would end the process.
        if !std::thread::panicking() {
            // `close` returns the error.
            let _ = self.finish();
        }
    }
}

impl<T: Element> Deref for HostOwnedMut<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Elements::Guard(guard) => guard,
            Elements::Copy(elements, _) => elements,
            Elements::Host(owner) => match owner.memory() {
                BufferMemory::Host(elements) => elements,
                // The memory of a buffer does not change, except of an implementation that breaks the contract.
                BufferMemory::Cuda(_) | BufferMemory::Opaque => &[],
            },
        }
    }
}

impl<T: Element> DerefMut for HostOwnedMut<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.0 {
            Elements::Guard(guard) => guard,
            Elements::Copy(elements, _) => elements,
            Elements::Host(owner) => match owner.memory_mut() {
                BufferMemoryMut::Host(elements) => elements,
                BufferMemoryMut::Cuda(_) | BufferMemoryMut::Opaque => &mut [],
            },
        }
    }
}

impl<T: Element> fmt::Debug for HostOwnedMut<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
