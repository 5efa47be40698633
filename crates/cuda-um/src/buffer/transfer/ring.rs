//! The staging ring: chunks of pinned memory, two for each thread.

use crate::buffer::transfer::copies::InUse;
use crate::buffer::transfer::staging_memory::StagingMemory;
use crate::buffer::transfer::workers::Workers;
use crate::context::event::RawEvent;
use crate::context::stream::StreamInner;
use crate::element::ALIGNMENT;
use crate::error::Result;
use crate::sync::Mutex;

/// Chunks of each thread: it fills one while the copy engine reads the other.
pub(super) const CHUNKS: usize = 2;

/// The chunks of all threads.
#[derive(Default)]
pub(super) struct Ring {
    /// The number of the stream's work after which no copy uses the chunks.
    until: u64,
    /// A thread takes its lane while it works; a panic loses it.
    lanes: Vec<Mutex<Option<Lane>>>,
    memory: Vec<StagingMemory>,
}

/// The chunks of one thread.
///
/// All copies through the ring are enqueued on one stream. So the next copy *to the host* may use memory of a chunk at once, but the CPU
/// must not write there before the copies from it are complete.
pub(super) struct Lane {
    chunks: [Chunk; CHUNKS],
    current: usize,
}

pub(super) struct Chunk {
    pub(super) address: *mut u8,
    bytes: usize,
    event: Option<RawEvent>,
    /// True if the event is recorded after the last copy that uses the chunk.
    is_marked: bool,
    /// The number of bytes at the start of the chunk that copies use.
    used: usize,
}

#[allow(unsafe_code, reason = "the address of a chunk")]
// SAFETY: only the thread that has the chunk uses its memory.
unsafe impl Send for Chunk {}

impl Ring {
    /// Adds the lanes for which there is memory.
    pub(super) fn add(&mut self, memory: StagingMemory, chunk_bytes: usize) {
        for lane in 0..memory.bytes() / (CHUNKS * chunk_bytes) {
            let chunk = |number| {
                let start = (lane * CHUNKS + number) * chunk_bytes;
                Chunk {
                    address: memory.address().wrapping_add(start),
                    bytes: chunk_bytes,
                    event: None,
                    is_marked: false,
                    used: 0,
                }
            };
            self.lanes.push(Mutex::new(Some(Lane {
                chunks: std::array::from_fn(chunk),
                current: 0,
            })));
        }
        self.memory.push(memory);
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Returns false if a thread lost its lane.
    pub(super) fn is_whole(&mut self) -> bool {
        self.lanes.iter_mut().all(|lane| lane.get_mut().is_some())
    }

    /// Runs `work` on this thread and on helpers, at most `threads`, each with a lane. All of them have ended when this returns.
    pub(super) fn run(
        &mut self,
        workers: &Workers,
        stream: &StreamInner,
        threads: usize,
        work: impl Fn(&mut Lane) + Sync,
    ) {
        let is_idle = stream.is_known_done(self.until);
        // A panic (a subscriber of `tracing` may panic) waits for the stream: the ring and the caller's memory outlive the copies.
        let in_use = InUse(Some(stream));
        let lanes = &self.lanes;
        workers.run(threads.min(lanes.len()), &|thread| {
            let lane = lanes[thread].lock().take();
            let mut lane = lane.expect("no other thread has this number");
            if is_idle {
                lane.restart();
            }
            work(&mut lane);
            *lanes[thread].lock() = Some(lane);
        });
        std::mem::forget(in_use);
        self.until = stream.number();
    }
}

impl Lane {
    /// Takes the chunks from their start again, which may still be in the CPU's cache. No copy may use them.
    fn restart(&mut self) {
        self.current = 0;
        for chunk in &mut self.chunks {
            chunk.used = 0;
        }
    }

    /// Returns space for a piece, which the CPU may write: behind the space that earlier copies use or, when these are complete, in the
    /// same place. It is aligned for any element, and no two pieces share a cache line.
    ///
    /// # Errors
    ///
    /// The wait for the earlier copies fails.
    pub(super) fn room(&mut self, stream: &StreamInner, bytes: usize) -> Result<*mut u8> {
        let full = &mut self.chunks[self.current];
        full.check_holds(bytes);
        if full.used + bytes > full.bytes {
            full.mark(stream)?;
            self.current = (self.current + 1) % CHUNKS;
            self.chunks[self.current].wait(stream)?;
        }
        let chunk = &mut self.chunks[self.current];
        let start = chunk.used;
        chunk.used = (start + bytes).next_multiple_of(ALIGNMENT);
        chunk.is_marked = false;
        Ok(chunk.address.wrapping_add(start))
    }

    /// Takes the chunks in turn, for copies of so many bytes to the host, and returns the index of the next one.
    pub(super) fn next(&mut self, bytes: usize) -> usize {
        self.current = (self.current + 1) % CHUNKS;
        // The whole chunk is in use until the wait for its event.
        let chunk = &mut self.chunks[self.current];
        chunk.check_holds(bytes);
        (chunk.used, chunk.is_marked) = (chunk.bytes, false);
        self.current
    }

    /// Returns the chunk with an index that `next` returned.
    pub(super) fn chunk(&mut self, index: usize) -> &mut Chunk {
        &mut self.chunks[index]
    }
}

impl Chunk {
    /// # Panics
    ///
    /// If the piece is larger: the copy would go on in memory of another.
    fn check_holds(&self, bytes: usize) {
        assert!(bytes <= self.bytes, "a piece fits its chunk");
    }

    /// Records the event after the copies that use the chunk.
    pub(super) fn mark(&mut self, stream: &StreamInner) -> Result<()> {
        if self.used > 0 && !self.is_marked {
            let event = match self.event.take() {
                Some(event) => event,
                None => RawEvent::create(stream.device(), false)?,
            };
            self.event.insert(event).record_again(stream)?;
            self.is_marked = true;
        }
        Ok(())
    }

    /// Waits until no copy uses the chunk. For an event that is not recorded it waits for the stream, which is faster than to record it.
    pub(super) fn wait(&mut self, stream: &StreamInner) -> Result<()> {
        if self.used > 0 {
            match self.event.as_ref().filter(|_| self.is_marked) {
                Some(event) => event.wait(),
                None => stream.synchronize(),
            }?;
            self.used = 0;
        }
        Ok(())
    }
}
