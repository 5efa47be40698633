//! Files and other storage whose bytes are read straight into buffers.
#![allow(unsafe_code, reason = "calls `preadv`")]

use crate::buffer::transfer::reading;
use crate::buffer::view::ViewMut;
use crate::context::device::Device;
use crate::error::{Error, Result};
use smallvec::SmallVec;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::ops::{ControlFlow, Range};

/// Storage that is read at positions: a [`File`], or an implementation of the caller.
///
/// [`FileRead::run`] calls it on several threads, straight into pinned memory. An implementation must not wait for another such read on the same
/// device.
pub trait ReadAt: Send + Sync {
    /// Reads bytes from position `offset` on into the slices, one after the other. The slices have arbitrary contents. Returns the number of
    /// bytes, which may be less than the slices have, and 0 at the end of the storage.
    ///
    /// # Errors
    ///
    /// Those of the storage; after [`Interrupted`](io::ErrorKind::Interrupted) the call is made again.
    fn read_at(&self, into: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize>;
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
/// # let path = std::env::temp_dir().join(format!("cuda-um-read-at-{}", std::process::id()));
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
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct FileRead<'a> {
    pub(super) target: ViewMut<'a, u8>,
    source: &'a dyn ReadAt,
    runs: &'a [Runs],
}

/// Slices of one call of the system: fewer than any system's limit.
const SLICES: usize = 64;

impl Runs {
    /// The end in the target.
    fn end(&self) -> Option<usize> {
        self.at.checked_add(self.bytes.checked_mul(self.count)?)
    }

    fn is_valid(&self) -> bool {
        let last = (self.count as u64).saturating_sub(1);
        let end = last.checked_mul(self.stride).and_then(|last| {
            let run = self.offset.checked_add(self.bytes as u64)?;
            run.checked_add(last)
        });
        self.bytes > 0 && self.count > 0 && end.is_some() && self.end().is_some()
    }
}

impl<'a> FileRead<'a> {
    /// Describes a read. The runs are in the order of the target, and do not overlap there.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] for runs that are empty, too large, not in this order, or beyond the end of the target.
    pub fn new(target: ViewMut<'a, u8>, source: &'a dyn ReadAt, runs: &'a [Runs]) -> Result<Self> {
        let mut end = 0;
        for run in runs {
            if !run.is_valid() || run.at < end || run.end().is_none_or(|end| end > target.len()) {
                return Err(Error::InvalidArgument {
                    what: "the runs of a read",
                    value: format!("{run:?}"),
                    reason: format!(
                        "a run has bytes, begins at byte {end} of the target or later, and ends within its {} bytes",
                        target.len()
                    ),
                });
            }
            end = run.end().unwrap_or(end);
        }
        Ok(Self {
            target,
            source,
            runs,
        })
    }

    /// Reads all, in this order, and returns the number of bytes of the targets that were written: all, or those before `progress` stopped the
    /// read. All targets belong to one device.
    ///
    /// At most `threads` threads read straight into the pinned memory for copies ([`Device::set_transfer_options`]) while the copy engine moves the
    /// pieces before; memory that the host reaches is read into directly. The pinned memory is free for others between rounds of some pieces,
    /// and `progress` is called after each round, with the bytes so far.
    ///
    /// # Ordering
    ///
    /// After earlier uses of the targets. When this returns, the storage is no longer used; copies may still run, as tracked uses of the targets.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the storage fails or ends early ([`UnexpectedEof`](io::ErrorKind::UnexpectedEof)): `done_bytes` is the position of the
    /// failure in the targets. [`Error::Incomplete`] for a failure of CUDA. The targets then have the bytes of the pieces before the failure, and no
    /// copy still runs.
    /// [`Error::DeviceMismatch`], [`Error::ReadOnly`].
    #[doc(alias = "cudaMemcpyAsync")]
    #[doc(alias = "pread")]
    pub fn run(
        reads: &mut [FileRead<'_>],
        threads: usize,
        progress: impl FnMut(usize) -> ControlFlow<()>,
    ) -> Result<usize> {
        reading::run(reads, threads, progress)
    }

    pub(super) fn device(&self) -> &Device {
        self.target.device()
    }

    /// Writes a range of the target's bytes to `into`.
    pub(super) fn fill(
        &self,
        range: Range<usize>,
        into: &mut [u8],
    ) -> Result<(), (usize, io::Error)> {
        read_into(self.source, self.runs, range, into)
    }
}

/// Writes a range of a target's bytes to `into`, which is as long; the runs are those of a [`FileRead`]. Not part of the public interface.
///
/// # Errors
///
/// The error of the storage, with its position in the target.
pub fn read_into(
    source: &dyn ReadAt,
    all: &[Runs],
    range: Range<usize>,
    mut into: &mut [u8],
) -> Result<(), (usize, io::Error)> {
    let mut at = range.start;
    // Slices whose bytes follow each other in the storage, and their positions in the target.
    let mut batch = SmallVec::<[IoSliceMut<'_>; 8]>::new();
    let mut places = SmallVec::<[Range<usize>; 8]>::new();
    let (mut start, mut end) = (0, 0);
    let from = |run: &Runs| run.end().is_some_and(|end| end <= range.start);
    for runs in &all[all.partition_point(from)..] {
        let skipped = range.start.saturating_sub(runs.at) / runs.bytes;
        for number in skipped..runs.count {
            let place = runs.at + number * runs.bytes;
            if place >= range.end {
                break;
            }
            let skip = at.saturating_sub(place);
            let bytes = (runs.bytes - skip).min(range.end - place - skip);
            let offset = runs.offset + number as u64 * runs.stride + skip as u64;
            let (gap, rest) = std::mem::take(&mut into).split_at_mut(place + skip - at);
            gap.fill(0);
            let (slice, rest) = rest.split_at_mut(bytes);
            if offset != end || batch.len() == SLICES {
                read_exact(source, &mut batch, start)
                    .map_err(|failed| in_target(&places, failed))?;
                batch.clear();
                places.clear();
                start = offset;
            }
            batch.push(IoSliceMut::new(slice));
            places.push(place + skip..place + skip + bytes);
            (into, at, end) = (rest, place + skip + bytes, offset + bytes as u64);
        }
    }
    into.fill(0);
    read_exact(source, &mut batch, start).map_err(|failed| in_target(&places, failed))
}

/// The position in the target of a failure after so many bytes of a batch.
fn in_target(
    places: &[Range<usize>],
    (mut bytes, error): (usize, io::Error),
) -> (usize, io::Error) {
    for place in places {
        match bytes.checked_sub(place.len()) {
            Some(rest) => bytes = rest,
            None => return (place.start + bytes, error),
        }
    }
    (places.last().map_or(0, |place| place.end), error)
}

/// Fills all slices. An error comes with the number of bytes before it.
fn read_exact(
    source: &dyn ReadAt,
    mut into: &mut [IoSliceMut<'_>],
    offset: u64,
) -> Result<(), (usize, io::Error)> {
    let total: usize = into.iter().map(|slice| slice.len()).sum();
    let mut done = 0;
    while done < total {
        match source.read_at(into, offset + done as u64) {
            Ok(0) => return Err((done, io::ErrorKind::UnexpectedEof.into())),
            Ok(count) if count <= total - done => {
                IoSliceMut::advance_slices(&mut into, count);
                done += count;
            }
            Ok(count) => {
                let text = format!("{count} bytes were read into {}", total - done);
                return Err((done, io::Error::new(io::ErrorKind::InvalidData, text)));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((done, error)),
        }
    }
    Ok(())
}

impl ReadAt for File {
    #[cfg(all(unix, not(miri)))]
    fn read_at(&self, into: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        use std::os::fd::AsRawFd;
        let count = into.len().min(SLICES) as libc::c_int;
        let offset = libc::off_t::try_from(offset)
            .map_err(|_| io::Error::from(io::ErrorKind::UnexpectedEof))?;
        // SAFETY: an `IoSliceMut` has the layout of an `iovec`, and the slices are borrowed exclusively.
        let read =
            unsafe { libc::preadv(self.as_raw_fd(), into.as_mut_ptr().cast(), count, offset) };
        usize::try_from(read).map_err(|_| io::Error::last_os_error())
    }

    #[cfg(any(not(unix), miri))]
    fn read_at(&self, into: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<usize> {
        let Some(first) = into.iter_mut().find(|slice| !slice.is_empty()) else {
            return Ok(0);
        };
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(self, first, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(self, first, offset);
    }
}
