//! Copies within one buffer, whose source and target may overlap.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::buffer::copy::check_reach;
use crate::buffer::view::ViewMut;
use crate::context::capture::BY_HOST;
use crate::context::op::{InCapture, Op, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::Result;
use crate::label::Label;
use crate::resource::allocation::Allocation;
use crate::resource::kind::MemoryKind;
use crate::resource::pool::default;
use smallvec::SmallVec;
use std::iter::once;
use std::ops::Range;
use std::panic::Location;

/// Bytes of the memory through which ranges are copied that overlap by nearly all of their bytes.
const THROUGH: usize = 8 << 20;
/// The number of copies from which on they go through such memory.
const MANY: usize = 8;

/// Copies the bytes in `from` of a view to its byte `to`, as `memmove` does.
pub(super) fn copy_within(
    view: ViewMut<'_, u8>,
    from: Range<usize>,
    to: usize,
    stream: &Stream,
) -> Result<()> {
    stream.check_runtime(view.device(), "the buffer")?;
    view.raw.check_write()?;
    let bytes = from.len();
    let distance = to.abs_diff(from.start);
    if bytes == 0 || distance == 0 {
        return Ok(());
    }
    let ordinal = stream.inner().ordinal();
    check_reach(ordinal, [view.raw, view.raw])?;
    let device = view.device();
    if view.raw.kind() == MemoryKind::System {
        // By the CPU: CUDA would do the same, and not in the order of the stream.
        let part = [view.part(Access::Write)];
        let op = Op::new(What::Copy, device, &part).in_capture(InCapture::Refuses(BY_HOST));
        stream.admit(&op)?;
        return op.run(("copy_within", true), |_| {
            view.into_host_mut()?.copy_within(from, to);
            Ok(())
        });
    }
    // CUDA copies only ranges that do not overlap: pieces as long as the distance, or pieces that go through other memory.
    let through = match bytes.div_ceil(distance) {
        ..MANY => None,
        _ => {
            let device = stream.device();
            let kind = MemoryKind::Device;
            let mut memory = default::allocate(&device, kind, bytes.min(THROUGH))?;
            memory.set_label(Label::new(|| ("copy_within", "u8", 1), Location::caller()));
            Some(memory)
        }
    };
    let piece = through.as_ref().map_or(distance, Allocation::bytes);
    let used = view.slice(from.start.min(to)..from.end.max(to + bytes))?;
    let between = through
        .iter()
        .map(|raw| raw.part_of(0..raw.bytes(), Access::Write));
    let parts: SmallVec<[_; 2]> = once(used.part(Access::Write)).chain(between).collect();
    let (low, high) = (used.address(), used.address().wrapping_add(distance));
    let is_up = from.start < to;
    let (source, target) = if is_up { (low, high) } else { (high, low) };
    stream.submit(&Op::new(What::Copy, device, &parts), |on| {
        let (api, kind) = (stream.inner().api(), CopyKind::ByAddress);
        let copy = |to: *mut u8, from: *mut u8, bytes| {
            // SAFETY: both ranges are within memory that is borrowed exclusively, and do not overlap; their buffers track this use, so they
            // are neither freed nor used by the host before it is complete.
            unsafe { api.memcpy_async(ordinal, to, from, bytes, kind, on) }
        };
        pieces(bytes, piece, is_up).try_for_each(|part| {
            let [to, from] = [target, source].map(|start| start.wrapping_add(part.start));
            let Some(through) = &through else {
                return copy(to, from, part.len());
            };
            let between = through.pointer().as_ptr();
            copy(between, from, part.len())?;
            copy(to, between, part.len())
        })
    })
}

/// Divides `0..bytes` in pieces. A copy to higher addresses begins with the last piece, so that no piece is overwritten before it is copied.
fn pieces(bytes: usize, piece: usize, last_first: bool) -> impl Iterator<Item = Range<usize>> {
    let count = bytes.div_ceil(piece);
    (0..count).map(move |index| match last_first {
        true => {
            let end = bytes - index * piece;
            end.saturating_sub(piece)..end
        }
        false => index * piece..bytes.min((index + 1) * piece),
    })
}
