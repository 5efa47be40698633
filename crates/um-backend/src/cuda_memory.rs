//! The buffers of `cuda_um` behind a `dyn Buffer`.

use std::ops::Range;

use cuda_um::{DeviceBuffer, Memory, MemoryMut, PinnedBuffer, UnifiedBuffer, View, ViewMut};

use crate::dtype::Element;
use crate::error::Result;

/// A buffer of `cuda_um`, to be read.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum CudaMemory<'a, T> {
    /// Device memory.
    Device(&'a DeviceBuffer<T>),
    /// Managed memory, or mapped pinned memory: [`UnifiedBuffer::placement`] tells which.
    Unified(&'a UnifiedBuffer<T>),
    /// Pinned host memory, mapped into the device's address space if the device supports it.
    Pinned(&'a PinnedBuffer<T>),
}

/// A buffer of `cuda_um`, to be read and written.
#[derive(Debug)]
#[non_exhaustive]
pub enum CudaMemoryMut<'a, T> {
    /// Device memory.
    Device(&'a mut DeviceBuffer<T>),
    /// Managed memory, or mapped pinned memory: [`UnifiedBuffer::placement`] tells which.
    Unified(&'a mut UnifiedBuffer<T>),
    /// Pinned host memory, mapped into the device's address space if the device supports it.
    Pinned(&'a mut PinnedBuffer<T>),
}

/// The same expression for every kind of buffer.
macro_rules! with_buffer {
    ($kind:ident, $memory:expr, $buffer:ident => $body:expr) => {
        match $memory {
            $kind::Device($buffer) => $body,
            $kind::Unified($buffer) => $body,
            $kind::Pinned($buffer) => $body,
        }
    };
}
#[cfg(feature = "conformance")]
pub(crate) use with_buffer;

impl<'a, T: Element> CudaMemory<'a, T> {
    pub(crate) fn view(self) -> Result<View<'a, T>> {
        Ok(with_buffer!(CudaMemory, self, buffer => buffer.view(..))?)
    }

    pub(crate) fn copy_to_host_at(self, offset: usize, target: &mut [T]) -> Result<()> {
        Ok(with_buffer!(CudaMemory, self, buffer => buffer.copy_to_host_at(offset, target))?)
    }

    /// The memory in words, for outcomes and errors.
    pub(crate) fn in_words(self) -> String {
        match self {
            Self::Device(_) => "device memory".to_owned(),
            Self::Unified(buffer) => buffer.placement().to_string(),
            Self::Pinned(_) => "pinned memory".to_owned(),
        }
    }

    /// Copies a range by CUDA, or returns `false` if CUDA cannot copy between these two buffers.
    pub(crate) fn copy_to(
        self,
        from: Range<usize>,
        target: CudaMemoryMut<'_, T>,
        to: usize,
    ) -> Result<bool> {
        with_buffer!(CudaMemory, self, source => {
            with_buffer!(CudaMemoryMut, target, target => {
                copy(source, from, &target.device().clone(), target, to)
            })
        })
    }
}

impl<'a, T: Element> CudaMemoryMut<'a, T> {
    pub(crate) fn as_shared(&self) -> CudaMemory<'_, T> {
        match self {
            Self::Device(buffer) => CudaMemory::Device(buffer),
            Self::Unified(buffer) => CudaMemory::Unified(buffer),
            Self::Pinned(buffer) => CudaMemory::Pinned(buffer),
        }
    }

    pub(crate) fn view_mut(self) -> Result<ViewMut<'a, T>> {
        Ok(with_buffer!(CudaMemoryMut, self, buffer => buffer.view_mut(..))?)
    }

    pub(crate) fn copy_from_host_at(self, offset: usize, source: &[T]) -> Result<()> {
        Ok(with_buffer!(CudaMemoryMut, self, buffer => buffer.copy_from_host_at(offset, source))?)
    }

    pub(crate) fn fill(self, value: T) -> Result<()> {
        Ok(with_buffer!(CudaMemoryMut, self, buffer => {
            buffer.fill(value, &buffer.device().default_stream()?)
        })?)
    }
}

/// A copy by CUDA on the stream of the target's device.
fn copy<T: Element>(
    source: &impl Memory<T>,
    from: Range<usize>,
    device: &cuda_um::Device,
    target: &mut impl MemoryMut<T>,
    to: usize,
) -> Result<bool> {
    match device
        .default_stream()?
        .copy_range(source, from, target, to)
    {
        Ok(()) => Ok(true),
        // Two runtimes (a GPU's and a simulator's, for example), or memory that the target's device cannot reach: copy through the host.
        Err(cuda_um::Error::RuntimeMismatch { .. } | cuda_um::Error::DeviceMismatch { .. }) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
