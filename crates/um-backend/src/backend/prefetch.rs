//! Prefetch: of one buffer, and of many with few calls.

use std::sync::Arc;

use super::CudaBackend;
use crate::dtype::Element;
use crate::error::Result;
use crate::placement::Placement;
use crate::prefetch_batch::{PrefetchBatch, Prefetched};
use crate::unified_buffer::UnifiedBuffer;

impl CudaBackend {
    /// [`UnifiedBuffer::prefetch_to_device`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_device<T: Element>(
        &self,
        buffer: &UnifiedBuffer<T>,
        device: Option<usize>,
    ) -> Result<Placement> {
        buffer.prefetch_to_device(device)
    }

    /// [`UnifiedBuffer::prefetch_to_host`].
    ///
    /// # Errors
    /// As there.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_to_host<T: Element>(&self, buffer: &UnifiedBuffer<T>) -> Result<Placement> {
        buffer.prefetch_to_host()
    }

    /// A batch of nothing, to add buffers of any kinds and element types to, which are then prefetched together.
    #[must_use]
    pub fn prefetch_batch<'a>(&self) -> PrefetchBatch<'a> {
        PrefetchBatch::new(Arc::clone(&self.device))
    }

    /// Migrates buffers to a device, with as few calls of the driver as a [`PrefetchBatch`] takes; `None` is the backend's own device.
    ///
    /// # Ordering
    /// As for [`PrefetchBatch::to_device`].
    ///
    /// # Errors
    /// As for [`PrefetchBatch::to_device`]. A buffer without managed memory is no error: [`Prefetched::skipped`] has it.
    #[doc(alias = "cudaMemPrefetchBatchAsync")]
    pub fn prefetch_all_to_device<T: Element>(
        &self,
        buffers: &[&UnifiedBuffer<T>],
        device: Option<usize>,
    ) -> Result<Prefetched> {
        self.batch_of(buffers).to_device(device)
    }

    /// Migrates buffers to the host, with as few calls of the driver as a [`PrefetchBatch`] takes.
    ///
    /// # Ordering
    /// As for [`PrefetchBatch::to_host`].
    ///
    /// # Errors
    /// As for [`prefetch_all_to_device`](Self::prefetch_all_to_device).
    #[doc(alias = "cudaMemPrefetchBatchAsync")]
    pub fn prefetch_all_to_host<T: Element>(
        &self,
        buffers: &[&UnifiedBuffer<T>],
    ) -> Result<Prefetched> {
        self.batch_of(buffers).to_host()
    }

    fn batch_of<'a, T: Element>(&self, buffers: &[&'a UnifiedBuffer<T>]) -> PrefetchBatch<'a> {
        let mut batch = self.prefetch_batch();
        for &buffer in buffers {
            batch.add(buffer);
        }
        batch
    }
}
