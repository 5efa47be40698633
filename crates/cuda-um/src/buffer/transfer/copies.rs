//! Copies between the host and a device, and within the host: all of a job's pieces are there.
#![allow(unsafe_code, reason = "copies by address, on several threads")]

use crate::buffer::transfer::job::{Job, Piece};
use crate::buffer::transfer::transfers::Transfers;
use crate::buffer::transfer::{plan, streaming};
use crate::buffer::view::View;
use crate::context::device::DeviceState;
use crate::context::op::Op;
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::Result;
use crate::process_end::Calls;
use std::sync::atomic::{AtomicUsize, Ordering};

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
    pub(crate) kind: CopyKind,
}

impl Staged {
    #[inline]
    pub(crate) fn new(direction: Direction, host: *mut u8, view: &View<'_, u8>) -> Self {
        Self {
            direction,
            host,
            device: view.address(),
            bytes: view.len(),
            kind: match direction {
                // Managed memory may be on either side.
                _ if view.raw.is_managed() => CopyKind::ByAddress,
                Direction::ToDevice => CopyKind::HostToDevice,
                Direction::ToHost => CopyKind::DeviceToHost,
            },
        }
    }
}

/// Copies between the part of an operation and the host on the device's default stream: through the ring, or by the driver.
///
/// # Safety
///
/// As for [`with_host`](super::with_host).
pub(crate) unsafe fn copy(
    stream: &Stream,
    op: &Op<'_>,
    calls: &Calls,
    copy: &Staged,
) -> Result<()> {
    let device = op.device.state();
    let mut in_use = InUse(None);
    let enqueued = stream.submit_within(calls, op, |on| {
        let inner = stream.inner();
        if copy.direction == Direction::ToHost {
            in_use.0 = Some(inner);
        }
        // SAFETY: the caller's promise; `submit` made the stream wait for the earlier uses of the buffer.
        if let Some(outcome) = unsafe { staged(device, inner, copy) } {
            return outcome;
        }
        in_use.0 = Some(inner);
        let (to, from) = copy.direction.ends(copy.device, copy.host);
        let (api, ordinal) = (inner.api(), inner.ordinal());
        // SAFETY: the caller's promise; the code below waits for the stream, also after a panic.
        unsafe { api.memcpy_async(ordinal, to, from, copy.bytes, copy.kind, on) }
    });
    // Also wait after an error: the host's memory belongs to the caller, so no copy may use it after the return.
    let copied = enqueued.and(in_use.finish());
    if let Some(mut turn) = Transfers::of(device).take(false) {
        turn.prepare(device);
    }
    copied
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
pub(super) unsafe fn staged(
    device: &DeviceState,
    stream: &StreamInner,
    copy: &Staged,
) -> Option<Result<()>> {
    let Staged {
        direction,
        host,
        bytes,
        kind,
        ..
    } = *copy;
    // Do not wait for the ring: the code that has it may copy as well.
    let mut turn = Transfers::of(device).take(false)?;
    // An older runtime returns "invalid value" for memory that CUDA did not allocate or register.
    let is_registered = || device.api.is_registered(device.ordinal, host);
    // On a busy stream the driver would wait for the earlier work, and for that of other streams, which only a query tells.
    if plan::is_for_driver(direction, bytes) && matches!(stream.is_idle(), Ok(true))
        || device.capabilities.reads_host_memory_in_place()
        || is_registered().unwrap_or(false)
    {
        return None;
    }
    let threads = plan::copy_threads(bytes, turn.options.threads);
    let threads = turn.ring(device, threads, false)?;
    let pieces = plan::pieces(copy, 1, turn.options.chunk_bytes(), threads);
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

/// The stream that may use the caller's memory, if any. The wait for it happens at the latest when this is dropped.
pub(super) struct InUse<'a>(pub(super) Option<&'a StreamInner>);

impl InUse<'_> {
    fn finish(mut self) -> Result<()> {
        self.0.take().map_or(Ok(()), StreamInner::finish)
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        if let Some(stream) = self.0.take() {
            // An earlier error or a panic leads here, so this error cannot be returned.
            let _ = stream.finish();
        }
    }
}

/// Bytes that one thread copies at a time within the host.
const PIECE: usize = 256 << 10;

/// Copies within host memory. Uses several threads if that is faster and no other copy uses them now.
///
/// # Safety
///
/// Both ranges are valid for `bytes`, do not overlap, and nothing else uses them until this returns.
pub(crate) unsafe fn copy_on_host(
    device: &DeviceState,
    from: *const u8,
    to: *mut u8,
    bytes: usize,
) {
    let turn = match bytes {
        ..streaming::FROM => None,
        _ => Transfers::of(device).take(false),
    };
    let Some(turn) = turn else {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    };
    let (ends, next) = (
        [from.cast_mut(), to].map(SharedAddress),
        AtomicUsize::new(0),
    );
    // A second thread saves half of the time here, because pieces cost nothing.
    let most = turn.options.threads;
    let threads = plan::copy_threads(bytes, most).max(most.min(2));
    turn.workers().run(threads, &|_| {
        let [from, to] = { &ends }.each_ref().map(|end| end.0);
        loop {
            // Relaxed: the numbers need only differ; the lock of the workers orders the copies before the end of `run`.
            let start = next.fetch_add(PIECE, Ordering::Relaxed);
            if start >= bytes {
                return;
            }
            let piece = PIECE.min(bytes - start);
            // SAFETY: the piece is within both ranges; only one thread takes each piece.
            unsafe { streaming::copy(from.add(start), to.add(start), piece) };
        }
    });
}
