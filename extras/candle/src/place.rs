//! The place of a tensor's memory, and its name in profiles.
#![allow(unsafe_code, reason = "imports the memory of tensors by its address")]

use crate::device::{CudaSlice, UnifiedDevice};
use crate::element::{StorageSlice, explain, part, with_slice};
use crate::error::{Error, Result};
use candle_core::Tensor;
use candle_core::cuda::cudarc::driver::DevicePtr;
use cuda_um::{Advice, Location, UnifiedBuffer, managed::RangeAttributes};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use um_cudarc::SharedStream;

impl UnifiedDevice {
    /// Moves the memory of a contiguous tensor to a processor.
    ///
    /// # Ordering
    ///
    /// The prefetch is work of candle's stream, after earlier work and before later work.
    ///
    /// # Errors
    ///
    /// [`Error::NotContiguous`], [`Error::OtherDevice`], [`Error::NotManaged`], and the errors of [`UnifiedBuffer::prefetch_on`] and of its outcome.
    #[doc(alias = "cudaMemPrefetchAsync")]
    pub fn prefetch(&self, tensor: &Tensor, location: impl Into<Location>) -> Result<()> {
        let location = location.into();
        self.lent(tensor, |buffer, stream| {
            buffer.prefetch_on(location, stream.ours())?.require()
        })
    }

    /// Advises the driver about later uses of a contiguous tensor that was [lent](Self::lend). The advice stays on the memory: undo it before
    /// the buffer comes back.
    ///
    /// # Errors
    ///
    /// As for [`prefetch`](Self::prefetch), and the errors of [`UnifiedBuffer::advise`] and of its outcome: tensors that own their memory
    /// have that of the driver's managed pool, for which CUDA takes no advice.
    #[doc(alias = "cudaMemAdvise")]
    pub fn advise(&self, tensor: &Tensor, advice: Advice) -> Result<()> {
        self.lent(tensor, |buffer, _| buffer.advise(advice)?.require())
    }

    /// The places of the tensor's parts. Only CUDA 13.4 and newer can tell them of memory that another library uses; otherwise see
    /// [`attributes`](Self::attributes).
    ///
    /// # Errors
    ///
    /// As for [`prefetch`](Self::prefetch), and the errors of [`UnifiedBuffer::residency`].
    #[doc(alias = "cudaMemGetLocationInfo")]
    pub fn residency(&self, tensor: &Tensor) -> Result<Option<Location>> {
        self.lent(tensor, |buffer, _| buffer.residency())
    }

    /// The advice of the tensor's memory, and its last prefetch.
    ///
    /// # Errors
    ///
    /// As for [`prefetch`](Self::prefetch), and the errors of [`UnifiedBuffer::range_attributes`].
    #[doc(alias = "cudaMemRangeGetAttribute")]
    pub fn attributes(&self, tensor: &Tensor) -> Result<RangeAttributes> {
        self.lent(tensor, |buffer, _| buffer.range_attributes())
    }

    /// Gives the memory of a contiguous tensor a name in traces and profiles, as long as the result lives. It keeps the tensor.
    ///
    /// # Errors
    ///
    /// As for [`prefetch`](Self::prefetch).
    pub fn name(&self, tensor: &Tensor, name: impl Into<Arc<str>>) -> Result<Named> {
        let buffer = self.lent(tensor, |mut buffer, _| {
            buffer.set_name(name);
            Ok(buffer)
        })?;
        Ok(Named {
            buffer,
            tensor: tensor.clone(),
        })
    }

    /// Lends the bytes of a tensor to `work`, after candle's earlier writes and before its later ones.
    fn lent<R>(
        &self,
        tensor: &Tensor,
        work: impl FnOnce(UnifiedBuffer<u8>, &SharedStream) -> cuda_um::Result<R>,
    ) -> Result<R> {
        let (storage, layout) = tensor.storage_and_layout();
        let part = part(layout)?;
        let slice = &self.check(&storage)?.slice;
        let done = with_slice!(StorageSlice, slice, slice => self.lent_slice(slice, part, work));
        let found = tensor.dtype();
        let done = done.ok_or(Error::Unsupported { found })?;
        done.map_err(|error| explain(error, tensor))
    }

    fn lent_slice<T, R>(
        &self,
        slice: &CudaSlice<T>,
        part: Range<usize>,
        work: impl FnOnce(UnifiedBuffer<u8>, &SharedStream) -> cuda_um::Result<R>,
    ) -> Result<R, um_cudarc::Error> {
        let stream = self.shared().adopt(slice.stream())?;
        // The stream waits for the last write. The drop after `work` records the event of a reader.
        let (address, _record) = slice.device_ptr(stream.theirs());
        stream.theirs().context().check_err()?;
        let first = address as usize + part.start * size_of::<T>();
        let pointer = NonNull::new(first as *mut u8).unwrap_or(NonNull::dangling());
        let bytes = part.len() * size_of::<T>();
        // SAFETY: the storage has these bytes, and is locked. A buffer that outlives this call is only a name, and keeps the tensor.
        let buffer = unsafe { UnifiedBuffer::from_foreign(self.ours(), pointer, bytes, ()) }?;
        Ok(work(buffer.read_only(), &stream)?)
    }
}

/// A tensor with a name in profiles: [`UnifiedDevice::name`].
#[derive(Debug)]
pub struct Named {
    /// Nothing reads or writes it: it tells the name to the profiler.
    buffer: UnifiedBuffer<u8>,
    tensor: Tensor,
}

impl Named {
    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The number of the memory in traces and profiles.
    pub fn id(&self) -> u64 {
        self.buffer.id()
    }
}
