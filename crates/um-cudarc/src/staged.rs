//! Copies of pageable memory and files through cuda-um's pinned memory.
#![allow(unsafe_code, reason = "imports memory of cudarc for a copy")]

use crate::error::{Error, Result};
use crate::order::enqueue;
use crate::shared::SharedStream;
use crate::slice::UnifiedSlice;
use cuda_um::buffer::{FileRead, ReadAt, Runs};
use cuda_um::{Device, DeviceBuffer, DeviceCopy, UnifiedBuffer, ViewMut, kernel::KernelArg};
use cudarc::driver::{CudaSlice, CudaViewMut, DevicePtrMut};
use std::ops::ControlFlow;
use std::ptr::NonNull;

/// Memory of cudarc that a copy can write: slices, views, and [`UnifiedSlice`]s. `DevicePtrMut` alone does not suffice: safe code can
/// implement it with any address.
pub trait CudarcMemory<T>: DevicePtrMut<T> + sealed::Sealed {}

impl<T> CudarcMemory<T> for CudaSlice<T> {}
impl<T> CudarcMemory<T> for CudaViewMut<'_, T> {}
impl<T: DeviceCopy> CudarcMemory<T> for UnifiedSlice<T> {}

mod sealed {
    use super::{CudaSlice, CudaViewMut, DeviceCopy, UnifiedSlice};

    pub trait Sealed {}
    impl<T> Sealed for CudaSlice<T> {}
    impl<T> Sealed for CudaViewMut<'_, T> {}
    impl<T: DeviceCopy> Sealed for UnifiedSlice<T> {}
}

impl SharedStream {
    /// Copies a slice of pageable memory to memory of cudarc, device or managed: several threads copy to pinned memory while the copy engine
    /// empties it. If the target has more elements, the rest keeps its contents.
    ///
    /// # Ordering
    ///
    /// The copy is ordered as a write of cudarc on this stream. The source may be reused when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::TooLong`] and [`Error::OtherContext`]; `Foreign` of cuda-um for other memory; and the errors of
    /// [`DeviceBuffer::copy_from_host`].
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn memcpy_htod_staged<T: DeviceCopy>(
        &self,
        source: &[T],
        target: &mut impl CudarcMemory<T>,
    ) -> Result<()> {
        self.device()
            .check("the target", target.stream().context())?;
        let (source_len, target_len) = (source.len(), target.len());
        if source_len > target_len {
            return Err(Error::TooLong {
                source_len,
                target_len,
            });
        }
        self.write(target, source_len, |mut view| view.copy_from_host(source))
    }

    /// Reads the bytes of a whole target from a file, from byte `offset` on: several threads read straight into pinned memory while the copy
    /// engine empties it.
    ///
    /// # Ordering
    ///
    /// As for [`memcpy_htod_staged`](Self::memcpy_htod_staged). The file is no longer used when this returns.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`]; `Foreign` of cuda-um for other memory; and the errors of [`FileRead::run`].
    #[doc(alias = "cuMemcpyHtoDAsync")]
    pub fn read_file<T: DeviceCopy>(
        &self,
        file: &dyn ReadAt,
        offset: u64,
        target: &mut impl CudarcMemory<T>,
    ) -> Result<()> {
        self.device()
            .check("the target", target.stream().context())?;
        let len = target.len();
        self.write(target, len, |view| {
            let view = view.cast::<u8>()?;
            let runs = [Runs {
                offset,
                at: 0,
                bytes: view.len(),
                count: 1,
                stride: 0,
            }];
            let read = FileRead::new(view, file, &runs)?;
            let goes_on = |_| ControlFlow::Continue(());
            FileRead::run(&mut [read], usize::MAX, goes_on).map(drop)
        })
    }

    /// Lends the first `len` elements of a target to `write`.
    fn write<T: DeviceCopy>(
        &self,
        target: &mut impl CudarcMemory<T>,
        len: usize,
        write: impl FnOnce(ViewMut<'_, T>) -> cuda_um::Result<()>,
    ) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        // The stream waits for the target's uses, and records the event of its write when `record` is dropped.
        let (address, record) = target.device_ptr_mut(self.theirs());
        let pointer = NonNull::new(address as *mut T).unwrap_or(NonNull::dangling());
        let device = self.device().device();
        // SAFETY: the target has at least so many elements, and its borrow ends after the copy is ordered before cudarc's work.
        match unsafe { DeviceBuffer::from_foreign(device, pointer, len, ()) } {
            Ok(mut buffer) => self.copy(&mut buffer, record, |buffer| write(buffer.as_view_mut())),
            Err(cuda_um::Error::Foreign { .. }) => {
                // SAFETY: as above.
                let buffer = unsafe { UnifiedBuffer::from_foreign(device, pointer, len, ()) };
                self.copy(&mut buffer?, record, |buffer| write(buffer.as_view_mut()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Copies to a buffer in the order of this stream, and then drops `record`.
    fn copy<B>(
        &self,
        buffer: &mut B,
        record: impl Sized,
        copy: impl FnOnce(&mut B) -> cuda_um::Result<()>,
    ) -> Result<()>
    where
        for<'b> &'b mut B: KernelArg,
    {
        enqueue(self, &mut *buffer, || ())?;
        let mut end = End {
            stream: self,
            buffer,
            record: Some(record),
        };
        // As work of cudarc, it runs now, also if this thread captures.
        let copied = cuda_um::graph::outside(|| copy(end.buffer));
        let ordered = end.order();
        copied?;
        ordered?;
        Ok(self.theirs().context().check_err()?)
    }
}

/// Orders cudarc's later work after a copy, also if the copy panics: a file of the caller's can, with pieces in flight.
struct End<'a, B, R>
where
    for<'b> &'b mut B: KernelArg,
{
    stream: &'a SharedStream,
    buffer: &'a mut B,
    record: Option<R>,
}

impl<B, R> End<'_, B, R>
where
    for<'b> &'b mut B: KernelArg,
{
    fn order(&mut self) -> cuda_um::Result<()> {
        let Some(record) = self.record.take() else {
            return Ok(());
        };
        let ordered = enqueue(self.stream, &mut *self.buffer, || drop(record));
        if ordered.is_err() {
            finish(self.stream.device().device());
        }
        ordered
    }
}

impl<B, R> Drop for End<'_, B, R>
where
    for<'b> &'b mut B: KernelArg,
{
    fn drop(&mut self) {
        // An error has waited for all work.
        let _ = self.order();
    }
}

/// Waits for all work, where its order could not be enqueued. If this fails too, the context does no more work.
fn finish(device: &Device) {
    let _ = device.synchronize();
}
