//! Tensors that have the memory of a buffer for a while. They work with every version of CUDA.
#![allow(unsafe_code, reason = "makes a slice of memory that it must not free")]

use crate::device::{CudaSlice, UnifiedDevice};
use crate::element::{Element, check_shape, with_slice};
use crate::error::{Error, Result};
use crate::host::locked;
use candle_core::cuda::CudaStorageSlice;
use candle_core::cuda::cudarc::driver::DevicePtr;
use candle_core::{CudaStorage, Shape, Tensor};
use cuda_um::UnifiedBuffer;
use um_cudarc::UnifiedSlice;

impl UnifiedDevice {
    /// Lends the memory of a buffer to `work`, as a tensor. Afterwards the tensor is revoked: each operation of candle on a clone that is
    /// left, or on a view of it, is an error.
    ///
    /// # Ordering
    ///
    /// Candle's work is ordered after earlier work on the buffer. At the end, this waits for all work of the device.
    ///
    /// # Errors
    ///
    /// [`Error::Shape`]; the errors of [`SharedStream::share`](um_cudarc::SharedStream::share); [`Error::Swapped`]; errors of waits, with which
    /// the buffer is leaked; and the error of `work`. The buffer does not come back after an error.
    ///
    /// # Safety
    ///
    /// `work` does not move the lent memory out of its storage: an operation in place that it brings itself does not swap the `CudaSlice`.
    /// Candle's operations do not.
    pub unsafe fn lend<T: Element, R>(
        &self,
        buffer: UnifiedBuffer<T>,
        shape: impl Into<Shape>,
        work: impl FnOnce(&Tensor) -> candle_core::Result<R>,
    ) -> Result<(UnifiedBuffer<T>, R)> {
        let shape = shape.into();
        check_shape(buffer.len(), &shape)?;
        let stream = self.stream();
        let shared = stream.share(buffer)?;
        let (address, record) = shared.as_slice().device_ptr(stream.theirs());
        drop(record);
        // SAFETY: the buffer has so many elements, and is not used until `Lent` has taken the slice back.
        let slice = unsafe { stream.theirs().upgrade_device_ptr(address, shared.len()) };
        let lent = Lent {
            tensor: self.tensor::<T>(slice, shape),
            shared: Some(shared),
            device: self,
            address,
        };
        let result = work(&lent.tensor);
        let shared = lent.end()?;
        Ok((shared.into_buffer()?, result?))
    }

    /// The slice of a revoked tensor. Each operation of candle 0.11.1 refuses tensors of this type; `F8E8M0` has a copy.
    fn revoked(&self) -> Result<CudaStorageSlice> {
        Ok(CudaStorageSlice::F4(self.candle().alloc_zeros::<u8>(1)?))
    }
}

/// A lent tensor. Its drop revokes it, also if the borrower panics.
struct Lent<'d, T: Element> {
    tensor: Tensor,
    shared: Option<UnifiedSlice<T>>,
    device: &'d UnifiedDevice,
    address: u64,
}

impl<T: Element> Lent<'_, T> {
    fn end(mut self) -> Result<UnifiedSlice<T>> {
        self.revoke()
    }

    /// Takes the memory back. If it cannot be taken, it is leaked: candle may still use it, or free it.
    fn revoke(&mut self) -> Result<UnifiedSlice<T>> {
        let shared = self.shared.take();
        let shared = shared.ok_or(Error::Swapped { bytes: 0 })?;
        match self.take_back() {
            Ok(true) => Ok(shared),
            taken => {
                let bytes = shared.len() * size_of::<T>();
                std::mem::forget(shared);
                // Candle's own drop would free the memory.
                std::mem::forget(self.tensor.clone());
                taken?;
                Err(Error::Swapped { bytes })
            }
        }
    }

    /// Takes the slice out of the storage. Returns false if it is another one.
    fn take_back(&mut self) -> Result<bool> {
        let nothing = self.device.revoked()?;
        let address = self.address;
        let taken = locked(&self.tensor, |storage| take::<T>(storage, address, nothing))?;
        let taken = taken?;
        // Operations in other threads have enqueued their work by now, because they were under the lock.
        self.device
            .shared()
            .context()
            .synchronize()
            .map_err(um_cudarc::Error::from)?;
        Ok(taken)
    }
}

impl<T: Element> Drop for Lent<'_, T> {
    fn drop(&mut self) {
        if self.shared.is_some() {
            drop(self.revoke());
        }
    }
}

/// Replaces the slice at the address, and forgets it without a free. Returns false if another one is there.
fn take<T: Element>(
    storage: &mut CudaStorage,
    address: u64,
    nothing: CudaStorageSlice,
) -> Result<bool> {
    let Ok(slice) = storage.as_cuda_slice::<T>() else {
        return Ok(false);
    };
    if address_of(slice) != address {
        return Ok(false);
    }
    let slice = std::mem::replace(&mut storage.slice, nothing);
    // `leak` releases the slice's events.
    with_slice!(CudaStorageSlice, slice, slice => slice.leak());
    Ok(true)
}

pub(crate) fn address_of<T>(slice: &CudaSlice<T>) -> u64 {
    let (address, record) = slice.device_ptr(slice.stream());
    drop(record);
    address
}
