//! A stream of both libraries.
#![allow(unsafe_code, reason = "makes slices of cudarc")]

use crate::device::SharedDevice;
use crate::error::{Error, Result};
use crate::slice::UnifiedSlice;
use cuda_um::{Element, Stream, UnifiedBuffer};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtrMut};
use std::sync::Arc;

/// A stream of cudarc on which cuda-um works, too: [`SharedDevice::adopt`]. A clone is the same stream.
#[derive(Clone, Debug)]
pub struct SharedStream {
    device: SharedDevice,
    ours: Stream,
    theirs: Arc<CudaStream>,
}

impl SharedStream {
    pub(crate) fn new(device: SharedDevice, ours: Stream, theirs: Arc<CudaStream>) -> Self {
        Self {
            device,
            ours,
            theirs,
        }
    }

    /// The device.
    pub fn device(&self) -> &SharedDevice {
        &self.device
    }

    /// The stream for functions of cuda-um.
    pub fn ours(&self) -> &Stream {
        &self.ours
    }

    /// The stream for functions of cudarc.
    pub fn theirs(&self) -> &Arc<CudaStream> {
        &self.theirs
    }

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
    pub fn share<T: Element>(&self, buffer: UnifiedBuffer<T>) -> Result<UnifiedSlice<T>> {
        UnifiedSlice::new(self, buffer)
    }

    /// Gives the memory of a buffer of a [`ManagedPool`](cuda_um::ManagedPool) to cudarc: the slice is as any other slice, and its drop frees
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
    pub fn give<T: Element>(
        &self,
        buffer: UnifiedBuffer<T>,
    ) -> Result<CudaSlice<T>, (UnifiedBuffer<T>, Error)> {
        if let Err(error) = self.can_make_slices() {
            return Err((buffer, error));
        }
        let len = buffer.len();
        let pointer = buffer
            .into_raw(&self.ours)
            .map_err(|(buffer, error)| (buffer, error.into()))?;
        // SAFETY: the memory has so many initialised elements, nothing else owns it, and cudarc frees it as the driver's pool demands.
        let mut slice = unsafe { self.slice_at::<T>(pointer.as_ptr() as u64, len) };
        // Records the event of a write: work on other streams comes after the buffer's.
        let _ = slice.device_ptr_mut(&self.theirs);
        Ok(slice)
    }

    /// Returns the error that would be a panic of cudarc in [`slice_at`](Self::slice_at).
    pub(crate) fn can_make_slices(&self) -> Result<()> {
        let context = self.theirs.context();
        Ok(context.new_event(None).map(drop)?)
    }

    /// # Safety
    ///
    /// As for `CudaStream::upgrade_device_ptr`.
    pub(crate) unsafe fn slice_at<T>(&self, address: u64, len: usize) -> CudaSlice<T> {
        // SAFETY: guaranteed by the caller.
        unsafe { self.theirs.upgrade_device_ptr(address, len) }
    }
}
