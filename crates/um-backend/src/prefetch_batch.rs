//! Many buffers to one place, with few calls.

use std::sync::Arc;

use cuda_um::Location;

use crate::buffer::Buffer;
use crate::device::CudaDevice;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::BufferMemory;
use crate::placement::Placement;
use crate::unified_buffer::{UnifiedBuffer, is_managed};

/// Buffers of any element types that are prefetched together: [`CudaBackend::prefetch_batch`](crate::CudaBackend::prefetch_batch).
///
/// A call of the driver takes longer than most small migrations. What lies side by side, as buffers of a pool often do, goes as one, and
/// a runtime that can (from CUDA 13.0 on) takes the rest in one call too.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let weights: Box<dyn Buffer<f32>> = Box::new(backend.allocate_unified(1 << 20)?);
/// let indices = backend.allocate_unified::<u32>(1000)?;
/// let labels = backend.create_host::<u8>(1000)?;
///
/// let mut batch = backend.prefetch_batch();
/// batch.add(&*weights).add(&indices).add(&labels);
/// let prefetched = batch.to_host()?;
/// for (index, why) in prefetched.skipped() {
///     println!("buffer {index}: {why}"); // buffer 2: not applied: prefetch needs managed memory, and there is host memory
/// }
/// # assert!(prefetched.skipped().any(|(index, _)| index == 2));
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug, Clone)]
pub struct PrefetchBatch<'a> {
    device: Arc<CudaDevice>,
    managed: cuda_um::PrefetchBatch<'a>,
    /// What comes of each buffer if CUDA takes `managed`.
    placements: Vec<Placement>,
}

/// What came of a prefetch of many buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prefetched {
    /// How many calls of the driver it took; none where all was there already.
    pub calls: usize,
    /// What came of each buffer, in the order in which they were given.
    pub placements: Vec<Placement>,
}

impl Prefetched {
    /// The buffers that were left out, each by its index, and why: [`Placement::NotApplied`].
    pub fn skipped(&self) -> impl Iterator<Item = (usize, &Placement)> {
        let all = self.placements.iter().enumerate();
        all.filter(|(_, placement)| !placement.is_applied())
    }
}

impl<'a> PrefetchBatch<'a> {
    pub(crate) fn new(device: Arc<CudaDevice>) -> Self {
        Self {
            device,
            managed: cuda_um::PrefetchBatch::new(),
            placements: Vec::new(),
        }
    }

    /// Adds a buffer of any kind. One without managed memory is left out when the batch goes, and [`Prefetched`] says so.
    pub fn add<T: Element>(&mut self, buffer: &'a dyn Buffer<T>) -> &mut Self {
        self.placements.push(match buffer.memory() {
            BufferMemory::Unified(memory) if is_managed(memory) => {
                self.managed.add(memory);
                Placement::Applied
            }
            memory => {
                // That of this crate knows why it is mapped.
                let unified = buffer.as_any().downcast_ref::<UnifiedBuffer<T>>();
                let have = unified
                    .map_or_else(|| memory.in_words(), |unified| unified.placed().to_string());
                Placement::not_managed("prefetch", &have)
            }
        });
        self
    }

    /// Migrates the buffers to a device; `None` is that of the backend. The batch can be used again.
    ///
    /// # Ordering
    /// Enqueued on the backend's [`CudaDevice::stream`], for each buffer after earlier work on it; later work on it comes after.
    ///
    /// # Errors
    /// As for [`UnifiedBuffer::prefetch_to_device`], for all buffers together; if a function of CUDA fails, some may be on their way
    /// nevertheless. Where a device cannot prefetch, all are [`Placement::NotApplied`], also those of other devices.
    #[doc(alias = "cudaMemPrefetchBatchAsync")]
    pub fn to_device(&self, device: Option<usize>) -> Result<Prefetched> {
        let ordinal = device.unwrap_or(self.device.ordinal());
        self.prefetch(Location::Device(self.device.checked_ordinal(ordinal)?))
    }

    /// Migrates the buffers to the host. The batch can be used again.
    ///
    /// # Ordering
    /// As for [`to_device`](Self::to_device).
    ///
    /// # Errors
    /// As for [`to_device`](Self::to_device).
    #[doc(alias = "cudaMemPrefetchBatchAsync")]
    pub fn to_host(&self) -> Result<Prefetched> {
        self.prefetch(Location::Host)
    }

    fn prefetch(&self, location: Location) -> Result<Prefetched> {
        let mut calls = 0;
        let outcome = self.managed.prefetch(location, self.device.stream());
        let of_managed = Placement::from_outcome(outcome.map(|made| calls = made))?;
        let mut placements = self.placements.clone();
        for placement in &mut placements {
            if placement.is_applied() {
                placement.clone_from(&of_managed);
            }
        }
        Ok(Prefetched { calls, placements })
    }
}
