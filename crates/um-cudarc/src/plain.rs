//! Plain slices of cudarc: as buffers, and in managed memory.
#![allow(unsafe_code, reason = "imports memory of cudarc")]

use crate::error::{Error, Result};
use crate::order::{Fence, enqueue, settle};
use crate::shared::{SharedDevice, SharedStream};
use cuda_um::{DeviceBuffer, DeviceCopy, UnifiedBuffer, ViewMut};
use cudarc::driver::{CudaSlice, DevicePtr, DevicePtrMut};
use std::ptr::NonNull;
use std::sync::Arc;

impl SharedDevice {
    /// Makes a buffer of a slice in device memory. The slice is dropped when the buffer is dropped and no work uses the memory.
    ///
    /// # Ordering
    ///
    /// Uses of the buffer are ordered after cudarc's work on the slice.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`], and the errors of [`DeviceBuffer::from_foreign`]. The slice is then dropped.
    pub fn take_device<T: DeviceCopy>(&self, slice: CudaSlice<T>) -> Result<DeviceBuffer<T>> {
        let (stream, pointer, len, slice) = self.end_of(slice)?;
        // SAFETY: the slice owns so many elements, and the buffer owns the slice; its uses come after cudarc's, as ordered here.
        let mut buffer = unsafe { DeviceBuffer::from_foreign(self.device(), pointer, len, slice) }?;
        enqueue(&stream, &mut buffer, || ())?;
        Ok(buffer)
    }

    /// Makes a buffer of a slice in managed memory, as [`take_device`](Self::take_device) does of device memory.
    ///
    /// # Errors
    ///
    /// As for [`take_device`](Self::take_device).
    pub fn take_unified<T: DeviceCopy>(&self, slice: CudaSlice<T>) -> Result<UnifiedBuffer<T>> {
        let (stream, pointer, len, slice) = self.end_of(slice)?;
        // SAFETY: as in `take_device`.
        let mut buffer =
            unsafe { UnifiedBuffer::from_foreign(self.device(), pointer, len, slice) }?;
        enqueue(&stream, &mut buffer, || ())?;
        Ok(buffer)
    }

    /// Orders the slice's own stream after cudarc's work on the slice.
    fn end_of<T>(
        &self,
        mut slice: CudaSlice<T>,
    ) -> Result<(SharedStream, NonNull<T>, usize, CudaSlice<T>)> {
        self.check("the slice", slice.context())?;
        let stream = self.adopt(slice.stream())?;
        let (address, record) = slice.device_ptr_mut(stream.theirs());
        // The event would be recorded again.
        std::mem::forget(record);
        self.context().check_err()?;
        let pointer = NonNull::new(address as *mut T).unwrap_or(NonNull::dangling());
        Ok((stream, pointer, slice.len(), slice))
    }

    /// Waits for cudarc's writes of a slice in managed memory, and reads it in place.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`]; as for [`UnifiedBuffer::from_foreign`], if the memory is not managed; `NotSupported` of cuda-um if the device
    /// has no concurrent managed access; and the errors of cudarc's waits.
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host<'s, T: DeviceCopy>(&self, slice: &'s CudaSlice<T>) -> Result<&'s [T]> {
        self.check("the slice", slice.context())?;
        settle(slice, slice.stream())?;
        let (address, record) = slice.device_ptr(slice.stream());
        // The host's read is over before cudarc can write: the borrow of the slice sees to it.
        std::mem::forget(record);
        let pointer = self.managed(address, slice.len())?;
        // SAFETY: `managed` checked that so many elements are there, in memory that the host can access at any time. Writes by cudarc are done,
        // and new ones need an exclusive borrow of the slice.
        Ok(unsafe { std::slice::from_raw_parts(pointer.as_ptr(), slice.len()) })
    }

    /// Waits for all of cudarc's work on a slice in managed memory, and writes it in place.
    ///
    /// # Errors
    ///
    /// As for [`host`](Self::host).
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host_mut<'s, T: DeviceCopy>(&self, slice: &'s mut CudaSlice<T>) -> Result<&'s mut [T]> {
        self.check("the slice", slice.context())?;
        let (stream, len) = (Arc::clone(slice.stream()), slice.len());
        let (address, record) = slice.device_ptr_mut(&stream);
        // The host's access is over before cudarc can use the memory.
        std::mem::forget(record);
        settle(slice, &stream)?;
        let pointer = self.managed(address, len)?;
        // SAFETY: as in `host`; and cudarc's reads are done, too.
        Ok(unsafe { std::slice::from_raw_parts_mut(pointer.as_ptr(), len) })
    }

    /// Lends a slice in managed memory to cuda-um: `work` gets it as a view, for prefetches, advice, fills, launches, and host guards.
    ///
    /// # Ordering
    ///
    /// Work on the view is ordered after cudarc's work on the slice, and cudarc's later work after it.
    ///
    /// # Errors
    ///
    /// As for [`host`](Self::host), and the error of `work`.
    pub fn with_mut<T: DeviceCopy, R>(
        &self,
        slice: &mut CudaSlice<T>,
        work: impl FnOnce(ViewMut<'_, T>) -> cuda_um::Result<R>,
    ) -> Result<R> {
        let stream = self.adopt(slice.stream())?;
        let (address, record) = slice.device_ptr_mut(stream.theirs());
        // `Fence` records the event after the work.
        std::mem::forget(record);
        let pointer = self.managed(address, slice.len())?;
        // SAFETY: `managed` checked that so many elements are there, and the exclusive borrow of the slice ends after the buffer's uses are
        // ordered before cudarc's. The buffer does not leave this function.
        let mut buffer =
            unsafe { UnifiedBuffer::from_foreign(self.device(), pointer, slice.len(), ()) }?;
        Fence {
            stream: &stream,
            slice,
            buffer: &mut buffer,
        }
        .run(work)
    }

    /// The address of managed memory, checked.
    fn managed<T: DeviceCopy>(&self, address: u64, len: usize) -> Result<NonNull<T>> {
        let pointer = NonNull::new(address as *mut T).unwrap_or(NonNull::dangling());
        self.check_concurrent()?;
        // SAFETY: the buffer is not used.
        unsafe { UnifiedBuffer::from_foreign(self.device(), pointer, len, ()) }?;
        Ok(pointer)
    }
}

impl SharedStream {
    /// Gives the memory of a buffer of a [`DriverPool`](cuda_um::resource::DriverPool) to cudarc: the slice is as any other slice, and its drop frees
    /// the memory on this stream. Drop the pool when these frees have run: otherwise it stays until the process ends.
    ///
    /// # Ordering
    ///
    /// cudarc's work on the slice is ordered after earlier work on the buffer.
    ///
    /// # Errors
    ///
    /// The buffer comes back with the error of cudarc's events or of [`UnifiedBuffer::into_raw`].
    #[doc(alias = "cuMemFreeAsync")]
    #[allow(clippy::result_large_err, reason = "the buffer comes back")]
    pub fn give<T: DeviceCopy>(
        &self,
        buffer: UnifiedBuffer<T>,
    ) -> Result<CudaSlice<T>, (UnifiedBuffer<T>, Error)> {
        if let Err(error) = self.can_make_slices() {
            return Err((buffer, error));
        }
        let len = buffer.len();
        let pointer = buffer
            .into_raw(self.ours())
            .map_err(|(buffer, error)| (buffer, error.into()))?;
        // SAFETY: the memory has so many initialised elements, nothing else owns it, and cudarc frees it as the driver's pool demands.
        let mut slice = unsafe { self.slice_at::<T>(pointer.as_ptr() as u64, len) };
        // Records the event of a write: work on other streams comes after the buffer's.
        let _ = slice.device_ptr_mut(self.theirs());
        Ok(slice)
    }
}
