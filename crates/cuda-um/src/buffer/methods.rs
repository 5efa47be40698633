//! The methods that buffers share with views.

use crate::DeviceCopy;
use crate::buffer::guard::{HostMut, HostRef};
use crate::buffer::kind::{HostVisible, Kind};
use crate::buffer::memory::Memory;
use crate::buffer::view::{View, ViewMut};
use crate::buffer::{Filled, Slots, copy, copy_within, fill, future, host_vec, overwrite};
use crate::context::device::Device;
use crate::context::stream::Stream;
#[cfg(doc)]
use crate::error::Error;
use crate::error::Result;
use crate::range;
use crate::scalar::Scalar;
use std::ops::RangeBounds;

macro_rules! properties {
    ([$($generics:tt)*] $memory:ty, $borrow:lifetime) => {
        impl<$($generics)*> $memory {
            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.as_view().len
            }

            /// Returns true if there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns the size in bytes.
            pub fn size_bytes(&self) -> usize {
                self.len() * size_of::<T>()
            }

            /// Returns the device for which the buffer was allocated.
            pub fn device(&self) -> &$borrow Device {
                self.raw.device()
            }

            /// Returns the address of the first element, for the host and, if the memory is mapped there, for the device. Only the device may
            /// use that of device memory.
            pub fn as_ptr(&self) -> *const T {
                self.as_view().address().cast_const().cast()
            }

            /// Returns the address of the first element for kernels; `None` if the device cannot map host memory.
            #[doc(alias = "cudaHostGetDevicePointer")]
            pub fn device_ptr(&self) -> Option<*const T> {
                let start = self.raw.device_pointer()?.as_ptr();
                Some(start.wrapping_add(self.as_view().start).cast_const().cast())
            }
        }
    };
}

macro_rules! read_methods {
    ([$($generics:tt)*] $memory:ty) => {
        impl<$($generics)*> $memory {
            /// Copies all elements to the host. Waits for work that writes the buffer; the copy is complete when this returns.
            ///
            /// # Errors
            ///
            /// [`Error::LengthMismatch`] unless `target` is as long as the buffer, and the errors of the CUDA functions.
            #[doc(alias = "cudaMemcpy")]
            pub fn copy_to_host(&self, target: &mut [T]) -> Result<()> {
                copy::to_host(self.as_view(), target)
            }

            /// Does the same as [`copy_to_host`](Self::copy_to_host) for the elements from `offset` on.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`], and the errors of the CUDA functions.
            pub fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> Result<()> {
                copy::to_host(self.as_view().slice_at(offset, target.len())?, target)
            }

            /// Returns one element, as [`copy_to_host`](Self::copy_to_host) does.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`], and the errors of the CUDA functions.
            #[doc(alias = "item")]
            pub fn read_one(&self, index: usize) -> Result<T> {
                let mut element = [T::zeroed()];
                self.copy_to_host_at(index, &mut element)?;
                Ok(element[0])
            }

            /// Copies all elements to a new vector, as [`copy_to_host`](Self::copy_to_host) does. To read repeatedly, reuse a destination: the
            /// first touch of new memory takes longer than the copy.
            ///
            /// # Errors
            ///
            /// [`Error::OutOfMemory`] if the host has too little memory, and the errors of [`copy_to_host`](Self::copy_to_host).
            pub fn to_vec(&self) -> Result<Vec<T>> {
                let mut elements = host_vec::zeroed("to_vec", self.len())?;
                self.copy_to_host(&mut elements)?;
                Ok(elements)
            }

            /// Does the same as [`copy_to_host`](Self::copy_to_host) on any executor: other tasks run between pieces of a few MiB. A future that
            /// is dropped early leaves the first part copied, and no work that uses the target.
            ///
            /// # Errors
            ///
            /// The errors of [`copy_to_host`](Self::copy_to_host); [`Error::Incomplete`] after a partial copy.
            pub async fn copy_to_host_async(&self, target: &mut [T]) -> Result<()> {
                range::same_length("copy_to_host_async", self.len(), target.len())?;
                let target = bytemuck::cast_slice_mut(target);
                future::copy_to_host(self.as_view().into_bytes(), target).await
            }
        }
    };
}

macro_rules! write_methods {
    ([$($generics:tt)*] $memory:ty) => {
        impl<$($generics)*> $memory {
            /// Copies all elements from the host.
            ///
            /// # Ordering
            ///
            /// The copy is ordered after earlier uses of the buffer on any stream; later uses and host guards are ordered after it. When this
            /// returns, `source` may be reused, but the last part may still run on the device's default stream.
            ///
            /// # Errors
            ///
            /// [`Error::LengthMismatch`] unless `source` is as long as the buffer, and the errors of the CUDA functions.
            pub fn copy_from_host(&mut self, source: &[T]) -> Result<()> {
                copy::from_host(self.as_view_mut(), source)
            }

            /// Does the same as [`copy_from_host`](Self::copy_from_host) for the elements from `offset` on.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`], and the errors of the CUDA functions.
            pub fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> Result<()> {
                copy::from_host(self.as_view_mut().slice_at(offset, source.len())?, source)
            }

            /// Replaces one element, in order with other work on the buffer, without a wait for it.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`], and the errors of the CUDA functions.
            pub fn write_one(&mut self, index: usize, value: T) -> Result<()> {
                self.copy_from_host_at(index, &[value])
            }

            /// Does the same as [`copy_from_host`](Self::copy_from_host) on any executor. The future is ready when all elements have arrived.
            ///
            /// # Errors
            ///
            /// The errors of [`copy_from_host`](Self::copy_from_host); [`Error::Incomplete`] after a partial copy.
            pub async fn copy_from_host_async(&mut self, source: &[T]) -> Result<()> {
                range::same_length("copy_from_host_async", self.len(), source.len())?;
                let source = bytemuck::cast_slice(source);
                future::copy_from_host(self.as_view_mut().into_bytes(), source).await
            }

            /// Replaces a range of elements with values that `make` writes, without a migration of the old ones to the host.
            ///
            /// `make(first, slots)` writes the elements from index `first` on, one piece at a time, for large ranges on several threads at
            /// once. It cannot read the old elements, and must write all of the slots:
            ///
            /// ```
            /// # let device = cuda_um::Runtime::from_table(cuda_um_sim::Sim::from_env().unwrap().table())?.device(0)?;
            /// use cuda_um::UnifiedBuffer;
            ///
            /// let mut squares = UnifiedBuffer::<u64>::zeroed(&device, 1000)?;
            /// squares.host_overwrite(.., |first, slots| {
            ///     slots.fill_with(|i| ((first + i) as u64).pow(2))
            /// })?;
            /// assert_eq!(squares.host()?[30], 900);
            /// # Ok::<(), cuda_um::Error>(())
            /// ```
            ///
            /// # Ordering
            ///
            /// As for [`copy_from_host`](Self::copy_from_host); `make` is not called after this returns.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`]; [`Error::Incomplete`] after a partial copy; [`Error::OutOfMemory`] if the range cannot be
            /// staged and the host has too little memory for all of it; and the errors of the CUDA functions.
            pub fn host_overwrite(
                &mut self,
                range: impl RangeBounds<usize>,
                make: impl for<'c> Fn(usize, Slots<'c, T>) -> Filled<'c> + Sync,
            ) -> Result<()> {
                let range = range::check(range, self.len())?;
                let (first, target) = (range.start, self.as_view_mut().slice(range)?);
                overwrite::overwrite(target, first, make)
            }

            /// Does the same as [`fill_on`](Self::fill_on), on the library's stream of the device.
            ///
            /// # Errors
            ///
            /// The errors of [`fill_on`](Self::fill_on).
            #[doc(alias = "cudaMemset")]
            pub fn fill(&mut self, value: impl Into<Scalar<T>>) -> Result<()> {
                let view = self.as_view_mut();
                let stream = view.device().own_stream()?;
                fill::fill_with(view, value.into(), stream)
            }

            /// Sets every element to `value`, on a stream.
            ///
            /// # Ordering
            ///
            /// The fill is enqueued when this returns, after earlier uses of the buffer on any stream. The host fills managed memory at once
            /// while host guards live and the device has no concurrent managed access, and system memory with a value that is no repetition of
            /// 1, 2 or 4 bytes. After an error, an element may have a part of the bytes of `value`.
            ///
            /// # Errors
            ///
            /// [`Error::DeviceMismatch`] for device memory and a stream of another device, [`Error::RuntimeMismatch`], [`Error::Capture`]
            /// in a capture unless the value is a [`constant`](crate::constant), and the errors of the CUDA functions.
            #[doc(alias = "cuMemsetD32Async")]
            pub fn fill_on(
                &mut self,
                value: impl Into<Scalar<T>>,
                stream: &Stream,
            ) -> Result<()> {
                fill::fill_with(self.as_view_mut(), value.into(), stream)
            }

            /// Copies the elements in `range` to the same memory, from element `to` on, on a stream. The two ranges may overlap; if they do by
            /// nearly all elements, the copy goes through up to 8 MiB of device memory. The host copies within system memory.
            ///
            /// # Ordering
            ///
            /// The copy is enqueued when this returns, after earlier uses of the buffer on any stream.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`], and the errors of [`Stream::copy`](crate::Stream::copy).
            #[doc(alias = "memmove")]
            pub fn copy_within_on(
                &mut self,
                range: impl RangeBounds<usize>,
                to: usize,
                stream: &Stream,
            ) -> Result<()> {
                let from = range::check(range, self.len())?;
                let to = range::check_at(to, from.len(), self.len())?;
                let [from, to] = [from, to].map(|range| range::to_bytes::<T>(&range));
                let view = self.as_view_mut().into_bytes();
                copy_within::copy_within(view, from, to.start, stream)
            }
        }
    };
}

/// Methods that access memory from the host and read. `$guard` is the lifetime of the guards.
macro_rules! host_read_methods {
    ([$($generics:tt)*] $memory:ty, $guard:lifetime) => {
        impl<$($generics)*> $memory {
            /// Returns a guard for the host to read the elements. Waits only for work that writes or moves this buffer.
            ///
            /// # Errors
            ///
            /// [`Error::NotSupported`] for a view of device memory, and the errors of the CUDA functions, including a failure of that work.
            pub fn host(&self) -> Result<HostRef<$guard, T>> {
                HostRef::begin(self.as_view(), true)
            }

            /// Does the same as [`host`](Self::host) without waiting. On a system with a device that has no concurrent managed access, managed
            /// memory is busy while *any* work of such a device runs.
            ///
            /// # Errors
            ///
            /// [`Error::Busy`] if `host` would wait, and the errors of the CUDA functions.
            pub fn try_host(&self) -> Result<HostRef<$guard, T>> {
                HostRef::begin(self.as_view(), false)
            }

            /// Does the same as [`host`](Self::host), but awaits, on any executor. A future that is dropped before it is ready holds nothing.
            ///
            /// # Errors
            ///
            /// The errors of [`host`](Self::host).
            pub async fn host_async(&self) -> Result<HostRef<$guard, T>> {
                HostRef::when_free(self.as_view()).await
            }
        }
    };
}

macro_rules! host_write_methods {
    ([$($generics:tt)*] $memory:ty) => {
        impl<$($generics)*> $memory {
            /// Returns a guard for the host to read and write the elements. Waits only for work that uses this buffer.
            ///
            /// # Errors
            ///
            /// [`Error::NotSupported`] for a view of device memory, and the errors of the CUDA functions, including a failure of that work.
            pub fn host_mut(&mut self) -> Result<HostMut<'_, T>> {
                HostMut::begin(self.as_view_mut(), true)
            }

            /// Does the same as [`host_mut`](Self::host_mut) without waiting.
            ///
            /// # Errors
            ///
            /// [`Error::Busy`] if `host_mut` would wait, and the errors of the CUDA functions.
            pub fn try_host_mut(&mut self) -> Result<HostMut<'_, T>> {
                HostMut::begin(self.as_view_mut(), false)
            }

            /// Does the same as [`host_mut`](Self::host_mut), but awaits.
            ///
            /// # Errors
            ///
            /// The errors of [`host_mut`](Self::host_mut).
            pub async fn host_mut_async(&mut self) -> Result<HostMut<'_, T>> {
                HostMut::when_free(self.as_view_mut()).await
            }
        }
    };
}

properties!([T, K: Kind] Memory<T, K>, '_);
properties!(['a, T] View<'a, T>, 'a);
properties!(['a, T] ViewMut<'a, T>, 'a);

read_methods!([T: DeviceCopy, K: Kind] Memory<T, K>);
write_methods!([T: DeviceCopy, K: Kind] Memory<T, K>);
host_read_methods!([T: DeviceCopy, K: HostVisible] Memory<T, K>, '_);
host_write_methods!([T: DeviceCopy, K: HostVisible] Memory<T, K>);

read_methods!([T: DeviceCopy] View<'_, T>);
host_read_methods!(['a, T: DeviceCopy] View<'a, T>, 'a);

read_methods!([T: DeviceCopy] ViewMut<'_, T>);
write_methods!([T: DeviceCopy] ViewMut<'_, T>);
host_read_methods!([T: DeviceCopy] ViewMut<'_, T>, '_);
host_write_methods!([T: DeviceCopy] ViewMut<'_, T>);

impl<'a, T: DeviceCopy> ViewMut<'a, T> {
    /// Does the same as [`host_mut`](Self::host_mut), for a guard that lives as long as the borrow of the buffer.
    ///
    /// # Errors
    ///
    /// The errors of [`host_mut`](Self::host_mut).
    pub fn into_host_mut(self) -> Result<HostMut<'a, T>> {
        HostMut::begin(self, true)
    }
}
