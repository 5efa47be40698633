//! The staging ring: chunks of pinned memory, two for each thread, and the threads.

use crate::buffer::transfer::options::{CHUNKS_PER_THREAD, TransferOptions};
use crate::buffer::transfer::staging_memory::StagingMemory;
use crate::buffer::transfer::workers::Workers;
use crate::context::device::DeviceState;
use crate::context::event::RawEvent;
use crate::context::stream::StreamInner;
use crate::element::ALIGNMENT;
use crate::error::Result;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::ops::{Deref, DerefMut};

/// The chunks of all threads, and the threads.
pub(super) struct Ring {
    options: TransferOptions,
    /// The number of the stream's work after which no copy uses the chunks.
    // Relaxed: only the thread that has taken the ring uses it, and the lock of `Transfers` passes the ring on.
    until: AtomicU64,
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
    memory: StagingMemory,
    event: RawEvent,
    /// True if the event is recorded after the last copy that uses the chunk.
    is_marked: bool,
    /// The number of bytes at the start of the chunk that copies use.
    used: usize,
}

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
            until: AtomicU64::new(0),
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

    /// Like [`run`](Self::run), for work that enqueues copies from or to a thread's chunks on the stream. A helper without a chunk leaves its part
    /// to the others; if this thread gets none, nothing is done, and the result is false.
    pub(super) fn run_with_chunks(
        &self,
        stream: &StreamInner,
        count: usize,
        work: impl Fn(&mut Lane) + Sync,
    ) -> bool {
        // The others allocate their own, beside the first copies.
        if let Err(error) = self.lane(0).prepare(stream.device(), 1) {
            crate::telemetry::warn!(%error, "no pinned memory to stage copies: they take longer");
            return false;
        }
        let is_idle = stream.is_known_done(self.until.load(Ordering::Relaxed));
        let on_panic = FinishOnPanic(stream);
        self.run(count, |thread| {
            let mut lane = self.lane(thread);
            if lane.prepare(stream.device(), 1).is_ok() {
                if is_idle {
                    lane.restart();
                }
                work(&mut lane);
            }
        });
        drop(on_panic);
        // The chunks are kept until these copies are done.
        self.until.store(stream.number(), Ordering::Relaxed);
        true
    }

    /// Runs `work(0)` on this thread, and `work` with other numbers below `count` on helpers that start in time. All of them have ended
    /// when this returns.
    pub(super) fn run(&self, count: usize, work: impl Fn(usize) + Sync) {
        self.workers.run(count, &work);
    }
}

/// Waits for the stream even if a thread panics (a subscriber of `tracing` may panic), so the ring and the caller's memory outlive the
/// copies.
struct FinishOnPanic<'a>(&'a StreamInner);

impl Drop for FinishOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.finish();
        }
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
                    crate::telemetry::debug!(%error, "copies are staged through one chunk: the second could not be allocated");
                    break;
                }
            }
        }
        Ok(self.chunks.len())
    }

    /// Takes the chunks from their start again, which may still be in the CPU's cache. No copy may use them.
    pub(super) fn restart(&mut self) {
        self.current = 0;
        for chunk in &mut self.chunks {
            chunk.used = 0;
        }
    }

    /// Returns space for a piece, which the CPU may write: behind the space that earlier copies use or, when these are complete, in the
    /// same place. It is aligned for any element.
    ///
    /// # Errors
    ///
    /// No chunk can be allocated, or the wait for the earlier copies fails.
    pub(super) fn room(
        &mut self,
        device: &DeviceState,
        stream: &StreamInner,
        bytes: usize,
    ) -> Result<*mut u8> {
        let fits = |chunk: &Chunk| chunk.free_from() + bytes <= self.chunk_bytes;
        if !self.chunks.get(self.current).is_some_and(fits) {
            if let Some(full) = self.chunks.get_mut(self.current) {
                full.mark(stream)?;
            }
            self.current = (self.current + 1) % self.prepare(device, CHUNKS_PER_THREAD)?;
            self.chunks[self.current].wait(stream)?;
        }
        let chunk = &mut self.chunks[self.current];
        let start = chunk.free_from();
        chunk.used = start + bytes;
        chunk.is_marked = false;
        Ok(chunk.address().wrapping_add(start))
    }

    /// Takes the prepared chunks in turn, for copies to the host, and returns the index of the next one.
    pub(super) fn next(&mut self) -> usize {
        self.current = (self.current + 1) % self.chunks.len().max(1);
        // The whole chunk is in use until the wait for its event.
        let chunk = &mut self.chunks[self.current];
        (chunk.used, chunk.is_marked) = (self.chunk_bytes, false);
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
            memory: StagingMemory::allocate(device, bytes)?,
            is_marked: false,
            used: 0,
        })
    }

    pub(super) fn address(&self) -> *mut u8 {
        self.memory.address()
    }

    /// The offset at which the next piece may begin.
    fn free_from(&self) -> usize {
        self.used.next_multiple_of(ALIGN)
    }

    /// Records the event after the copies that use the chunk.
    pub(super) fn mark(&mut self, stream: &StreamInner) -> Result<()> {
        if self.used > 0 && !self.is_marked {
            self.event.record_again(stream)?;
            self.is_marked = true;
        }
        Ok(())
    }

    /// Waits until no copy uses the chunk. For an event that is not recorded it waits for the stream, which is faster than to record it.
    pub(super) fn wait(&mut self, stream: &StreamInner) -> Result<()> {
        if self.used > 0 {
            match self.is_marked {
                true => self.event.wait(),
                false => stream.synchronize(),
            }?;
            self.used = 0;
        }
        Ok(())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.memory.is_over() || self.used == 0 {
            return;
        }
        let waited = match self.is_marked {
            true => self.event.wait(),
            false => self.memory.wait_for_all(),
        };
        if let Err(error) = waited {
            self.memory.wait_for_all_or_leak(error);
        }
    }
}
