//! Methods that the types of buffers share, beside those of the trait.

use std::sync::Arc;

use cuda_um::{
    HostMut, HostRef,
    buffer::{Filled, Slots},
};

use crate::cuda_buffer::CudaBuffer;
use crate::device::CudaDevice;
use crate::dtype::Element;
use crate::error::Result;
use crate::pinned_buffer::PinnedBuffer;
use crate::unified_buffer::UnifiedBuffer;

macro_rules! copies {
    ($buffer:ident) => {
        impl<T: Element> $buffer<T> {
            /// Does the same as [`from_slice`](Self::from_slice) with the elements of a vector.
            ///
            /// # Errors
            /// As for [`from_slice`](Self::from_slice).
            #[track_caller]
            pub fn from_vec(device: Arc<CudaDevice>, elements: Vec<T>) -> Result<Self> {
                Self::from_slice(device, &elements)
            }

            /// Does the same as [`Buffer::copy_from_host`](crate::Buffer::copy_from_host), but awaits instead of blocking. Works on any
            /// executor. A future that is dropped early leaves a first part copied.
            ///
            /// # Errors
            /// As for [`Buffer::copy_from_host`](crate::Buffer::copy_from_host); [`Incomplete`](cuda_um::Error::Incomplete).
            pub async fn copy_from_host_async(&mut self, source: &[T]) -> Result<()> {
                Ok(self.as_cuda_um_mut().copy_from_host_async(source).await?)
            }

            /// Does the same as [`Buffer::copy_to_host`](crate::Buffer::copy_to_host), but awaits instead of blocking. Works on any
            /// executor. A future that is dropped early leaves a first part copied.
            ///
            /// # Errors
            /// As for [`Buffer::copy_to_host`](crate::Buffer::copy_to_host); [`Incomplete`](cuda_um::Error::Incomplete).
            pub async fn copy_to_host_async(&self, target: &mut [T]) -> Result<()> {
                Ok(self.as_cuda_um().copy_to_host_async(target).await?)
            }

            /// Replaces a range with elements that `make` writes piece by piece, without a migration of the old ones to the host. See
            /// [`cuda_um::UnifiedBuffer::host_overwrite`].
            ///
            /// # Errors
            /// [`RangeOutOfBounds`](cuda_um::Error::RangeOutOfBounds), and errors of CUDA.
            pub fn host_overwrite(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
                make: impl for<'s> Fn(usize, Slots<'s, T>) -> Filled<'s> + Sync,
            ) -> Result<()> {
                Ok(self.as_cuda_um_mut().host_overwrite(range, make)?)
            }
        }
    };
}
copies!(UnifiedBuffer);
copies!(CudaBuffer);
copies!(PinnedBuffer);

macro_rules! guards {
    ($buffer:ident) => {
        impl<T: Element> $buffer<T> {
            /// Does the same as [`host`](Self::host), but awaits instead of blocking. Works on any executor.
            ///
            /// # Errors
            /// As for [`host`](Self::host).
            pub async fn host_async(&self) -> Result<HostRef<'_, T>> {
                Ok(self.as_cuda_um().host_async().await?)
            }

            /// Does the same as [`host_mut`](Self::host_mut), but awaits instead of blocking. Works on any executor.
            ///
            /// # Errors
            /// As for [`host_mut`](Self::host_mut).
            pub async fn host_mut_async(&mut self) -> Result<HostMut<'_, T>> {
                Ok(self.as_cuda_um_mut().host_mut_async().await?)
            }
        }
    };
}
guards!(UnifiedBuffer);
guards!(PinnedBuffer);
