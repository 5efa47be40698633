//! Reads of storage into buffers, in rounds of pieces. Between two rounds the ring is free for others.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::copy::check_reach;
use crate::buffer::read_at::{FileRead, read_into};
use crate::buffer::transfer::Direction;
use crate::buffer::transfer::job::{Job, Piece};
use crate::buffer::transfer::options::PAGE;
use crate::buffer::transfer::transfers::Transfers;
use crate::buffer::view::View;
use crate::context::device::Device;
use crate::context::op::{Op, What};
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use std::ops::ControlFlow;

/// The smallest of the last pieces, which become smaller, so that all threads end at about the same time.
const LAST_PIECE: usize = 1 << 20;
/// The pieces of each thread in one round.
const PIECES: usize = 16;

impl<'a> FileRead<'a> {
    /// Begins to allocate the pinned memory for reads, on a thread: before the targets are allocated, so that the first read of a process waits less
    /// for it.
    pub fn prepare(device: &Device) {
        let state = device.state();
        if state.capabilities.integrated {
            return;
        }
        if let Some(mut turn) = Transfers::of(state).take(false) {
            let _ = turn.ring(state, turn.options.threads, false);
            turn.prepare(state);
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
        for FileRead { target, .. } in reads {
            target.raw.check_write()?;
            stream.check_runtime(target.device(), "the buffer")?;
            check_reach(device.ordinal(), [target.raw; 2])?;
        }
        let views: Vec<_> = reads.iter().map(|read| read.target.as_view()).collect();
        let total = views.iter().map(View::len).sum();
        let options = Transfers::of(device.state()).options();
        let threads = threads.clamp(1, options.threads);
        let fill = |piece: &Piece, into: &mut [u8]| {
            let FileRead { source, runs, .. } = &reads[piece.of];
            let range = piece.range(&views);
            let start = range.start;
            let filled = read_into(*source, runs, range, into);
            filled.map_err(|(at, source)| Error::Io {
                call: "read_at",
                done_bytes: piece.at + (at - start),
                total_bytes: total,
                source,
            })
        };
        let parts: Vec<_> = views.iter().map(|view| view.part(Access::Write)).collect();
        let op = Op::new(What::Copy, device, &parts);
        op.tell_if(true, None, || {
            let mut done = 0;
            let pieces = pieces(&views, options.most_piece_bytes(), threads);
            for round in pieces.chunks(threads * PIECES) {
                let way = (Direction::ToDevice, CopyKind::ByAddress);
                let job = Job::new(way, round, total, &fill);
                // SAFETY: the pieces are of the targets, which are borrowed exclusively.
                let run = |_: &_| unsafe { job.run(&views, true, threads.min(round.len())) };
                // The end of the process waits for one round.
                op.run(("read_at", false), run)?;
                done += round.iter().map(|piece| piece.bytes).sum::<usize>();
                if progress(done).is_break() {
                    break;
                }
            }
            Ok(done)
        })
    }
}

/// The pieces of all targets, in order.
fn pieces(views: &[View<'_, u8>], most: usize, threads: usize) -> Vec<Piece> {
    let mut left: usize = views.iter().map(View::len).sum();
    let (mut pieces, mut at) = (Vec::new(), 0);
    for (of, view) in views.iter().enumerate() {
        let mut start = 0;
        while start < view.len() {
            let fair = (left / threads).clamp(LAST_PIECE.min(most), most);
            let bytes = (fair - fair % PAGE).min(view.len() - start);
            pieces.push(Piece {
                device: view.address().wrapping_add(start),
                at,
                bytes,
                of,
            });
            (start, at, left) = (start + bytes, at + bytes, left - bytes);
        }
    }
    pieces
}
