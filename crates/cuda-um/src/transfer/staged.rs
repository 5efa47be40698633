//! One large copy, in pieces through the ring.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use super::options::{CHUNKS_PER_THREAD, PAGE};
use super::ring::{Chunk, Ring};
use super::streaming;
use crate::call::CopyKind;
use crate::device::DeviceState;
use crate::error::{Error, Result};
use crate::stream::StreamInner;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    ToHost,
}

/// A copy between the host and memory of a device.
#[derive(Clone, Copy)]
pub(crate) struct Staged<'a> {
    pub(crate) direction: Direction,
    pub(crate) host: Host<'a>,
    pub(crate) device: *mut u8,
    pub(crate) bytes: usize,
    /// Bytes that stay together in one piece.
    pub(crate) unit_bytes: usize,
    /// How CUDA is told what the two are.
    pub(crate) kind: CopyKind,
}

/// The host's side.
#[derive(Clone, Copy)]
pub(crate) enum Host<'a> {
    Memory(*mut u8),
    /// Bytes that are made as they are needed: from which byte on, where to, how many.
    Produced(&'a (dyn Fn(usize, *mut u8, usize) + Sync)),
}

// SAFETY: whoever makes one promises `copy` that the memory is its own for that time, on whatever thread.
unsafe impl Sync for Staged<'_> {}

/// How a copy is cut.
#[derive(Debug, PartialEq)]
struct Plan {
    /// Where each piece begins, and where the last one ends.
    bounds: Vec<usize>,
    threads: usize,
}

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// How many of the threads a staged copy is worth.
pub(super) fn copy_threads(bytes: usize, threads: usize) -> usize {
    // A thread that sleeps comes too late for a smaller one.
    match bytes / MIB {
        0..2 => 1,
        2..4 => threads.min(2),
        4..16 => threads.min(4),
        _ => threads,
    }
}

/// How large a piece of a staged copy is, in the middle of it: 256 KiB for 1 MiB, twice as much for four times as many bytes, and at most
/// 2 MiB.
pub(super) fn piece_bytes(bytes: usize) -> usize {
    let fair = bytes.saturating_mul(64 * KIB).isqrt();
    fair.next_multiple_of(PAGE).clamp(256 * KIB, 2 * MIB)
}

/// How many of the threads a copy within the host's memory is worth.
pub(super) fn threads_on_host(bytes: usize, threads: usize) -> usize {
    match bytes {
        ..STREAMING => 1,
        _ => copy_threads(bytes, threads),
    }
}

impl Plan {
    /// Threads and pieces as an H200's host liked them (`docs/results/h200-cuda-13.0/staging.md`). The first pieces to the device, and
    /// the last ones to the host, are small, for nothing else goes on while the CPU copies them.
    fn new(copy: &Staged<'_>, chunk_bytes: usize, threads: usize) -> Self {
        let threads = copy_threads(copy.bytes, threads);
        let whole = |bytes: usize| {
            let bytes = bytes.clamp((256 * KIB).min(chunk_bytes), chunk_bytes);
            (bytes - bytes % copy.unit_bytes).max(copy.unit_bytes)
        };
        let fair = piece_bytes(copy.bytes);
        let (mut sizes, mut left) = (Vec::new(), copy.bytes);
        while left > 0 {
            let share = [4, 2]
                .get(sizes.len() / threads)
                .map_or(fair, |part| fair / part);
            let piece = whole(share).min(left);
            sizes.push(piece);
            left -= piece;
        }
        if copy.direction == Direction::ToHost {
            sizes.reverse();
        }
        let mut bounds = vec![0];
        bounds.extend(sizes.iter().scan(0, |end, size| {
            *end += size;
            Some(*end)
        }));
        Self {
            threads: threads.min(sizes.len()),
            bounds,
        }
    }

    fn pieces(&self) -> usize {
        self.bounds.len() - 1
    }
}

/// Copies past the caches from so many bytes on: it pays once a copy is worth several threads.
const STREAMING: usize = MIB;

/// Copies through the ring, if the copy is large enough, the memory pageable and there is a ring that nobody uses now; else says `None`
/// and has done nothing. When it returns, nothing uses the host's memory any more; a copy to the device may still go on, on the
/// stream.
///
/// The stream is always the same one for a device: chunks count on it.
///
/// # Errors
///
/// [`Error::Incomplete`] with the bytes that are certainly copied. Nothing of the copy goes on then.
///
/// # Safety
///
/// Both sides are valid for `bytes`, nobody else uses them meanwhile (the device's side: until the stream is done with it), and what the
/// stream runs before makes that so for the device.
pub(crate) unsafe fn copy(
    device: &Arc<DeviceState>,
    stream: &StreamInner,
    staged: Staged<'_>,
) -> Option<Result<()>> {
    // Not waited for: what produces the bytes may copy, too.
    let ring = device.transfers.ring.try_lock()?;
    let options = ring.options();
    if !options.stages(staged.bytes) || staged.unit_bytes > options.chunk_bytes() {
        return None;
    }
    if let Host::Memory(address) = staged.host
        && staged.bytes >= ASKED
        && !super::is_pageable(device, address)
    {
        return None;
    }
    let plan = Plan::new(&staged, options.chunk_bytes(), ring.threads());
    let threads = plan.threads;
    // All at once, so that later copies meet no allocation, whichever threads come first.
    let chunks = if threads > 1 { CHUNKS_PER_THREAD } else { 1 };
    for thread in 0..threads {
        match ring.lane(thread).prepare(device, chunks) {
            Err(error) if thread == 0 => {
                tracing::warn!(target: "cuda_um", %error, "no pinned memory to stage copies: the driver copies by itself");
                return None;
            }
            // That thread leaves the pieces to the others.
            _ => {}
        }
    }
    let job = Job {
        device,
        ring: &ring,
        stream,
        staged,
        done: (0..plan.pieces()).map(|_| AtomicBool::new(false)).collect(),
        plan,
        next: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
        error: Mutex::new(None),
    };
    let on_panic = FinishOnPanic(stream);
    // SAFETY: the caller's promise; each thread has chunks of its own, and the ring is locked.
    ring.run(threads, |thread| unsafe { job.work(thread) });
    drop(on_panic);
    Some(job.outcome())
}

/// From so many bytes on it is worth asking whether the memory is pinned: the answer costs as much as copying some KiB.
const ASKED: usize = 64 * KIB;

/// Waits for the stream even if a thread panics (a subscriber of `tracing` may): the ring and the caller's memory outlive the copy.
struct FinishOnPanic<'a>(&'a StreamInner);

impl Drop for FinishOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.finish();
        }
    }
}

struct Job<'a> {
    device: &'a DeviceState,
    ring: &'a Ring,
    stream: &'a StreamInner,
    staged: Staged<'a>,
    plan: Plan,
    next: AtomicUsize,
    /// Something failed: no new pieces.
    stopped: AtomicBool,
    /// The pieces that were enqueued (to the device) or have arrived (at the host).
    done: Vec<AtomicBool>,
    error: Mutex<Option<Error>>,
}

/// A piece on its way to the host, in one of the thread's chunks.
struct Waiting {
    piece: usize,
    /// The chunk's.
    number: usize,
}

impl Job<'_> {
    /// What one thread does.
    ///
    /// # Safety
    ///
    /// As for `copy`; no other thread has this number.
    unsafe fn work(&self, thread: usize) {
        let result = match self.staged.direction {
            // SAFETY: the caller's promise.
            Direction::ToDevice => unsafe { self.fill(thread) },
            // SAFETY: the caller's promise.
            Direction::ToHost => unsafe { self.empty(thread) },
        };
        if let Err(error) = result {
            self.stopped.store(true, Ordering::Release);
            self.error.lock().get_or_insert(error);
        }
    }

    /// The next piece that nobody has taken.
    fn take(&self) -> Option<usize> {
        let piece = self.next.fetch_add(1, Ordering::AcqRel);
        (piece < self.done.len() && !self.stopped.load(Ordering::Acquire)).then_some(piece)
    }

    /// Where a piece begins, and its bytes.
    fn range(&self, piece: usize) -> (usize, usize) {
        let (start, end) = (self.plan.bounds[piece], self.plan.bounds[piece + 1]);
        (start, end - start)
    }

    /// # Safety
    ///
    /// As for `work`.
    unsafe fn fill(&self, thread: usize) -> Result<()> {
        let mut lane = self.ring.lane(thread);
        if lane.prepare(self.device, 1).is_err() {
            // The first thread has a chunk.
            return Ok(());
        }
        while let Some(piece) = self.take() {
            let (start, bytes) = self.range(piece);
            let (chunk, to) = lane.room(self.device, bytes)?;
            match self.staged.host {
                // SAFETY: the piece is within the source; the room is this thread's, and the copy engine is done with it.
                Host::Memory(from) => unsafe { self.copy(from.add(start), to, bytes) },
                Host::Produced(produce) => produce(start, to, bytes),
            }
            // SAFETY: the piece is within the target; the room is left alone until the chunk's event is done.
            unsafe { self.enqueue(chunk, to, start, bytes) }?;
            self.done[piece].store(true, Ordering::Release);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for `work`.
    unsafe fn empty(&self, thread: usize) -> Result<()> {
        let mut lane = self.ring.lane(thread);
        let wanted = self.plan.pieces().div_ceil(self.plan.threads);
        let Ok(chunks) = lane.prepare(self.device, wanted) else {
            // The first thread has a chunk.
            return Ok(());
        };
        let mut waiting = std::collections::VecDeque::with_capacity(chunks);
        loop {
            if waiting.len() < chunks
                && let Some(piece) = self.take()
            {
                let (start, bytes) = self.range(piece);
                let number = lane.next();
                let chunk = lane.chunk(number);
                // SAFETY: the piece is within the source. The chunk is this thread's and was emptied; a copy from it to the device is
                // before this one on the same stream.
                unsafe { self.enqueue(chunk, chunk.address(), start, bytes) }?;
                waiting.push_back(Waiting { piece, number });
                continue;
            }
            let Some(Waiting { piece, number }) = waiting.pop_front() else {
                return Ok(());
            };
            let chunk = lane.chunk(number);
            chunk.wait()?;
            let (start, bytes) = self.range(piece);
            if let Host::Memory(to) = self.staged.host {
                // SAFETY: the piece is within the target, which nobody else uses; the copy engine is done with the chunk.
                unsafe { self.copy(chunk.address(), to.add(start), bytes) };
            }
            self.done[piece].store(true, Ordering::Release);
        }
    }

    /// # Safety
    ///
    /// Both are valid for `bytes`, and do not overlap.
    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.staged.bytes {
                ..STREAMING => std::ptr::copy_nonoverlapping(from, to, bytes),
                _ => streaming::copy(from, to, bytes),
            }
        }
    }

    /// Enqueues the copy between pinned memory in a chunk and the device, and records the chunk's event.
    ///
    /// # Safety
    ///
    /// The range is within the device's memory, and the pinned memory is left alone until the event is done.
    unsafe fn enqueue(
        &self,
        chunk: &Chunk,
        pinned: *mut u8,
        start: usize,
        bytes: usize,
    ) -> Result<()> {
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
        }?;
        chunk.event.record_again(self.stream)
    }

    fn outcome(self) -> Result<()> {
        let Some(cause) = self.error.into_inner() else {
            return Ok(());
        };
        // Something may be enqueued behind which no event was recorded.
        let finished = self.stream.finish();
        let sticky = cause.is_sticky() || finished.is_err_and(|error| error.is_sticky());
        let whole = self
            .done
            .iter()
            .take_while(|done| done.load(Ordering::Acquire))
            .count();
        let copied_bytes = match self.staged.direction {
            // Enqueued is not done, if the context broke.
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

/// Copies within the host's memory, on several threads if that pays and nobody else uses them now.
///
/// # Safety
///
/// Both are valid for `bytes`, do not overlap, and nobody else uses them meanwhile.
pub(crate) unsafe fn copy_on_host(
    device: &DeviceState,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
) {
    let ring = match bytes {
        ..STREAMING => None,
        _ => device.transfers.ring.try_lock(),
    };
    let Some(ring) = ring else {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    };
    let threads = threads_on_host(bytes, ring.threads());
    let (memory, next) = (SendMemory(from, to), AtomicUsize::new(0));
    ring.run(threads, |_| {
        let SendMemory(from, to) = { &memory };
        loop {
            let start = next.fetch_add(HOST_PIECE, Ordering::Relaxed);
            if start >= bytes {
                return;
            }
            // SAFETY: within both; each piece is taken once.
            unsafe {
                streaming::copy(
                    from.add(start),
                    to.add(start),
                    HOST_PIECE.min(bytes - start),
                )
            };
        }
    });
}

/// What one thread copies at a time within the host's memory.
const HOST_PIECE: usize = 256 * KIB;

/// Where to copy from and to.
struct SendMemory(*const u8, *mut u8);

// SAFETY: who makes one promises that the memory may be used meanwhile, on whatever thread.
unsafe impl Sync for SendMemory {}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(
        direction: Direction,
        bytes: usize,
        unit_bytes: usize,
        chunk_bytes: usize,
        threads: usize,
    ) -> Plan {
        let copy = Staged {
            direction,
            host: Host::Memory(std::ptr::null_mut()),
            device: std::ptr::null_mut(),
            bytes,
            unit_bytes,
            kind: CopyKind::ByAddress,
        };
        Plan::new(&copy, chunk_bytes, threads)
    }

    #[test]
    fn pieces_cover_the_copy_and_fit_the_chunks() {
        for direction in [Direction::ToDevice, Direction::ToHost] {
            for bytes in [12, 4096, 300_000, 3 * MIB, 20 * MIB, 1024 * MIB] {
                for (unit, chunk, threads) in [
                    (1, 4 * MIB, 8),
                    (12, 4 * MIB, 3),
                    (12, 4096, 1),
                    (4096, 4096, 2),
                ] {
                    let bytes = bytes.next_multiple_of(unit);
                    let plan = plan(direction, bytes, unit, chunk, threads);
                    assert_eq!((plan.bounds[0], *plan.bounds.last().unwrap()), (0, bytes));
                    for piece in plan.bounds.windows(2) {
                        let bytes = piece[1] - piece[0];
                        assert!(bytes > 0 && bytes <= chunk && bytes % unit == 0, "{plan:?}");
                    }
                    assert!((1..=threads).contains(&plan.threads));
                }
            }
        }
    }

    #[test]
    fn large_copies_have_all_threads_and_begin_or_end_small() {
        let up = plan(Direction::ToDevice, 256 * MIB, 1, 4 * MIB, 8);
        assert_eq!((up.threads, up.bounds[1]), (8, MIB / 2));
        let down = plan(Direction::ToHost, 256 * MIB, 1, 4 * MIB, 8);
        assert_eq!(down.bounds[1], down.bounds[2] - down.bounds[1]);
        assert_eq!(
            down.bounds[down.pieces()] - down.bounds[down.pieces() - 1],
            MIB / 2
        );
        assert_eq!(plan(Direction::ToHost, 300_000, 1, 4 * MIB, 8).threads, 1);
    }
}
