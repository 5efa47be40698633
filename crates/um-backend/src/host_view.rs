//! A buffer's elements as a slice of the host: borrowed if the host can access the memory, otherwise a copy.

use std::fmt;
use std::ops::{Deref, DerefMut};

use cuda_um::{HostMut, HostRef, MemoryKind};

use crate::access::Access;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::{BufferMemory, BufferMemoryMut};

/// The elements of a buffer, for the host to read: [`Buffer::host`](crate::Buffer::host). It derefs to a slice.
///
/// It borrows the memory, or holds a copy of memory that the host cannot access ([`is_copy`](Self::is_copy)).
// Covariant in `'a` and `T`, as `&'a [T]`.
pub struct HostView<'a, T>(Elements<'a, T>);

enum Elements<'a, T> {
    Slice(&'a [T]),
    Guard(HostRef<'a, T>),
    Copy(Vec<T>),
}

/// The elements of a buffer, for the host to read and write: [`Buffer::host_mut`](crate::Buffer::host_mut). It derefs to a slice.
///
/// It borrows the memory, or holds a copy of memory that the host cannot access ([`is_copy`](Self::is_copy)). [`close`](Self::close) writes a
/// copy back and returns the error; a drop writes it back, too, but its error is lost, and a panic writes nothing back.
// Covariant in `'a` and invariant in `T`, as `&'a mut [T]`.
pub struct HostViewMut<'a, T> {
    elements: ElementsMut<'a, T>,
    write_back: Option<WriteBack<'a, T>>,
}

enum ElementsMut<'a, T> {
    Slice(&'a mut [T]),
    Guard(HostMut<'a, T>),
    Copy(Vec<T>),
}

type WriteBack<'a, T> = Box<dyn FnOnce(&[T]) -> Result<()> + 'a>;

impl<'a, T: Element> HostView<'a, T> {
    pub(crate) fn of(buffer: &'a (impl Access<T> + ?Sized)) -> Result<Self> {
        Ok(Self(match buffer.read_memory() {
            BufferMemory::Host(elements) => Elements::Slice(elements),
            BufferMemory::Cuda(view) if view.kind() != MemoryKind::Device => {
                Elements::Guard(view.host()?)
            }
            BufferMemory::Cuda(_) | BufferMemory::Opaque => Elements::Copy(buffer.get_all()?),
        }))
    }
}

/// For an implementation of [`Buffer`](crate::Buffer) that has a slice of its own.
impl<'a, T> From<&'a [T]> for HostView<'a, T> {
    fn from(elements: &'a [T]) -> Self {
        Self(Elements::Slice(elements))
    }
}

/// For an implementation of [`Buffer`](crate::Buffer) that copies its elements.
impl<T> From<Vec<T>> for HostView<'_, T> {
    fn from(elements: Vec<T>) -> Self {
        Self(Elements::Copy(elements))
    }
}

impl<'a, T: Element> HostViewMut<'a, T> {
    pub(crate) fn of(buffer: &'a mut (impl Access<T> + ?Sized)) -> Result<Self> {
        let in_place = match buffer.read_memory() {
            BufferMemory::Host(_) => true,
            BufferMemory::Cuda(view) => view.kind() != MemoryKind::Device,
            BufferMemory::Opaque => false,
        };
        if !in_place {
            return Self::copy_of(buffer);
        }
        let elements = match buffer.write_memory() {
            BufferMemoryMut::Host(elements) => ElementsMut::Slice(elements),
            // An implementation that changes its memory gets the error of the view.
            memory => ElementsMut::Guard(memory.device_view_mut()?.into_host_mut()?),
        };
        Ok(Self {
            elements,
            write_back: None,
        })
    }

    fn copy_of(buffer: &'a mut (impl Access<T> + ?Sized)) -> Result<Self> {
        Ok(Self {
            elements: ElementsMut::Copy(buffer.get_all()?),
            write_back: Some(Box::new(|elements| buffer.put_all(elements))),
        })
    }
}

impl<T> HostViewMut<'_, T> {
    /// Ends the access. A copy is written back: its errors are returned here.
    ///
    /// # Errors
    /// As for [`Buffer::copy_from_host`](crate::Buffer::copy_from_host), if the elements are a copy.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    fn finish(&mut self) -> Result<()> {
        match self.write_back.take() {
            Some(write_back) => write_back(self),
            None => Ok(()),
        }
    }
}

impl<T> Drop for HostViewMut<'_, T> {
    fn drop(&mut self) {
        // Writing back may call another implementation, whose second panic would end the process.
        if !std::thread::panicking() {
            // `close` returns the error.
            let _ = self.finish();
        }
    }
}

impl<T> Deref for HostView<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Elements::Slice(elements) => elements,
            Elements::Guard(guard) => guard,
            Elements::Copy(elements) => elements,
        }
    }
}

impl<T> Deref for HostViewMut<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.elements {
            ElementsMut::Slice(elements) => elements,
            ElementsMut::Guard(guard) => guard,
            ElementsMut::Copy(elements) => elements,
        }
    }
}

impl<T> DerefMut for HostViewMut<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match &mut self.elements {
            ElementsMut::Slice(elements) => elements,
            ElementsMut::Guard(guard) => guard,
            ElementsMut::Copy(elements) => elements,
        }
    }
}

macro_rules! host_view {
    ($view:ident, $elements:ident, $($field:tt)*) => {
        impl<T> $view<'_, T> {
            /// Whether the elements are a copy, because the host cannot access the buffer's memory.
            #[must_use]
            pub fn is_copy(&self) -> bool {
                matches!(self$($field)*, $elements::Copy(_))
            }
        }

        impl<T: fmt::Debug> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}
host_view!(HostView, Elements, .0);
host_view!(HostViewMut, ElementsMut, .elements);
