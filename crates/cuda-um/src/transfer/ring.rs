//! The ring: chunks of pinned memory, each with an event that says when the copy engine is done with it.

use super::options::{CHUNKS_PER_THREAD, TransferOptions};
use crate::call::Api;
use crate::device::DeviceState;
use crate::error::Result;
use crate::event::RawEvent;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ptr::NonNull;
use std::sync::Arc;

/// The chunks of all threads, and the threads.
pub(super) struct Ring {
    api: Arc<Api>,
    ordinal: u32,
    memory: NonNull<u8>,
    pub(super) chunk_bytes: usize,
    pub(super) threads: usize,
    events: Vec<RawEvent>,
    /// The threads beside the calling one; none for one thread.
    workers: Option<ThreadPool>,
}

#[allow(unsafe_code, reason = "the pinned memory is the ring's own")]
// SAFETY: the memory is the ring's own and used through `chunk` alone, each chunk by one thread (see `staged::copy`).
unsafe impl Send for Ring {}
#[allow(unsafe_code, reason = "the pinned memory is the ring's own")]
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    pub(super) fn new(device: &Arc<DeviceState>, options: TransferOptions) -> Result<Self> {
        let (threads, chunk_bytes) = (options.threads, options.chunk_bytes());
        let chunks = threads * CHUNKS_PER_THREAD;
        let events = (0..chunks)
            .map(|_| RawEvent::create(device, false))
            .collect::<Result<Vec<_>>>()?;
        let workers = (threads > 1)
            .then(|| {
                ThreadPoolBuilder::new()
                    .num_threads(threads - 1)
                    .thread_name(|_| "cuda-um-transfer".to_owned())
                    .build()
            })
            .transpose()
            .inspect_err(
                |error| tracing::warn!(target: "cuda_um", %error, "copies stay on one thread"),
            )
            .unwrap_or(None);
        let memory = device
            .api
            .host_alloc(device.ordinal, chunks * chunk_bytes, false)?;
        Ok(Self {
            api: Arc::clone(&device.api),
            ordinal: device.ordinal,
            memory,
            chunk_bytes,
            threads: if workers.is_some() { threads } else { 1 },
            events,
            workers,
        })
    }

    /// The address of a chunk.
    pub(super) fn chunk(&self, index: usize) -> *mut u8 {
        assert!(
            index < self.events.len(),
            "the ring has {} chunks",
            self.events.len()
        );
        self.memory.as_ptr().wrapping_add(index * self.chunk_bytes)
    }

    pub(super) fn event(&self, index: usize) -> &RawEvent {
        &self.events[index]
    }

    /// Runs `work` for 0 to `count`, each on a thread of its own, and returns when all are done.
    pub(super) fn run(&self, count: usize, work: impl Fn(usize) + Sync) {
        match &self.workers {
            Some(workers) if count > 1 => workers.in_place_scope(|scope| {
                let work = &work;
                (1..count).for_each(|index| scope.spawn(move |_| work(index)));
                work(0);
            }),
            _ => (0..count).for_each(work),
        }
    }
}

#[allow(unsafe_code, reason = "frees its memory")]
impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the ring's own memory; every copy waits for its chunks before it lets the ring go.
        if let Err(error) = unsafe { self.api.free_host(self.ordinal, self.memory) } {
            tracing::warn!(target: "cuda_um", %error, "the ring of pinned memory could not be freed");
        }
    }
}
