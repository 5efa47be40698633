//! Buffers of one library as buffers of the other one.
#![allow(unsafe_code, reason = "imports memory")]

use crate::Element;
use crate::error::{Error, Result};
use crate::shared::SharedStream;
use cuda_core::{
    AllocationLease, Context, DeviceAllocation, DeviceBuffer, DriverError, RawDeviceBuffer, Stream,
    sys,
};
use cuda_um::{DeviceCopy, UnifiedBuffer, ViewMut};
use std::ptr::NonNull;
use std::sync::Arc;

/// A buffer of cuda-um that cuda-core keeps until its work on the memory is over.
struct Owner<T: DeviceCopy> {
    address: u64,
    context: Arc<Context>,
    buffer: UnifiedBuffer<T>,
}

// SAFETY: the buffer keeps the memory, whose address does not change, and the context is that of its device. Only its length is used.
unsafe impl<T: DeviceCopy> DeviceAllocation for Owner<T> {
    fn device_ptr(&self) -> u64 {
        self.address
    }

    fn len_bytes(&self) -> usize {
        self.buffer.len() * size_of::<T>()
    }

    fn context(&self) -> Arc<Context> {
        Arc::clone(&self.context)
    }
}

impl SharedStream {
    /// Makes a buffer of cuda-core in the memory of a buffer of cuda-um, which keeps its name in profiles. cuda-core drops the buffer when its
    /// work on the memory is over.
    ///
    /// # Ordering
    ///
    /// Earlier work on the buffer comes before later work on this stream. cuda-core refuses work on other streams until then.
    ///
    /// # Errors
    ///
    /// The buffer is dropped. `DeviceMismatch` and `RuntimeMismatch` of cuda-um, and errors of events.
    pub fn share<T: Element>(&self, mut buffer: UnifiedBuffer<T>) -> Result<DeviceBuffer<T>> {
        let (shared, found) = (self.shared().device(), buffer.device());
        if shared.ordinal() != found.ordinal() {
            return Err(Error::Um(cuda_um::Error::DeviceMismatch {
                what: "the buffer",
                expected: shared.ordinal(),
                found: found.ordinal(),
            }));
        }
        let (address, len) = (self.join(&mut buffer)?, buffer.len());
        let context = Arc::clone(self.shared().context());
        let owner = Owner {
            address,
            context,
            buffer,
        };
        let storage = RawDeviceBuffer::foreign(Arc::new(owner), len * size_of::<T>());
        storage
            .acquire(self.theirs(), true, false)?
            .retain_until_complete(self.theirs())?;
        // SAFETY: the memory has so many initialised elements, and only cuda-core uses it from here on.
        Ok(unsafe { DeviceBuffer::from_storage_copy(storage, len) }?)
    }

    /// Makes a buffer of cuda-um of a buffer in device memory, which is dropped when no work uses the memory.
    ///
    /// # Ordering
    ///
    /// Uses of the buffer come after the work of this stream. Accesses on other streams are waited for.
    ///
    /// # Errors
    ///
    /// The buffer is dropped. [`Error::OtherContext`] and [`Error::Busy`], and the errors of
    /// [`DeviceBuffer::from_foreign`](cuda_um::DeviceBuffer::from_foreign).
    pub fn take_device<T: Element>(
        &self,
        buffer: DeviceBuffer<T>,
    ) -> Result<cuda_um::DeviceBuffer<T>> {
        let (pointer, len, owner) = self.all_of(buffer)?;
        // SAFETY: the owner has so many elements, and its lease excludes other uses; the buffer's come after this stream's.
        let mut buffer = unsafe {
            cuda_um::DeviceBuffer::from_foreign(self.shared().device(), pointer, len, owner)
        }?;
        self.join(&mut buffer)?;
        Ok(buffer)
    }

    /// Makes a buffer of cuda-um of a buffer in managed memory, as [`take_device`](Self::take_device) does of device memory.
    ///
    /// # Errors
    ///
    /// As for [`take_device`](Self::take_device).
    pub fn take_unified<T: Element>(&self, buffer: DeviceBuffer<T>) -> Result<UnifiedBuffer<T>> {
        let (pointer, len, owner) = self.all_of(buffer)?;
        // SAFETY: as in `take_device`.
        let mut buffer =
            unsafe { UnifiedBuffer::from_foreign(self.shared().device(), pointer, len, owner) }?;
        self.join(&mut buffer)?;
        Ok(buffer)
    }

    /// The address, the length, and the owner of the memory.
    #[allow(clippy::type_complexity, reason = "three values")]
    fn all_of<T: Element>(
        &self,
        buffer: DeviceBuffer<T>,
    ) -> Result<(NonNull<T>, usize, (AllocationLease, DeviceBuffer<T>))> {
        self.shared().check("the buffer", buffer.context())?;
        let lease = self.ordered_lease(buffer.storage())?;
        let pointer = address(&buffer);
        Ok((pointer, buffer.len(), (lease, buffer)))
    }

    /// Lends a buffer in managed memory to cuda-um: `work` gets it as a view, for prefetches, advice, fills, launches, and host guards.
    ///
    /// # Ordering
    ///
    /// Work on the view, on any stream, comes after the work of this stream, and later work of this stream after it. Accesses on other
    /// streams are waited for.
    ///
    /// # Errors
    ///
    /// As for [`host`](Self::host), and the error of `work`.
    pub fn with_mut<T: Element, R>(
        &self,
        buffer: &mut DeviceBuffer<T>,
        work: impl FnOnce(ViewMut<'_, T>) -> cuda_um::Result<R>,
    ) -> Result<R> {
        self.shared().check("the buffer", buffer.context())?;
        let lease = self.ordered_lease(buffer.storage())?;
        let (device, pointer) = (self.shared().device(), address(buffer));
        // SAFETY: CUDA reports that so many elements are there; the lease excludes other uses, and is kept until the buffer's are over.
        let mut lent = unsafe { UnifiedBuffer::from_foreign(device, pointer, buffer.len(), ()) }?;
        self.join(&mut lent)?;
        let lent = Lent {
            stream: self,
            buffer: lent,
            lease: Some(lease),
        };
        lent.run(work)
    }

    /// An access of cuda-um, whose order with this stream `join` makes.
    fn ordered_lease(&self, storage: &RawDeviceBuffer) -> Result<AllocationLease> {
        // A recorded graph can use the memory again on this stream, in the middle of cuda-um's work: the access excludes it.
        let stream = match storage.is_unique() {
            true => self.theirs(),
            false => self.shared().exclusive(),
        };
        self.lease(storage, stream, true)
    }

    /// Registers an access on a stream, and waits for those that conflict with it.
    pub(crate) fn lease(
        &self,
        storage: &RawDeviceBuffer,
        stream: &Stream,
        writes: bool,
    ) -> Result<AllocationLease> {
        const CONFLICT: DriverError = DriverError(sys::cudaError_enum_CUDA_ERROR_NOT_READY);
        match storage.acquire(stream, writes, false) {
            Err(CONFLICT) => self.shared().context().synchronize()?,
            result => return Ok(result?),
        }
        match storage.acquire(stream, writes, false) {
            Err(CONFLICT) => Err(Error::Busy {
                address: storage.cu_deviceptr(),
                ordinal: self.shared().context().ordinal(),
            }),
            result => Ok(result?),
        }
    }
}

/// A buffer that cuda-um uses for a while.
struct Lent<'s, T: DeviceCopy> {
    stream: &'s SharedStream,
    buffer: UnifiedBuffer<T>,
    lease: Option<AllocationLease>,
}

impl<T: DeviceCopy> Lent<'_, T> {
    fn run<R>(mut self, work: impl FnOnce(ViewMut<'_, T>) -> cuda_um::Result<R>) -> Result<R> {
        let result = work(self.buffer.as_view_mut());
        self.end()?;
        Ok(result?)
    }

    /// Orders the stream after the work, and keeps the lease until then.
    fn end(&mut self) -> Result<()> {
        let Some(lease) = self.lease.take() else {
            return Ok(());
        };
        if let Err(error) = self.stream.join(&mut self.buffer) {
            // Without the order, the end of all work. If this fails too, the context does no more work.
            let _ = self.stream.shared().device().synchronize();
            return Err(error.into());
        }
        Ok(lease.retain_until_complete(self.stream.theirs())?)
    }
}

/// Also if `work` panics.
impl<T: DeviceCopy> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

pub(crate) fn address<T>(buffer: &DeviceBuffer<T>) -> NonNull<T> {
    NonNull::new(buffer.cu_deviceptr() as *mut T).unwrap_or(NonNull::dangling())
}
