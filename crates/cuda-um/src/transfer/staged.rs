//! One large copy, in pieces through the ring.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use super::Transfers;
use super::options::{CHUNKS_PER_THREAD, PAGE, TransferOptions};
use super::ring::Ring;
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

const MIB: usize = 1 << 20;
/// Smaller pieces cost more calls than they save.
const SMALLEST: usize = 128 << 10;

impl Plan {
    /// Few threads for small copies, since waking them up takes time (the steps are those of an H200's host). Pieces of which every
    /// thread has a few; the first ones to the device, and the last ones to the host, are small, for nothing else goes on while they
    /// are copied by the CPU.
    fn new(copy: &Staged<'_>, chunk_bytes: usize, threads: usize) -> Self {
        let useful = match copy.bytes / MIB {
            0 => 1,
            1..16 => 2,
            16..96 => 4,
            _ => usize::MAX,
        };
        let threads = threads.min(useful);
        let whole = |bytes: usize| {
            let bytes = bytes.clamp(SMALLEST.min(chunk_bytes), chunk_bytes);
            (bytes - bytes % copy.unit_bytes).max(copy.unit_bytes)
        };
        let fair = (copy.bytes / (threads * CHUNKS_PER_THREAD * 2)).next_multiple_of(PAGE);
        let (mut sizes, mut left) = (Vec::new(), copy.bytes);
        while left > 0 {
            let share = [8, 4, 2]
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

/// Copies through the ring, if the copy is large enough, the memory pageable and there is a ring that nobody uses now; else says `None`
/// and has done nothing. When it returns, nothing of the copy goes on any more.
///
/// # Errors
///
/// [`Error::Incomplete`] with the bytes that are certainly copied.
///
/// # Safety
///
/// Both sides are valid for `bytes`, nobody else uses them meanwhile, and what the stream runs before makes that so for the device.
pub(crate) unsafe fn copy(
    device: &Arc<DeviceState>,
    stream: &StreamInner,
    staged: Staged<'_>,
) -> Option<Result<()>> {
    let options = device.transfers.options();
    if !options.stages(staged.direction, staged.bytes) || staged.unit_bytes > options.chunk_bytes()
    {
        return None;
    }
    if let Host::Memory(address) = staged.host
        && !super::is_pageable(device, address)
    {
        return None;
    }
    // Not waited for: what produces the bytes may copy, too.
    let mut ring = device.transfers.ring.try_lock()?;
    let ring = match &*ring {
        Some(ring) => ring,
        None => ring.insert(device.transfers.make(device, options)?),
    };
    let plan = Plan::new(&staged, ring.chunk_bytes, ring.threads);
    let threads = plan.threads;
    let job = Job {
        ring,
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
    // The chunks, and the caller's memory, are free again when the stream is done, whatever went wrong.
    let finished = stream.finish();
    Some(job.outcome(finished))
}

impl Transfers {
    /// A ring, unless the options want none or there is no memory for it.
    fn make(&self, device: &Arc<DeviceState>, options: TransferOptions) -> Option<Arc<Ring>> {
        if options.chunk_bytes() == 0 {
            return None;
        }
        Ring::new(device, options)
            .inspect_err(|error| {
                tracing::warn!(target: "cuda_um", %error, "no pinned memory to stage copies: the driver copies by itself");
            })
            .ok()
            .map(Arc::new)
    }
}

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
    chunk: usize,
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
        for turn in 0.. {
            let Some(piece) = self.take() else {
                return Ok(());
            };
            let chunk = thread * CHUNKS_PER_THREAD + turn % CHUNKS_PER_THREAD;
            if turn >= CHUNKS_PER_THREAD {
                self.ring.event(chunk).wait()?;
            }
            let (start, bytes) = self.range(piece);
            let to = self.ring.chunk(chunk);
            match self.staged.host {
                // SAFETY: the piece is within the source; the chunk is this thread's, and the copy engine is done with it.
                Host::Memory(from) => unsafe {
                    std::ptr::copy_nonoverlapping(from.add(start), to, bytes)
                },
                Host::Produced(produce) => produce(start, to, bytes),
            }
            // SAFETY: the piece is within the target; the chunk is left alone until its event is done.
            unsafe { self.enqueue(chunk, start, bytes) }?;
            self.done[piece].store(true, Ordering::Release);
        }
        Ok(())
    }

    /// # Safety
    ///
    /// As for `work`.
    unsafe fn empty(&self, thread: usize) -> Result<()> {
        let mut waiting = std::collections::VecDeque::with_capacity(CHUNKS_PER_THREAD);
        for turn in 0.. {
            if let Some(piece) = self.take() {
                let chunk = thread * CHUNKS_PER_THREAD + turn % CHUNKS_PER_THREAD;
                let (start, bytes) = self.range(piece);
                // SAFETY: the piece is within the source; the chunk is this thread's and was emptied.
                unsafe { self.enqueue(chunk, start, bytes) }?;
                waiting.push_back(Waiting { piece, chunk });
                if waiting.len() < CHUNKS_PER_THREAD {
                    continue;
                }
            }
            let Some(Waiting { piece, chunk }) = waiting.pop_front() else {
                return Ok(());
            };
            self.ring.event(chunk).wait()?;
            let (start, bytes) = self.range(piece);
            if let Host::Memory(to) = self.staged.host {
                // SAFETY: the piece is within the target, which nobody else uses; the copy engine is done with the chunk.
                unsafe {
                    std::ptr::copy_nonoverlapping(self.ring.chunk(chunk), to.add(start), bytes)
                };
            }
            self.done[piece].store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Enqueues the copy between a chunk and the device, and records the chunk's event.
    ///
    /// # Safety
    ///
    /// The range is within the device's memory, and the chunk is left alone until its event is done.
    unsafe fn enqueue(&self, chunk: usize, start: usize, bytes: usize) -> Result<()> {
        let (pinned, device) = (
            self.ring.chunk(chunk),
            self.staged.device.wrapping_add(start),
        );
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
        self.ring.event(chunk).record_again(self.stream)
    }

    fn outcome(self, finished: Result<()>) -> Result<()> {
        let sticky = finished.as_ref().is_err_and(Error::is_sticky);
        let Some(cause) = self.error.into_inner().or(finished.err()) else {
            return Ok(());
        };
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
        assert_eq!((up.threads, up.bounds[1]), (8, MIB));
        let down = plan(Direction::ToHost, 256 * MIB, 1, 4 * MIB, 8);
        assert_eq!(down.bounds[1], down.bounds[2] - down.bounds[1]);
        assert_eq!(
            down.bounds[down.pieces()] - down.bounds[down.pieces() - 1],
            MIB
        );
        assert_eq!(plan(Direction::ToHost, 300_000, 1, 4 * MIB, 8).threads, 1);
    }
}
