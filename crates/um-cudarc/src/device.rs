//! A context of cudarc and a device of cuda-um on the same GPU.
#![allow(unsafe_code, reason = "imports memory of cudarc")]

use crate::error::{Error, Result};
use crate::order::{Fence, settle};
use crate::stream::SharedStream;
use cuda_um::{Device, DeviceBuffer, Element, Runtime, UnifiedBuffer, ViewMut};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// A context of cudarc and the device of cuda-um on the same GPU. A clone is the same pair.
#[derive(Clone, Debug)]
pub struct SharedDevice {
    context: Arc<CudaContext>,
    device: Device,
}

impl SharedDevice {
    /// Joins a context of cudarc with the runtime's device of the same ordinal.
    ///
    /// # Errors
    ///
    /// [`Error::NotPrimary`]; [`Error::OtherDriver`] if the device has another name or another size for the other library; and the errors of
    /// [`Runtime::device`].
    #[doc(alias = "cuDevicePrimaryCtxRetain")]
    pub fn new(context: &Arc<CudaContext>, runtime: &Runtime) -> Result<Self> {
        let ordinal = context.ordinal();
        if !context.is_primary() {
            return Err(Error::NotPrimary { ordinal });
        }
        let device = runtime.device(u32::try_from(ordinal).unwrap_or(u32::MAX))?;
        let cudarc = (context.name()?, context.total_mem()?);
        let cuda_um = (device.name().to_owned(), device.memory_info()?.total_bytes);
        if cudarc != cuda_um {
            let words = |(name, bytes)| format!("{name} with {bytes} bytes");
            return Err(Error::OtherDriver {
                ordinal,
                cudarc: words(cudarc),
                cuda_um: words(cuda_um),
            });
        }
        Ok(Self {
            context: Arc::clone(context),
            device,
        })
    }

    /// The device of cuda-um.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The context of cudarc.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Makes a stream of cudarc a stream of both libraries. The result keeps it alive.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`], and the errors of [`Device::adopt_stream`].
    pub fn adopt(&self, stream: &Arc<CudaStream>) -> Result<SharedStream> {
        self.check("the stream", stream.context())?;
        // SAFETY: the stream lives as long as its `Arc`, and this crate documents that streams are not captured.
        let ours = unsafe {
            self.device
                .adopt_stream(stream.cu_stream().cast(), Arc::clone(stream))
        }?;
        Ok(SharedStream::new(self.clone(), ours, Arc::clone(stream)))
    }

    /// Makes a buffer of a slice in device memory. The slice is dropped when the buffer is dropped and no work uses the memory.
    ///
    /// # Ordering
    ///
    /// Uses of the buffer are ordered after cudarc's work on the slice.
    ///
    /// # Errors
    ///
    /// [`Error::OtherContext`], and the errors of [`DeviceBuffer::from_foreign`]. The slice is then dropped.
    pub fn take_device<T: Element>(&self, slice: CudaSlice<T>) -> Result<DeviceBuffer<T>> {
        let (stream, pointer, len, slice) = self.end_of(slice)?;
        // SAFETY: the slice owns so many elements, and the buffer owns the slice; its uses come after cudarc's, as ordered here.
        let mut buffer = unsafe { DeviceBuffer::from_foreign(&self.device, pointer, len, slice) }?;
        // SAFETY: no work.
        unsafe { stream.ours().enqueue_foreign((&mut buffer,), |_| ()) }?;
        Ok(buffer)
    }

    /// Makes a buffer of a slice in managed memory, as [`take_device`](Self::take_device) does of device memory.
    ///
    /// # Errors
    ///
    /// As for [`take_device`](Self::take_device).
    pub fn take_unified<T: Element>(&self, slice: CudaSlice<T>) -> Result<UnifiedBuffer<T>> {
        let (stream, pointer, len, slice) = self.end_of(slice)?;
        // SAFETY: as in `take_device`.
        let mut buffer = unsafe { UnifiedBuffer::from_foreign(&self.device, pointer, len, slice) }?;
        // SAFETY: no work.
        unsafe { stream.ours().enqueue_foreign((&mut buffer,), |_| ()) }?;
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
        self.context.check_err()?;
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
    pub fn host<'s, T: Element>(&self, slice: &'s CudaSlice<T>) -> Result<&'s [T]> {
        self.check("the slice", slice.context())?;
        settle(slice, slice.stream())?;
        let (address, record) = cudarc::driver::DevicePtr::device_ptr(slice, slice.stream());
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
    pub fn host_mut<'s, T: Element>(&self, slice: &'s mut CudaSlice<T>) -> Result<&'s mut [T]> {
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
    pub fn with_mut<T: Element, R>(
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
            unsafe { UnifiedBuffer::from_foreign(&self.device, pointer, slice.len(), ()) }?;
        Fence {
            stream: &stream,
            slice,
            buffer: &mut buffer,
        }
        .run(work)
    }

    /// The address of managed memory, checked.
    fn managed<T: Element>(&self, address: u64, len: usize) -> Result<NonNull<T>> {
        let pointer = NonNull::new(address as *mut T).unwrap_or(NonNull::dangling());
        self.check_concurrent()?;
        // SAFETY: the buffer is not used.
        unsafe { UnifiedBuffer::from_foreign_read_only(&self.device, pointer, len, ()) }?;
        Ok(pointer)
    }

    /// Refuses a device on which the host must not touch managed memory while cudarc works.
    pub(crate) fn check_concurrent(&self) -> Result<()> {
        if self.device.capabilities().concurrent_managed_access {
            return Ok(());
        }
        Err(Error::Um(cuda_um::Error::NotSupported {
            what: "managed memory that cudarc uses".to_owned(),
            needs: "concurrent managed access, because the kernels of cudarc are not known"
                .to_owned(),
            have: format!(
                "device {} ({}), which does not have it",
                self.device.ordinal(),
                self.device.name()
            ),
        }))
    }

    pub(crate) fn check(&self, what: &'static str, context: &CudaContext) -> Result<()> {
        if *context == *self.context {
            return Ok(());
        }
        Err(Error::OtherContext {
            what,
            expected: self.context.ordinal(),
            found: context.ordinal(),
        })
    }
}
