//! Reads of storage into buffers, in rounds of pieces. Between two rounds the ring is free for others.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::copy::{check_reach, from_host};
use crate::buffer::read_at::{FileRead, read_into};
use crate::buffer::transfer::Direction;
use crate::buffer::transfer::job::{Job, Piece};
use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::transfers::Transfers;
use crate::context::device::Device;
use crate::context::op::{Op, What};
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::fork;
use crate::process_end::Calls;
use std::ops::ControlFlow;

/// The smallest of the last pieces, which become smaller, so that all threads end at about the same time.
const LAST_PIECE: usize = 1 << 20;
/// The pieces of each thread in one round.
const PIECES: usize = 8;
const CALL: &str = "read_at";

impl<'a> FileRead<'a> {
    /// Begins to allocate the pinned memory for reads of so many bytes, on a thread: before the targets are allocated, so that the first read of a
    /// process waits less for it.
    pub fn prepare(device: &Device, bytes: usize) {
        let state = device.state();
        if fork::is_over() || state.is_gated || state.capabilities.integrated {
            return;
        }
        let transfers = Transfers::of(state);
        let (threads, piece_bytes) = transfers.read_shape(bytes);
        if let Some(mut turn) = transfers.take()
            && let Some(chunk) = turn.options.chunk_for(piece_bytes)
        {
            let _ = turn.ring(state, threads, chunk, false);
        }
    }

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
        reads: &mut [FileRead<'a>],
        threads: usize,
        mut progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<usize> {
        let reads = &*reads;
        let Some(first) = reads.first() else {
            return Ok(0);
        };
        let device = first.target.device();
        let stream = device.own_stream()?;
        // The positions of the targets.
        let (mut starts, mut total) = (Vec::new(), 0);
        for FileRead { target, .. } in reads {
            target.raw.check_write()?;
            stream.check_runtime(target.device(), "the buffer")?;
            check_reach(device.ordinal(), [target.raw; 2])?;
            starts.push(total);
            total += target.len();
        }
        let transfers = Transfers::of(device.state());
        let (most, piece_bytes) = transfers.read_shape(total);
        let threads = threads.clamp(1, most);
        let number = |piece: &Piece| starts.partition_point(|start| *start <= piece.at) - 1;
        // The read of a piece, and the piece's range in its target.
        let of = |piece: &Piece| {
            let start = piece.at - starts[number(piece)];
            (&reads[number(piece)], start..start + piece.bytes)
        };
        let fill = |piece: &Piece, into: &mut [u8]| {
            let (FileRead { source, runs, .. }, range) = of(piece);
            let start = range.start;
            let filled = read_into(*source, runs, range, into);
            filled.map_err(|(at, source)| Error::Io {
                call: CALL,
                done_bytes: piece.at + (at - start),
                total_bytes: total,
                source,
            })
        };
        let copy = |piece: &Piece, bytes: &[u8]| {
            let (read, range) = of(piece);
            // SAFETY: the target is borrowed exclusively, and nothing else uses its pieces.
            let target = unsafe { read.target.duplicate() };
            from_host(target.slice(range)?, bytes, false)
        };
        let is_in_place = reads.iter().all(is_in_place);
        let parts = |reads: &[FileRead<'a>]| -> Vec<_> {
            let parts = reads.iter().map(|read| read.target.part(Access::Write));
            parts.collect()
        };
        Op::new(What::Copy, device, &parts(reads)).tell_if(true, None, || {
            let mut done = 0;
            for pieces in pieces(reads, piece_bytes, threads).chunks(threads * PIECES) {
                let _calls = Calls::of(CALL)?;
                let last = &pieces[pieces.len() - 1];
                let targets = &reads[number(&pieces[0])..=number(last)];
                let way = (Direction::ToDevice, CopyKind::ByAddress);
                let job = Job::new(way, pieces, total, &fill);
                let threads = threads.min(pieces.len());
                if is_in_place {
                    let open = |FileRead { target, .. }: &FileRead<'a>| {
                        let bytes = target.bytes();
                        target.raw.wait_for_host(&bytes, Access::Write, CALL)
                    };
                    // For its threads only.
                    let turn = transfers.take_to_read();
                    let _open: Vec<_> = targets.iter().map(open).collect::<Result<_>>()?;
                    // SAFETY: the targets are borrowed exclusively, and no device uses them now.
                    unsafe { job.in_place(threads, turn.as_ref()) };
                    job.outcome(stream.inner())?;
                } else {
                    let parts = parts(targets);
                    // SAFETY: the pieces are of these targets, which are borrowed exclusively.
                    unsafe { job.run(&Op::with_host(device, &parts), true, threads, copy) }?;
                }
                done = last.at + last.bytes;
                if progress(done).is_break() {
                    break;
                }
            }
            Ok(done)
        })
    }
}

/// Returns true if the host writes the target itself: memory of the host, and managed memory of a device that has no other.
fn is_in_place(read: &FileRead<'_>) -> bool {
    let raw = read.target.raw;
    raw.is_host_memory() || raw.is_managed() && raw.device().capabilities().integrated
}

/// The pieces of all targets, in order.
fn pieces(reads: &[FileRead<'_>], most: usize, threads: usize) -> Vec<Piece> {
    let mut left: usize = reads.iter().map(|read| read.target.len()).sum();
    let (mut pieces, mut at) = (Vec::new(), 0);
    for read in reads {
        let mut start = 0;
        while start < read.target.len() {
            let fair = (left / threads).clamp(LAST_PIECE.min(most), most);
            let bytes = (fair - fair % PAGE).min(read.target.len() - start);
            let device = read.target.address().wrapping_add(start);
            pieces.push(Piece { device, at, bytes });
            (start, at, left) = (start + bytes, at + bytes, left - bytes);
        }
    }
    pieces
}
