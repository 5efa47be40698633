//! Small copies: each goes through a piece of pinned memory, which no other copy uses at the same time.
//!
//! A copy takes a free piece of its thread, or makes one. So copies of different threads neither wait for each other nor share a lock, and
//! a copy calls CUDA once. No event is recorded: the number of the work on the stream says when the memory is free again.

use crate::buffer::transfer::options::TransferOptions;
use crate::buffer::transfer::staging_memory::StagingMemory;
use crate::context::device::DeviceState;
use crate::context::stream::StreamInner;
use crate::element::ALIGNMENT;
use crate::error::Result;
use crate::resource::pool::shard;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, after_unlock};

/// The size of a piece in bytes.
const PIECE: usize = 256 << 10;
/// The largest copy that goes through a piece, in bytes. The ring stages larger ones, in several parts.
const LARGEST: usize = PIECE / 2;
/// Free pieces are in so many lists, which threads share in turn.
const LISTS: usize = shard::SHARDS;

/// The free pieces of a device.
#[derive(Default)]
pub(super) struct Pieces {
    lists: [List; LISTS],
    /// The smallest copy that is staged, in bytes; `usize::MAX` for none.
    from_bytes: AtomicUsize,
    /// The number of times that the pieces were freed.
    generation: AtomicU64,
}

#[derive(Default)]
#[repr(align(128))]
struct List(Mutex<Vec<Piece>>);

/// Pinned memory. All copies through it are on one stream.
struct Piece {
    memory: StagingMemory,
    /// The number of bytes at the start that copies use until the stream's work `until` is done.
    used: usize,
    until: u64,
}

/// Holds a piece for one copy until it is dropped.
pub(super) struct PieceTurn<'a> {
    pieces: &'a Pieces,
    list: &'a List,
    stream: &'a StreamInner,
    /// `None` only during the drop.
    piece: Option<Piece>,
    generation: u64,
    /// True if a copy may have been enqueued, and `until` does not cover it.
    is_open: bool,
}

impl Pieces {
    /// Sets the options of later copies.
    pub(super) fn set_options(&self, options: TransferOptions) {
        let from_bytes = options.stages_from();
        self.from_bytes.store(from_bytes, Ordering::Relaxed);
    }

    /// Frees the pieces, and waits before for the copies that use them. A copy that has a piece now frees it at its end.
    pub(super) fn free(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
        for List(free) in &self.lists {
            let free = std::mem::take(&mut *free.lock());
            drop(free);
        }
    }

    /// Takes a piece for a copy of `bytes` on the stream. Returns `None` if the copy is too large or is not staged, or if there is no pinned
    /// memory.
    pub(super) fn take<'a>(
        &'a self,
        device: &DeviceState,
        stream: &'a StreamInner,
        bytes: usize,
    ) -> Option<PieceTurn<'a>> {
        if bytes > LARGEST || bytes < self.from_bytes.load(Ordering::Relaxed) {
            return None;
        }
        let generation = self.generation.load(Ordering::Acquire);
        let list = &self.lists[shard::own()];
        let free = list.0.lock().pop();
        let piece = match free {
            Some(piece) => piece,
            None => Piece::new(device)?,
        };
        Some(PieceTurn {
            pieces: self,
            list,
            stream,
            piece: Some(piece),
            generation,
            is_open: false,
        })
    }
}

impl PieceTurn<'_> {
    /// Returns space for `bytes`, which no copy uses: at the start of the piece if its copies are done, otherwise behind the space that they
    /// use. A full piece waits for its copies.
    pub(super) fn space(&mut self, bytes: usize) -> Result<*mut u8> {
        let piece = self.piece.as_mut().expect("it is there until the drop");
        if self.stream.is_known_done(piece.until) {
            // The start of the piece may still be in the CPU's cache.
            piece.used = 0;
        } else if piece.used + bytes > PIECE {
            self.stream.wait_for(piece.until)?;
            piece.used = 0;
        }
        self.is_open = true;
        let start = piece.used;
        piece.used = (start + bytes).next_multiple_of(ALIGNMENT);
        Ok(piece.memory.address().wrapping_add(start))
    }

    /// Waits for the copy, after [`enqueued`](Self::enqueued).
    pub(super) fn wait(&self) -> Result<()> {
        let piece = self.piece.as_ref().expect("it is there until the drop");
        self.stream.wait_for(piece.until)
    }

    /// Keeps the space until the copy is done, which has been enqueued and numbered.
    pub(super) fn enqueued(&mut self) {
        let piece = self.piece.as_mut().expect("it is there until the drop");
        piece.until = self.stream.submitted();
        self.is_open = false;
    }
}

impl Drop for PieceTurn<'_> {
    fn drop(&mut self) {
        let Some(mut piece) = self.piece.take() else {
            return;
        };
        if self.is_open {
            // A panic came before the number was read.
            piece.until = self.stream.number();
        }
        if self.generation == self.pieces.generation.load(Ordering::Acquire) {
            self.list.0.lock().push(piece);
        } else {
            // The drop waits for the copy, and the caller may hold a turn at the gate.
            after_unlock(move || drop(piece));
        }
    }
}

impl Piece {
    fn new(device: &DeviceState) -> Option<Self> {
        match StagingMemory::allocate(device, PIECE) {
            Ok(memory) => Some(Self {
                memory,
                used: 0,
                until: 0,
            }),
            Err(error) => {
                after_unlock(move || {
                    crate::telemetry::warn!(%error, "no pinned memory for small copies: the driver copies by itself");
                });
                None
            }
        }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if self.memory.is_inherited() || self.used == 0 {
            return;
        }
        if let Err(error) = self.memory.wait_for_all() {
            self.memory.wait_for_all_or_leak(error);
        }
    }
}
