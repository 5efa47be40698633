//! Streams, executors, devices, out of memory, and profiles.

use super::tensor::{Place, Tensor};
use std::sync::Mutex;
use um_backend::profile::trace::MigrationReport;
use um_backend::{Element, Location, Result, Stream};

impl Place {
    /// The same place with a stream of its own: its operations overlap those of other streams.
    ///
    /// # Errors
    /// There is no stream.
    pub fn with_own_stream(&self) -> Result<Self> {
        Ok(Self {
            stream: self.backend.device().create_stream()?,
            ..self.clone()
        })
    }

    /// The same kind of memory on another device.
    ///
    /// # Errors
    /// There is no such device, or it refuses the kernels.
    pub fn sibling(&self, ordinal: usize) -> Result<Self> {
        Self::new(&self.backend.sibling(ordinal)?, self.kind)
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Runs `work`, and returns its result with a report of the data that moved. On a GPU, the first profile begins before the first unified
    /// tensor: CUPTI does not report managed memory that is older.
    ///
    /// # Errors
    /// Migrations cannot be recorded, or the error of `work`.
    pub fn profile<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, String)> {
        let (result, trace) = self.backend.profile(work)?;
        let model = self.backend.device().cost_model();
        Ok((result?, MigrationReport::of(&trace, &model).to_string()))
    }
}

impl Tensor {
    /// The same elements in a tensor of this place, whose stream computes.
    #[must_use]
    pub fn on(&self, place: &Place) -> Self {
        Self {
            place: place.clone(),
            ..self.clone()
        }
    }

    /// Replaces all elements, on the stream of a loader: kernels on other streams, and of other tensors, run meanwhile.
    ///
    /// # Errors
    /// Another number of elements, or errors of CUDA.
    pub fn load_on<T: Element>(&mut self, elements: &[T], loader: &Stream) -> Result<()> {
        *self = self.contiguous()?;
        self.storage.make_unique()?;
        let mut guard = self.storage.write()?;
        guard.typed_mut::<T>()?.copy_from_host_on(elements, loader)
    }

    /// Copies the elements to the host, row by row, on any executor.
    ///
    /// # Errors
    /// Another dtype, or errors of CUDA.
    pub async fn to_vec_async<T: Element>(&self) -> Result<Vec<T>> {
        let guard = self.contiguous()?.storage.read_async().await?;
        if guard.device().is_none() {
            return guard.typed::<T>()?.to_vec();
        }
        let mut elements = vec![T::zeroed(); self.len()];
        guard.view::<T>()?.copy_to_host_async(&mut elements).await?;
        Ok(elements)
    }

    /// A copy on another device, or in another kind of memory.
    ///
    /// # Errors
    /// There is no memory, or errors of CUDA.
    pub fn to(&self, place: &Place) -> Result<Self> {
        let (source, copy) = (
            self.contiguous()?,
            Self::zeros(place, self.dtype(), &self.shape)?,
        );
        copy.storage.write()?.copy_from(&*source.storage.read()?)?;
        Ok(copy)
    }

    /// Moves the pages to the device, before the first kernel. Memory without pages stays.
    ///
    /// # Errors
    /// Errors of CUDA.
    pub fn prefetch(&self) -> Result<()> {
        let device = self.place.stream.device().ordinal();
        let part = self.storage.read()?;
        let (all, device) = (0..part.size_bytes(), Location::Device(device));
        part.bytes()
            .prefetch_range_on(all, device, &self.place.stream)?;
        Ok(())
    }
}

/// Tensors that are dropped, the oldest first, to make room for others.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Vec<Tensor>>);

impl Cache {
    /// Keeps a tensor.
    pub fn keep(&self, tensor: Tensor) {
        self.tensors().push(tensor);
    }

    /// The number of tensors.
    pub fn len(&self) -> usize {
        self.tensors().len()
    }

    /// Whether it has no tensors.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `allocate` again after each tensor that was dropped, as long as there is no memory.
    ///
    /// # Errors
    /// The last error of `allocate`.
    pub fn with_room<R>(&self, allocate: impl Fn() -> Result<R>) -> Result<R> {
        loop {
            match allocate() {
                Err(error) if error.is_out_of_memory() && !self.is_empty() => {
                    drop(self.tensors().remove(0))
                }
                result => return result,
            }
        }
    }

    fn tensors(&self) -> std::sync::MutexGuard<'_, Vec<Tensor>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
