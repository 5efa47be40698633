//! Reads of storage into buffers, in rounds of pieces through the ring. Between two rounds the ring is free for others.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::copy::{check_reach, put};
use crate::buffer::host_vec;
use crate::buffer::read_at::{FileRead, read_into};
use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::staged::StopOthers;
use crate::buffer::transfer::transfers::Transfers;
use crate::buffer::view::ViewMut;
use crate::context::op::{Op, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::Calls;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use std::ops::{ControlFlow, Range};

/// The smallest of the last pieces, which become smaller, so that all threads end at about the same time.
const LAST_PIECE: usize = 1 << 20;
/// The pieces of each thread in one round.
const PIECES: usize = 8;
const CALL: &str = "read_at";

impl FileRead<'_> {
    /// Reads all, in this order, and returns the number of bytes of the targets that were written: all, or those before `progress` stopped the
    /// read. The device of the first target reaches all of them.
    ///
    /// At most `threads` threads read straight into the pinned memory for copies
    /// ([`Device::set_transfer_options`](crate::Device::set_transfer_options)) while the copy engine moves the pieces before; memory that the host
    /// reaches is read into directly. The pinned memory is free for others between rounds of some pieces, and `progress` is called after each
    /// round, with the bytes so far.
    ///
    /// # Ordering
    ///
    /// After earlier uses of the targets. When this returns, the storage is no longer used; copies may still run, as tracked uses of the targets.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the storage fails or ends early ([`UnexpectedEof`](std::io::ErrorKind::UnexpectedEof)): `done_bytes` is the position of the
    /// failure in the targets. [`Error::Incomplete`] for a failure of CUDA. The targets then have the bytes of the pieces before the failure, and no
    /// copy still runs. [`Error::DeviceMismatch`], [`Error::RuntimeMismatch`], [`Error::ReadOnly`].
    #[doc(alias = "cudaMemcpyAsync")]
    #[doc(alias = "pread")]
    pub fn run(
        reads: &mut [FileRead<'_>],
        threads: usize,
        mut progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<usize> {
        let Some(first) = reads.first() else {
            return Ok(0);
        };
        fork::check(CALL)?;
        let device = first.target.device();
        let stream = device.own_stream()?;
        for FileRead { target, .. } in &*reads {
            target.raw.check_write()?;
            stream.check_runtime(target.device(), "the buffer")?;
            check_reach(device.ordinal(), [target.raw; 2])?;
        }
        let total = reads.iter().map(|read| read.target.len()).sum();
        let (most, piece_bytes) = Transfers::of(device.state()).read_shape(total);
        let threads = threads.clamp(1, most);
        let is_direct = reads.iter().all(is_direct);
        let parts = reads.iter().map(|read| read.target.part(Access::Write));
        let parts: Vec<_> = parts.collect();
        Op::new(What::Copy, device, &parts).run(None, || {
            let mut done = 0;
            for pieces in pieces(reads, piece_bytes, threads).chunks(threads * PIECES) {
                let round = Round {
                    stream,
                    total,
                    piece_bytes,
                    pieces,
                    threads: threads.min(pieces.len()),
                    next: AtomicUsize::new(0),
                    failed: Mutex::default(),
                };
                done = round.run(is_direct)?;
                if progress(done).is_break() {
                    break;
                }
            }
            Ok(done)
        })
    }
}

/// Returns true if the host writes the target itself: memory of the host, and managed memory of a device that has no other.
fn is_direct(read: &FileRead<'_>) -> bool {
    let raw = read.target.raw;
    raw.is_host_memory() || raw.is_managed() && raw.device().capabilities().integrated
}

/// A part of one target.
struct Piece<'a> {
    read: &'a FileRead<'a>,
    range: Range<usize>,
    /// The position in all targets.
    at: usize,
}

/// The pieces of all targets, in order.
fn pieces<'a>(reads: &'a [FileRead<'_>], most: usize, threads: usize) -> Vec<Piece<'a>> {
    let mut left: usize = reads.iter().map(|read| read.target.len()).sum();
    let (mut pieces, mut at) = (Vec::new(), 0);
    for read in reads {
        let mut start = 0;
        while start < read.target.len() {
            let fair = (left / threads).clamp(LAST_PIECE.min(most), most);
            let bytes = (fair - fair % PAGE).min(read.target.len() - start);
            let range = start..start + bytes;
            pieces.push(Piece { read, range, at });
            (start, at, left) = (start + bytes, at + bytes, left - bytes);
        }
    }
    pieces
}

impl Piece<'_> {
    fn address(&self) -> *mut u8 {
        self.read.target.address().wrapping_add(self.range.start)
    }
}

/// Pieces that are read at a time, while others wait for the ring. Threads take them in order, so all bytes before the first failure are read.
struct Round<'a> {
    stream: &'a Stream,
    /// The bytes of all targets.
    total: usize,
    /// The size of the largest piece.
    piece_bytes: usize,
    pieces: &'a [Piece<'a>],
    threads: usize,
    /// The number of the next piece.
    next: AtomicUsize,
    /// Failures, and the positions of their pieces in all targets.
    failed: Mutex<Vec<(usize, Error)>>,
}

impl<'a> Round<'a> {
    /// Reads all pieces, and returns the position of their end in all targets. After an error no copy still runs.
    fn run(self, is_direct: bool) -> Result<usize> {
        let _calls = Calls::of(CALL)?;
        let stream = self.stream.inner();
        let done = if is_direct {
            self.direct()
        } else if stream.device().is_gated {
            // Foreign code would run while the host waits for this work.
            Ok(false)
        } else {
            let parts = self.targets().map(|target| target.part(Access::Write));
            let parts: Vec<_> = parts.collect();
            let device = self.pieces[0].read.target.device();
            let op = Op::with_host(device, &parts);
            self.stream.submit(&op, |_| self.through_ring())
        };
        match done {
            Ok(true) => {}
            Ok(false) => self.through_vector(),
            Err(error) => self.failed.lock().push((self.pieces[0].at, error)),
        }
        let failed = self.failed.into_inner().into_iter();
        let Some((at, cause)) = failed.min_by_key(|(at, _)| *at) else {
            let last = &self.pieces[self.pieces.len() - 1];
            return Ok(last.at + last.range.len());
        };
        let finished = stream.finish();
        if let Error::Io { .. } | Error::Capture { .. } = cause {
            return Err(cause);
        }
        // If the context broke, enqueued pieces may not be complete.
        let is_sticky = cause.is_sticky() || finished.is_err_and(|error| error.is_sticky());
        Err(Error::Incomplete {
            copied_bytes: if is_sticky { 0 } else { at },
            total_bytes: self.total,
            cause: Box::new(cause),
        })
    }

    fn targets(&self) -> impl Iterator<Item = &'a ViewMut<'a, u8>> {
        let same = self.pieces.chunk_by(|a, b| std::ptr::eq(a.read, b.read));
        same.map(|same| &same[0].read.target)
    }

    /// Reads through the ring. Returns false, and does nothing, if there is none.
    fn through_ring(&self) -> Result<bool> {
        let stream = self.stream.inner();
        let device = stream.device();
        let ring = match Transfers::of(device).take_to_read(self.piece_bytes) {
            Some(ring) if self.piece_bytes <= ring.options().chunk_bytes() => ring,
            _ => return Ok(false),
        };
        let threads = self.threads.min(ring.threads());
        Ok(ring.run_with_chunks(stream, threads, |lane| {
            self.work(|piece| {
                let (bytes, to) = (piece.range.len(), piece.address());
                let pinned = lane.room(device, stream, bytes)?;
                // SAFETY: only this thread uses the space, which a foreign function allocated: its bytes are arbitrary, but not uninitialised.
                let space = unsafe { std::slice::from_raw_parts_mut(pinned, bytes) };
                self.fill(piece, space)?;
                let (api, ordinal, raw) = (stream.api(), stream.ordinal(), stream.raw());
                // SAFETY: the piece is within the target, which is borrowed exclusively and tracks this use; nothing writes the space until the
                // copies from the chunk are done.
                unsafe { api.memcpy_async(ordinal, to, pinned, bytes, CopyKind::ByAddress, raw) }
            });
        }))
    }

    /// Reads into memory that the host writes itself, and returns true.
    fn direct(&self) -> Result<bool> {
        // For its threads only.
        let ring = Transfers::of(self.stream.inner().device()).take_to_read(0);
        let open = |target: &'a ViewMut<'a, u8>| {
            target
                .raw
                .wait_for_host(&target.bytes(), Access::Write, "read_at")
        };
        let _open: Vec<_> = self.targets().map(open).collect::<Result<_>>()?;
        let each = |piece: &Piece<'_>| {
            let (bytes, to) = (piece.range.len(), piece.address());
            if piece.read.target.raw.is_managed() {
                // The system may refuse to write pages that are not the host's.
                for page in (0..bytes).step_by(PAGE) {
                    // SAFETY: within the piece, as below.
                    unsafe { to.add(page).write_volatile(0) };
                }
            }
            // SAFETY: the piece is within the target, which is borrowed exclusively, and which no device uses now. Foreign functions allocated it.
            self.fill(piece, unsafe { std::slice::from_raw_parts_mut(to, bytes) })
        };
        match &ring {
            Some(ring) => ring.run(self.threads.min(ring.threads()), |_| self.work(each)),
            None => self.work(each),
        }
        Ok(true)
    }

    /// Reads through memory of its own, without the ring: CUDA copies each piece.
    fn through_vector(&self) {
        let mut own = Vec::new();
        self.work(|piece| {
            let bytes = piece.range.len();
            if own.len() < bytes {
                own = host_vec::zeroed(CALL, bytes)?;
            }
            self.fill(piece, &mut own[..bytes])?;
            // SAFETY: the target is borrowed exclusively, and nothing else uses its pieces.
            let target = unsafe { piece.read.target.duplicate() };
            put(target.slice(piece.range.clone())?, &own[..bytes], false)
        });
    }

    /// Does one thread's part.
    fn work(&self, mut each: impl FnMut(&Piece<'_>) -> Result<()>) {
        // Also after a panic.
        let _stop = StopOthers(&self.next);
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::AcqRel)) {
            if let Err(error) = each(piece) {
                return self.failed.lock().push((piece.at, error));
            }
        }
    }

    fn fill(&self, piece: &Piece<'_>, into: &mut [u8]) -> Result<()> {
        let FileRead { source, runs, .. } = *piece.read;
        let filled = read_into(source, runs, piece.range.clone(), into);
        filled.map_err(|(at, source)| Error::Io {
            call: CALL,
            done_bytes: piece.at + (at - piece.range.start),
            total_bytes: self.total,
            source,
        })
    }
}
