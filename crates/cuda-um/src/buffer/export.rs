//! Buffers that other libraries use through their address, and buffers in their memory.
#![allow(
    unsafe_code,
    reason = "extends a borrow as long as its owner lives, and imports memory"
)]

use crate::DeviceCopy;
use crate::buffer::kind::Owned;
use crate::buffer::memory::Memory;
use crate::buffer::owned::Kept;
use crate::buffer::view::View;
use crate::context::device::Device;
use crate::context::op::Op;
use crate::context::stream::{Stream, StreamInner};
use crate::context::tracker::{Access, Finished};
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::fork;
use crate::resource::allocation::Allocation;
use crate::resource::foreign::import;
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

/// The address of a buffer or a part of it for another library, with the fences between the work of both. It keeps the buffer alive, so it has no
/// lifetime: a DLPack capsule can own it. Meanwhile the buffer has more than one owner, so [`Arc::get_mut`] gives no way to write it.
///
/// ```
/// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
/// use cuda_um::UnifiedBuffer;
/// use std::sync::Arc;
///
/// let (ours, theirs) = (device.create_stream()?, device.create_stream()?); // `theirs` stands for a stream of the other library
/// let mut buffer = UnifiedBuffer::<f32>::zeroed(&device, 1000)?;
/// buffer.fill_on(1.0, &ours)?;
/// let mut buffer = Arc::new(buffer);
/// let exported = buffer.export(&theirs)?; // later work on `theirs` runs after the fill
/// // … the other library enqueues kernels on `theirs` that read at `exported.as_view().as_ptr()` …
/// exported.returned_on(&theirs)?; // later writes run after these kernels
/// Arc::get_mut(&mut buffer).unwrap().fill_on(2.0, &ours)?;
/// # Ok::<(), cuda_um::Error>(())
/// ```
///
/// # Ordering
///
/// Earlier work on the buffer is ordered before work that is enqueued, after the export, on the stream of the export.
///
/// The other library's work is not known: while an export for writes lives, other uses of the buffer wait for the export's device
/// (`cudaDeviceSynchronize`), and `try_host` is [`Error::Busy`]; an export for reads is in the way of writes only. Later uses are ordered after
/// the stream of [`returned_on`](Self::returned_on); after a drop, the next use that must not overlap waits for the device.
pub struct Exported {
    // It has no parameter. Its owner is `'static`, so no lifetime is forgotten.
    view: Kept<View<'static, u8>, Arc<dyn Any + Send + Sync>>,
    access: Access,
    /// The other library's work; none after the end of the export.
    unknown: Option<Arc<StreamInner>>,
}

impl Exported {
    /// Exports elements of an object that contains buffers, for another library to read.
    ///
    /// # Errors
    ///
    /// The error of `borrow`; [`Error::RuntimeMismatch`], and the errors of `cudaStreamWaitEvent`.
    pub fn new<B: Send + Sync + 'static, T: DeviceCopy>(
        owner: Arc<B>,
        stream: &Stream,
        borrow: impl for<'b> FnOnce(&'b B) -> Result<View<'b, T>>,
    ) -> Result<Self> {
        Self::begin(owner, stream, Access::Read, borrow)
    }

    /// Exports elements of an object that contains buffers, for another library to read and write.
    ///
    /// # Errors
    ///
    /// The errors of [`new`](Self::new), and [`Error::ReadOnly`] for a read-only import.
    ///
    /// # Safety
    ///
    /// While a host guard of the buffer lives, the other library writes none of the exported elements; and it orders its work after later
    /// work on the buffer that it must not overlap (with another export, for example).
    pub unsafe fn new_mut<B: Send + Sync + 'static, T: DeviceCopy>(
        owner: Arc<B>,
        stream: &Stream,
        borrow: impl for<'b> FnOnce(&'b B) -> Result<View<'b, T>>,
    ) -> Result<Self> {
        Self::begin(owner, stream, Access::WritePart, borrow)
    }

    fn begin<B: Send + Sync + 'static, T: DeviceCopy>(
        owner: Arc<B>,
        stream: &Stream,
        access: Access,
        borrow: impl for<'b> FnOnce(&'b B) -> Result<View<'b, T>>,
    ) -> Result<Self> {
        let view = borrow(&owner)?.into_bytes();
        let part = [view.part(access)];
        let mut finished = Finished::new();
        let unknown = stream.submit(&Op::with_host(view.device(), &part), |_| {
            let unknown = StreamInner::unknown(stream.inner().device());
            if is_lent(view.raw, access) {
                let (uses, access) = (&view.raw.in_flight, Access::WritePart);
                uses.record(&unknown, u64::MAX, access, &mut finished);
            }
            Ok(unknown)
        })?;
        // SAFETY: the view borrows from the object behind the `Arc`, whose address does not change, and which is neither dropped nor borrowed
        // exclusively while the result owns a reference to it. The view leaves the result only as a borrow of it.
        let view = unsafe { std::mem::transmute::<View<'_, u8>, View<'static, u8>>(view) };
        Ok(Self {
            view: Kept::of(view, owner),
            access,
            unknown: Some(unknown),
        })
    }

    /// Returns a view of the exported bytes, which has their address.
    pub fn as_view(&self) -> View<'_, u8> {
        *self.view.guard()
    }

    /// Ends the export: later uses of the buffer are ordered after the work that is on `stream` now. The call enqueues nothing.
    ///
    /// # Errors
    ///
    /// [`Error::RuntimeMismatch`]. The export then ends as by a drop.
    pub fn returned_on(mut self, stream: &Stream) -> Result<()> {
        stream.check_runtime(self.as_view().device(), "the buffer")?;
        self.settle(Some(stream.inner()));
        Ok(())
    }

    /// Without a fence, the work is over after a wait for the device.
    fn settle(&mut self, fence: Option<&Arc<StreamInner>>) {
        let Some(unknown) = self.unknown.take() else {
            return;
        };
        let raw = self.as_view().raw;
        let access = match is_lent(raw, self.access) {
            true => Access::WritePart,
            false => Access::Read,
        };
        let fence = fence.unwrap_or(&unknown);
        raw.in_flight
            .settle(&unknown, (fence, fence.number()), access);
        if raw.migrates() {
            raw.pages.lost();
        }
    }

    /// Returns the address of the first element to write through; `None` for an export for reads.
    pub fn as_mut_ptr(&self) -> Option<*mut u8> {
        self.access.is_write().then(|| self.as_view().address())
    }
}

/// Returns true if the other library's work is in the way of reads.
fn is_lent(raw: &Allocation, access: Access) -> bool {
    // Without concurrent managed access, the host must not read managed memory while a kernel runs.
    access.is_write() || raw.gate().is_some()
}

impl Drop for Exported {
    fn drop(&mut self) {
        fork::released(|| self.settle(None));
    }
}

debug!([] Exported, "Exported", |it| buffer: it.as_view().buffer_id(), size_bytes: it.as_view().len(), access: it.access);

impl<T: DeviceCopy, K: Owned> Memory<T, K> {
    /// Makes a buffer of memory that another library owns: `len` elements from `pointer` on.
    ///
    /// `owner` keeps the memory. It is dropped with the buffer (or after an error), if no tracked work uses the memory; otherwise in a later drop of
    /// an import, [`Runtime::reclaim`](crate::Runtime::reclaim), [`Device::synchronize`], [`Device::trim`], or the drop of the runtime's last
    /// handle, where a panic is caught. If a wait for the work fails, it is leaked.
    ///
    /// ```
    /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
    /// use cuda_um::DeviceBuffer;
    /// use std::ptr::NonNull;
    ///
    /// // Stands for memory of another library.
    /// let theirs = DeviceBuffer::from_slice(&device, &[1u32, 2, 3])?;
    /// device.synchronize()?; // their work on it is complete, or ordered before ours
    /// let pointer = NonNull::new(theirs.as_ptr().cast_mut()).unwrap();
    /// // SAFETY: the memory has 3 elements, and nothing else uses it while its owner, `theirs`, lives in the buffer.
    /// let buffer = unsafe { DeviceBuffer::from_foreign(&device, pointer, 3, theirs)? };
    /// assert_eq!(buffer.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), cuda_um::Error>(())
    /// ```
    ///
    /// # Ordering
    ///
    /// The library does not know of earlier work on the memory: order it before the first use, with [`Device::adopt_stream`] and
    /// [`Stream::wait`](crate::Stream::wait), or wait for it.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] if CUDA reports memory of another kind, a shorter allocation, or if the pointer is not aligned for `T`;
    /// [`Error::DeviceMismatch`] for memory of another device; [`Error::TooLarge`]; and the errors of `cudaPointerGetAttributes`.
    ///
    /// # Safety
    ///
    /// Until the owner is dropped,
    ///
    /// - the memory is valid for `len` initialised elements, and is not freed;
    /// - only this buffer uses it: neither the host nor a device does so through another address or handle, except in work that is
    ///   ordered with the buffer's ([`Stream::enqueue_foreign`](crate::Stream::enqueue_foreign), `export`). If the buffer is made
    ///   [read-only](Self::read_only) at once, others may read the memory, too, and nothing writes it, also not through the buffer's addresses.
    ///
    /// The drop of the owner does not wait for a thread that waits for this library.
    #[doc(alias = "cudaPointerGetAttributes")]
    #[doc(alias = "from_raw")]
    #[track_caller]
    pub unsafe fn from_foreign(
        device: &Device,
        pointer: NonNull<T>,
        len: usize,
        owner: impl Send + 'static,
    ) -> Result<Self> {
        Self::made(device, len, |bytes| {
            let (size, pointer) = ((bytes, align_of::<T>()), pointer.cast());
            // SAFETY: guaranteed by the caller.
            unsafe { import(device, pointer, size, K::KIND, owner) }
        })
    }

    /// From now on each write is [`Error::ReadOnly`], before any CUDA call. Prefetches and advice are not writes.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.raw.refuse_writes();
        self
    }

    /// Exports the buffer, for another library to read: [`Exported::new`].
    ///
    /// # Errors
    ///
    /// The errors of [`Exported::new`].
    #[doc(alias = "__dlpack__")]
    pub fn export(self: &Arc<Self>, stream: &Stream) -> Result<Exported> {
        Exported::new(Arc::clone(self), stream, |buffer| Ok(buffer.as_view()))
    }

    /// Exports the buffer, for another library to read and write: [`Exported::new_mut`]. If this `Arc` has no clone, the access is exclusive
    /// until the export ends.
    ///
    /// # Errors
    ///
    /// The errors of [`Exported::new_mut`].
    ///
    /// # Safety
    ///
    /// As for [`Exported::new_mut`].
    pub unsafe fn export_mut(self: &Arc<Self>, stream: &Stream) -> Result<Exported> {
        let owner = Arc::clone(self);
        // SAFETY: guaranteed by the caller.
        unsafe { Exported::new_mut(owner, stream, |buffer| Ok(buffer.as_view())) }
    }
}
