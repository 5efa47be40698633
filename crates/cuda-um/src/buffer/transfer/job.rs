//! Copies, reads of storage and overwrites: jobs in pieces, on several threads.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::host_vec;
use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::ring::{CHUNKS, Lane};
use crate::buffer::transfer::transfers::{Transfers, Turn};
use crate::buffer::transfer::{plan, streaming};
use crate::context::device::DeviceState;
use crate::context::op::Op;
use crate::context::stream::StreamInner;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::element::ALIGNMENT;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use smallvec::SmallVec;

/// The direction of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToDevice,
    ToHost,
}

impl Direction {
    /// The function of the caller, and the use of the device's memory.
    pub(crate) fn names(self) -> (&'static str, Access) {
        match self {
            Self::ToDevice => ("copy_from_host", Access::Write),
            Self::ToHost => ("copy_to_host", Access::Read),
        }
    }

    pub(crate) fn kind(self) -> CopyKind {
        match self {
            Self::ToDevice => CopyKind::HostToDevice,
            Self::ToHost => CopyKind::DeviceToHost,
        }
    }

    /// The target and the source.
    pub(crate) fn ends(self, device: *mut u8, host: *mut u8) -> (*mut u8, *const u8) {
        match self {
            Self::ToDevice => (device, host),
            Self::ToHost => (host, device),
        }
    }
}

/// A copy between the host and a device's memory.
#[derive(Clone, Copy)]
pub(crate) struct Staged {
    pub(crate) direction: Direction,
    pub(crate) host: *mut u8,
    pub(crate) device: *mut u8,
    pub(crate) bytes: usize,
    /// The kind of copy that CUDA gets.
    pub(crate) kind: CopyKind,
}

/// A part of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    /// The device's side.
    pub(crate) device: *mut u8,
    /// The position in the job, in bytes.
    pub(crate) at: usize,
    pub(crate) bytes: usize,
}

/// Fills memory for the device's side of a piece, or takes what came from there.
type Fill<'a> = &'a (dyn Fn(&Piece, &mut [u8]) -> Result<()> + Sync);

/// Pieces, which threads take in order. So all bytes before the first failure are done.
pub(crate) struct Job<'a> {
    direction: Direction,
    kind: CopyKind,
    pieces: &'a [Piece],
    total_bytes: usize,
    fill: Fill<'a>,
    /// The number of the next piece.
    next: AtomicUsize,
    /// Failures, and the positions of their pieces.
    failed: Mutex<Vec<(usize, Error)>>,
}

// SAFETY: the code that makes a job promises that any thread may use the memory of its pieces.
unsafe impl Sync for Job<'_> {}

/// A guard: after its drop, when no piece is left or after an error or a panic, no thread begins a new piece.
struct StopOthers<'a>(&'a AtomicUsize);

impl Drop for StopOthers<'_> {
    fn drop(&mut self) {
        // No piece has this number, nor one of the next numbers.
        self.0.store(usize::MAX / 2, Ordering::Release);
    }
}

/// Copies through the ring. Returns `None`, and does nothing, if the copy is too small, the memory is not pageable, the driver copies it as fast
/// without staging, another copy has the ring, or there is none yet. When this returns, nothing uses the host's memory; a copy to the device
/// may still run on the stream.
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
    device: &DeviceState,
    stream: &StreamInner,
    copy: Staged,
) -> Option<Result<()>> {
    let Staged {
        direction,
        host,
        bytes,
        kind,
        ..
    } = copy;
    // Do not wait for the ring: the code that has it may copy as well.
    let mut turn = Transfers::of(device).take()?;
    if !turn.options.stages(bytes) {
        return None;
    }
    // On a busy stream the driver would wait for the earlier work, and for that of other streams, which only a query tells.
    if plan::is_for_driver(direction, bytes) && matches!(stream.is_idle(), Ok(true))
        || device.capabilities.reads_host_memory_in_place()
        || !super::is_pageable(device, host)
    {
        return None;
    }
    let threads = plan::copy_threads(bytes, turn.options.threads);
    let ring = turn.ring(device, threads, turn.options.chunk_bytes(), false)?;
    let threads = threads.min(ring.lanes());
    let pieces = plan::pieces(&copy, 1, ring.chunk_bytes(), threads);
    let past_caches = match direction {
        Direction::ToDevice => streaming::FROM..streaming::TO_DEVICE_BELOW,
        Direction::ToHost => streaming::FROM..usize::MAX,
    };
    // A single thread is slower past the caches.
    let is_past_caches = threads > 1 && past_caches.contains(&bytes);
    let host = SharedAddress(host);
    let fill = |piece: &Piece, pinned: &mut [u8]| {
        let host = { &host }.0.wrapping_add(piece.at);
        let (to, from) = direction.ends(pinned.as_mut_ptr(), host);
        // SAFETY: the piece is within the host's side, which only this piece uses; the caller promises both.
        unsafe {
            match is_past_caches {
                false => std::ptr::copy_nonoverlapping(from, to, piece.bytes),
                true => streaming::copy(from, to, piece.bytes),
            }
        }
        Ok(())
    };
    let job = Job::new((direction, kind), &pieces, bytes, &fill);
    // SAFETY: the caller's promise.
    unsafe { job.through_ring(&mut turn, stream, threads) };
    Some(job.outcome(stream))
}

/// The host's side of a copy.
pub(super) struct SharedAddress(pub(super) *mut u8);

// SAFETY: the code that makes the value promises that any thread may use the memory meanwhile.
unsafe impl Sync for SharedAddress {}

impl<'a> Job<'a> {
    pub(crate) fn new(
        (direction, kind): (Direction, CopyKind),
        pieces: &'a [Piece],
        total_bytes: usize,
        fill: Fill<'a>,
    ) -> Self {
        Self {
            direction,
            kind,
            pieces,
            total_bytes,
            fill,
            next: AtomicUsize::new(0),
            failed: Mutex::default(),
        }
    }

    /// Runs a job to the device whose bytes code of the caller makes, as the operation: through the ring. Without one, and on a device with a gate,
    /// that code runs first, and then `put` copies the bytes of each piece: otherwise it would run while the host waits for this work.
    ///
    /// # Safety
    ///
    /// The pieces are of the operation's parts, which are borrowed exclusively.
    pub(crate) unsafe fn run(
        self,
        op: &Op<'_>,
        is_read: bool,
        threads: usize,
        mut put: impl FnMut(&Piece, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let stream = op.device.own_stream()?;
        let (inner, device) = (stream.inner(), op.device.state());
        let through_ring = || {
            let transfers = Transfers::of(device);
            let turn = match is_read {
                true => transfers.take_to_read(),
                false => transfers.take(),
            };
            let largest = self.pieces.iter().map(|piece| piece.bytes).max();
            let is_done = turn.zip(largest).and_then(|(mut turn, largest)| {
                let chunk = turn.options.chunk_for(largest)?;
                turn.ring(device, threads, chunk, true)?;
                // SAFETY: the caller's promise; `submit` made the stream wait for the earlier uses.
                unsafe { self.through_ring(&mut turn, inner, threads) };
                Some(())
            });
            Ok(is_done.is_some())
        };
        let first = self.pieces.first().map_or(0, |piece| piece.at);
        let done = match device.is_gated {
            true => Ok(false),
            false => stream.submit(op, |_| through_ring()),
        };
        match done {
            Ok(true) => {}
            Ok(false) => self.through_vector(is_read, &mut put),
            Err(error) if first == 0 => return Err(error),
            Err(error) => self.fails(first, error),
        }
        self.outcome(inner)
    }

    fn through_vector(&self, is_read: bool, put: &mut dyn FnMut(&Piece, &[u8]) -> Result<()>) {
        let call = if is_read { "read_at" } else { "host_overwrite" };
        let mut own: Vec<u8> = Vec::new();
        self.each(|piece| {
            let needed = piece.bytes + ALIGNMENT;
            if own.len() < needed {
                own = host_vec::zeroed(call, needed)?;
            }
            let start = own.as_ptr().align_offset(ALIGNMENT);
            let bytes = &mut own[start..start + piece.bytes];
            (self.fill)(piece, bytes)?;
            put(piece, bytes)
        });
    }

    /// Fills memory that the host writes itself, and that no device uses now.
    ///
    /// # Safety
    ///
    /// The host may write the pieces, and nothing else uses them.
    pub(super) unsafe fn in_place(&self, threads: usize, turn: Option<&Turn<'_>>) {
        let work = |_| {
            self.each(|piece| {
                // The system may refuse to write pages that are not the host's.
                for page in (0..piece.bytes).step_by(PAGE) {
                    // SAFETY: within the piece, as below.
                    unsafe { piece.device.add(page).write_volatile(0) };
                }
                // SAFETY: the caller's promise. Foreign functions allocated the memory.
                let memory = unsafe { std::slice::from_raw_parts_mut(piece.device, piece.bytes) };
                (self.fill)(piece, memory)
            });
        };
        match turn {
            Some(turn) => turn.workers().run(threads, &work),
            None => work(0),
        }
    }

    /// # Safety
    ///
    /// The device's side of each piece is valid for such a copy after the stream's earlier work, and nothing else uses it.
    unsafe fn through_ring(&self, turn: &mut Turn<'_>, stream: &StreamInner, threads: usize) {
        turn.run(stream, threads, |lane| {
            // SAFETY: the caller's promise; no other thread has this lane.
            unsafe {
                match self.direction {
                    Direction::ToDevice => self.to_device(lane, stream),
                    Direction::ToHost => self.to_host(lane, stream),
                }
            }
        });
    }

    /// Takes the next piece.
    fn take(&self) -> Option<&'a Piece> {
        self.pieces.get(self.next.fetch_add(1, Ordering::AcqRel))
    }

    fn fails(&self, at: usize, error: Error) {
        self.failed.lock().push((at, error));
    }

    /// Does one thread's part.
    fn each(&self, mut work: impl FnMut(&Piece) -> Result<()>) {
        let _stop = StopOthers(&self.next);
        while let Some(piece) = self.take() {
            if let Err(error) = work(piece) {
                return self.fails(piece.at, error);
            }
        }
    }

    /// # Safety
    ///
    /// The promise of `through_ring`.
    unsafe fn to_device(&self, lane: &mut Lane, stream: &StreamInner) {
        self.each(|piece| {
            let pinned = lane.room(stream, piece.bytes)?;
            // SAFETY: only this thread uses the space, and the copy engine no longer reads it. A foreign function allocated it: its bytes are
            // arbitrary, but not uninitialised.
            (self.fill)(piece, unsafe {
                std::slice::from_raw_parts_mut(pinned, piece.bytes)
            })?;
            // SAFETY: the caller's promise; nothing writes the space until the copies from the chunk are done.
            unsafe { self.enqueue(pinned, piece, stream) }
        });
    }

    /// # Safety
    ///
    /// The promise of `through_ring`.
    unsafe fn to_host(&self, lane: &mut Lane, stream: &StreamInner) {
        let _stop = StopOthers(&self.next);
        // The pieces that the copy engine moves to chunks of this lane.
        let mut waiting = SmallVec::<[(&Piece, usize); CHUNKS]>::new();
        loop {
            let piece = (waiting.len() < CHUNKS).then(|| self.take()).flatten();
            if let Some(piece) = piece {
                waiting.push((piece, lane.next()));
            }
            let Some(&(first, number)) = waiting.first() else {
                return;
            };
            let mut step = || match waiting.last().filter(|_| piece.is_some()) {
                Some((last, number)) => {
                    let chunk = lane.chunk(*number);
                    // SAFETY: the caller's promise. Only this thread uses the chunk, which it emptied; a copy from the chunk to the device is
                    // earlier on the same stream.
                    unsafe { self.enqueue(chunk.address(), last, stream) }?;
                    match self.pieces.len() {
                        1 => Ok(()),
                        _ => chunk.mark(stream),
                    }
                }
                None => {
                    let chunk = lane.chunk(number);
                    chunk.wait(stream)?;
                    // SAFETY: the copy engine no longer writes the chunk, which is as large, and it wrote these bytes.
                    (self.fill)(first, unsafe {
                        std::slice::from_raw_parts_mut(chunk.address(), first.bytes)
                    })?;
                    Ok(())
                }
            };
            if let Err(error) = step() {
                return self.fails(first.at, error);
            }
            if piece.is_none() {
                waiting.remove(0);
            }
        }
    }

    /// Enqueues the copy between pinned memory and the device's side of a piece.
    ///
    /// # Safety
    ///
    /// The promise of `through_ring`, and nothing else uses the pinned memory until the copy is done.
    unsafe fn enqueue(&self, pinned: *mut u8, piece: &Piece, stream: &StreamInner) -> Result<()> {
        let (to, from) = self.direction.ends(piece.device, pinned);
        let (api, ordinal, raw) = (stream.api(), stream.ordinal(), stream.raw());
        // SAFETY: the caller's promise.
        unsafe { api.memcpy_async(ordinal, to, from, piece.bytes, self.kind, raw) }
    }

    /// Returns the first error. Then no copy still runs.
    pub(super) fn outcome(self, stream: &StreamInner) -> Result<()> {
        let failed = self.failed.into_inner().into_iter();
        let Some((at, cause)) = failed.min_by_key(|(at, _)| *at) else {
            return Ok(());
        };
        // A piece may be enqueued although the record of its event failed.
        let finished = stream.finish();
        if let Error::Io { .. } | Error::Capture { .. } = cause {
            return Err(cause);
        }
        let is_sticky = cause.is_sticky() || finished.is_err_and(|error| error.is_sticky());
        Err(Error::Incomplete {
            // If the context broke, enqueued pieces may not be complete.
            copied_bytes: match self.direction {
                Direction::ToDevice if is_sticky => 0,
                _ => at,
            },
            total_bytes: self.total_bytes,
            cause: Box::new(cause),
        })
    }
}
