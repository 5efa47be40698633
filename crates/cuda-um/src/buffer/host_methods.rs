//! The methods of buffers and views whose memory the host can use in place.

/// Methods that access memory from the host and read: `host_read_methods!(['a] View, 'a)`; the second lifetime is that of the guards.
macro_rules! host_read_methods {
    ([$($life:lifetime)?] $memory:ident, $out:lifetime) => {
        impl<$($life,)? T: $crate::DeviceCopy> $memory<$($life,)? T> {
            /// Returns a guard for the host to read the elements. Waits only for work that writes or moves this buffer.
            ///
            /// # Errors
            ///
            /// [`Error::NotSupported`](crate::Error::NotSupported) for a view of device memory, and the errors of the CUDA functions, including a
            /// failure of that work.
            pub fn host(&self) -> $crate::Result<$crate::HostRef<$out, T>> {
                $crate::HostRef::wait(self.as_view())
            }

            /// Does the same as [`host`](Self::host) without waiting: queries the streams and events of the buffer's work. No earlier wait
            /// is necessary: CUDA's success is sufficient, also for managed memory.
            ///
            /// On a system with a device that has no concurrent managed access, managed memory is busy while *any* work of such a device
            /// runs.
            ///
            /// # Errors
            ///
            /// [`Error::Busy`](crate::Error::Busy) if `host` would wait, and the errors of the CUDA functions.
            pub fn try_host(&self) -> $crate::Result<$crate::HostRef<$out, T>> {
                $crate::HostRef::try_now(self.as_view())
            }

            /// Does the same as [`host`](Self::host), but awaits instead of blocking. Works on any executor.
            ///
            /// A future that is dropped before it is ready holds nothing.
            ///
            /// # Errors
            ///
            /// The errors of [`host`](Self::host).
            pub async fn host_async(&self) -> $crate::Result<$crate::HostRef<$out, T>> {
                $crate::HostRef::when_free(self.as_view()).await
            }
        }
    };
}

/// Methods that access memory from the host and write.
macro_rules! host_write_methods {
    ([$($life:lifetime)?] $memory:ident, $reborrow:ident) => {
        impl<$($life,)? T: $crate::DeviceCopy> $memory<$($life,)? T> {
            /// Returns a guard for the host to read and write the elements. Waits only for work that uses this buffer.
            ///
            /// # Errors
            ///
            /// [`Error::NotSupported`](crate::Error::NotSupported) for a view of device memory, and the errors of the CUDA functions, including a
            /// failure of that work.
            pub fn host_mut(&mut self) -> $crate::Result<$crate::HostMut<'_, T>> {
                $crate::HostMut::wait(self.$reborrow())
            }

            /// Does the same as [`host_mut`](Self::host_mut) without waiting.
            ///
            /// # Errors
            ///
            /// [`Error::Busy`](crate::Error::Busy) if `host_mut` would wait, and the errors of the CUDA functions.
            pub fn try_host_mut(&mut self) -> $crate::Result<$crate::HostMut<'_, T>> {
                $crate::HostMut::try_now(self.$reborrow())
            }

            /// Does the same as [`host_mut`](Self::host_mut), but awaits instead of blocking. Works on any executor.
            ///
            /// A future that is dropped before it is ready holds nothing.
            ///
            /// # Errors
            ///
            /// The errors of [`host_mut`](Self::host_mut).
            pub async fn host_mut_async(&mut self) -> $crate::Result<$crate::HostMut<'_, T>> {
                $crate::HostMut::when_free(self.$reborrow()).await
            }
        }
    };
}

/// Methods of buffers whose memory the host can use in place.
macro_rules! host_methods {
    ([$($life:lifetime)?] $buffer:ident) => {
        host_read_methods!([$($life)?] $buffer, '_);
        host_write_methods!([$($life)?] $buffer, as_view_mut);

        impl<$($life,)? T: $crate::DeviceCopy> $buffer<$($life,)? T>
        where
            Self: 'static,
        {
            /// Returns a guard for the host to read the elements of a shared buffer. The guard keeps the buffer alive. Waits only for work that
            /// writes or moves this buffer.
            ///
            /// # Errors
            ///
            /// The errors of [`host`](Self::host).
            pub fn host_owned(
                self: &std::sync::Arc<Self>,
            ) -> $crate::Result<$crate::HostOwned<T, Self>> {
                $crate::HostOwned::new(std::sync::Arc::clone(self), Self::host)
            }
        }

        impl<$($life,)? T: $crate::DeviceCopy> $buffer<$($life,)? T> {
            /// Returns the address of the first element, for the host and, if the memory is mapped there, for the device.
            pub fn as_ptr(&self) -> *const T {
                self.raw.pointer().as_ptr().cast()
            }

            /// Returns the address of the first element, for the host and, if the memory is mapped there, for the device.
            pub fn as_mut_ptr(&mut self) -> *mut T {
                self.raw.pointer().as_ptr().cast()
            }
        }
    };
}
