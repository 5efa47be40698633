//! One large copy, in pieces through the ring.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::transfer::options::CHUNKS_PER_THREAD;
use crate::buffer::transfer::plan::{Plan, is_for_driver};
use crate::buffer::transfer::request::{Direction, Host, Staged};
use crate::buffer::transfer::ring::Lane;
use crate::buffer::transfer::streaming;
use crate::buffer::transfer::transfers::Transfers;
use crate::context::device::DeviceState;
use crate::context::stream::StreamInner;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use smallvec::SmallVec;
use std::sync::Arc;

/// Copies through the ring. Returns `None`, and does nothing, if the copy is too small, the memory is not pageable, the driver copies it
/// as fast without staging, or another copy has the ring. When this returns, nothing uses the host's memory; a copy to the device may still run on the stream.
///
/// All copies of a device use the same stream: the chunks rely on its order.
///
/// # Errors
///
/// [`Error::Incomplete`] with the number of bytes that are known to be copied. No part of the copy then still runs.
///
/// # Safety
///
/// Both sides are valid for `bytes`. Nothing else uses the host's side until this returns, nor the device's side until the stream's work is
/// complete; the stream's earlier work ensures this on the device.
pub(crate) unsafe fn copy(
    device: &Arc<DeviceState>,
    stream: &StreamInner,
    staged: Staged<'_>,
) -> Option<Result<()>> {
    // Do not wait for the ring: the closure that produces the bytes may copy as well.
    let ring = Transfers::of(device).take()?;
    let options = ring.options();
    if !options.stages(staged.bytes) || staged.unit_bytes > options.chunk_bytes() {
        return None;
    }
    if let Host::Memory(address) = staged.host {
        // On a busy stream the driver would wait for the earlier work, and for that of other streams, which only a query tells.
        let is_for_driver =
            is_for_driver(staged.direction, staged.bytes) && matches!(stream.is_idle(), Ok(true));
        if is_for_driver
            || device.capabilities.reads_host_memory_in_place()
            || !crate::buffer::transfer::is_pageable(device, address)
        {
            return None;
        }
    }
    let plan = Plan::new(&staged, options.chunk_bytes(), ring.threads());
    let threads = plan.threads;
    // Allocate all chunks at once, so that later copies allocate none, whichever threads come first.
    let chunks = if threads > 1 { CHUNKS_PER_THREAD } else { 1 };
    for thread in 0..threads {
        // A thread without chunks leaves its pieces to the others.
        let _ = ring.lane(thread).prepare(device, chunks);
    }
    let job = Job {
        device,
        stream,
        staged,
        done: (0..plan.pieces()).map(|_| AtomicBool::new(false)).collect(),
        plan,
        next: AtomicUsize::new(0),
        error: Mutex::new(None),
    };
    // SAFETY: the caller's promise; each thread has separate chunks, and no other copy has the ring.
    let is_done = ring.run_with_chunks(stream, threads, |lane| unsafe { job.work(lane) });
    is_done.then(|| job.outcome())
}

struct Job<'a> {
    device: &'a DeviceState,
    stream: &'a StreamInner,
    staged: Staged<'a>,
    plan: Plan,
    /// The number of the next piece.
    next: AtomicUsize,
    /// The pieces that were enqueued (to the device) or that have arrived (at the host).
    done: SmallVec<[AtomicBool; 8]>,
    error: Mutex<Option<Error>>,
}

/// A guard: after its drop, when no piece is left or after an error or a panic, no thread begins a new piece.
pub(super) struct StopOthers<'a>(pub(super) &'a AtomicUsize);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        // No piece has this number, nor one of the next numbers.
        self.0.store(usize::MAX / 2, Ordering::Release);
    }
}

/// A piece that a copy moves to the host, in one of the thread's chunks.
struct Waiting {
    piece: usize,
    /// The index of the chunk.
    number: usize,
}

impl Job<'_> {
    /// Does one thread's part of the copy.
    ///
    /// # Safety
    ///
    /// The promise of `copy`; no other thread has these chunks.
    unsafe fn work(&self, lane: &mut Lane) {
        let stop = StopOthers(&self.next);
        let result = match self.staged.direction {
            // SAFETY: the caller's promise.
            Direction::ToDevice => unsafe { self.fill(lane) },
            // SAFETY: the caller's promise.
            Direction::ToHost => unsafe { self.empty(lane) },
        };
        match result {
            Ok(()) => std::mem::forget(stop),
            Err(error) => {
                self.error.lock().get_or_insert(error);
            }
        }
    }

    /// Takes the next piece.
    fn take(&self) -> Option<usize> {
        let piece = self.next.fetch_add(1, Ordering::AcqRel);
        (piece < self.done.len()).then_some(piece)
    }

    /// Returns the offset of a piece, and its size in bytes.
    fn range(&self, piece: usize) -> (usize, usize) {
        let (start, end) = (self.plan.bounds[piece], self.plan.bounds[piece + 1]);
        (start, end - start)
    }

    /// # Safety
    ///
    /// The promise of `work`.
    unsafe fn fill(&self, lane: &mut Lane) -> Result<()> {
        while let Some(piece) = self.take() {
            let (start, bytes) = self.range(piece);
            let to = lane.room(self.device, self.stream, bytes)?;
            match self.staged.host {
                // SAFETY: the piece is within the source; only this thread uses the space in the chunk, and the copy engine no longer reads
                // it.
                Host::Memory(from) => unsafe { self.copy(from.add(start), to, bytes) },
                Host::Produced(produce) => produce(start, to, bytes),
            }
            // SAFETY: the piece is within the target; nothing writes the space until the copies from the chunk are done.
            unsafe { self.enqueue(to, start, bytes) }?;
            self.done[piece].store(true, Ordering::Release);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// The promise of `work`.
    unsafe fn empty(&self, lane: &mut Lane) -> Result<()> {
        let wanted = self.plan.pieces().div_ceil(self.plan.threads);
        let chunks = lane.prepare(self.device, wanted)?;
        let mut waiting = SmallVec::<[Waiting; CHUNKS_PER_THREAD]>::new();
        loop {
            if waiting.len() < chunks
                && let Some(piece) = self.take()
            {
                let (start, bytes) = self.range(piece);
                let number = lane.next();
                let chunk = lane.chunk(number);
                // SAFETY: the piece is within the source. Only this thread uses the chunk, which it emptied; a copy from the chunk to the
                // device is earlier on the same stream.
                unsafe { self.enqueue(chunk.address(), start, bytes) }?;
                if self.plan.pieces() > 1 {
                    chunk.mark(self.stream)?;
                }
                waiting.push(Waiting { piece, number });
                continue;
            }
            if waiting.is_empty() {
                return Ok(());
            }
            let Waiting { piece, number } = waiting.remove(0);
            let chunk = lane.chunk(number);
            chunk.wait(self.stream)?;
            let (start, bytes) = self.range(piece);
            if let Host::Memory(to) = self.staged.host {
                // SAFETY: the piece is within the target, which nothing else uses; the copy engine no longer writes the chunk.
                unsafe { self.copy(chunk.address(), to.add(start), bytes) };
            }
            self.done[piece].store(true, Ordering::Release);
        }
    }

    /// # Safety
    ///
    /// Both ranges are valid for `bytes`, and do not overlap.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) {
        let end = match self.staged.direction {
            Direction::ToDevice => streaming::TO_DEVICE_BELOW,
            Direction::ToHost => usize::MAX,
        };
        // A single thread is slower past the caches.
        let past_caches =
            self.plan.threads > 1 && (streaming::FROM..end).contains(&self.staged.bytes);
        // SAFETY: the caller's promise.
        unsafe {
            match past_caches {
                false => std::ptr::copy_nonoverlapping(from, to, bytes),
                true => streaming::copy(from, to, bytes),
            }
        }
    }

    /// Enqueues the copy between pinned memory in a chunk and the device.
    ///
    /// # Safety
    ///
    /// The range is within the device's memory, and nothing else uses the pinned memory until the copy is done.
    unsafe fn enqueue(&self, pinned: *mut u8, start: usize, bytes: usize) -> Result<()> {
        let device = self.staged.device.wrapping_add(start);
        let (to, from) = match self.staged.direction {
            Direction::ToDevice => (device, pinned.cast_const()),
            Direction::ToHost => (pinned, device.cast_const()),
        };
        let (api, ordinal) = (self.stream.api(), self.stream.ordinal());
        // SAFETY: the caller's promise.
        unsafe {
            api.memcpy_async(
                ordinal,
                to,
                from,
                bytes,
                self.staged.kind,
                self.stream.raw(),
            )
        }
    }

    fn outcome(self) -> Result<()> {
        let Some(cause) = self.error.into_inner() else {
            return Ok(());
        };
        // A piece may be enqueued although the record of its event failed.
        let finished = self.stream.finish();
        let sticky = cause.is_sticky() || finished.is_err_and(|error| error.is_sticky());
        let whole = self
            .done
            .iter()
            .take_while(|done| done.load(Ordering::Acquire))
            .count();
        let copied_bytes = match self.staged.direction {
            // If the context broke, enqueued pieces may not be complete.
            Direction::ToDevice if sticky => 0,
            _ => self.plan.bounds[whole],
        };
        Err(Error::Incomplete {
            copied_bytes,
            total_bytes: self.staged.bytes,
            cause: Box::new(cause),
        })
    }
}
