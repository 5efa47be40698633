//! The memory behind a `dyn Buffer`, for kernels and for copies between implementations, and the buffers of `cuda_um` that have it.

use std::ops::Range;

use cuda_um::buffer::kind::Owned;
use cuda_um::{Device, Memory, View, ViewMut};

use crate::buffer::Buffer;
use crate::dtype::{Element, dtype_of};
use crate::error::{CudaError, Result};

/// The memory of a [`Buffer`], to be read.
///
/// A kernel takes [`device_view`](Self::device_view) as its argument for every implementation of the trait.
// Covariant in `'a` and `T`, as `&'a [T]`.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum BufferMemory<'a, T> {
    /// Plain memory of the CPU, which kernels cannot use.
    Host(&'a [T]),
    /// Memory of `cuda_um`: [`View::kind`] tells which.
    Cuda(View<'a, T>),
    /// Memory that only the implementation can access. It is copied through the host.
    Opaque,
}

/// The memory of a [`Buffer`], to be read and written.
// Covariant in `'a` and invariant in `T`, as `&'a mut [T]`.
#[derive(Debug)]
#[non_exhaustive]
pub enum BufferMemoryMut<'a, T> {
    /// Plain memory of the CPU.
    Host(&'a mut [T]),
    /// Memory of `cuda_um`: [`ViewMut::kind`] tells which.
    Cuda(ViewMut<'a, T>),
    /// Memory that only the implementation can access. It is copied through the host.
    Opaque,
}

impl<T: Element, K: Owned> Buffer<T> for Memory<T, K> {
    fn len(&self) -> usize {
        self.len()
    }

    fn device(&self) -> Option<&Device> {
        Some(self.device())
    }

    fn memory(&self) -> BufferMemory<'_, T> {
        const { dtype_of::<T>() };
        BufferMemory::Cuda(self.as_view())
    }

    fn memory_mut(&mut self) -> BufferMemoryMut<'_, T> {
        BufferMemoryMut::Cuda(self.as_view_mut())
    }

    fn clone_empty(&self, len: usize) -> Result<Box<dyn Buffer<T>>> {
        Ok(Box::new(self.zeroed_like(len)?))
    }

    fn into_parts(self: Box<Self>, parts: &[Range<usize>]) -> Result<Vec<Box<dyn Buffer<T>>>> {
        let parts = Self::into_parts(*self, parts)?;
        Ok(parts.map(|part| Box::new(part) as _).collect())
    }

    fn set_name(&mut self, name: &str) {
        self.set_name(name);
    }

    fn name(&self) -> Option<&str> {
        self.name()
    }

    as_any!();
}

impl<'a, T: Element> BufferMemory<'a, T> {
    /// The elements as an argument of a kernel that reads them.
    ///
    /// # Errors
    /// [`NotSupported`](cuda_um::Error::NotSupported) for memory that kernels cannot access.
    pub fn device_view(self) -> Result<View<'a, T>> {
        match self {
            Self::Cuda(view) => Ok(view),
            Self::Host(_) | Self::Opaque => Err(no_view(&self.in_words())),
        }
    }

    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Host(_) => "host memory".to_owned(),
            Self::Cuda(view) => view.kind_in_words(),
            Self::Opaque => "opaque memory".to_owned(),
        }
    }

    #[cfg(feature = "conformance")]
    pub(crate) fn len(self) -> Option<usize> {
        match self {
            Self::Host(elements) => Some(elements.len()),
            Self::Cuda(view) => Some(view.len()),
            Self::Opaque => None,
        }
    }

    /// The same bytes as elements of another type. Memory that is not aligned for it becomes opaque.
    pub(crate) fn cast<U: Element>(self) -> BufferMemory<'a, U> {
        match self {
            Self::Host(elements) => {
                bytemuck::try_cast_slice(elements).map_or(BufferMemory::Opaque, BufferMemory::Host)
            }
            Self::Cuda(view) => view.cast().map_or(BufferMemory::Opaque, BufferMemory::Cuda),
            Self::Opaque => BufferMemory::Opaque,
        }
    }

    /// A part of the elements. A range that is not in the memory makes it opaque.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Host(elements) => elements.get(range).map_or(Self::Opaque, Self::Host),
            Self::Cuda(view) => view.slice(range).map_or(Self::Opaque, Self::Cuda),
            Self::Opaque => Self::Opaque,
        }
    }
}

impl<'a, T: Element> BufferMemoryMut<'a, T> {
    /// The elements as an argument of a kernel that reads and writes them.
    ///
    /// # Errors
    /// [`NotSupported`](cuda_um::Error::NotSupported) for memory that kernels cannot access.
    pub fn device_view_mut(self) -> Result<ViewMut<'a, T>> {
        match self {
            Self::Cuda(view) => Ok(view),
            Self::Host(_) | Self::Opaque => Err(no_view(&self.as_shared().in_words())),
        }
    }

    pub(crate) fn as_shared(&self) -> BufferMemory<'_, T> {
        match self {
            Self::Host(elements) => BufferMemory::Host(elements),
            Self::Cuda(view) => BufferMemory::Cuda(view.as_view()),
            Self::Opaque => BufferMemory::Opaque,
        }
    }

    /// The same bytes as elements of another type. Memory that is not aligned for it becomes opaque.
    pub(crate) fn cast<U: Element>(self) -> BufferMemoryMut<'a, U> {
        match self {
            Self::Host(elements) => bytemuck::try_cast_slice_mut(elements)
                .map_or(BufferMemoryMut::Opaque, BufferMemoryMut::Host),
            Self::Cuda(view) => view
                .cast()
                .map_or(BufferMemoryMut::Opaque, BufferMemoryMut::Cuda),
            Self::Opaque => BufferMemoryMut::Opaque,
        }
    }

    /// A part of the elements. A range that is not in the memory makes it opaque.
    pub(crate) fn part(self, range: Range<usize>) -> Self {
        match self {
            Self::Host(elements) => elements.get_mut(range).map_or(Self::Opaque, Self::Host),
            Self::Cuda(view) => view.slice(range).map_or(Self::Opaque, Self::Cuda),
            Self::Opaque => Self::Opaque,
        }
    }
}

/// The device whose work may use the bytes: also that of host memory which kernels use.
pub(crate) fn device_of(bytes: &dyn Buffer<u8>) -> Option<&Device> {
    bytes.device().or(match bytes.memory() {
        BufferMemory::Cuda(view) => Some(view.device()),
        BufferMemory::Host(_) | BufferMemory::Opaque => None,
    })
}

fn no_view(have: &str) -> CudaError {
    CudaError::NotSupported {
        what: "a view for kernels".into(),
        needs:
            "device, managed or mapped pinned memory, or host memory of a backend with pageable memory access (or a copy in such memory: `copy_from_buffer`)"
                .into(),
        have: have.into(),
    }
}
