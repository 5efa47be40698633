//! What is behind a `dyn Buffer`: for kernels, and for copies between implementations.

use std::ops::Range;

use cuda_um::{DeviceBuffer, PinnedBuffer, UnifiedBuffer, View, ViewMut};

use crate::dtype::Element;
use crate::error::{CudaError, Result};

const HOST: &str = "host memory";
const OPAQUE: &str = "memory of an implementation's own";

/// The memory of a [`Buffer`](crate::Buffer), to be read.
///
/// A kernel takes [`device_view`](Self::device_view) as its argument, whichever implementation the buffer is.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum BufferMemory<'a, T> {
    /// Plain memory of the CPU.
    Host(&'a [T]),
    /// Device memory.
    Device(&'a DeviceBuffer<T>),
    /// Managed memory, or mapped memory behind the same type ([`UnifiedBuffer::placement`] says which).
    Unified(&'a UnifiedBuffer<T>),
    /// Pinned memory, mapped into the device's address space where the device can.
    Pinned(&'a PinnedBuffer<T>),
    /// Something of an implementation's own. It is copied through the host.
    Opaque,
}

/// The memory of a [`Buffer`](crate::Buffer), to be read and written.
#[derive(Debug)]
#[non_exhaustive]
pub enum BufferMemoryMut<'a, T> {
    /// Plain memory of the CPU.
    Host(&'a mut [T]),
    /// Device memory.
    Device(&'a mut DeviceBuffer<T>),
    /// Managed memory, or mapped memory behind the same type ([`UnifiedBuffer::placement`] says which).
    Unified(&'a mut UnifiedBuffer<T>),
    /// Pinned memory, mapped into the device's address space where the device can.
    Pinned(&'a mut PinnedBuffer<T>),
    /// Something of an implementation's own. It is copied through the host.
    Opaque,
}

impl<'a, T: Element> BufferMemory<'a, T> {
    /// The elements as an argument of a kernel that reads them.
    ///
    /// # Errors
    /// [`CudaError::NotSupported`] for memory that no kernel can reach.
    pub fn device_view(self) -> Result<View<'a, T>> {
        match self {
            Self::Device(buffer) => Ok(buffer.view(..)?),
            Self::Unified(buffer) => Ok(buffer.view(..)?),
            Self::Pinned(buffer) => Ok(buffer.view(..)?),
            Self::Host(_) | Self::Opaque => Err(unreachable_for_kernels(&self.in_words())),
        }
    }

    /// What it is, for answers and errors.
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Host(_) => HOST.to_owned(),
            Self::Device(_) => "device memory".to_owned(),
            Self::Unified(buffer) => buffer.placement().to_string(),
            Self::Pinned(_) => "pinned memory".to_owned(),
            Self::Opaque => OPAQUE.to_owned(),
        }
    }

    pub(crate) fn copy_to_host_at(self, offset: usize, target: &mut [T]) -> Result<()> {
        match self {
            Self::Host(elements) => {
                target.copy_from_slice(&elements[within(offset, target.len(), elements.len())?]);
                Ok(())
            }
            Self::Device(buffer) => Ok(buffer.copy_to_host_at(offset, target)?),
            Self::Unified(buffer) => Ok(buffer.copy_to_host_at(offset, target)?),
            Self::Pinned(buffer) => Ok(buffer.copy_to_host_at(offset, target)?),
            Self::Opaque => Err(not_overridden("copy_to_host_at")),
        }
    }
}

impl<'a, T: Element> BufferMemoryMut<'a, T> {
    /// The elements as an argument of a kernel that reads and writes them.
    ///
    /// # Errors
    /// [`CudaError::NotSupported`] for memory that no kernel can reach.
    pub fn device_view_mut(self) -> Result<ViewMut<'a, T>> {
        match self {
            Self::Device(buffer) => Ok(buffer.view_mut(..)?),
            Self::Unified(buffer) => Ok(buffer.view_mut(..)?),
            Self::Pinned(buffer) => Ok(buffer.view_mut(..)?),
            Self::Host(_) => Err(unreachable_for_kernels(HOST)),
            Self::Opaque => Err(unreachable_for_kernels(OPAQUE)),
        }
    }

    pub(crate) fn copy_from_host_at(self, offset: usize, source: &[T]) -> Result<()> {
        match self {
            Self::Host(elements) => {
                let range = within(offset, source.len(), elements.len())?;
                elements[range].copy_from_slice(source);
                Ok(())
            }
            Self::Device(buffer) => Ok(buffer.copy_from_host_at(offset, source)?),
            Self::Unified(buffer) => Ok(buffer.copy_from_host_at(offset, source)?),
            Self::Pinned(buffer) => Ok(buffer.copy_from_host_at(offset, source)?),
            Self::Opaque => Err(not_overridden("copy_from_host_at")),
        }
    }

    pub(crate) fn fill(self, value: T) -> Result<()> {
        match self {
            Self::Host(elements) => elements.fill(value),
            Self::Device(buffer) => buffer.fill(value, &buffer.device().default_stream()?)?,
            Self::Unified(buffer) => buffer.fill(value, &buffer.device().default_stream()?)?,
            Self::Pinned(buffer) => buffer.fill(value, &buffer.device().default_stream()?)?,
            Self::Opaque => return Err(not_overridden("fill")),
        }
        Ok(())
    }
}

/// The range `offset..offset + count` of a buffer with `len` elements.
pub(crate) fn within(offset: usize, count: usize, len: usize) -> Result<Range<usize>> {
    let out_of_bounds = CudaError::RangeOutOfBounds {
        start: offset,
        end: usize::MAX,
        len,
    };
    let end = offset.checked_add(count).ok_or(out_of_bounds)?;
    check_range(offset..end, len)
}

/// A range of a buffer with `len` elements.
pub(crate) fn check_range(range: Range<usize>, len: usize) -> Result<Range<usize>> {
    let Range { start, end } = range;
    if start <= end && end <= len {
        Ok(range)
    } else {
        Err(CudaError::RangeOutOfBounds { start, end, len })
    }
}

/// Two lengths that must be equal.
pub(crate) fn same_length(what: &'static str, buffer_len: usize, other_len: usize) -> Result<()> {
    if buffer_len == other_len {
        Ok(())
    } else {
        Err(CudaError::LengthMismatch {
            what,
            buffer_len,
            other_len,
        })
    }
}

fn unreachable_for_kernels(have: &str) -> CudaError {
    CudaError::NotSupported {
        what: "a view for kernels".into(),
        needs: "device, managed or mapped pinned memory".into(),
        have: have.into(),
    }
}

fn not_overridden(method: &str) -> CudaError {
    CudaError::NotSupported {
        what: format!("`{method}` of a buffer with opaque memory"),
        needs: "an implementation of that method".into(),
        have: "the provided one alone".into(),
    }
}
