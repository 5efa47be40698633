//! The methods that several kinds of buffers have.

/// Methods of every buffer: `buffer_methods!([T] UnifiedBuffer<T>)`.
macro_rules! buffer_methods {
    ([$($life:lifetime)?] $buffer:ident) => {
        impl<$($life,)? T> $crate::buffer::any::Raw for $buffer<$($life,)? T> {
            fn raw(&self) -> &$crate::resource::allocation::RawBuffer {
                &self.raw
            }
        }

        impl<$($life,)? T> $crate::buffer::any::Memory<T> for $buffer<$($life,)? T> {}

        impl<$($life,)? T> $buffer<$($life,)? T> {
            /// How many elements it has.
            pub fn len(&self) -> usize {
                self.raw.bytes() / size_of::<T>()
            }

            /// Whether it has no elements.
            pub fn is_empty(&self) -> bool {
                self.raw.bytes() == 0
            }

            /// Its size in bytes.
            pub fn size_bytes(&self) -> usize {
                self.raw.bytes()
            }

            /// The device that it was made for.
            pub fn device(&self) -> &$crate::Device {
                self.raw.device()
            }

            /// A number of its own, which errors and traces name.
            pub fn id(&self) -> u64 {
                self.raw.id()
            }

            /// Names it, for traces; else it goes by its type and length. A buffer of a pool has the name until it is dropped.
            pub fn set_name(&mut self, name: impl Into<std::sync::Arc<str>>) {
                self.raw.set_name($crate::label::Name::Shared(name.into()));
            }

            /// The name that it was given.
            pub fn name(&self) -> Option<&str> {
                self.raw.name()
            }

            /// A range of elements, to be read by a kernel.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds).
            pub fn view(&self, range: impl std::ops::RangeBounds<usize>) -> $crate::Result<$crate::View<'_, T>> {
                $crate::View::new(&self.raw, range)
            }

            /// A range of elements, to be read and written by a kernel.
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
        }

        impl<$($life,)? T: $crate::Element> $buffer<$($life,)? T> {
            /// Copies all elements from the host.
            ///
            /// # Ordering
            ///
            /// After earlier uses of the buffer. When it returns, `source` may be used again; later uses of the buffer, on any
            /// stream, and host guards come after the copy, whose last part may still be on its way.
            ///
            /// # Errors
            ///
            /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless `source` is as long as the buffer, and what the CUDA
            /// functions report.
            #[doc(alias = "cudaMemcpy")]
            pub fn copy_from_host(&mut self, source: &[T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_from_host", self.len(), source.len())?;
                self.copy_from_host_at(0, source)
            }

            /// Copies elements from the host to `offset` and on.
            ///
            /// # Ordering
            ///
            /// As for [`copy_from_host`](Self::copy_from_host).
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and what the CUDA functions report.
            pub fn copy_from_host_at(&mut self, offset: usize, source: &[T]) -> $crate::Result<()> {
                let range = $crate::range::check_at(offset, source.len(), self.len())?;
                let bytes = $crate::range::to_bytes::<T>(&range);
                $crate::buffer::copy::from_host(&mut self.raw, bytes.start, bytemuck::cast_slice(source))
            }

            /// Copies all elements to the host. Waits for what writes the buffer, and until it is done.
            ///
            /// # Errors
            ///
            /// [`Error::LengthMismatch`](crate::Error::LengthMismatch) unless `target` is as long as the buffer, and what the CUDA
            /// functions report.
            #[doc(alias = "cudaMemcpy")]
            pub fn copy_to_host(&self, target: &mut [T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_to_host", self.len(), target.len())?;
                self.copy_to_host_at(0, target)
            }

            /// Copies elements from `offset` on to the host. Waits for what writes the buffer, and until it is done.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds), and what the CUDA functions report.
            pub fn copy_to_host_at(&self, offset: usize, target: &mut [T]) -> $crate::Result<()> {
                let range = $crate::range::check_at(offset, target.len(), self.len())?;
                let bytes = $crate::range::to_bytes::<T>(&range);
                $crate::buffer::copy::to_host(&self.raw, bytes.start, bytemuck::cast_slice_mut(target))
            }

            /// The elements in new memory of the host. Waits for what writes the buffer, and until the copy is done.
            ///
            /// Nothing migrates: a copy from the device is about twice as fast as a prefetch to the host. Who reads often copies into
            /// memory that is there already ([`copy_to_host`](Self::copy_to_host)): the first touch of new memory takes longer than
            /// the copy.
            ///
            /// # Errors
            ///
            /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the host has not enough memory, and as for
            /// [`copy_to_host`](Self::copy_to_host).
            pub fn read_back(&self) -> $crate::Result<Vec<T>> {
                let mut elements = $crate::buffer::host_vec::zeroed("read_back", self.len())?;
                self.copy_to_host(&mut elements)?;
                Ok(elements)
            }

            /// The same as [`copy_from_host`](Self::copy_from_host), for tasks that share a thread: awaits what uses the buffer and what is on
            /// the device's default stream, copies a few MiB at a time, lets other tasks run in between, and is ready when all has arrived.
            /// Works on any executor.
            ///
            /// The source is borrowed until then. Dropping the future before leaves the beginning copied, and nothing going on that
            /// uses the source.
            ///
            /// # Errors
            ///
            /// As for [`copy_from_host`](Self::copy_from_host); [`Error::Incomplete`](crate::Error::Incomplete) if it ended half-way.
            pub async fn copy_from_host_async(&mut self, source: &[T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_from_host_async", self.len(), source.len())?;
                let source = bytemuck::cast_slice(source);
                $crate::buffer::future::copy_from_host(&mut self.raw, source).await
            }

            /// The same as [`copy_to_host`](Self::copy_to_host), for tasks that share a thread: awaits what writes the buffer and what is on
            /// the device's default stream, and copies a few MiB at a time, letting other tasks run in between. Works on any executor.
            ///
            /// The target is borrowed until then. Dropping the future before leaves the beginning copied, and nothing going on that
            /// uses the target.
            ///
            /// # Errors
            ///
            /// As for [`copy_to_host`](Self::copy_to_host); [`Error::Incomplete`](crate::Error::Incomplete) if it ended half-way.
            pub async fn copy_to_host_async(&self, target: &mut [T]) -> $crate::Result<()> {
                $crate::range::same_length("copy_to_host_async", self.len(), target.len())?;
                let target = bytemuck::cast_slice_mut(target);
                $crate::buffer::future::copy_to_host(&self.raw, target).await
            }

            /// Replaces a range of elements by what `make` writes, without moving the old ones to the host.
            ///
            /// `make(first, slots)` writes the elements from number `first` on, a piece at a time; for large ranges it is called on
            /// several threads at once, and the pieces go through pinned memory of the library. It cannot read what was there, and
            /// has to write all of it:
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
            /// As for [`copy_from_host`](Self::copy_from_host); `make` is not called any more when it returns.
            ///
            /// # Errors
            ///
            /// [`Error::RangeOutOfBounds`](crate::Error::RangeOutOfBounds);
            /// [`Error::Incomplete`](crate::Error::Incomplete) if it ended half-way;
            /// [`Error::OutOfMemory`](crate::Error::OutOfMemory) if the range cannot be staged and the host has not enough memory for
            /// all of it; and what the CUDA functions report.
            pub fn host_overwrite(
                &mut self,
                range: impl std::ops::RangeBounds<usize>,
                make: impl for<'c> Fn(usize, $crate::Slots<'c, T>) -> $crate::Filled<'c> + Sync,
            ) -> $crate::Result<()> {
                $crate::buffer::overwrite::overwrite(&mut self.raw, range, make)
            }

            /// Sets every element to `value`.
            ///
            /// # Ordering
            ///
            /// Enqueued on the stream, after earlier uses of the buffer on any stream.
            ///
            /// # Errors
            ///
            /// [`Error::Busy`](crate::Error::Busy) on a device without concurrent managed access while host guards live,
            /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) for device memory and a stream of another device,
            /// [`Error::RuntimeMismatch`](crate::Error::RuntimeMismatch), and what the CUDA functions report.
            #[doc(alias = "cudaMemset")]
            #[doc(alias = "cuMemsetD32Async")]
            pub fn fill(&mut self, value: T, stream: &$crate::Stream) -> $crate::Result<()> {
                $crate::buffer::fill::fill(&mut self.raw, bytemuck::bytes_of(&value), stream)
            }

            /// Sets every byte to zero.
            ///
            /// # Ordering
            ///
            /// Enqueued on the stream, after earlier uses of the buffer on any stream.
            ///
            /// # Errors
            ///
            /// As for [`fill`](Self::fill).
            #[doc(alias = "cudaMemset")]
            pub fn set_zero(&mut self, stream: &$crate::Stream) -> $crate::Result<()> {
                $crate::buffer::fill::fill(&mut self.raw, &[0], stream)
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

/// Methods of buffers that the host can use in place.
macro_rules! host_methods {
    ([$($life:lifetime)?] $buffer:ident) => {
        #[allow(unsafe_code, reason = "the guards need promises that the buffer's type makes")]
        impl<$($life,)? T: $crate::Element> $buffer<$($life,)? T> {
            /// The elements, to be read by the host. Waits for just the work that writes or moves this buffer.
            ///
            /// # Errors
            ///
            /// What the CUDA functions report: a failure of that work as well.
            pub fn host(&self) -> $crate::Result<$crate::HostRef<'_, T>> {
                // SAFETY: the buffer's elements are initialised and at an address for the host.
                unsafe { $crate::HostRef::wait(&self.raw, self.len()) }
            }

            /// The elements, to be read and written by the host. Waits for just the work that uses this buffer.
            ///
            /// # Errors
            ///
            /// What the CUDA functions report: a failure of that work as well.
            pub fn host_mut(&mut self) -> $crate::Result<$crate::HostMut<'_, T>> {
                // SAFETY: the buffer's elements are initialised and at an address for the host; it is borrowed exclusively.
                unsafe { $crate::HostMut::wait(&self.raw, self.len()) }
            }

            /// The same as [`host`](Self::host) without waiting: asks the streams and events that matter. Nobody has to have waited
            /// before; that CUDA says "done" is enough, for managed memory too.
            ///
            /// On a system with a device that has no concurrent managed access, managed memory is busy while *any* work of such a
            /// device runs.
            ///
            /// # Errors
            ///
            /// [`Error::Busy`](crate::Error::Busy) if that would wait, and what the CUDA functions report.
            pub fn try_host(&self) -> $crate::Result<$crate::HostRef<'_, T>> {
                // SAFETY: the buffer's elements are initialised and at an address for the host.
                unsafe { $crate::HostRef::try_now(&self.raw, self.len()) }
            }

            /// The same as [`host_mut`](Self::host_mut) without waiting.
            ///
            /// # Errors
            ///
            /// [`Error::Busy`](crate::Error::Busy) if that would wait, and what the CUDA functions report.
            pub fn try_host_mut(&mut self) -> $crate::Result<$crate::HostMut<'_, T>> {
                // SAFETY: the buffer's elements are initialised and at an address for the host; it is borrowed exclusively.
                unsafe { $crate::HostMut::try_now(&self.raw, self.len()) }
            }

            /// The same as [`host`](Self::host), awaiting instead of blocking. Works on any executor.
            ///
            /// Dropping the future before it is ready leaves nothing held.
            ///
            /// # Errors
            ///
            /// As for [`host`](Self::host).
            pub async fn host_async(&self) -> $crate::Result<$crate::HostRef<'_, T>> {
                let access = $crate::context::tracker::Access::Read;
                $crate::buffer::future::until_free(&self.raw, access, || self.try_host()).await
            }

            /// The same as [`host_mut`](Self::host_mut), awaiting instead of blocking. Works on any executor.
            ///
            /// Dropping the future before it is ready leaves nothing held.
            ///
            /// # Errors
            ///
            /// As for [`host_mut`](Self::host_mut).
            pub async fn host_mut_async(&mut self) -> $crate::Result<$crate::HostMut<'_, T>> {
                let access = $crate::context::tracker::Access::Write;
                // SAFETY: as for `try_host_mut`; the exclusive borrow lasts as long as the guard.
                let attempt = || unsafe { $crate::HostMut::try_now(&self.raw, self.len()) };
                $crate::buffer::future::until_free(&self.raw, access, attempt).await
            }

            /// The address of the first element, for the host and (where it is mapped) the device.
            pub fn as_ptr(&self) -> *const T {
                self.raw.pointer().as_ptr().cast()
            }

            /// The address of the first element, for the host and (where it is mapped) the device.
            pub fn as_mut_ptr(&mut self) -> *mut T {
                self.raw.pointer().as_ptr().cast()
            }
        }
    };
}
