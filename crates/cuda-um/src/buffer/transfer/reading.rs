//! Reads of storage into buffers, in rounds of pieces through the ring. Between two rounds the ring is free for others.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::copy::{kind, put};
use crate::buffer::host_vec;
use crate::buffer::read_at::FileRead;
use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::ring::LaneTurn;
use crate::buffer::transfer::staged::{FinishOnPanic, StopOthers};
use crate::buffer::transfer::transfers::{Transfers, while_reading};
use crate::buffer::view::ViewMut;
use crate::context::device::Device;
use crate::context::enqueue::enqueue;
use crate::context::observer::{Started, What};
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracked::Part;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::Calls;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::ops::{ControlFlow, Range};

/// The smallest of the last pieces, which become smaller, so that all threads end at about the same time.
const LAST_PIECE: usize = 1 << 20;
/// The pieces of each thread in one round.
const PIECES: usize = 8;
const CALL: &str = "read_at";

/// A part of one target.
#[derive(Clone)]
struct Piece {
    read: usize,
    range: Range<usize>,
    /// The position in all targets.
    at: usize,
}

/// A failure, and its position in all targets.
type Failed = (usize, Cause);
type Outcome = Result<(), Failed>;

enum Cause {
    Storage(std::io::Error),
    Cuda(Error),
}

/// Does what [`FileRead::run`] says.
pub(in crate::buffer) fn run(
    reads: &mut [FileRead<'_>],
    most_threads: usize,
    mut progress: impl FnMut(usize) -> ControlFlow<()>,
) -> Result<usize> {
    let Some(device) = reads.first().map(|read| read.device().clone()) else {
        return Ok(0);
    };
    fork::check(CALL)?;
    let stream = device.default_stream()?;
    for read in &*reads {
        read.target.raw.check_write()?;
        stream.check_runtime(read.device(), "the buffer")?;
        if read.device().ordinal() != device.ordinal() {
            return Err(Error::DeviceMismatch {
                what: "the buffer",
                expected: device.ordinal(),
                found: read.device().ordinal(),
            });
        }
    }
    let total = reads.iter().map(|read| read.target.len()).sum();
    let (threads, piece_bytes) = Transfers::of(device.state()).read_shape(total);
    let threads = threads.min(most_threads).max(1);
    let mut pieces = pieces(reads, piece_bytes, threads).peekable();
    let mut round = Vec::with_capacity(threads * PIECES);
    let mut own = Vec::new();
    let mut done = 0;
    while let Some(first) = pieces.next() {
        let is_direct = is_direct(&reads[first.read]);
        round.clear();
        round.push(first);
        while round.len() < threads * PIECES
            && let Some(piece) =
                pieces.next_if(|piece| self::is_direct(&reads[piece.read]) == is_direct)
        {
            round.push(piece);
        }
        let outcome = one_round(&stream, reads, (&round, threads), is_direct, &mut own);
        outcome.map_err(|(at, cause)| failed(&stream, at, total, cause))?;
        done = round
            .last()
            .map_or(done, |piece| piece.at + piece.range.len());
        if progress(done).is_break() {
            break;
        }
    }
    Ok(done)
}

/// The pieces of all targets, in order.
fn pieces(
    reads: &[FileRead<'_>],
    most: usize,
    threads: usize,
) -> impl Iterator<Item = Piece> + use<> {
    let lengths: Vec<usize> = reads.iter().map(|read| read.target.len()).collect();
    let mut left: usize = lengths.iter().sum();
    let (mut read, mut start, mut at) = (0, 0, 0);
    std::iter::from_fn(move || {
        while start == *lengths.get(read)? {
            (read, start) = (read + 1, 0);
        }
        let fair = (left / threads).clamp(LAST_PIECE.min(most), most);
        let bytes = (fair - fair % PAGE).min(lengths[read] - start);
        let piece = Piece {
            read,
            range: start..start + bytes,
            at,
        };
        (start, at, left) = (start + bytes, at + bytes, left - bytes);
        Some(piece)
    })
}

/// Returns true if the host writes the target itself: memory of the host, and managed memory of a device that has no other.
fn is_direct(read: &FileRead<'_>) -> bool {
    let raw = read.target.raw;
    raw.is_host_memory() || raw.is_managed() && read.device().capabilities().integrated
}

fn failed(stream: &Stream, at: usize, total_bytes: usize, cause: Cause) -> Error {
    // No copy still runs when the caller gets the error.
    let finished = stream.inner().finish();
    match cause {
        Cause::Storage(source) => Error::Io {
            call: CALL,
            done_bytes: at,
            total_bytes,
            source,
        },
        Cause::Cuda(cause) => {
            let is_sticky = cause.is_sticky() || finished.is_err_and(|error| error.is_sticky());
            Error::Incomplete {
                copied_bytes: if is_sticky { 0 } else { at },
                total_bytes,
                cause: Box::new(cause),
            }
        }
    }
}

fn one_round(
    stream: &Stream,
    reads: &mut [FileRead<'_>],
    (round, threads): (&[Piece], usize),
    is_direct: bool,
    own: &mut Vec<u8>,
) -> Outcome {
    let cuda = |error| (round[0].at, Cause::Cuda(error));
    let device = stream.device().clone();
    let started = Started::now(&device);
    let mut outcome = None;
    if is_direct {
        outcome = Some(direct(&device, reads, (round, threads)));
    } else if !device.state().is_gated {
        // With a gate, foreign code would run while the host waits for this work.
        let work = || {
            outcome = through_ring(stream.inner(), reads, (round, threads));
            Ok(())
        };
        enqueue(stream, &parts(reads, round), work).map_err(cuda)?;
    }
    match outcome {
        Some(outcome) => outcome?,
        None => through_vector(reads, round, own)?,
    }
    started.done(What::Copy, &device, None, parts(reads, round));
    Ok(())
}

/// The parts of the targets that a round writes.
fn parts<'a>(reads: &[FileRead<'a>], round: &[Piece]) -> Vec<Part<'a>> {
    let same = round.chunk_by(|a, b| a.read == b.read);
    let part = |same: &[Piece]| {
        let target = &reads[same[0].read].target;
        target.raw.part_of(written(target, same), Access::Write)
    };
    same.map(part).collect()
}

/// The bytes of the memory that pieces of one target cover.
fn written(target: &ViewMut<'_, u8>, same: &[Piece]) -> Range<usize> {
    let start = target.bytes().start;
    start + same[0].range.start..start + same[same.len() - 1].range.end
}

/// A round through the ring; `None`, and nothing is done, if there is no ring.
fn through_ring(
    stream: &StreamInner,
    reads: &[FileRead<'_>],
    (round, threads): (&[Piece], usize),
) -> Option<Outcome> {
    let device = stream.device();
    let largest = round.iter().map(|piece| piece.range.len()).max()?;
    let ring = Transfers::of(device).take_to_read(largest)?;
    if largest > ring.options().chunk_bytes() {
        return None;
    }
    let _calls = match Calls::of(CALL) {
        Ok(calls) => calls,
        Err(error) => return Some(Err((round[0].at, Cause::Cuda(error)))),
    };
    let threads = threads.min(ring.threads()).min(round.len());
    // The other chunks are allocated by their threads, beside the first reads.
    if let Err(error) = ring.lane(0).prepare(device, 1) {
        crate::telemetry::warn!(%error, "no pinned memory to read files: each piece is copied once more");
        return None;
    }
    let is_idle = ring.is_idle(stream);
    let each = |lane: &mut LaneTurn<'_>, piece: &Piece| -> Outcome {
        let cuda = |error| (piece.at, Cause::Cuda(error));
        let target = &reads[piece.read].target;
        let (bytes, kind) = (piece.range.len(), kind(target.raw, CopyKind::HostToDevice));
        let pinned = lane.room(device, stream, bytes).map_err(cuda)?;
        // SAFETY: only this thread uses the space, which a foreign function allocated: its bytes are arbitrary, but not uninitialised.
        fill(&reads[piece.read], piece, unsafe {
            std::slice::from_raw_parts_mut(pinned, bytes)
        })?;
        let to = target.address().wrapping_add(piece.range.start);
        let (api, ordinal, raw) = (stream.api(), stream.ordinal(), stream.raw());
        // SAFETY: the piece is within the target, which is borrowed exclusively and tracks this use; nothing writes the space until the copies
        // from the chunk are done.
        unsafe { api.memcpy_async(ordinal, to, pinned, bytes, kind, raw) }.map_err(cuda)
    };
    let job = Job::new(round);
    let on_panic = FinishOnPanic(stream);
    ring.run(threads, |thread| {
        let mut lane = ring.lane(thread);
        if lane.prepare(device, 1).is_err() {
            // The first thread has a chunk.
            return;
        }
        if is_idle {
            lane.restart();
        }
        job.work(|piece| each(&mut lane, piece));
    });
    drop(on_panic);
    ring.enqueued(stream);
    Some(job.outcome())
}

/// A round into memory that the host writes itself.
fn direct(device: &Device, reads: &[FileRead<'_>], (round, threads): (&[Piece], usize)) -> Outcome {
    let cuda = |error| (round[0].at, Cause::Cuda(error));
    // For its threads only.
    let ring = Transfers::of(device.state()).take_to_read(0);
    let _calls = Calls::of(CALL).map_err(cuda)?;
    let mut open = Vec::new();
    for same in round.chunk_by(|a, b| a.read == b.read) {
        let target = &reads[same[0].read].target;
        let access = target
            .raw
            .wait_for_host(&written(target, same), Access::Write);
        open.push(access.map_err(cuda)?);
    }
    let each = |piece: &Piece| -> Outcome {
        let target = &reads[piece.read].target;
        let to = target.address().wrapping_add(piece.range.start);
        if target.raw.is_managed() {
            // The system may refuse to write pages that are not the host's.
            for page in piece.range.clone().step_by(PAGE) {
                // SAFETY: within the piece, as below.
                unsafe { to.add(page - piece.range.start).write_volatile(0) };
            }
        }
        // SAFETY: the piece is within the target, which is borrowed exclusively, and which no device uses now. Foreign functions allocated it.
        fill(&reads[piece.read], piece, unsafe {
            std::slice::from_raw_parts_mut(to, piece.range.len())
        })
    };
    let job = Job::new(round);
    match &ring {
        Some(ring) => ring.run(threads.min(ring.threads()).min(round.len()), |_| {
            job.work(each)
        }),
        None => job.work(each),
    }
    job.outcome()
}

/// A round through memory of its own, without the ring: CUDA copies each piece.
fn through_vector(reads: &mut [FileRead<'_>], round: &[Piece], own: &mut Vec<u8>) -> Outcome {
    for piece in round {
        let cuda = |error| (piece.at, Cause::Cuda(error));
        let bytes = piece.range.len();
        if own.len() < bytes {
            *own = host_vec::zeroed(CALL, bytes).map_err(cuda)?;
        }
        fill(&reads[piece.read], piece, &mut own[..bytes])?;
        let target = &mut reads[piece.read].target;
        let part = target.slice_mut(piece.range.clone());
        part.and_then(|mut part| put(&mut part, &own[..bytes]))
            .map_err(cuda)?;
    }
    Ok(())
}

/// Reads a piece.
fn fill(read: &FileRead<'_>, piece: &Piece, into: &mut [u8]) -> Outcome {
    let filled = while_reading(|| read.fill(piece.range.clone(), into));
    filled.map_err(|(at, error)| (piece.at + (at - piece.range.start), Cause::Storage(error)))
}

/// The pieces of a round, which threads take in order. So all bytes before the first failure are read.
struct Job<'a> {
    round: &'a [Piece],
    next: AtomicUsize,
    /// Set after a failure: no thread begins a new piece.
    stopped: AtomicBool,
    /// The failure with the lowest position.
    failed: Mutex<Option<Failed>>,
}

impl<'a> Job<'a> {
    fn new(round: &'a [Piece]) -> Self {
        Self {
            round,
            next: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            failed: Mutex::new(None),
        }
    }

    /// Does one thread's part.
    fn work(&self, mut each: impl FnMut(&Piece) -> Outcome) {
        // Also after a panic.
        let stop = StopOthers(&self.stopped);
        while !self.stopped.load(Ordering::Acquire)
            && let Some(piece) = self.round.get(self.next.fetch_add(1, Ordering::AcqRel))
        {
            if let Err(failure) = each(piece) {
                let mut failed = self.failed.lock();
                if failed.as_ref().is_none_or(|first| failure.0 < first.0) {
                    *failed = Some(failure);
                }
                return;
            }
        }
        std::mem::forget(stop);
    }

    fn outcome(self) -> Outcome {
        self.failed.into_inner().map_or(Ok(()), Err)
    }
}
