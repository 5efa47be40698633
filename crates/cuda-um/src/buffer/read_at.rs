//! Files and other storage whose bytes are read straight into buffers.

use crate::buffer::view::ViewMut;
use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;

/// Storage that is read at positions: a [`File`], or an implementation of the caller.
///
/// [`FileRead::run`] calls it on several threads, straight into pinned memory. An implementation must not wait for another such read on the same
/// device.
pub trait ReadAt: Send + Sync {
    /// Reads bytes from position `offset` on into memory with arbitrary contents. Returns the number of bytes, which may be less than fit, and 0 at
    /// the end of the storage.
    ///
    /// # Errors
    ///
    /// Those of the storage; after [`Interrupted`](io::ErrorKind::Interrupted) the call is made again.
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize>;
}

/// `count` runs of `bytes` bytes, `stride` bytes apart in the storage and without gaps in the target: a range of bytes (`count` is 1), or a
/// slice of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The position of the first run in the storage.
    pub offset: u64,
    /// The position of the first run in the target, in bytes.
    pub at: usize,
    /// The size of each run in bytes.
    pub bytes: usize,
    /// The number of runs.
    pub count: usize,
    /// The distance between the starts of two runs in the storage, in bytes.
    pub stride: u64,
}

/// The read of one buffer's bytes from storage; bytes that no run covers become 0.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// # let (_, path) = tempfile::NamedTempFile::new()?.into_parts();
/// # std::fs::write(&path, [7u8; 64])?;
/// use cuda_um::{DeviceBuffer, buffer::{FileRead, Runs}};
/// use std::ops::ControlFlow;
///
/// let file = std::fs::File::open(&path)?;
/// let mut weights = DeviceBuffer::<u8>::zeroed(&device, 16)?;
/// let runs = [Runs { offset: 8, at: 0, bytes: 10, count: 1, stride: 0 }];
/// let read = FileRead::new(weights.as_view_mut(), &file, &runs)?;
/// assert_eq!(FileRead::run(&mut [read], usize::MAX, |_| ControlFlow::Continue(()))?, 16);
/// assert_eq!(weights.to_vec()?, [7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileRead<'a> {
    pub(super) target: ViewMut<'a, u8>,
    pub(super) source: &'a dyn ReadAt,
    pub(super) runs: &'a [Runs],
}

impl Runs {
    /// The end in the target; `None` if there are no bytes, or a position is too large.
    fn end(&self) -> Option<usize> {
        let last = self.count.checked_sub(1)? as u64;
        let start_of_last = self.offset.checked_add(last.checked_mul(self.stride)?)?;
        start_of_last.checked_add(self.bytes as u64)?;
        let bytes = self.bytes.checked_mul(self.count)?;
        self.at.checked_add(bytes).filter(|_| bytes > 0)
    }
}

impl<'a> FileRead<'a> {
    /// Describes a read. The runs are in the order of the target, and do not overlap there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for runs that are empty, too large, not in this order, or beyond the end of the target.
    pub fn new(target: ViewMut<'a, u8>, source: &'a dyn ReadAt, runs: &'a [Runs]) -> Result<Self> {
        let (mut start, len) = (0, target.len());
        for run in runs {
            let end = run.end().filter(|end| run.at >= start && *end <= len);
            start = end.ok_or_else(|| Error::InvalidArgument {
                what: "the runs of a read",
                value: format!("{run:?}"),
                reason: format!(
                    "a run has bytes, begins at byte {start} of the target or later, and ends within its {len} bytes"
                ),
            })?;
        }
        Ok(Self {
            target,
            source,
            runs,
        })
    }
}

/// Writes a range of a target's bytes to `into`, which is as long; the runs are those of a [`FileRead`]. Not part of the public interface.
///
/// # Errors
///
/// The error of the storage, with its position in the target.
pub fn read_into(
    source: &dyn ReadAt,
    runs: &[Runs],
    range: Range<usize>,
    into: &mut [u8],
) -> Result<(), (usize, io::Error)> {
    let mut span = Span::default();
    let first = runs.partition_point(|run| run.end() <= Some(range.start));
    for run in &runs[first..] {
        let skipped = range.start.saturating_sub(run.at) / run.bytes;
        for number in skipped..run.count {
            let place = run.at + number * run.bytes;
            if place >= range.end {
                break;
            }
            let (from, to) = (place.max(range.start), (place + run.bytes).min(range.end));
            let offset = run.offset + number as u64 * run.stride + (from - place) as u64;
            if offset != span.end {
                span.read(source, into, range.start)?;
                span.end = offset;
            }
            span.places.push(from - range.start..to - range.start);
            span.end += (to - from) as u64;
        }
    }
    span.read(source, into, range.start)?;
    into[span.written..].fill(0);
    Ok(())
}

/// Bytes that follow each other in the storage: one read for many small tensors.
#[derive(Default)]
struct Span {
    /// Where they belong.
    places: SmallVec<[Range<usize>; 8]>,
    /// Their end in the storage.
    end: u64,
    /// Up to here, all is written.
    written: usize,
}

impl Span {
    /// Reads the bytes behind the places, moves them there in order, and fills the gaps. `base` is the position of `into` in the target.
    fn read(
        &mut self,
        source: &dyn ReadAt,
        into: &mut [u8],
        base: usize,
    ) -> Result<(), (usize, io::Error)> {
        let Some(last) = self.places.last() else {
            return Ok(());
        };
        let bytes: usize = self.places.iter().map(Range::len).sum();
        let (mut from, offset) = (last.end - bytes, self.end - bytes as u64);
        let mut stream = Stream { source, offset };
        let read = stream.read_exact(&mut into[from..last.end]);
        // The number of bytes that came, and the position behind them.
        let (mut came, mut at) = ((stream.offset - offset) as usize, base + last.end);
        for place in self.places.drain(..) {
            if from != place.start {
                into.copy_within(from..from + place.len(), place.start);
            }
            into[self.written..place.start].fill(0);
            if came < place.len() {
                at = at.min(base + place.start + came);
            }
            came = came.saturating_sub(place.len());
            from += place.len();
            self.written = place.end;
        }
        read.map_err(|error| (at, error))
    }
}

/// Storage from a position on.
struct Stream<'a> {
    source: &'a dyn ReadAt,
    offset: u64,
}

impl Read for Stream<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let (count, room) = (self.source.read_at(into, self.offset)?, into.len());
        if count > room {
            let text = format!("{count} bytes were read into {room}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.offset += count as u64;
        Ok(count)
    }
}

impl ReadAt for File {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(self, into, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(self, into, offset);
    }
}
