//! The order between the work of cudarc and of cuda-um.
#![allow(unsafe_code, reason = "enqueues waits and events of cudarc")]

use crate::error::Result;
use crate::shared::SharedStream;
use cuda_um::{DeviceCopy, UnifiedBuffer, ViewMut, kernel::KernelArg};
use cudarc::driver::{CudaSlice, CudaStream, DevicePtr, DevicePtrMut};

/// Orders the buffer's uses before `work`, which enqueues waits and records of cudarc's events, and its later uses after it.
///
/// A capture of this thread does not record it, as it records no work of cudarc.
pub(crate) fn enqueue<R>(
    stream: &SharedStream,
    buffer: impl KernelArg,
    work: impl FnOnce() -> R,
) -> cuda_um::Result<R> {
    // SAFETY: the work is waits for events and the records of them.
    cuda_um::graph::outside(|| unsafe { stream.ours().enqueue_foreign((buffer,), |_| work()) })
}

/// Waits for the writes of a slice: for the work on its own stream and for its events, if cudarc tracks them; otherwise for the context.
pub(crate) fn settle<T>(slice: &CudaSlice<T>, stream: &CudaStream) -> Result<()> {
    let context = stream.context();
    if !context.is_managing_stream_synchronization() {
        return Ok(context.synchronize()?);
    }
    let (_, record) = slice.device_ptr(stream);
    // Recording would replace the event of the last reader.
    std::mem::forget(record);
    context.check_err()?;
    Ok(stream.synchronize()?)
}

/// Orders the buffer's later uses after cudarc's work on the slice, which is on the same memory.
pub(crate) fn theirs_first<T: DeviceCopy>(
    stream: &SharedStream,
    slice: &mut CudaSlice<T>,
    buffer: &mut UnifiedBuffer<T>,
) -> Result<()> {
    enqueue(stream, buffer, || {
        let (_, record) = slice.device_ptr_mut(stream.theirs());
        // Only later work may record the event.
        std::mem::forget(record);
    })?;
    Ok(stream.theirs().context().check_err()?)
}

/// Orders cudarc's later work on the slice after the buffer's uses.
pub(crate) fn ours_first<T: DeviceCopy>(
    stream: &SharedStream,
    slice: &mut CudaSlice<T>,
    buffer: &mut UnifiedBuffer<T>,
) -> Result<()> {
    enqueue(stream, buffer, || {
        // Recorded at once: the stream comes after the buffer's uses.
        let _ = slice.device_ptr_mut(stream.theirs());
    })?;
    Ok(stream.theirs().context().check_err()?)
}

/// Work of cuda-um between work of cudarc.
pub(crate) struct Fence<'a, T: DeviceCopy> {
    pub(crate) stream: &'a SharedStream,
    pub(crate) slice: &'a mut CudaSlice<T>,
    pub(crate) buffer: &'a mut UnifiedBuffer<T>,
}

impl<T: DeviceCopy> Fence<'_, T> {
    pub(crate) fn run<R>(
        mut self,
        work: impl FnOnce(ViewMut<'_, T>) -> cuda_um::Result<R>,
    ) -> Result<R> {
        theirs_first(self.stream, self.slice, self.buffer)?;
        let end = End(&mut self);
        let result = work(end.0.buffer.as_view_mut());
        drop(end);
        self.stream.theirs().context().check_err()?;
        Ok(result?)
    }
}

/// Ends the work of cuda-um, also if it panics.
struct End<'f, 'a, T: DeviceCopy>(&'f mut Fence<'a, T>);

impl<T: DeviceCopy> Drop for End<'_, '_, T> {
    fn drop(&mut self) {
        let Fence {
            stream,
            slice,
            buffer,
        } = &mut *self.0;
        if ours_first(stream, slice, buffer).is_err() {
            // Without the order, the end of all work. If this fails too, the context does no more work.
            let _ = stream.device().device().synchronize();
        }
    }
}
