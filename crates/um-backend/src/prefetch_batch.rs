//! A prefetch of many buffers with few calls of the driver.

use cuda_um::{Error, HintOutcome, Location, Stream};

use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::Result;
use crate::memory::BufferMemory;
use crate::range_ops::not_managed;
#[cfg(doc)]
use crate::unified_buffer::UnifiedBuffer;

/// Buffers of any kinds and element types that are prefetched together.
///
/// A call of the driver takes longer than most small migrations. Adjacent buffers, which are common in a pool, need only one call; from
/// CUDA 13.0 on, one call migrates all buffers.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, CudaBackend, CudaBackendConfig, Location, PrefetchBatch};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let weights: Box<dyn Buffer<f32>> = Box::new(backend.allocate_unified(1 << 20)?);
/// let indices = backend.allocate_unified::<u32>(1000)?;
/// let labels = backend.create_host::<u8>(1000)?;
///
/// let mut batch = PrefetchBatch::new();
/// batch.add(&*weights).add(&indices).add(&labels);
/// let prefetched = batch.prefetch_on(Location::Host, backend.device().stream())?;
/// for (index, outcome) in prefetched.skipped() {
///     println!("buffer {index}: {outcome}"); // buffer 2: not applied: prefetch needs managed memory, found host memory
/// }
/// # assert!(prefetched.skipped().any(|(index, _)| index == 2));
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct PrefetchBatch<'a> {
    managed: cuda_um::PrefetchBatch<'a>,
    /// The outcome for each buffer if CUDA accepts the prefetch of `managed`.
    outcomes: Vec<HintOutcome>,
}

/// The outcome of a prefetch of many buffers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prefetched {
    /// The number of calls of the driver; 0 if all buffers were already there.
    pub calls: usize,
    /// The outcome for each buffer, in the order in which they were added.
    pub outcomes: Vec<HintOutcome>,
}

impl Prefetched {
    /// The buffers that were not prefetched: the index of each, and its [`HintOutcome::NotApplied`].
    pub fn skipped(&self) -> impl Iterator<Item = (usize, &HintOutcome)> {
        let all = self.outcomes.iter().enumerate();
        all.filter(|(_, outcome)| !outcome.is_applied())
    }
}

impl<'a> PrefetchBatch<'a> {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer of any kind. A buffer without managed memory is skipped, and its outcome is [`HintOutcome::NotApplied`].
    pub fn add<T: Element>(&mut self, buffer: &'a dyn Buffer<T>) -> &mut Self {
        self.outcomes.push(match buffer.memory() {
            BufferMemory::Cuda(view) => match self.managed.add_view(view) {
                Err(Error::NotSupported { what, needs, have }) => {
                    HintOutcome::NotApplied { what, needs, have }
                }
                _ => HintOutcome::Applied,
            },
            memory => not_managed("prefetch", memory.in_words()),
        });
        self
    }

    /// Migrates the buffers to a location, on a stream. The batch can be used again.
    ///
    /// # Ordering
    /// Enqueued on `stream`, for each buffer after earlier work on it. Later work on a buffer, on any stream, is ordered after it.
    ///
    /// # Errors
    /// As for [`UnifiedBuffer::prefetch`], for all buffers together; if a call of CUDA fails, some buffers may migrate nevertheless. If
    /// one of the devices cannot prefetch, the outcome of all buffers is [`HintOutcome::NotApplied`].
    #[doc(alias = "cudaMemPrefetchBatchAsync")]
    pub fn prefetch_on(
        &self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<Prefetched> {
        let (calls, of_managed) = match self.managed.prefetch_on(location, stream) {
            Ok(calls) => (calls, HintOutcome::Applied),
            Err(Error::NotSupported { what, needs, have }) => {
                (0, HintOutcome::NotApplied { what, needs, have })
            }
            Err(error) => return Err(error.into()),
        };
        let mut outcomes = self.outcomes.clone();
        for outcome in &mut outcomes {
            if outcome.is_applied() {
                outcome.clone_from(&of_managed);
            }
        }
        Ok(Prefetched { calls, outcomes })
    }
}
