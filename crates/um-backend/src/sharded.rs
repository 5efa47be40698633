//! Rows over several devices.

mod split;

pub use split::Split;

use std::ops::Range;

use cuda_um::{host_vec, range, together};

use crate::backend::{BufferKind, CudaBackend};
use crate::buffer::Buffer;
use crate::dtype::Element;
use crate::error::{CudaError, Result, invalid};

/// Rows of elements over the devices of several backends: each device has a shard, a range of adjacent rows in a buffer of its own.
///
/// Copies of all rows between the host and the shards run at the same time from 1 MiB on, each on a thread. Each shard is a `dyn Buffer`
/// ([`shard`](Self::shard)), and [`each_shard`](Self::each_shard) launches on all. A shard may be empty.
///
/// A capture of a graph records the part of its device only; those of the others run at once.
///
/// If the part of one device fails, the error is [`CudaError::Shard`], which names it; the shards of the other devices keep working, and the
/// other parts of the same call are done.
///
/// # Examples
/// ```
/// use um_backend::sim::Sim;
/// use um_backend::{BufferKind, CudaBackend, CudaBackendConfig, Sharded, Split};
///
/// let sim = Sim::builder().devices(2).build().unwrap();
/// let first = CudaBackend::initialize_blocking(CudaBackendConfig::default().simulator(sim))?;
/// let backends = [first.clone(), first.sibling(1)?];
/// let elements: Vec<f32> = (0..12).map(|i| i as f32).collect();
/// let mut rows = Sharded::from_slice(&backends, BufferKind::Cuda, &elements, 4, Split::Even)?;
/// assert_eq!((rows.rows_of(0), rows.rows_of(1)), (0..2, 2..3));
/// rows.each_shard(|_, _, range, shard| shard.fill(range.start as f32))?;
/// assert_eq!(rows.to_vec()?, [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 2.0, 2.0, 2.0, 2.0]);
/// rows.shard_mut(1).fill(7.0)?;
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Debug)]
pub struct Sharded<T: Element> {
    /// In the order of their rows.
    shards: Vec<Shard<T>>,
    row_len: usize,
}

#[derive(Debug)]
struct Shard<T> {
    backend: CudaBackend,
    rows: Range<usize>,
    buffer: Box<dyn Buffer<T>>,
}

fn failed(shard: usize, backend: &CudaBackend, cause: CudaError) -> CudaError {
    CudaError::Shard {
        shard,
        device: backend.device().ordinal(),
        cause: Box::new(cause),
    }
}

impl<T: Element> Sharded<T> {
    /// Allocates `rows` rows of `row_len` zeros, in buffers of a kind: shard `i` on the device of `backends[i]`.
    ///
    /// # Errors
    /// [`InvalidArgument`](CudaError::InvalidArgument) for no backends, a device twice, `row_len` 0, and weights that are no shares;
    /// [`LengthMismatch`](CudaError::LengthMismatch) for another number of weights than backends; [`TooLarge`](CudaError::TooLarge); and as for
    /// [`CudaBackend::create`], in a [`CudaError::Shard`].
    #[doc(alias = "cudaMalloc")]
    pub fn zeroed(
        backends: &[CudaBackend],
        kind: BufferKind,
        rows: usize,
        row_len: usize,
        split: Split<'_>,
    ) -> Result<Self> {
        range::size_bytes::<T>(rows.saturating_mul(row_len))?;
        Self::made(backends, (rows, row_len), split, 0, |backend, rows| {
            backend.create(kind, rows.len() * row_len)
        })
    }

    /// Allocates rows of `row_len` elements with the contents of a slice, row after row.
    ///
    /// # Ordering
    /// As for [`Buffer::copy_from_host`].
    ///
    /// # Errors
    /// As for [`zeroed`](Self::zeroed); [`InvalidArgument`](CudaError::InvalidArgument) if the elements are not whole rows; and errors of the
    /// copies.
    pub fn from_slice(
        backends: &[CudaBackend],
        kind: BufferKind,
        elements: &[T],
        row_len: usize,
        split: Split<'_>,
    ) -> Result<Self> {
        if !elements.len().is_multiple_of(row_len) {
            let value = format!("{} elements", elements.len());
            let reason = format!("a row has {row_len} elements: give whole rows");
            return Err(invalid("the length of Sharded", value, reason));
        }
        let rows = elements.len().checked_div(row_len).unwrap_or_default();
        let bytes = size_of_val(elements);
        Self::made(backends, (rows, row_len), split, bytes, |backend, rows| {
            backend.create_from(kind, &elements[rows.start * row_len..rows.end * row_len])
        })
    }

    /// The shards, with the buffers that `make` makes of their rows; `bytes` of copies.
    fn made(
        backends: &[CudaBackend],
        (rows, row_len): (usize, usize),
        split: Split<'_>,
        bytes: usize,
        make: impl Fn(&CudaBackend, &Range<usize>) -> Result<Box<dyn Buffer<T>>> + Sync,
    ) -> Result<Self> {
        if row_len == 0 {
            let reason = "a row has at least one element";
            return Err(invalid("the row length of Sharded", 0, reason));
        }
        let ranges = split.ranges(backends, rows)?;
        let jobs = backends.iter().zip(ranges).enumerate().collect();
        let shards = each(jobs, bytes, |(number, (backend, rows))| {
            let made = make(backend, &rows);
            Ok(Shard {
                buffer: made.map_err(|cause| failed(number, backend, cause))?,
                backend: backend.clone(),
                rows,
            })
        })?;
        Ok(Self { shards, row_len })
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.shards.last().map_or(0, |last| last.rows.end)
    }

    /// The elements of a row.
    #[must_use]
    pub fn row_len(&self) -> usize {
        self.row_len
    }

    /// The number of shards: one for each backend.
    #[must_use]
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// The rows of a shard.
    ///
    /// # Panics
    /// There is no shard with this number.
    #[must_use]
    pub fn rows_of(&self, shard: usize) -> Range<usize> {
        self.shards[shard].rows.clone()
    }

    /// The rows of a device as a buffer.
    ///
    /// # Panics
    /// There is no shard with this number.
    #[must_use]
    pub fn shard(&self, shard: usize) -> &dyn Buffer<T> {
        &*self.shards[shard].buffer
    }

    /// The rows of a device as a buffer, to be written.
    ///
    /// # Panics
    /// There is no shard with this number.
    #[must_use]
    pub fn shard_mut(&mut self, shard: usize) -> &mut dyn Buffer<T> {
        &mut *self.shards[shard].buffer
    }

    /// Copies all rows from the host.
    ///
    /// # Ordering
    /// As for [`Buffer::copy_from_host`].
    ///
    /// # Errors
    /// [`LengthMismatch`](CudaError::LengthMismatch), and as for [`Buffer::copy_from_host`], in a [`CudaError::Shard`].
    pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
        let row_len = self.row_len;
        range::same_length("copy_from_host", self.rows() * row_len, source.len())?;
        let jobs = self.shards.iter_mut().enumerate().collect();
        each(jobs, size_of_val(source), |(number, shard)| {
            let part = &source[shard.rows.start * row_len..shard.rows.end * row_len];
            let copied = shard.buffer.copy_from_host(part);
            copied.map_err(|cause| failed(number, &shard.backend, cause))
        })
        .map(drop)
    }

    /// Copies all rows to new memory of the host.
    ///
    /// # Ordering
    /// As for [`Buffer::to_vec`].
    ///
    /// # Errors
    /// As for [`Buffer::to_vec`], in a [`CudaError::Shard`].
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut elements = host_vec::zeroed("to_vec", self.rows() * self.row_len)?;
        let bytes = size_of_val(&*elements);
        let (mut rest, mut jobs) = (&mut *elements, Vec::new());
        for shard in self.shards.iter().enumerate() {
            let (part, after) = rest.split_at_mut(shard.1.buffer.len());
            rest = after;
            jobs.push((shard, part));
        }
        each(jobs, bytes, |((number, shard), part)| {
            let copied = shard.buffer.copy_to_host(part);
            copied.map_err(|cause| failed(number, &shard.backend, cause))
        })?;
        Ok(elements)
    }

    /// Calls `work` for each shard that has rows, in order, with its number, its backend, its rows and its buffer: to launch a kernel on
    /// `backend.device().stream()`. Work that is only enqueued runs on all devices at the same time.
    ///
    /// # Errors
    /// The first error of `work`, in a [`CudaError::Shard`]. It is still called for the shards after that.
    pub fn each_shard(
        &mut self,
        mut work: impl FnMut(usize, &CudaBackend, Range<usize>, &mut dyn Buffer<T>) -> Result<()>,
    ) -> Result<()> {
        let with_rows = self.shards.iter_mut().enumerate();
        let with_rows = with_rows.filter(|(_, shard)| !shard.rows.is_empty());
        let results = with_rows.map(|(number, shard)| {
            let (backend, rows) = (&shard.backend, shard.rows.clone());
            let done = work(number, backend, rows, &mut *shard.buffer);
            done.map_err(|cause| failed(number, backend, cause))
        });
        results.fold(Ok(()), Result::and)
    }
}

/// Does the work of all shards, and returns the first error. Large copies run at the same time: below 1 MiB a thread takes longer to begin than
/// the copy.
fn each<J: Send, R: Send>(
    jobs: Vec<J>,
    bytes: usize,
    work: impl Fn(J) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let results: Vec<_> = match bytes < 1 << 20 {
        true => jobs.into_iter().map(work).collect(),
        false => together(jobs, work),
    };
    results.into_iter().collect()
}
