//! Setting every element of a view to one value.
#![allow(unsafe_code, reason = "passes addresses of buffers to CUDA")]

use crate::buffer::view::ViewMut;
use crate::context::capture::BY_HOST;
use crate::context::op::{InCapture, Op, What};
use crate::context::stream::Stream;
use crate::context::tracker::Access;
use crate::driver::{Api, CopyKind};
use crate::error::{Error, Result};
use crate::resource::kind::MemoryKind;
use cuda_um_sys::cudaStream_t;

/// Fills a view with repetitions of `pattern`. The pattern's length divides the view's. A capture refuses the fill with this reason, if there is
/// one.
pub(super) fn fill(
    mut view: ViewMut<'_, u8>,
    pattern: &[u8],
    refusal: Option<&'static str>,
    stream: &Stream,
) -> Result<()> {
    let buffer = view.raw;
    stream.check_runtime(buffer.device(), "the buffer")?;
    buffer.check_write()?;
    if view.is_empty() {
        return Ok(());
    }
    let part = [view.part(Access::Write)];
    let op = Op::new(What::Fill, buffer.device(), &part);
    let op = op.in_capture(refusal.map_or(InCapture::Records, InCapture::Refuses));
    let (expected, found) = (buffer.device().ordinal(), stream.inner().ordinal());
    let own_device = expected == found;
    let is_system = buffer.kind() == MemoryKind::System;
    // Host memory may have no address on the device, or a different one on another device.
    let start = match buffer.is_host_memory() {
        _ if buffer.is_left_to_host() => None,
        // Copies would make the pattern, and CUDA reads pageable memory before earlier work of the stream has written it.
        _ if is_system && Word::repeating(pattern, view.as_ptr().addr()).is_none() => None,
        true => view.device_ptr().filter(|_| own_device),
        false => Some(view.as_ptr()),
    };
    let Some(start) = start else {
        stream.admit(&op.in_capture(InCapture::Refuses(BY_HOST)))?;
        return fill_on_host(&mut view, pattern);
    };
    if !own_device && !buffer.is_managed() {
        return Err(Error::DeviceMismatch {
            what: "the stream",
            expected,
            found,
        });
    }
    let filled = stream.submit(&op, |raw| {
        let (api, ordinal) = (stream.inner().api(), stream.inner().ordinal());
        let fill = Fill {
            api,
            ordinal,
            stream: raw,
        };
        // SAFETY: the view is borrowed exclusively; the buffer tracks this use, so it is not freed or used before the fill is
        // complete.
        unsafe { fill.pattern(start.cast_mut(), view.len(), pattern) }
    });
    match filled {
        // A guard began meanwhile.
        Err(Error::Busy { .. }) if buffer.is_managed() => fill_on_host(&mut view, pattern),
        filled => filled,
    }
}

fn fill_on_host(view: &mut ViewMut<'_, u8>, pattern: &[u8]) -> Result<()> {
    let part = [view.part(Access::Write)];
    Op::new(What::Fill, part[0].device(), &part).run(None, || {
        let _closed = view
            .raw
            .wait_for_host(&view.bytes(), Access::Write, "fill")?;
        // SAFETY: the view is borrowed exclusively, no device uses it now, and u8 has no invalid values.
        let memory = unsafe { std::slice::from_raw_parts_mut(view.as_mut_ptr(), view.len()) };
        memory
            .chunks_exact_mut(pattern.len())
            .for_each(|element| element.copy_from_slice(pattern));
        Ok(())
    })
}

struct Fill<'a> {
    api: &'a Api,
    ordinal: u32,
    stream: cudaStream_t,
}

impl Fill<'_> {
    /// # Safety
    ///
    /// The memory is valid for `bytes`, a multiple of the pattern's length, and nothing else uses it until the fill is complete.
    unsafe fn pattern(&self, start: *mut u8, bytes: usize, pattern: &[u8]) -> Result<()> {
        if let Some(word) = Word::repeating(pattern, start as usize) {
            // SAFETY: the caller's promise; the word's size divides the pattern's, and the address is aligned to it.
            return unsafe { self.word(start, bytes, word) };
        }
        // CUDA has no memset for values of this length: set the first element word by word, then double the filled part with copies.
        let width = [4, 2, 1]
            .into_iter()
            .find(|width| {
                pattern.len().is_multiple_of(*width) && (start as usize).is_multiple_of(*width)
            })
            .unwrap_or(1);
        for (at, piece) in pattern.chunks_exact(width).enumerate() {
            // SAFETY: within the first element; aligned, because the start is and the width divides every offset.
            unsafe { self.word(start.add(at * width), width, Word::new(piece)) }?;
        }
        let mut done = pattern.len();
        while done < bytes {
            let next = done.min(bytes - done);
            // SAFETY: `done` bytes are enqueued before this copy, and its `next` bytes follow them without overlap.
            unsafe {
                self.api.memcpy_async(
                    self.ordinal,
                    start.add(done),
                    start,
                    next,
                    CopyKind::ByAddress,
                    self.stream,
                )
            }?;
            done += next;
        }
        Ok(())
    }

    /// # Safety
    ///
    /// The promise of `pattern`; the word's size divides `bytes` and the address.
    unsafe fn word(&self, start: *mut u8, bytes: usize, word: Word) -> Result<()> {
        let Self {
            api,
            ordinal,
            stream,
        } = *self;
        // SAFETY: the caller's promise.
        unsafe {
            match word {
                Word::One(value) => api.memset_async(ordinal, start, value, bytes, stream),
                Word::Two(value) => api.memset_u16_async(ordinal, start, value, bytes / 2, stream),
                Word::Four(value) => api.memset_u32_async(ordinal, start, value, bytes / 4, stream),
            }
        }
    }
}

/// A value that a CUDA memset can repeat.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    One(u8),
    Two(u16),
    Four(u32),
}

impl Word {
    /// `bytes` has a length of 1, 2 or 4.
    fn new(bytes: &[u8]) -> Self {
        match *bytes {
            [a, b] => Self::Two(u16::from_ne_bytes([a, b])),
            [a, b, c, d] => Self::Four(u32::from_ne_bytes([a, b, c, d])),
            _ => Self::One(bytes[0]),
        }
    }

    /// Returns the shortest word that repeats to the pattern and that is aligned at the address, if there is one.
    fn repeating(pattern: &[u8], address: usize) -> Option<Self> {
        [1, 2, 4].into_iter().find_map(|width| {
            let fits = pattern.len().is_multiple_of(width) && address.is_multiple_of(width);
            let first = pattern.get(..width).filter(|_| fits)?;
            pattern
                .chunks_exact(width)
                .all(|word| word == first)
                .then(|| Self::new(first))
        })
    }
}

#[cfg(all(test, not(cuda_um_loom)))]
mod tests {
    use super::Word;

    #[test]
    fn the_shortest_word_is_found() {
        assert_eq!(Word::repeating(&[7; 24], 0), Some(Word::One(7)));
        assert_eq!(
            Word::repeating(&[1, 2, 1, 2], 0),
            Some(Word::Two(u16::from_ne_bytes([1, 2])))
        );
        assert_eq!(
            Word::repeating(&[1, 2, 3, 4], 0),
            Some(Word::Four(u32::from_ne_bytes([1, 2, 3, 4])))
        );
        assert_eq!(Word::repeating(&[1, 2, 3, 4, 5, 6, 7, 8], 0), None);
        assert_eq!(Word::repeating(&[1, 2, 3], 0), None);
        assert_eq!(
            Word::repeating(&[1, 2], 1),
            None,
            "two bytes at an odd address"
        );
    }
}
