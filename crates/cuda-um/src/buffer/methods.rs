//! The methods that several buffer types share.

/// Methods of every buffer type: `buffer_methods!([T] UnifiedBuffer<T>)`.
macro_rules! buffer_methods {
    ([$($life:lifetime)?] $buffer:ident) => {
        impl<$($life,)? T> $crate::buffer::any::Raw for $buffer<$($life,)? T> {
            fn raw_part(
                &self,
            ) -> (&$crate::resource::allocation::Allocation, std::ops::Range<usize>) {
                (&self.raw, 0..self.raw.bytes())
            }
        }
        impl<$($life,)? T> $crate::buffer::any::RawMut for $buffer<$($life,)? T> {}

        impl<$($life,)? T> $crate::buffer::any::Memory<T> for $buffer<$($life,)? T> {}
        impl<$($life,)? T> $crate::buffer::any::MemoryMut<T> for $buffer<$($life,)? T> {}

        impl<$($life,)? T> $crate::buffer::any::ToView<T> for $buffer<$($life,)? T> {
            fn to_view(&self) -> $crate::View<'_, T> {
                self.as_view()
            }
        }

        impl<$($life,)? T> $crate::buffer::any::ToViewMut<T> for $buffer<$($life,)? T> {
            fn to_view_mut(&mut self) -> $crate::ViewMut<'_, T> {
                self.as_view_mut()
            }
        }

        read_methods!([$($life)?] $buffer);
        write_methods!([$($life)?] $buffer, as_view_mut);

        impl<$($life,)? T> $buffer<$($life,)? T> {
            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.raw.bytes() / size_of::<T>()
            }

            /// Returns true if the buffer has no elements.
            pub fn is_empty(&self) -> bool {
                self.raw.bytes() == 0
            }

            /// Returns the size in bytes.
            pub fn size_bytes(&self) -> usize {
                self.raw.bytes()
            }

            /// Returns the device for which the buffer was allocated.
            pub fn device(&self) -> &$crate::Device {
                self.raw.device()
            }

            /// Returns the buffer's identifier, which errors and traces use. No two buffers of the process have the same one.
            pub fn id(&self) -> u64 {
                self.raw.id()
            }

            /// Sets the buffer's name for traces; the default is its type and length. The memory of a pool loses the name when the buffer
            /// is dropped.
            pub fn set_name(&mut self, name: impl Into<std::sync::Arc<str>>) {
                self.raw.set_name($crate::label::Name::Shared(name.into()));
            }

            /// Returns the name that was set.
            pub fn name(&self) -> Option<&str> {
                self.raw.name()
            }

            /// Returns a view of a range of elements, for a kernel to read.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds).
            pub fn view(&self, range: impl std::ops::RangeBounds<usize>) -> $crate::Result<$crate::View<'_, T>> {
                $crate::View::new(&self.raw, range)
            }

            /// Returns a view of a range of elements, for a kernel to read and write.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds).
            pub fn view_mut(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
            ) -> $crate::Result<$crate::ViewMut<'_, T>> {
                $crate::ViewMut::new(&mut self.raw, range)
            }

            /// Returns a view of all elements, to be read.
            pub fn as_view(&self) -> $crate::View<'_, T> {
                $crate::View::whole(&self.raw)
            }

            /// Returns a view of all elements, to be read and written.
            pub fn as_view_mut(&mut self) -> $crate::ViewMut<'_, T> {
                $crate::ViewMut::whole(&mut self.raw)
            }
        }

        impl<$($life,)? T> std::fmt::Debug for $buffer<$($life,)? T> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($buffer))
                    .field("id", &self.id())
                    .field("len", &self.len())
                    .field("size_bytes", &self.size_bytes())
                    .field("device", &self.device().ordinal())
                    .finish_non_exhaustive()
            }
        }
    };
}

/// `zeroed_like!(DeviceBuffer, Device)`, for buffers with one kind of memory.
macro_rules! zeroed_like {
    ($buffer:ident, $kind:ident) => {
        impl<T: $crate::DeviceCopy> $buffer<T> {
            /// Allocates `len` zeros in the same kind of memory, from the same resource: the pool, the limit, the options of the allocation. A buffer of
            /// the caller's memory or of another library's, and one without elements, gives default memory of the kind.
            ///
            /// # Ordering
            ///
            /// The same as for [`zeroed_in`](Self::zeroed_in).
            ///
            /// # Errors
            ///
            /// The errors of [`zeroed_in`](Self::zeroed_in).
            #[track_caller]
            pub fn zeroed_like(&self, len: usize) -> $crate::Result<Self> {
                let resource = $crate::resource::again::Again {
                    of: &self.raw,
                    kind: $crate::MemoryKind::$kind,
                };
                Self::zeroed_in(&resource, len)
            }
        }
    };
}

/// Methods of buffers and views that read: `read_methods!(['a] View)`. They need `as_view`.
macro_rules! read_methods {
    ([$($life:lifetime)?] $memory:ident) => {
        impl<$($life,)? T: $crate::DeviceCopy> $memory<$($life,)? T> {
            /// Copies all elements to the host. Waits for work that writes the buffer; the copy is complete when this returns.
            ///
            /// # Errors
            ///
            /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless `target` is as long as the buffer, and the errors of the CUDA
            /// functions.
            #[doc(alias = "cudaMemcpy")]
            pub fn copy_to_host(&self, target: &mut [T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_to_host", self.len(), target.len())?;
                let source = self.as_view().into_bytes();
                $crate::buffer::copy::to_host(source, bytemuck::cast_slice_mut(target))
            }

            /// Copies elements to the host, from element `offset` on. Waits for work that writes the buffer; the copy is complete when this
            /// returns.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and the errors of the CUDA functions.
            pub fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> $crate::Result<()> {
                let source = self.as_view().slice_at(offset, target.len())?.into_bytes();
                $crate::buffer::copy::to_host(source, bytemuck::cast_slice_mut(target))
            }

            /// Returns one element: a result, a loss, a flag. It waits and copies as [`copy_to_host_at`](Self::copy_to_host_at) does, with one
            /// call of CUDA and the wait for it.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and the errors of the CUDA functions.
            #[doc(alias = "item")]
            pub fn read_one(&self, index: usize) -> $crate::Result<T> {
                let mut element = [T::zeroed()];
                self.copy_to_host_at(index, &mut element)?;
                Ok(element[0])
            }

            /// Copies all elements to a new vector. Waits for work that writes the buffer; the copy is complete when this returns.
            ///
            /// No page migrates: a copy from the device is about twice as fast as a prefetch to the host. To read repeatedly, reuse a
            /// destination with [`copy_to_host`](Self::copy_to_host): the first touch of new memory takes longer than the copy.
            ///
            /// # Errors
            ///
            /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the host has too little memory, and the errors of
            /// [`copy_to_host`](Self::copy_to_host).
            pub fn to_vec(&self) -> $crate::Result<Vec<T>> {
                let mut elements = $crate::buffer::host_vec::zeroed("to_vec", self.len())?;
                self.copy_to_host(&mut elements)?;
                Ok(elements)
            }

            /// Does the same as [`copy_to_host`](Self::copy_to_host), without blocking the thread for long: awaits work that writes the
            /// buffer and work on the device's default stream, copies a few MiB at a time, and lets other tasks run between these pieces.
            /// Works on any executor.
            ///
            /// The future borrows the target. A future that is dropped early leaves the first part copied, and no work that uses the
            /// target.
            ///
            /// # Errors
            ///
            /// The errors of [`copy_to_host`](Self::copy_to_host); [`Error::Incomplete`](crate::Error::Incomplete) after a partial copy.
            pub async fn copy_to_host_async(&self, target: &mut [T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_to_host_async", self.len(), target.len())?;
                let target = bytemuck::cast_slice_mut(target);
                $crate::buffer::future::copy_to_host(self.as_view().into_bytes(), target).await
            }
        }
    };
}

/// Methods of buffers and views that write: `write_methods!(['a] ViewMut, reborrow)`. They need the method that is named, which makes a view
/// of all elements.
macro_rules! write_methods {
    ([$($life:lifetime)?] $memory:ident, $reborrow:ident) => {
        impl<$($life,)? T: $crate::DeviceCopy> $memory<$($life,)? T> {
            /// Copies all elements from the host.
            ///
            /// # Ordering
            ///
            /// The copy is ordered after earlier uses of the buffer, on any stream. When this returns, `source` may be reused, but the last
            /// part of the copy may still run on the device's default stream; later uses of the buffer, on any stream, and host guards are
            /// ordered after the copy.
            ///
            /// # Errors
            ///
            /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless `source` is as long as the buffer, and the errors of the CUDA
            /// functions.
            #[doc(alias = "cudaMemcpy")]
            pub fn copy_from_host(&mut self, source: &[T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_from_host", self.len(), source.len())?;
                let target = self.$reborrow().into_bytes();
                $crate::buffer::copy::from_host(target, bytemuck::cast_slice(source))
            }

            /// Copies elements from the host to the buffer, from element `offset` on.
            ///
            /// # Ordering
            ///
            /// The same as for [`copy_from_host`](Self::copy_from_host).
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and the errors of the CUDA functions.
            pub fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> $crate::Result<()> {
                let target = self.$reborrow().slice_at(offset, source.len())?.into_bytes();
                $crate::buffer::copy::from_host(target, bytemuck::cast_slice(source))
            }

            /// Replaces one element, in order with other work on the buffer. Does not wait for that work: later uses are ordered after the
            /// copy.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and the errors of the CUDA functions.
            pub fn write_one(&mut self, index: usize, value: T) -> $crate::Result<()> {
                self.copy_from_host_at(index, &[value])
            }

            /// Does the same as [`copy_from_host`](Self::copy_from_host), without blocking the thread for long: awaits work that uses the
            /// buffer and work on the device's default stream, copies a few MiB at a time, and lets other tasks run between these pieces.
            /// The future is ready when all elements have arrived. Works on any executor.
            ///
            /// The future borrows the source. A future that is dropped early leaves the first part copied, and no work that uses the
            /// source.
            ///
            /// # Errors
            ///
            /// The errors of [`copy_from_host`](Self::copy_from_host); [`Error::Incomplete`](crate::Error::Incomplete) after a partial
            /// copy.
            pub async fn copy_from_host_async(&mut self, source: &[T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_from_host_async", self.len(), source.len())?;
                let source = bytemuck::cast_slice(source);
                $crate::buffer::future::copy_from_host(self.$reborrow().into_bytes(), source).await
            }

            /// Replaces a range of elements with values that `make` writes, without a migration of the old ones to the host.
            ///
            /// `make(first, slots)` writes the elements from index `first` on, one piece at a time. For large ranges several threads call
            /// it at the same time, and the pieces go through pinned memory of the library. It cannot read the old elements, and must write
            /// all of the slots:
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
            /// The same as for [`copy_from_host`](Self::copy_from_host); `make` is not called after this returns.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds);
            /// [`Error::Incomplete`](crate::Error::Incomplete) after a partial copy; [`Error::OutOfMemory`](crate::Error::OutOfMemory) if
            /// the range cannot be staged and the host has too little memory for all of it; and the errors of the CUDA functions.
            pub fn host_overwrite(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
                make: impl for<'c> Fn(usize, $crate::buffer::Slots<'c, T>) -> $crate::buffer::Filled<'c> + Sync,
            ) -> $crate::Result<()> {
                let range = $crate::range::check(range, self.len())?;
                let (first, target) = (range.start, self.$reborrow().slice(range)?);
                $crate::buffer::overwrite::overwrite(target, first, make)
            }

            /// Sets every element to `value`, on the library's stream of the device.
            ///
            /// # Ordering
            ///
            /// The same as for [`fill_on`](Self::fill_on).
            ///
            /// # Errors
            ///
            /// The errors of [`fill_on`](Self::fill_on).
            #[doc(alias = "cudaMemset")]
            pub fn fill(&mut self, value: impl Into<$crate::Scalar<T>>) -> $crate::Result<()> {
                let device = self.device().clone();
                let stream = device.own_stream()?;
                self.fill_on(value, stream)
            }

            /// Sets every element to `value`, on a stream.
            ///
            /// # Ordering
            ///
            /// The fill is enqueued on the stream when this returns, after earlier uses of the buffer on any stream. While host guards live
            /// and the device has no concurrent managed access, the host fills managed memory at once. It also fills system memory with a
            /// value that is no repetition of 1, 2 or 4 bytes. After an error, an element may have a part of its old bytes and a part of
            /// those of `value`.
            ///
            /// # Errors
            ///
            /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) for device memory and a stream of another device,
            /// [`Error::RuntimeMismatch`](crate::Error::RuntimeMismatch), [`Error::Capture`](crate::Error::Capture) in a capture unless the value is
            /// a [`constant`](crate::constant), and the errors of the CUDA functions.
            #[doc(alias = "cudaMemset")]
            #[doc(alias = "cuMemsetD32Async")]
            pub fn fill_on(
                &mut self,
                value: impl Into<$crate::Scalar<T>>,
                stream: &$crate::Stream,
            ) -> $crate::Result<()> {
                let (view, value) = (self.$reborrow().into_bytes(), value.into());
                let refusal = value.refusal_of_fill();
                $crate::buffer::fill::fill(view, bytemuck::bytes_of(&value.value()), refusal, stream)
            }

            /// Copies the elements in `range` to other elements of the same memory, from element `to` on, on the library's stream of the
            /// device. The two ranges may overlap.
            ///
            /// # Ordering
            ///
            /// The same as for [`copy_within_on`](Self::copy_within_on).
            ///
            /// # Errors
            ///
            /// The errors of [`copy_within_on`](Self::copy_within_on).
            #[doc(alias = "memmove")]
            pub fn copy_within(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
                to: usize,
            ) -> $crate::Result<()> {
                let device = self.device().clone();
                let stream = device.own_stream()?;
                self.copy_within_on(range, to, stream)
            }

            /// Copies the elements in `range` to other elements of the same memory, from element `to` on, on a stream. The two ranges may
            /// overlap.
            ///
            /// Ranges that overlap by nearly all of their elements are copied through up to 8 MiB of device memory; the host copies within
            /// system memory.
            ///
            /// # Ordering
            ///
            /// The copy is enqueued on the stream when this returns, after earlier uses of the buffer on any stream.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and the errors of [`Stream::copy`](crate::Stream::copy).
            #[doc(alias = "memmove")]
            pub fn copy_within_on(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
                to: usize,
                stream: &$crate::Stream,
            ) -> $crate::Result<()> {
                let from = $crate::range::check(range, self.len())?;
                let to = $crate::range::check_at(to, from.len(), self.len())?;
                let [from, to] = [from, to].map(|range| $crate::range::to_bytes::<T>(&range));
                let view = self.$reborrow().into_bytes();
                $crate::buffer::copy_within::copy_within(view, from, to.start, stream)
            }
        }
    };
}
