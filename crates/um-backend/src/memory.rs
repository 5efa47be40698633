//! The memory behind a `dyn Buffer`, for kernels and for copies between implementations.

use cuda_um::{View, ViewMut, range};

use crate::cuda_memory::{CudaMemory, CudaMemoryMut};
use crate::dtype::Element;
use crate::error::{CudaError, Result};

/// The memory of a [`Buffer`](crate::Buffer), to be read.
///
/// A kernel takes [`device_view`](Self::device_view) as its argument for every implementation of the trait.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum BufferMemory<'a, T> {
    /// Plain memory of the CPU.
    Host(&'a [T]),
    /// A buffer of `cuda_um`.
    Cuda(CudaMemory<'a, T>),
    /// Memory that only the implementation can access. It is copied through the host.
    Opaque,
}

/// The memory of a [`Buffer`](crate::Buffer), to be read and written.
#[derive(Debug)]
#[non_exhaustive]
pub enum BufferMemoryMut<'a, T> {
    /// Plain memory of the CPU.
    Host(&'a mut [T]),
    /// A buffer of `cuda_um`.
    Cuda(CudaMemoryMut<'a, T>),
    /// Memory that only the implementation can access. It is copied through the host.
    Opaque,
}

impl<'a, T: Element> BufferMemory<'a, T> {
    /// The elements as an argument of a kernel that reads them.
    ///
    /// # Errors
    /// [`NotSupported`](cuda_um::Error::NotSupported) for memory that kernels cannot access.
    pub fn device_view(self) -> Result<View<'a, T>> {
        match self {
            Self::Cuda(memory) => memory.view(),
            Self::Host(_) | Self::Opaque => Err(no_view(&self.in_words())),
        }
    }

    /// The memory in words, for outcomes and errors.
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Host(_) => "host memory".to_owned(),
            Self::Cuda(memory) => memory.in_words(),
            Self::Opaque => "opaque memory".to_owned(),
        }
    }

    pub(crate) fn copy_to_host_at(self, offset: usize, target: &mut [T]) -> Result<()> {
        match self {
            Self::Host(elements) => {
                let range = range::check_at(offset, target.len(), elements.len())?;
                target.copy_from_slice(&elements[range]);
                Ok(())
            }
            Self::Cuda(memory) => memory.copy_to_host_at(offset, target),
            Self::Opaque => Err(not_overridden("copy_to_host_at")),
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
            Self::Cuda(memory) => memory.view_mut(),
            Self::Host(_) | Self::Opaque => Err(no_view(&self.as_shared().in_words())),
        }
    }

    pub(crate) fn as_shared(&self) -> BufferMemory<'_, T> {
        match self {
            Self::Host(elements) => BufferMemory::Host(elements),
            Self::Cuda(memory) => BufferMemory::Cuda(memory.as_shared()),
            Self::Opaque => BufferMemory::Opaque,
        }
    }

    pub(crate) fn copy_from_host_at(self, offset: usize, source: &[T]) -> Result<()> {
        match self {
            Self::Host(elements) => {
                let range = range::check_at(offset, source.len(), elements.len())?;
                elements[range].copy_from_slice(source);
                Ok(())
            }
            Self::Cuda(memory) => memory.copy_from_host_at(offset, source),
            Self::Opaque => Err(not_overridden("copy_from_host_at")),
        }
    }

    pub(crate) fn fill(self, value: T) -> Result<()> {
        match self {
            Self::Host(elements) => {
                elements.fill(value);
                Ok(())
            }
            Self::Cuda(memory) => memory.fill(value),
            Self::Opaque => Err(not_overridden("fill")),
        }
    }
}

fn no_view(have: &str) -> CudaError {
    cuda_um::Error::NotSupported {
        what: "a view for kernels".into(),
        needs: "device, managed or mapped pinned memory".into(),
        have: have.into(),
    }
    .into()
}

fn not_overridden(method: &str) -> CudaError {
    cuda_um::Error::NotSupported {
        what: format!("`{method}` of a buffer with opaque memory"),
        needs: "an implementation of that method".into(),
        have: "only the default one".into(),
    }
    .into()
}
