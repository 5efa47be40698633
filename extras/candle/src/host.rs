//! The host's access to tensors in place.

use crate::device::UnifiedDevice;
use crate::element::{Element, check_type, explain, part};
use crate::error::Result;
use candle_core::{CpuStorage, CudaStorage, InplaceOp1, Layout, Tensor};
use std::cell::Cell;

impl UnifiedDevice {
    /// Waits for candle's work, and lends the elements of a contiguous tensor to `read`, in place.
    ///
    /// # Ordering
    ///
    /// While `read` runs, it has candle's lock of the storage for readers: an operation that writes the storage waits, and waits forever if
    /// `read` itself calls it. Operations that read the tensor go on.
    ///
    /// # Errors
    ///
    /// [`Error::OtherType`](crate::Error::OtherType), [`Error::NotContiguous`](crate::Error::NotContiguous),
    /// [`Error::OtherDevice`](crate::Error::OtherDevice), [`Error::NotManaged`](crate::Error::NotManaged), and the errors of waits.
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host<T: Element, R>(&self, tensor: &Tensor, read: impl FnOnce(&[T]) -> R) -> Result<R> {
        check_type::<T>(tensor)?;
        let (storage, layout) = tensor.storage_and_layout();
        let part = part(layout)?;
        let slice = self.check(&storage)?.as_cuda_slice::<T>()?;
        let elements = self.shared().host(slice);
        Ok(read(
            &elements.map_err(|error| explain(error, tensor))?[part],
        ))
    }

    /// Waits for candle's work, and lends the elements of a contiguous tensor to `write`, in place. As candle's own in-place operations,
    /// it changes all tensors that share the storage, and the backpropagation does not know of it.
    ///
    /// # Ordering
    ///
    /// While `write` runs, it has candle's lock of the storage: each operation on a tensor of this storage waits, and waits forever if
    /// `write` itself calls it. Later work of candle sees the new elements.
    ///
    /// # Errors
    ///
    /// As for [`host`](Self::host).
    #[doc(alias = "cuStreamSynchronize")]
    pub fn host_mut<T: Element, R>(
        &self,
        tensor: &Tensor,
        write: impl FnOnce(&mut [T]) -> R,
    ) -> Result<R> {
        check_type::<T>(tensor)?;
        let part = part(tensor.layout())?;
        self.check(&tensor.storage_and_layout().0)?;
        let written = locked(tensor, |storage| {
            let slice = storage.as_cuda_slice_mut::<T>()?;
            let elements = self.shared().host_mut(slice);
            Ok(write(
                &mut elements.map_err(|error| explain(error, tensor))?[part],
            ))
        });
        written?
    }
}

/// Runs `work` with the storage of a tensor on a GPU, under candle's lock for writers.
pub(crate) fn locked<R>(tensor: &Tensor, work: impl FnOnce(&mut CudaStorage) -> R) -> Result<R> {
    let locked = Locked {
        work: Cell::new(Some(work)),
        result: Cell::new(None),
    };
    tensor.inplace_op1(&locked)?;
    let without = || candle_core::Error::Msg("candle did not run an operation in place".to_owned());
    Ok(locked.result.take().ok_or_else(without)?)
}

/// Candle lends the storage only to operations.
struct Locked<W, R> {
    work: Cell<Option<W>>,
    result: Cell<Option<R>>,
}

impl<W: FnOnce(&mut CudaStorage) -> R, R> InplaceOp1 for Locked<W, R> {
    fn name(&self) -> &'static str {
        "um-candle"
    }

    fn cpu_fwd(&self, _: &mut CpuStorage, _: &Layout) -> candle_core::Result<()> {
        candle_core::bail!("the tensor is on the CPU")
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, _: &Layout) -> candle_core::Result<()> {
        self.result.set(self.work.take().map(|work| work(storage)));
        Ok(())
    }
}
