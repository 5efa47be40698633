//! Copies, reads of storage and overwrites: jobs in pieces, on several threads.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::copy::exchange;
use crate::buffer::host_vec;
use crate::buffer::transfer::copies::Direction;
use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::ring::{CHUNKS, Lane};
use crate::buffer::transfer::transfers::{Transfers, Turn};
use crate::buffer::view::View;
use crate::context::op::Op;
use crate::context::stream::StreamInner;
use crate::context::tracker::Access;
use crate::driver::{CopyKind, OnStream};
use crate::element::ALIGNMENT;
use crate::error::{Error, Result};
use crate::process_end::Calls;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use smallvec::SmallVec;
use std::ops::Range;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) device: *mut u8,
    /// The position in the job, in bytes.
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    /// The number of its view, of those of the job.
    pub(crate) of: usize,
}

impl Piece {
    /// The range of bytes in its view.
    pub(crate) fn range(&self, views: &[View<'_, u8>]) -> Range<usize> {
        let start = self.device.addr() - views[self.of].address().addr();
        start..start + self.bytes
    }
}

/// Returns true if the host writes the view itself: memory of the host, and managed memory of a device that has no other.
fn is_written_by_host(view: &View<'_, u8>) -> bool {
    let raw = view.raw;
    raw.is_host_memory() || raw.is_managed() && raw.device().capabilities().integrated
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

    /// Fills the views with bytes that code of the caller makes: through the ring, or in place if the host may write all of them. Without a ring,
    /// and on a device with a gate, that code runs first, and then the bytes of each piece are copied: otherwise it would run while the host
    /// waits for this work.
    ///
    /// # Safety
    ///
    /// The pieces are of the views, which are borrowed exclusively.
    pub(crate) unsafe fn run(
        self,
        views: &[View<'_, u8>],
        is_read: bool,
        threads: usize,
    ) -> Result<()> {
        let call = if is_read { "read_at" } else { "host_overwrite" };
        let (first, last) = (&self.pieces[0], &self.pieces[self.pieces.len() - 1]);
        let (device, used) = (views[0].device(), &views[first.of..=last.of]);
        let (stream, transfers) = (device.own_stream()?, Transfers::of(device.state()));
        if used.iter().all(is_written_by_host) {
            // For its threads only. One thread leaves the ring to others while it waits.
            let turn = match threads {
                1 => None,
                _ => transfers.take(is_read),
            };
            let mut open = SmallVec::<[_; 1]>::new();
            for view in used {
                open.push(view.raw.wait_for_host(&view.bytes(), Access::Write, call)?);
            }
            // SAFETY: the views are borrowed exclusively, and no device uses them now.
            unsafe { self.in_place(threads, turn) };
            return self.outcome(stream.inner());
        }
        let through_ring = || {
            let mut turn = transfers.take(is_read)?;
            let largest = self.pieces.iter().map(|piece| piece.bytes).max()?;
            if largest > turn.options.chunk_bytes() {
                return None;
            }
            let threads = turn.ring(device.state(), threads, true)?;
            // SAFETY: the caller's promise; `submit` made the stream wait for the earlier uses.
            unsafe { self.through_ring(&mut turn, stream.inner(), threads) };
            Some(())
        };
        let parts: SmallVec<[_; 1]> = used.iter().map(|view| view.part(Access::Write)).collect();
        let done = match device.state().is_gated {
            true => Ok(None),
            false => stream.submit(&Op::with_host(device, &parts), |_| Ok(through_ring())),
        };
        match done {
            Ok(Some(())) => {}
            // SAFETY: the caller's promise.
            Ok(None) => unsafe { self.through_vector(call, views) },
            Err(error) if first.at == 0 => return Err(error),
            Err(error) => self.fails(first.at, error),
        }
        self.outcome(stream.inner())
    }

    /// # Safety
    ///
    /// The promise of `run`.
    unsafe fn through_vector(&self, call: &'static str, views: &[View<'_, u8>]) {
        let mut own: Vec<u8> = Vec::new();
        self.each(|piece| {
            let needed = piece.bytes + ALIGNMENT;
            if own.len() < needed {
                own = host_vec::zeroed(call, needed)?;
            }
            let start = own.as_ptr().align_offset(ALIGNMENT);
            let bytes = &mut own[start..start + piece.bytes];
            (self.fill)(piece, bytes)?;
            let target = views[piece.of].slice(piece.range(views))?;
            // SAFETY: as many bytes, which only this thread uses; the target is borrowed exclusively.
            unsafe { exchange(target, Direction::ToDevice, bytes.as_mut_ptr(), false) }
        });
    }

    /// Fills memory that the host writes itself, and that no device uses now.
    ///
    /// # Safety
    ///
    /// The host may write the pieces, and nothing else uses them.
    unsafe fn in_place(&self, threads: usize, turn: Option<Turn<'_>>) {
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
    pub(super) unsafe fn through_ring(
        &self,
        turn: &mut Turn<'_>,
        stream: &StreamInner,
        threads: usize,
    ) {
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
                waiting.push((piece, lane.next(piece.bytes)));
            }
            let Some(&(first, number)) = waiting.first() else {
                return;
            };
            let mut step = || match waiting.last().filter(|_| piece.is_some()) {
                Some((last, number)) => {
                    let chunk = lane.chunk(*number);
                    // SAFETY: the caller's promise. Only this thread uses the chunk, which it emptied; a copy from the chunk to the device is
                    // earlier on the same stream.
                    unsafe { self.enqueue(chunk.address, last, stream) }?;
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
                        std::slice::from_raw_parts_mut(chunk.address, first.bytes)
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
        let (api, ordinal) = (stream.api(), stream.ordinal());
        // For each piece: the process may end, or fork in code of the caller.
        let calls = Calls::of("cudaMemcpyAsync")?;
        let on = OnStream::new(stream.raw(), &calls);
        // SAFETY: the caller's promise.
        unsafe { api.memcpy_async(ordinal, to, from, piece.bytes, self.kind, on) }
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
