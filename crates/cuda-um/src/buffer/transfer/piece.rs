//! Small copies: each goes through a piece of pinned memory, which no other copy uses at the same time.
//!
//! A copy takes the piece of its thread, or a free one. So copies of different threads neither wait for each other nor share a cache line, and
//! a copy calls CUDA once. No event is recorded: the number of the work on the stream says when the memory is free again. A copy to the host
//! makes the stream write a flag in the piece, if the driver can: the host sees it earlier than the end of a wait for the stream.
#![allow(
    unsafe_code,
    reason = "copies by address, and polls a flag in pinned memory"
)]

use crate::buffer::transfer::copies::{self, Direction, Staged};
use crate::buffer::transfer::staging_memory::StagingMemory;
use crate::buffer::transfer::transfers::Transfers;
use crate::context::device::DeviceState;
use crate::context::event::POLLING;
use crate::context::op::Op;
use crate::context::stream::{Stream, StreamInner};
use crate::driver::OnStream;
use crate::element::ALIGNMENT;
use crate::error::Result;
use crate::process_end::Calls;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{shard, spin_until};
use std::cell::UnsafeCell;

/// The size of a piece in bytes.
const PIECE: usize = if cfg!(cuda_um_loom) { 512 } else { 256 << 10 };
/// The flag that the stream writes is in a cache line of its own behind the piece.
const FLAG_LINE: usize = 128;
/// The largest copy that goes through a piece, in bytes. The ring stages larger ones, in several parts.
const LARGEST: usize = PIECE / 2;
/// So many copies have a piece at a time. The driver does further ones.
const PIECES: usize = 16;

#[derive(Default)]
pub(super) struct Pieces {
    all: [Exclusive; PIECES],
    /// True if the driver refused to write a flag: no later copy tries it.
    // Relaxed: a copy that does not see it tries once more.
    has_no_flags: AtomicBool,
}

/// A piece, which one thread at a time uses, and which the first one makes.
#[derive(Default)]
#[repr(align(128))]
struct Exclusive {
    /// True while a thread uses the piece; for ever after a panic, because copies may still use it.
    is_taken: AtomicBool,
    piece: UnsafeCell<Option<Piece>>,
}

// SAFETY: only the thread that changed `is_taken` to true accesses the piece. Its release gives what it did to the next one, which acquires.
unsafe impl Sync for Exclusive {}

impl Exclusive {
    /// Takes the piece for this thread; `None` if another one has it.
    #[inline]
    fn take(&self) -> Option<Taken<'_>> {
        match self.is_taken.swap(true, Ordering::Acquire) {
            true => None,
            false => Some(Taken(self)),
        }
    }
}

/// A piece that this thread has, until this is dropped.
struct Taken<'a>(&'a Exclusive);

impl Taken<'_> {
    #[inline]
    fn slot(&mut self) -> &mut Option<Piece> {
        // SAFETY: this thread changed `is_taken`, and this value is borrowed.
        unsafe { &mut *self.0.piece.get() }
    }
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.is_taken.store(false, Ordering::Release);
        }
    }
}

/// Pinned memory. All copies through it are on one stream.
struct Piece {
    memory: StagingMemory,
    /// The number of bytes at the start that copies use until the stream's work `until` is done.
    used: usize,
    until: u64,
    /// The value that the flag had last.
    flag: u32,
}

/// Copies between the part of an operation and the host on the device's default stream, after earlier uses of the buffer: through a piece, or as
/// a [job](copies::copy). When this returns, nothing uses the host's memory; a copy to the device may still run, as a tracked use of the buffer.
///
/// # Safety
///
/// Both sides are valid for `copy.bytes`, and borrowed as the direction requires: the target exclusively. The operation's part is the device's side.
pub(crate) unsafe fn with_host(op: &Op<'_>, calls: &Calls, copy: &Staged) -> Result<()> {
    let (stream, device) = (op.device.own_stream()?, op.device.state());
    let pieces = &Transfers::of(device).pieces;
    if copy.bytes <= LARGEST
        && let Some(mut taken) = pieces.take()
    {
        let slot = taken.slot();
        if slot.is_none() {
            *slot = Piece::new(device);
        }
        if let Some(piece) = slot {
            // SAFETY: the caller's promise.
            return unsafe { piece.copy(pieces, stream, op, calls, copy) };
        }
    }
    // SAFETY: the caller's promise.
    unsafe { copies::copy(stream, op, calls, copy) }
}

impl Pieces {
    /// Takes the piece of this thread, or a free one.
    #[inline]
    fn take(&self) -> Option<Taken<'_>> {
        let own = shard::own::<PIECES>();
        self.all[own].take().or_else(|| self.take_another(own))
    }

    #[cold]
    fn take_another(&self, own: usize) -> Option<Taken<'_>> {
        (1..PIECES).find_map(|next| self.all[(own + next) % PIECES].take())
    }

    /// Frees the pieces that no copy has now, and waits before for the copies that used them.
    pub(super) fn free(&self) {
        for exclusive in &self.all {
            if let Some(mut taken) = exclusive.take() {
                *taken.slot() = None;
            }
        }
    }
}

impl Piece {
    /// # Safety
    ///
    /// As for [`with_host`].
    #[inline]
    unsafe fn copy(
        &mut self,
        pieces: &Pieces,
        stream: &Stream,
        op: &Op<'_>,
        calls: &Calls,
        copy: &Staged,
    ) -> Result<()> {
        let (inner, bytes) = (stream.inner(), copy.bytes);
        // A full piece waits for its copies.
        let is_full = self.used + bytes > PIECE;
        if is_full {
            inner.wait_for(self.until)?;
        }
        // The start of the piece may still be in the CPU's cache.
        if is_full || inner.is_known_done(self.until) {
            self.used = 0;
        }
        let space = self.memory.address().wrapping_add(self.used);
        self.used = (self.used + bytes).next_multiple_of(ALIGNMENT);
        let (to, from) = copy.direction.ends(copy.device, space);
        if copy.direction == Direction::ToDevice {
            // SAFETY: the caller's promise; no other copy uses the space.
            unsafe { space.copy_from_nonoverlapping(copy.host, bytes) };
        }
        let enqueued = stream.submit_within(calls, op, |on| {
            let (api, ordinal) = (inner.api(), inner.ordinal());
            // SAFETY: the caller's promise for the device's side; the piece keeps its space until the copy is done.
            unsafe { api.memcpy_async(ordinal, to, from, bytes, copy.kind, on) }
        });
        // The work has been enqueued and numbered.
        self.until = inner.submitted();
        enqueued?;
        if copy.direction == Direction::ToHost {
            self.wait(pieces, inner, calls)?;
            // SAFETY: the caller's promise; the copy to the space is done.
            unsafe { copy.host.copy_from_nonoverlapping(space, bytes) };
        }
        Ok(())
    }

    /// Waits for the copy: polls a flag that the stream writes after it, if the driver can, and not for too long.
    fn wait(&mut self, pieces: &Pieces, stream: &StreamInner, calls: &Calls) -> Result<()> {
        if pieces.has_no_flags.load(Ordering::Relaxed) {
            return stream.wait_for(self.until);
        }
        // The flag has no number: work that another thread enqueues after the flag could get a smaller one. It covers what is numbered now.
        let covers = stream.submitted();
        let (address, value) = (self.flag_address(), self.flag.wrapping_add(1));
        let (api, ordinal) = (stream.api(), stream.ordinal());
        let on = OnStream::new(stream.raw(), calls);
        // SAFETY: behind the space of the copies, and freed after the stream's work.
        if unsafe { api.stream_write_value(ordinal, on, address, value) }.is_err() {
            // The driver cannot, or the wait for the stream returns the error of the stream's work.
            pieces.has_no_flags.store(true, Ordering::Relaxed);
            return stream.wait_for(self.until);
        }
        self.flag = value;
        // SAFETY: aligned memory of the piece; the stream writes it as one value.
        let flag = unsafe { std::sync::atomic::AtomicU32::from_ptr(address) };
        // The driver writes the flag after a fence of the whole system (CUDA driver API, `CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER`, which is not
        // set), and the CPU reads the copied bytes after the acquiring load.
        if !spin_until(POLLING, || flag.load(Ordering::Acquire) == value) {
            self.until = stream.number();
            return stream.wait_for(self.until);
        }
        stream.completed_to(covers);
        self.until = covers;
        Ok(())
    }

    fn flag_address(&self) -> *mut u32 {
        self.memory.address().wrapping_add(PIECE).cast()
    }

    fn new(device: &DeviceState) -> Option<Self> {
        let piece = Self {
            memory: StagingMemory::allocate(device, PIECE + FLAG_LINE)?,
            used: 0,
            until: 0,
            flag: 0,
        };
        // SAFETY: memory of the new piece, which nothing else uses.
        unsafe { piece.flag_address().write(0) };
        Some(piece)
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::Exclusive;

    #[test]
    fn one_thread_has_a_piece() {
        let piece = Exclusive::default();
        let taken = piece.take();
        assert!(taken.is_some());
        // Twice: a call that is refused leaves the piece taken.
        assert!(piece.take().is_none() && piece.take().is_none());
        drop(taken);
        assert!(piece.take().is_some());
    }
}
