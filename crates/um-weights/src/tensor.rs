//! A tensor in memory.

use std::sync::Arc;

use um_backend::{DType, SharedBuffer};

use crate::info::TensorInfo;

/// A tensor that was loaded: its memory is a [`SharedBuffer`] of its own, with the tensor's name. Small tensors are parts of one allocation.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(crate) infos: Arc<Vec<TensorInfo>>,
    pub(crate) index: usize,
    /// Of a slice.
    pub(crate) shape: Option<Box<[usize]>>,
    pub(crate) buffer: SharedBuffer,
}

impl Tensor {
    /// What the file says about the whole tensor.
    #[must_use]
    pub fn info(&self) -> &TensorInfo {
        &self.infos[self.index]
    }

    /// The shape of what was loaded: of a slice, that of the slice.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.shape.as_deref().unwrap_or(self.info().shape())
    }

    /// The type of the buffer's elements: [`TensorInfo::dtype`].
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.buffer.dtype()
    }

    /// The memory. A guard of [`SharedBuffer::read`] is an argument of kernels, and an [`ErasedBuffer`](um_backend::ErasedBuffer) by deref.
    #[must_use]
    pub fn buffer(&self) -> &SharedBuffer {
        &self.buffer
    }

    /// Returns the memory.
    #[must_use]
    pub fn into_buffer(self) -> SharedBuffer {
        self.buffer
    }
}
