//! The tensor: storage, a shape and strides.

use super::kernels::Kernels;
use std::ops::Deref;
use std::sync::Arc;
use um_backend::cuda_um::{UnifiedBuffer, range};
use um_backend::{
    BufferKind, CudaBackend, DType, Element, ErasedBuffer, Result, SharedBuffer, Stream,
};

// wrapper begins
/// A device with its kernels and a stream, and the kind of memory of new tensors.
#[derive(Clone, Debug)]
pub struct Place {
    pub(super) backend: CudaBackend,
    pub(super) kind: BufferKind,
    pub(super) stream: Stream,
    /// `None` if the CPU computes.
    pub(super) kernels: Option<Arc<Kernels>>,
}

/// Elements of any type, in storage that tensors share.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(super) place: Place,
    /// Begins at the first element.
    pub(super) storage: SharedBuffer,
    pub(super) shape: Vec<usize>,
    /// The distance of two neighbours in each dimension, in elements.
    pub(super) strides: Vec<usize>,
}

impl Place {
    /// Memory of this kind on the backend's device, which computes if it can.
    ///
    /// # Errors
    /// The device refuses the kernels.
    pub fn new(backend: &CudaBackend, kind: BufferKind) -> Result<Self> {
        Ok(Self {
            backend: backend.clone(),
            kind,
            stream: backend.device().stream().clone(),
            kernels: Kernels::load(backend.device(), kind)?.map(Arc::new),
        })
    }
}

impl Tensor {
    /// A tensor of zeros.
    ///
    /// # Errors
    /// There is no memory.
    pub fn zeros(place: &Place, dtype: DType, shape: &[usize]) -> Result<Self> {
        let len = shape.iter().product();
        let buffer = place.backend.create_erased(place.kind, dtype, len)?;
        Ok(Self {
            place: place.clone(),
            storage: SharedBuffer::new(buffer),
            shape: shape.to_vec(),
            strides: super::layout::row_by_row(shape),
        })
    }

    /// A tensor with these elements, row by row.
    ///
    /// # Errors
    /// The shape has another number of elements, or there is no memory.
    pub fn from_slice<T: Element>(place: &Place, elements: &[T], shape: &[usize]) -> Result<Self> {
        let tensor = Self::zeros(place, T::DTYPE, shape)?;
        tensor.storage.copy_from_host(elements)?;
        Ok(tensor)
    }

    /// The elements, row by row: the memory itself if the host can access it.
    ///
    /// # Errors
    /// Another dtype, or errors of CUDA.
    pub fn data<T: Element>(&self) -> Result<impl Deref<Target = [T]> + use<T>> {
        self.contiguous()?.storage.host::<T>()
    }
}
// wrapper ends

impl Tensor {
    /// A tensor with arbitrary elements, for an operation that writes each of them before anything reads one. A graph records no
    /// work that the host has done on the memory, such as setting it to zero.
    #[allow(unsafe_code, reason = "leaves the contents arbitrary")]
    pub(super) fn for_output(place: &Place, dtype: DType, shape: &[usize]) -> Result<Self> {
        let len = shape.iter().product();
        // SAFETY: every bit pattern is a value of these types, and the caller writes all elements.
        let buffer = unsafe { place.backend.create_erased_uninit(place.kind, dtype, len) }?;
        Ok(Self {
            place: place.clone(),
            storage: SharedBuffer::new(buffer),
            shape: shape.to_vec(),
            strides: super::layout::row_by_row(shape),
        })
    }

    /// A tensor of a vector, row by row: the vector's own memory where the device accesses it.
    ///
    /// # Errors
    /// The shape has another number of elements, or there is no memory.
    pub fn from_vec<T: Element>(place: &Place, elements: Vec<T>, shape: &[usize]) -> Result<Self> {
        range::same_length("the shape", shape.iter().product(), elements.len())?;
        let device = place.backend.device();
        let buffer = match place.kind {
            BufferKind::Unified | BufferKind::Host
                if device.capabilities().pageable_memory_access =>
            {
                let bytes = UnifiedBuffer::from_vec(device, elements)?.into_bytes();
                ErasedBuffer::from_bytes(Box::new(bytes), T::DTYPE)?
            }
            kind => {
                let bytes = bytemuck::cast_slice(&elements);
                place.backend.create_erased_from(kind, T::DTYPE, bytes)?
            }
        };
        Ok(Self {
            place: place.clone(),
            storage: SharedBuffer::new(buffer),
            shape: shape.to_vec(),
            strides: super::layout::row_by_row(shape),
        })
    }
}

impl Place {
    /// The backend.
    pub fn backend(&self) -> &CudaBackend {
        &self.backend
    }
}

impl Tensor {
    /// The length of each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the elements.
    pub fn dtype(&self) -> DType {
        self.storage.dtype()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The place of the tensor and of the results of its operations.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The storage, which begins at the first element.
    pub fn storage(&self) -> &SharedBuffer {
        &self.storage
    }
}
