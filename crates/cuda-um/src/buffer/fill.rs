//! Setting every element of a view to one value.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::DeviceCopy;
use crate::buffer::view::ViewMut;
use crate::context::capture::BY_HOST;
use crate::context::op::{InCapture, Op, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::CopyKind;
use crate::error::{Error, Result};
use crate::resource::kind::MemoryKind;
use crate::scalar::Scalar;

/// Fills a view with a value.
pub(super) fn fill_with<T: DeviceCopy>(
    view: ViewMut<'_, T>,
    value: Scalar<T>,
    stream: &Stream,
) -> Result<()> {
    let (refusal, value) = (value.refusal_of_fill(), value.value());
    fill(
        view.into_bytes(),
        bytemuck::bytes_of(&value),
        refusal,
        stream,
    )
}

/// Fills a view with repetitions of `pattern`. The pattern's length divides the view's. A capture refuses the fill with this reason, if there is
/// one.
fn fill(
    mut view: ViewMut<'_, u8>,
    pattern: &[u8],
    refusal: Option<&'static str>,
    stream: &Stream,
) -> Result<()> {
    let buffer = view.raw;
    if view.is_empty() {
        stream.check_runtime(buffer.device(), "the buffer")?;
        return buffer.check_write();
    }
    let part = [view.part(Access::Write)];
    let mut op = Op::new(What::Fill, buffer.device(), &part);
    op.in_capture = refusal.map_or(InCapture::Records, InCapture::Refuses);
    let (expected, found) = (buffer.device().ordinal(), stream.inner().ordinal());
    let own_device = expected == found;
    let is_system = buffer.kind() == MemoryKind::System;
    // Host memory may have no address on the device, or a different one on another device.
    let start = match buffer.is_host_memory() {
        _ if buffer.is_left_to_host() => None,
        // Copies would make the pattern, and CUDA reads pageable memory before earlier work of the stream has written it.
        _ if is_system && word(pattern, view.as_ptr().addr()).is_none() => None,
        true => view.device_ptr().filter(|_| own_device),
        false => Some(view.as_ptr()),
    };
    let Some(start) = start else {
        stream.admit(&op.in_capture(InCapture::Refuses(BY_HOST)))?;
        return fill_on_host(&mut view, pattern, "fill");
    };
    if !own_device && !buffer.is_managed() {
        stream.check_runtime(buffer.device(), "the buffer")?;
        return Err(Error::DeviceMismatch {
            what: "the stream",
            expected,
            found,
        });
    }
    let start = start.cast_mut();
    let filled = stream.submit(&op, |on| {
        let (api, bytes) = (stream.inner().api(), view.len());
        // SAFETY: for all calls: the addresses are within the view, which is borrowed exclusively; the buffer tracks this use, so it is not freed
        // or used before the fill is complete. The word's size divides the bytes and the address.
        let set = |start: *mut u8, bytes: usize, word: &[u8]| unsafe {
            match *word {
                [a, b] => {
                    let value = u16::from_ne_bytes([a, b]);
                    api.memset_u16_async(found, start, value, bytes / 2, on)
                }
                [a, b, c, d] => {
                    let value = u32::from_ne_bytes([a, b, c, d]);
                    api.memset_u32_async(found, start, value, bytes / 4, on)
                }
                _ => api.memset_async(found, start, word[0], bytes, on),
            }
        };
        if let Some(word) = word(pattern, start.addr()) {
            return set(start, bytes, word);
        }
        // CUDA has no memset for values of this length: set the first element word by word, then double the filled part with copies.
        let divides = |width: &usize| (pattern.len() | start.addr()).is_multiple_of(*width);
        let width = [4, 2].into_iter().find(divides).unwrap_or(1);
        for (at, piece) in pattern.chunks_exact(width).enumerate() {
            set(start.wrapping_add(at * width), width, piece)?;
        }
        let mut done = pattern.len();
        while done < bytes {
            let next = done.min(bytes - done);
            let kind = CopyKind::ByAddress;
            // SAFETY: as above; `done` bytes are enqueued before this copy, and its `next` bytes follow them without overlap.
            unsafe { api.memcpy_async(found, start.add(done), start, next, kind, on) }?;
            done += next;
        }
        Ok(())
    });
    match filled {
        // A guard began meanwhile.
        Err(Error::Busy { .. }) if buffer.is_managed() => fill_on_host(&mut view, pattern, "fill"),
        Err(error) => Err(error),
        Ok(()) => Ok(()),
    }
}

/// Fills a view on the host, after the work that uses it.
pub(super) fn fill_on_host(
    view: &mut ViewMut<'_, u8>,
    pattern: &[u8],
    call: &'static str,
) -> Result<()> {
    let part = [view.part(Access::Write)];
    Op::new(What::Fill, part[0].device(), &part).run((call, true), |_| {
        let _closed = view.raw.wait_for_host(&view.bytes(), Access::Write, call)?;
        // SAFETY: the view is borrowed exclusively, no device uses it now, and u8 has no invalid values.
        let memory = unsafe { std::slice::from_raw_parts_mut(view.as_mut_ptr(), view.len()) };
        match *pattern {
            [byte] => memory.fill(byte),
            _ => memory
                .chunks_exact_mut(pattern.len())
                .for_each(|element| element.copy_from_slice(pattern)),
        }
        Ok(())
    })
}

/// Returns the shortest word of 1, 2 or 4 bytes, as CUDA's memsets have them, that repeats to the pattern and that is aligned at the address.
fn word(pattern: &[u8], address: usize) -> Option<&[u8]> {
    [1, 2, 4].into_iter().find_map(|width| {
        let fits = (pattern.len() | address).is_multiple_of(width);
        let (word, rest) = pattern.split_at_checked(width).filter(|_| fits)?;
        let repeats = rest
            .iter()
            .zip(pattern)
            .all(|(byte, before)| byte == before);
        repeats.then_some(word)
    })
}
