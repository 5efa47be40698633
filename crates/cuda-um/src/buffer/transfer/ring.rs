//! The staging ring: chunks of pinned memory, two for each thread, and the threads.

use crate::buffer::transfer::options::{CHUNKS_PER_THREAD, TransferOptions};
use crate::buffer::transfer::workers::Workers;
use crate::context::device::DeviceState;
use crate::context::event::RawEvent;
use crate::driver::Api;
use crate::element::ALIGNMENT;
use crate::error::Result;
use crate::sync::{Mutex, after_unlock};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// The chunks of all threads, and the threads.
pub(super) struct Ring {
    options: TransferOptions,
    lanes: Vec<Mutex<Lane>>,
    /// The helper threads; the calling thread is not one of them.
    workers: Workers,
}

/// The chunks of one thread.
///
/// All copies through the ring are enqueued on one stream. So the next copy *to the host* may use memory of a chunk at once, but the CPU
/// must not write there before the copies from it are complete.
#[derive(Default)]
pub(super) struct Lane {
    chunk_bytes: usize,
    /// Allocated at the first use.
    chunks: Vec<Chunk>,
    current: usize,
}

/// Holds the chunks of one thread until it is dropped. It is not a lock, because closures of the caller run meanwhile.
pub(super) struct LaneTurn<'a> {
    home: &'a Mutex<Lane>,
    lane: Lane,
}

pub(super) struct Chunk {
    memory: Pinned,
    /// The event after the last copy that uses the chunk.
    pub(super) event: RawEvent,
    /// The number of bytes at the start of the chunk that copies use.
    used: usize,
}

struct Pinned {
    api: Arc<Api>,
    ordinal: u32,
    address: NonNull<u8>,
    /// True if a copy may still use the memory and the wait for it failed: then the memory is never freed.
    is_kept: bool,
}

#[allow(unsafe_code, reason = "only the chunk uses its pinned memory")]
// SAFETY: the chunk owns the memory, and only the thread that has its lane uses it (see `staged::copy`).
unsafe impl Send for Pinned {}

/// Pieces begin at addresses that are aligned for any element, because `host_overwrite` makes slices of elements of them. So no two pieces
/// share a cache line.
const ALIGN: usize = ALIGNMENT;

impl Ring {
    pub(super) fn new(options: TransferOptions) -> Self {
        let lane = || Lane {
            chunk_bytes: options.chunk_bytes(),
            chunks: Vec::new(),
            current: 0,
        };
        Self {
            options,
            lanes: (0..options.threads).map(|_| Mutex::new(lane())).collect(),
            workers: Workers::new(),
        }
    }

    pub(super) fn options(&self) -> TransferOptions {
        self.options
    }

    pub(super) fn threads(&self) -> usize {
        self.options.threads
    }

    /// Takes the chunks of a thread. The caller must not call this twice at a time for one thread.
    pub(super) fn lane(&self, thread: usize) -> LaneTurn<'_> {
        let home = &self.lanes[thread];
        let lane = std::mem::take(&mut *home.lock());
        LaneTurn { home, lane }
    }

    /// Runs `work(0)` on this thread, and `work` with other numbers below `count` on helpers that start in time. All of them have ended
    /// when this returns.
    pub(super) fn run(&self, count: usize, work: impl Fn(usize) + Sync) {
        self.workers.run(count, &work);
    }
}

impl Deref for LaneTurn<'_> {
    type Target = Lane;

    fn deref(&self) -> &Lane {
        &self.lane
    }
}

impl DerefMut for LaneTurn<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.lane
    }
}

impl Drop for LaneTurn<'_> {
    fn drop(&mut self) {
        std::mem::swap(&mut *self.home.lock(), &mut self.lane);
    }
}

impl Lane {
    /// Allocates chunks until there are `count`, and returns the number of chunks, at least one.
    ///
    /// # Errors
    ///
    /// The first chunk cannot be allocated.
    pub(super) fn prepare(&mut self, device: &DeviceState, count: usize) -> Result<usize> {
        while self.chunks.len() < count.min(CHUNKS_PER_THREAD) {
            match Chunk::new(device, self.chunk_bytes) {
                Ok(chunk) => self.chunks.push(chunk),
                Err(error) if self.chunks.is_empty() => return Err(error),
                Err(error) => {
                    after_unlock(move || {
                        crate::telemetry::debug!(%error, "copies are staged through one chunk: the second could not be allocated");
                    });
                    break;
                }
            }
        }
        Ok(self.chunks.len())
    }

    /// Returns space for a piece, which the CPU may write: behind the space that earlier copies use or, when these are complete, in the
    /// same place. It is aligned for any element.
    ///
    /// # Errors
    ///
    /// No chunk can be allocated, or the wait for the earlier copies fails.
    pub(super) fn room(&mut self, device: &DeviceState, bytes: usize) -> Result<(&Chunk, *mut u8)> {
        let fits = |chunk: &Chunk| chunk.free_from() + bytes <= self.chunk_bytes;
        if !self.chunks.get(self.current).is_some_and(fits) {
            self.current = (self.current + 1) % self.prepare(device, CHUNKS_PER_THREAD)?;
            self.chunks[self.current].wait()?;
        }
        let chunk = &mut self.chunks[self.current];
        let start = chunk.free_from();
        chunk.used = start + bytes;
        Ok((chunk, chunk.address().wrapping_add(start)))
    }

    /// Takes the prepared chunks in turn, for copies to the host, and returns the index of the next one.
    pub(super) fn next(&mut self) -> usize {
        self.current = (self.current + 1) % self.chunks.len().max(1);
        // The whole chunk is in use until the wait for its event.
        self.chunks[self.current].used = self.chunk_bytes;
        self.current
    }

    /// Returns the chunk with an index that `next` returned.
    pub(super) fn chunk(&mut self, index: usize) -> &mut Chunk {
        &mut self.chunks[index]
    }
}

impl Chunk {
    fn new(device: &DeviceState, bytes: usize) -> Result<Self> {
        Ok(Self {
            event: RawEvent::create(device, false)?,
            memory: Pinned {
                address: device.api.host_alloc(device.ordinal, bytes, false)?,
                api: Arc::clone(&device.api),
                ordinal: device.ordinal,
                is_kept: false,
            },
            used: 0,
        })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.memory.address.as_ptr()
    }

    /// The offset at which the next piece may begin.
    fn free_from(&self) -> usize {
        self.used.next_multiple_of(ALIGN)
    }

    /// Waits until no copy uses the chunk.
    pub(super) fn wait(&mut self) -> Result<()> {
        if self.used > 0 {
            self.event.wait()?;
            self.used = 0;
        }
        Ok(())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.memory.api.origin.is_inherited() {
            return;
        }
        let Err(error) = self.wait() else {
            return;
        };
        // The event may have failed, and not the copies. In a broken context nothing runs, and freeing fails as well.
        let Pinned { api, ordinal, .. } = &self.memory;
        let is_over = error.is_sticky() || api.device_synchronize(*ordinal).is_ok();
        if is_over {
            after_unlock(move || {
                crate::telemetry::debug!(%error, "a chunk of pinned memory whose event could not be waited for");
            });
            return;
        }
        self.memory.is_kept = true;
        after_unlock(move || {
            crate::telemetry::warn!(%error, "pinned memory is leaked: the wait for its copies failed");
        });
    }
}

#[allow(unsafe_code, reason = "frees its memory")]
impl Drop for Pinned {
    fn drop(&mut self) {
        if self.is_kept || self.api.origin.is_inherited() {
            return;
        }
        // SAFETY: this value owns the memory; the chunk waited for the copies that use it.
        if let Err(error) = unsafe { self.api.free_host(self.ordinal, self.address) } {
            after_unlock(move || {
                crate::telemetry::warn!(%error, "pinned memory for staging could not be freed");
            });
        }
    }
}
