//! Storage that several tensors share.

mod guard;
mod of_graph;
mod part;
mod storage;

use std::fmt;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;

use cuda_um::{
    Advice, Device, Location,
    buffer::{HostOwned, HostOwnedMut},
    managed::HintOutcome,
    range,
};

#[cfg(doc)]
use crate::buffer::Buffer;
use crate::dtype::{DType, Element};
use crate::erased::{ErasedBuffer, whole_elements};
use crate::error::{CudaError, Result};
pub use guard::{SharedRead, SharedWrite};
pub(crate) use of_graph::{HeldByGraph, Holding};
use part::Part;
use storage::{Access, Bytes, Handle};

/// A part of storage that several tensors share: what a tensor with views holds. A clone is the same part of the same storage.
///
/// - [`read`](Self::read) and [`write`](Self::write) return guards, which are arguments of kernels, and an [`ErasedBuffer`] of the part by
///   deref. [`lock`](Self::lock) takes guards of several storages.
/// - [`host`](Self::host) and [`host_mut`](Self::host_mut) return owned slices. [`make_unique`](Self::make_unique) copies on write.
///
/// # Ordering
/// A guard is needed only until the work is enqueued. As for every buffer, later work is ordered after earlier work on the memory, and slices
/// of the host wait for it.
///
/// # Locking
/// Any number of read guards of a storage may live at a time, or one write guard. A thread that waits to write holds back threads that do not
/// read yet.
///
/// - A thread that reads may read again at any time, also before a thread that waits to write.
/// - A call that blocks its thread never waits for a guard that the thread took: it gets [`CudaError::WouldDeadlock`].
/// - A guard of [`read`](Self::read), [`write`](Self::write), [`host`](Self::host) or [`host_mut`](Self::host_mut) stays on its thread. What lives
///   across an `await`, or moves to another thread, is the part of [`read_async`](Self::read_async), [`write_async`](Self::write_async) or
///   [`into_erased`](SharedRead::into_erased).
/// - A task that waits does not hold up threads, nor tasks that read.
/// - Threads that take guards of several storages by one [`lock`](Self::lock) do not wait for each other for ever.
/// - Not noticed: two threads that each keep a guard from an earlier call and wait for the one of the other; a task that waits for its own guard; and
///   a thread that waits for a part that another thread took and gave to it. Where guards live across calls, take those of several storages in
///   one order, or with [`try_write`](Self::try_write).
/// - In a child made by `fork`, every call gets [`Error::Forked`](cuda_um::Error::Forked), and drops do nothing.
///
/// # Examples
/// ```
/// use um_backend::{Buffer, BufferKind, CudaBackend, CudaBackendConfig, DType, SharedBuffer};
///
/// let backend = CudaBackend::initialize_blocking(CudaBackendConfig::default())?;
/// let weights = SharedBuffer::new(backend.create_erased(BufferKind::Unified, DType::F32, 6)?);
/// let mut row = weights.view(2..4)?;
/// row.copy_from_host(&[1.5f32, 1.5])?;
/// assert_eq!(*weights.host::<f32>()?, [0.0, 0.0, 1.5, 1.5, 0.0, 0.0]);
/// assert_eq!(weights.cast(DType::U8)?.len(), 24);
///
/// assert!(row.shares_storage(&weights));
/// row.make_unique()?; // copies two elements, since `weights` has the storage too
/// row.host_mut::<f32>()?[0] = 7.0;
/// assert_eq!(weights.host::<f32>()?[2], 1.5);
///
/// let part = row.read()?.into_erased(); // the access belongs to the buffer, which any thread may have
/// # Ok::<(), um_backend::CudaError>(())
/// ```
#[derive(Clone)]
pub struct SharedBuffer {
    storage: Handle,
    bytes: Range<usize>,
    dtype: DType,
}

impl SharedBuffer {
    /// Shares a buffer.
    #[must_use]
    pub fn new(buffer: ErasedBuffer) -> Self {
        Self {
            dtype: buffer.dtype(),
            ..Self::all(Handle::new(buffer.into_bytes()))
        }
    }

    /// The type of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / self.dtype.size_bytes()
    }

    /// Whether the part has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The size of all elements, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The place of the storage.
    #[must_use]
    pub fn device(&self) -> Option<&Device> {
        self.storage.device.as_ref()
    }

    /// The whole storage as bytes. One write guard of it has every part: `view_mut::<u8>()?.split_at(…)`.
    #[must_use]
    pub fn whole(&self) -> Self {
        Self::all(self.storage.clone())
    }

    fn all(storage: Handle) -> Self {
        Self {
            bytes: 0..storage.size_bytes,
            storage,
            dtype: DType::U8,
        }
    }

    /// Whether both are parts of one storage.
    #[must_use]
    pub fn shares_storage(&self, other: &Self) -> bool {
        self.storage.address() == other.storage.address()
    }

    /// A part of the elements, of the same storage.
    ///
    /// # Errors
    /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds).
    pub fn view(&self, range: Range<usize>) -> Result<Self> {
        let (range, width) = (range::check(range, self.len())?, self.dtype.size_bytes());
        let byte = |element| self.bytes.start + element * width;
        Ok(Self {
            bytes: byte(range.start)..byte(range.end),
            ..self.clone()
        })
    }

    /// The same bytes with another element type. At an address that is not aligned for it, kernels are refused, and slices of the host are copies.
    ///
    /// # Errors
    /// [`InvalidArgument`](cuda_um::Error::InvalidArgument) if the bytes are not whole elements.
    pub fn cast(&self, dtype: DType) -> Result<Self> {
        whole_elements("the bytes of a cast", dtype, self.size_bytes())?;
        Ok(Self {
            dtype,
            ..self.clone()
        })
    }

    /// Waits for a guard to read the part.
    ///
    /// # Errors
    /// [`CudaError::WouldDeadlock`] if it would wait for a guard of this thread; [`Forked`](cuda_um::Error::Forked).
    pub fn read(&self) -> Result<SharedRead> {
        self.reading("SharedBuffer::read", true)
    }

    /// Waits in the task, not in the thread, for the part to read, which may live across an `await`. Its methods that write are refused.
    ///
    /// # Errors
    /// [`Forked`](cuda_um::Error::Forked).
    pub async fn read_async(&self) -> Result<ErasedBuffer> {
        self.task(Access::Read, "SharedBuffer::read_async").await
    }

    /// Does the same as [`read`](Self::read), but does not wait.
    ///
    /// # Errors
    /// [`CudaError::Busy`] if `read` would wait; [`Forked`](cuda_um::Error::Forked).
    pub fn try_read(&self) -> Result<SharedRead> {
        self.reading("SharedBuffer::try_read", false)
    }

    /// Waits for a guard to read and write the part. Meanwhile no other guard of the storage exists.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    pub fn write(&self) -> Result<SharedWrite> {
        self.writing("SharedBuffer::write", true)
    }

    /// As [`read_async`](Self::read_async), to read and write. Threads and tasks that go on taking guards may hold it off.
    ///
    /// # Errors
    /// As for [`read_async`](Self::read_async).
    pub async fn write_async(&self) -> Result<ErasedBuffer> {
        self.task(Access::Write, "SharedBuffer::write_async").await
    }

    /// Does the same as [`write`](Self::write), but does not wait.
    ///
    /// # Errors
    /// [`CudaError::Busy`] if `write` would wait; [`Forked`](cuda_um::Error::Forked).
    pub fn try_write(&self) -> Result<SharedWrite> {
        self.writing("SharedBuffer::try_write", false)
    }

    /// Waits for guards to read some storages and to write others. Meanwhile the call has none of them, so `x += y` and `y += x` on two threads
    /// both end. Two of the storages to read may be parts of one storage (`x + x`). One to write is none of the others.
    ///
    /// ```
    /// use um_backend::{BufferKind, CudaBackend, DType, SharedBuffer};
    ///
    /// let backend = CudaBackend::initialize_blocking(Default::default())?;
    /// let new = || backend.create_erased(BufferKind::Unified, DType::F32, 2).map(SharedBuffer::new);
    /// let (x, y) = (new()?, new()?);
    /// x.copy_from_host(&[1.0f32, 2.0])?;
    /// let ([x], [mut sum]) = SharedBuffer::lock([&x], [&y])?;
    /// sum.copy_from(&x)?; // or a kernel
    /// drop(sum);
    /// assert_eq!(*y.host::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), um_backend::CudaError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`CudaError::WouldDeadlock`] if a storage to write is one of the others.
    #[allow(
        clippy::missing_panics_doc,
        reason = "each guard is taken before the arrays are returned"
    )]
    pub fn lock<const R: usize, const W: usize>(
        reads: [&Self; R],
        writes: [&Self; W],
    ) -> Result<([SharedRead; R], [SharedWrite; W])> {
        const CALL: &str = "SharedBuffer::lock";
        for (index, write) in writes.iter().enumerate() {
            let mut others = reads.iter().chain(&writes[..index]);
            if others.any(|other| other.shares_storage(write)) {
                return Err(CudaError::WouldDeadlock {
                    call: CALL,
                    held: "another guard of the same call".to_owned(),
                });
            }
        }
        let mut first = 0;
        loop {
            let (mut read, mut written) = ([const { None }; R], [const { None }; W]);
            let mut take = |index: usize| {
                let waits = index == first;
                match index.checked_sub(R) {
                    None => read[index] = Some(reads[index].reading(CALL, waits)?),
                    Some(write) => written[write] = Some(writes[write].writing(CALL, waits)?),
                }
                Ok(())
            };
            let mut in_order = (first..R + W).chain(0..first);
            match in_order.try_for_each(|index| take(index).map_err(|error| (index, error))) {
                Ok(()) => {
                    let taken = "each was taken";
                    return Ok((
                        read.map(|guard| guard.expect(taken)),
                        written.map(|guard| guard.expect(taken)),
                    ));
                }
                Err((index, CudaError::Busy { .. })) => first = index,
                Err((_, error)) => return Err(error),
            }
        }
    }

    /// Copies all elements of the part from the host.
    ///
    /// # Errors
    /// As for [`write`](Self::write), [`ErasedBuffer::typed`] and [`Buffer::copy_from_host`].
    #[doc(alias = "cudaMemcpy")]
    pub fn copy_from_host<T: Element>(&self, source: &[T]) -> Result<()> {
        let mut guard = self.writing("SharedBuffer::copy_from_host", true)?;
        guard.typed_mut()?.copy_from_host(source)
    }

    /// Copies all elements of the part to the host. [`host`](Self::host) needs no copy if the host can access the memory.
    ///
    /// # Errors
    /// As for [`read`](Self::read), [`ErasedBuffer::typed`] and [`Buffer::copy_to_host`].
    pub fn copy_to_host<T: Element>(&self, target: &mut [T]) -> Result<()> {
        let guard = self.reading("SharedBuffer::copy_to_host", true)?;
        guard.typed()?.copy_to_host(target)
    }

    /// The elements, for the host to read: a read guard without a lifetime that derefs to `[T]`. Memory that the host cannot access, or that is
    /// not aligned for `T`, is copied. The guard keeps the access also then.
    ///
    /// # Errors
    /// As for [`read`](Self::read), [`ErasedBuffer::typed`] and [`Buffer::host`].
    ///
    /// The guard and its owner stay on this thread:
    /// ```compile_fail,E0277
    /// # let backend = um_backend::CudaBackend::initialize_blocking(Default::default()).unwrap();
    /// # use um_backend::{BufferKind, DType, SharedBuffer};
    /// let shared = SharedBuffer::new(backend.create_erased(BufferKind::Host, DType::U8, 1).unwrap());
    /// let owner = std::sync::Arc::clone(shared.host::<u8>().unwrap().owner());
    /// std::thread::spawn(move || drop(owner));
    /// ```
    #[allow(
        clippy::arc_with_non_send_sync,
        reason = "the guard stays on its thread"
    )]
    pub fn host<T: Element>(&self) -> Result<HostOwned<T, SharedRead>> {
        let guard = Arc::new(self.reading("SharedBuffer::host", true)?);
        HostOwned::new(guard, |guard| guard.typed()?.host())
    }

    /// The elements, for the host to read and write: a write guard without a lifetime that derefs to `[T]`. Memory that the host cannot
    /// access, or that is not aligned for `T`, is copied, and written back by [`HostOwnedMut::close`] or the drop.
    ///
    /// # Errors
    /// As for [`write`](Self::write), [`ErasedBuffer::typed`] and [`Buffer::host`].
    pub fn host_mut<T: Element>(&self) -> Result<HostOwnedMut<T, SharedWrite>> {
        let guard = Box::new(self.writing("SharedBuffer::host_mut", true)?);
        HostOwnedMut::new(guard, |guard| guard.typed_mut()?.host_mut())
    }

    /// Migrates the part to a location, on the library's stream of the device.
    ///
    /// # Errors
    /// As for [`read`](Self::read) and [`Buffer::prefetch_range_on`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, location: impl Into<Location>) -> Result<HintOutcome> {
        let guard = self.reading("SharedBuffer::prefetch", true)?;
        guard.bytes().prefetch(location)
    }

    /// Gives advice for the part, which is extended to whole pages.
    ///
    /// # Errors
    /// As for [`read`](Self::read) and [`Buffer::advise`].
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise(&self, advice: Advice) -> Result<HintOutcome> {
        let guard = self.reading("SharedBuffer::advise", true)?;
        guard.bytes().advise(advice)
    }

    /// Whether no other handle or guard has the storage. A [`CapturedStep`](crate::CapturedStep) does not count.
    #[must_use]
    pub fn is_unique(&self) -> bool {
        self.storage.handles() == Some(1)
    }

    /// Copies on write: if another handle or a guard has the storage, the part moves to new storage of the same kind. Only the part is copied.
    ///
    /// # Errors
    /// As for [`read`](Self::read) and [`ErasedBuffer::try_clone`]. [`CudaError::Capture`] in a captured step if it would
    /// copy. If it copies nothing there, each launch of the step needs storage without other handles.
    pub fn make_unique(&mut self) -> Result<()> {
        of_graph::made_unique(&self.storage)?;
        if !self.is_unique() {
            let copy = self.reading("SharedBuffer::make_unique", true)?.try_clone();
            *self = Self::new(copy?);
        }
        Ok(())
    }

    fn reading(&self, call: &'static str, waits: bool) -> Result<SharedRead> {
        let bytes = self.storage.take(Access::Read, call, waits)?;
        Ok(SharedRead::new(self.part(Access::Read, bytes)))
    }

    fn writing(&self, call: &'static str, waits: bool) -> Result<SharedWrite> {
        let bytes = self.storage.take(Access::Write, call, waits)?;
        Ok(SharedWrite::new(self.part(Access::Write, bytes)))
    }

    async fn task(&self, access: Access, call: &'static str) -> Result<ErasedBuffer> {
        let bytes = poll_fn(|context| self.storage.poll(access, call, context)).await?;
        Ok(self.part(access, bytes))
    }

    /// The part, whose bytes this thread has just taken.
    fn part(&self, access: Access, bytes: Bytes) -> ErasedBuffer {
        of_graph::used(&self.storage);
        let part = Part::new(&self.storage, access, bytes, self.bytes.clone());
        ErasedBuffer::of(Box::new(part), self.dtype)
    }
}

impl fmt::Debug for SharedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedBuffer")
            .field("dtype", &self.dtype)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}
