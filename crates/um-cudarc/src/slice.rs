//! A buffer of cuda-um as a slice of cudarc.
#![allow(unsafe_code, reason = "a slice of cudarc that does not own its memory")]

use crate::error::{Error, Result};
use crate::order::{Fence, ours_first, settle, theirs_first};
use crate::shared::SharedStream;
use cuda_um::{
    Advice, DeviceCopy, HostMut, HostRef, Location, Stream, UnifiedBuffer, ViewMut,
    managed::HintOutcome,
};
use cudarc::driver::{
    CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, LaunchArgs,
    PushKernelArg, SyncOnDrop,
};
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

/// A [`UnifiedBuffer`] as a slice of cudarc: [`SharedStream::share`].
///
/// Functions of cudarc that take `DevicePtr` or `DevicePtrMut` (copies, cuBLAS) take `&` or `&mut` of it, and so does `arg` of a launch. Others
/// take [`as_slice`](Self::as_slice) or [`as_view_mut`](Self::as_view_mut).
///
/// # Ordering
///
/// Host guards wait for cudarc's work, as far as cudarc tracks it; without its event tracking they wait for the context. A drop waits for nothing:
/// the memory is freed after cudarc's work.
pub struct UnifiedSlice<T: DeviceCopy> {
    buffer: ManuallyDrop<UnifiedBuffer<T>>,
    /// On the memory of the buffer, which it must not free.
    slice: ManuallyDrop<CudaSlice<T>>,
    stream: SharedStream,
    /// Whether the slice has events.
    is_tracked: bool,
}

impl SharedStream {
    /// Makes a buffer usable for cudarc. cudarc regards this stream as the one of the allocation.
    ///
    /// # Ordering
    ///
    /// cudarc's work on the slice is ordered after earlier work on the buffer.
    ///
    /// # Errors
    ///
    /// The buffer is dropped. `DeviceMismatch` and `RuntimeMismatch` of cuda-um; `NotSupported` of cuda-um for managed memory on a device
    /// without concurrent managed access, and for memory that kernels cannot use; and errors of cudarc's events.
    pub fn share<T: DeviceCopy>(&self, buffer: UnifiedBuffer<T>) -> Result<UnifiedSlice<T>> {
        UnifiedSlice::new(self, buffer)
    }
}

impl<T: DeviceCopy> UnifiedSlice<T> {
    fn new(stream: &SharedStream, buffer: UnifiedBuffer<T>) -> Result<Self> {
        let (shared, found) = (stream.device().device(), buffer.device());
        if shared.ordinal() != found.ordinal() {
            let (expected, found) = (shared.ordinal(), found.ordinal());
            let what = "the buffer";
            return Err(cuda_um::Error::DeviceMismatch {
                what,
                expected,
                found,
            }
            .into());
        }
        if buffer.is_managed() {
            stream.device().check_concurrent()?;
        }
        stream.can_make_slices()?;
        let is_tracked = stream.theirs().context().is_event_tracking();
        // An empty buffer has no address of the device.
        let view = buffer.as_view();
        let address = view
            .device_ptr()
            .or(buffer.is_empty().then(|| view.as_ptr()));
        let Some(address) = address else {
            return Err(Error::Um(cuda_um::Error::NotSupported {
                what: format!("a use of buffer {} by cudarc", buffer.id()),
                needs: "a device that maps host memory".to_owned(),
                have: format!("device {} ({})", shared.ordinal(), shared.name()),
            }));
        };
        // SAFETY: the memory has so many elements. The slice is never dropped as one that owns it.
        let slice = unsafe { stream.slice_at(address as u64, buffer.len()) };
        let mut made = Self {
            buffer: ManuallyDrop::new(buffer),
            slice: ManuallyDrop::new(slice),
            stream: stream.clone(),
            is_tracked,
        };
        ours_first(&made.stream, &mut made.slice, &mut made.buffer)?;
        Ok(made)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Returns true if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The stream that cudarc regards as the one of the allocation.
    pub fn stream(&self) -> &SharedStream {
        &self.stream
    }

    /// The slice, for functions of cudarc that read it. A clone of it is a slice of its own, with a copy of the elements.
    pub fn as_slice(&self) -> &CudaSlice<T> {
        &self.slice
    }

    /// A view, for functions of cudarc that read it.
    pub fn as_view(&self) -> CudaView<'_, T> {
        self.slice.as_view()
    }

    /// A view, for functions of cudarc that read and write it.
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.slice.as_view_mut()
    }

    /// Waits for cudarc's writes and for the buffer's own work, and reads in place.
    ///
    /// # Errors
    ///
    /// Errors of cudarc's waits, and the errors of [`UnifiedBuffer::host`].
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host(&self) -> Result<HostRef<'_, T>> {
        let stream = self.stream.theirs();
        match self.is_tracked {
            true => settle(&self.slice, stream)?,
            false => stream.context().synchronize()?,
        }
        Ok(self.buffer.host()?)
    }

    /// Waits for cudarc's work and for the buffer's own work, and writes in place.
    ///
    /// # Errors
    ///
    /// As for [`host`](Self::host).
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host_mut(&mut self) -> Result<HostMut<'_, T>> {
        let stream = self.stream.theirs();
        let (_, record) = self.slice.device_ptr_mut(stream);
        // The host's access is over before cudarc can use the memory.
        std::mem::forget(record);
        match self.is_tracked {
            true => settle(&self.slice, stream)?,
            false => stream.context().synchronize()?,
        }
        Ok(self.buffer.host_mut()?)
    }

    /// Lends the elements to cuda-um, for fills, copies, launches.
    ///
    /// # Ordering
    ///
    /// Work on the view, on any stream, is ordered after cudarc's work, and cudarc's later work after it.
    ///
    /// # Errors
    ///
    /// Errors of the order between streams, and the error of `work`.
    pub fn with_mut<R>(
        &mut self,
        work: impl FnOnce(ViewMut<'_, T>) -> cuda_um::Result<R>,
    ) -> Result<R> {
        Fence {
            stream: &self.stream,
            slice: &mut self.slice,
            buffer: &mut self.buffer,
        }
        .run(work)
    }

    /// Migrates the buffer on a stream. It is not ordered with cudarc's work on other streams: migrations do not change the contents.
    ///
    /// # Errors
    ///
    /// The errors of [`UnifiedBuffer::prefetch`].
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch_on(
        &self,
        location: impl Into<Location>,
        stream: &Stream,
    ) -> Result<HintOutcome> {
        Ok(self.buffer.prefetch_on(location, stream)?)
    }

    /// Advises the driver about later uses.
    ///
    /// # Errors
    ///
    /// The errors of [`UnifiedBuffer::advise`].
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise(&self, advice: Advice) -> Result<HintOutcome> {
        Ok(self.buffer.advise(advice)?)
    }

    /// The places of the buffer's parts, as far as they are known.
    ///
    /// # Errors
    ///
    /// The errors of [`UnifiedBuffer::residency`].
    pub fn residency(&self) -> Result<Option<Location>> {
        Ok(self.buffer.residency()?)
    }

    /// Sets the buffer's name for traces and profiles.
    pub fn set_name(&mut self, name: impl Into<Arc<str>>) {
        self.buffer.set_name(name);
    }

    /// Returns the buffer. Its later uses are ordered after cudarc's work.
    ///
    /// # Errors
    ///
    /// Errors of the order between streams; the memory is then leaked if the context cannot be synchronized.
    pub fn into_buffer(self) -> Result<UnifiedBuffer<T>> {
        let mut this = ManuallyDrop::new(self);
        let ended = this.end();
        // SAFETY: `this` is never dropped, so nothing uses its fields again.
        unsafe { std::ptr::drop_in_place(&mut this.stream) };
        ended
    }

    /// Ends cudarc's use of the memory. The fields `buffer` and `slice` are not used afterwards.
    fn end(&mut self) -> Result<UnifiedBuffer<T>> {
        let mut ordered = theirs_first(&self.stream, &mut self.slice, &mut self.buffer);
        if ordered.is_err() {
            // Without the order, the end of all work.
            ordered = self
                .stream
                .theirs()
                .context()
                .synchronize()
                .map_err(Error::from);
        }
        // SAFETY: the callers do not use the field again.
        let slice = unsafe { ManuallyDrop::take(&mut self.slice) };
        // Drops the slice's events, and does not free.
        let _ = slice.leak();
        // If there is no order and no end, the buffer stays in its `ManuallyDrop`: it is leaked.
        ordered?;
        // SAFETY: the callers do not use the field again.
        Ok(unsafe { ManuallyDrop::take(&mut self.buffer) })
    }
}

impl<T: DeviceCopy> Drop for UnifiedSlice<T> {
    fn drop(&mut self) {
        drop(self.end());
    }
}

impl<T: DeviceCopy> DeviceSlice<T> for UnifiedSlice<T> {
    fn len(&self) -> usize {
        self.slice.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.stream.theirs()
    }
}

impl<T: DeviceCopy> DevicePtr<T> for UnifiedSlice<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
        self.slice.device_ptr(stream)
    }
}

impl<T: DeviceCopy> DevicePtrMut<T> for UnifiedSlice<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>) {
        self.slice.device_ptr_mut(stream)
    }
}

// SAFETY: the argument is that of the slice.
unsafe impl<'a, 'b: 'a, T: DeviceCopy> PushKernelArg<&'b UnifiedSlice<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, arg: &'b UnifiedSlice<T>) -> &mut Self {
        self.arg(&*arg.slice)
    }
}

// SAFETY: the argument is that of the slice.
unsafe impl<'a, 'b: 'a, T: DeviceCopy> PushKernelArg<&'b mut UnifiedSlice<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, arg: &'b mut UnifiedSlice<T>) -> &mut Self {
        self.arg(&mut *arg.slice)
    }
}

impl<T: DeviceCopy> fmt::Debug for UnifiedSlice<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnifiedSlice")
            .field("buffer", &self.buffer.id())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
