//! Allocation, registration, copies and memset.

use crate::driver::api::Api;
use crate::driver::check::Subject;
use crate::error::{Error, Result};
use cuda_um_sys as sys;
use std::ffi::c_void;
use std::ptr::NonNull;

/// The source and the destination of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyKind {
    HostToDevice,
    DeviceToHost,
    /// CUDA determines the kinds of both from their addresses.
    ByAddress,
}

/// The result of unregistering memory that is not registered.
const NOT_REGISTERED: u32 = sys::cudaError::cudaErrorHostMemoryNotRegistered.0;
/// The results of registering memory that CUDA has already.
const TAKEN: u32 = sys::cudaError::cudaErrorHostMemoryAlreadyRegistered.0;
const INVALID: u32 = sys::cudaError::cudaErrorInvalidValue.0;
impl Api {
    pub(super) fn allocated(
        &self,
        call: &'static str,
        pointer: *mut c_void,
        bytes: usize,
    ) -> Result<NonNull<u8>> {
        NonNull::new(pointer.cast()).ok_or_else(|| Error::Call {
            call,
            subject: format!("{bytes} bytes"),
            code: 0,
            name: "cudaSuccess".to_owned(),
            message: "success was reported with a null pointer".to_owned(),
        })
    }

    pub(crate) fn malloc_managed(&self, ordinal: u32, bytes: usize) -> Result<NonNull<u8>> {
        let mut pointer = std::ptr::null_mut();
        let subject =
            || Subject::new(format_args!("managed memory on device {ordinal}")).bytes(bytes);
        self.on(ordinal, "cudaMallocManaged", subject, |table| {
            // SAFETY: the pointer is valid for one write.
            unsafe { (table.cudaMallocManaged)(&mut pointer, bytes, sys::cudaMemAttachGlobal) }
        })?;
        self.allocated("cudaMallocManaged", pointer, bytes)
    }

    pub(crate) fn malloc(&self, ordinal: u32, bytes: usize) -> Result<NonNull<u8>> {
        let mut pointer = std::ptr::null_mut();
        let subject =
            || Subject::new(format_args!("device memory on device {ordinal}")).bytes(bytes);
        self.on(ordinal, "cudaMalloc", subject, |table| {
            // SAFETY: the pointer is valid for one write.
            unsafe { (table.cudaMalloc)(&mut pointer, bytes) }
        })?;
        self.allocated("cudaMalloc", pointer, bytes)
    }

    pub(crate) fn host_alloc(
        &self,
        ordinal: u32,
        bytes: usize,
        mapped: bool,
    ) -> Result<NonNull<u8>> {
        let mut pointer = std::ptr::null_mut();
        let flags = sys::cudaHostAllocPortable | if mapped { sys::cudaHostAllocMapped } else { 0 };
        let subject = || {
            Subject::new("pinned host memory")
                .bytes(bytes)
                .host_memory()
        };
        self.on(ordinal, "cudaHostAlloc", subject, |table| {
            // SAFETY: the pointer is valid for one write.
            unsafe { (table.cudaHostAlloc)(&mut pointer, bytes, flags) }
        })?;
        self.allocated("cudaHostAlloc", pointer, bytes)
    }

    /// # Safety
    ///
    /// The memory is valid until it is unregistered.
    pub(crate) unsafe fn host_register(
        &self,
        ordinal: u32,
        pointer: NonNull<u8>,
        bytes: usize,
        mapped: bool,
    ) -> Result<()> {
        let flags = sys::cudaHostRegisterPortable
            | if mapped {
                sys::cudaHostRegisterMapped
            } else {
                0
            };
        let subject = || {
            Subject::new(format_args!(
                "{bytes} bytes of host memory to be registered"
            ))
            .bytes(bytes)
            .host_memory()
        };
        self.on(ordinal, "cudaHostRegister", subject, |table| {
            // SAFETY: guaranteed by the caller.
            unsafe { (table.cudaHostRegister)(pointer.as_ptr().cast(), bytes, flags) }
        })
        .map_err(|error| match error {
            Error::Call {
                code: TAKEN | INVALID,
                ..
            } => error.with_details([
                "memory that is pinned or registered already cannot be registered".to_owned(),
            ]),
            error => error,
        })
    }

    /// The address at which kernels on the device access mapped host memory.
    ///
    /// # Safety
    ///
    /// The memory is from `host_alloc` or registered, and mapped.
    pub(crate) unsafe fn host_device_pointer(
        &self,
        ordinal: u32,
        pointer: NonNull<u8>,
    ) -> Result<NonNull<u8>> {
        let mut device_pointer = std::ptr::null_mut();
        let subject = || Subject::new(format_args!("mapped host memory on device {ordinal}"));
        self.on(ordinal, "cudaHostGetDevicePointer", subject, |table| {
            // SAFETY: the first pointer is valid for one write; the second is guaranteed by the caller.
            unsafe {
                (table.cudaHostGetDevicePointer)(&mut device_pointer, pointer.as_ptr().cast(), 0)
            }
        })?;
        self.allocated("cudaHostGetDevicePointer", device_pointer, 0)
    }

    /// Returns true if the memory at this address is pinned, registered, managed or device memory.
    pub(crate) fn is_registered(&self, ordinal: u32, address: *const u8) -> Result<bool> {
        let found = self.pointer_properties(ordinal, address)?;
        Ok(found.kind != sys::cudaMemoryType::cudaMemoryTypeUnregistered)
    }

    /// # Safety
    ///
    /// The memory is from `malloc`, `malloc_managed` or `malloc_from_pool`, is freed once, and is no longer in use.
    pub(crate) unsafe fn free(&self, ordinal: u32, pointer: NonNull<u8>) -> Result<()> {
        self.on_release(
            ordinal,
            "cudaFree",
            || Subject::device(ordinal),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaFree)(pointer.as_ptr().cast()) }
            },
        )
    }

    /// # Safety
    ///
    /// The memory is from `host_alloc`, is freed once, and is no longer in use.
    pub(crate) unsafe fn free_host(&self, ordinal: u32, pointer: NonNull<u8>) -> Result<()> {
        self.on_release(
            ordinal,
            "cudaFreeHost",
            || Subject::new("pinned host memory"),
            |table| {
                // SAFETY: guaranteed by the caller.
                unsafe { (table.cudaFreeHost)(pointer.as_ptr().cast()) }
            },
        )
    }

    /// # Safety
    ///
    /// The memory was registered by `host_register`, is unregistered once, and is no longer in use by a device.
    pub(crate) unsafe fn host_unregister(&self, ordinal: u32, pointer: NonNull<u8>) -> Result<()> {
        let unregister = || {
            self.on_release(
                ordinal,
                "cudaHostUnregister",
                || Subject::new("registered host memory"),
                |table| {
                    // SAFETY: guaranteed by the caller.
                    unsafe { (table.cudaHostUnregister)(pointer.as_ptr().cast()) }
                },
            )
        };
        // The caller still owns the address, so a second try cannot unregister other memory.
        unregister().or_else(|first| match unregister() {
            Err(Error::Call { code, .. }) if code == NOT_REGISTERED => Ok(()),
            Err(_) => Err(first),
            Ok(()) => Ok(()),
        })
    }

    /// Copies between the memory of two devices without peer access. Each address has the ordinal of its device.
    ///
    /// # Safety
    ///
    /// As for `memcpy_async`; each address is memory of its device.
    pub(crate) unsafe fn memcpy_peer_async(
        &self,
        ordinal: u32,
        (destination, to): (*mut u8, u32),
        (source, from): (*const u8, u32),
        bytes: usize,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        let subject = || Subject::new(format_args!("{bytes} bytes, device {from} to device {to}"));
        self.on(ordinal, "cudaMemcpyPeerAsync", subject, |table| {
            // SAFETY: guaranteed by the caller.
            unsafe {
                (table.cudaMemcpyPeerAsync)(
                    destination.cast(),
                    to as i32,
                    source.cast(),
                    from as i32,
                    bytes,
                    stream,
                )
            }
        })
    }

    /// # Safety
    ///
    /// Both pointers are valid for `bytes` until the copy is done on the live stream. Until then, no other code writes either or reads
    /// the destination. They do not overlap, and the kind is correct.
    pub(crate) unsafe fn memcpy_async(
        &self,
        ordinal: u32,
        destination: *mut u8,
        source: *const u8,
        bytes: usize,
        kind: CopyKind,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        let kind = match kind {
            CopyKind::HostToDevice => sys::cudaMemcpyKind::cudaMemcpyHostToDevice,
            CopyKind::DeviceToHost => sys::cudaMemcpyKind::cudaMemcpyDeviceToHost,
            CopyKind::ByAddress => sys::cudaMemcpyKind::cudaMemcpyDefault,
        };
        let subject =
            || Subject::new(format_args!("copy of {bytes} bytes on device {ordinal}")).bytes(bytes);
        self.on(ordinal, "cudaMemcpyAsync", subject, |table| {
            // SAFETY: guaranteed by the caller.
            unsafe {
                (table.cudaMemcpyAsync)(destination.cast(), source.cast(), bytes, kind, stream)
            }
        })
    }

    /// # Safety
    ///
    /// The memory is valid for `bytes`, and no other code uses it until the memset is done on the live stream.
    pub(crate) unsafe fn memset_async(
        &self,
        ordinal: u32,
        pointer: *mut u8,
        value: u8,
        bytes: usize,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        let subject = || Subject::new(format_args!("memset of {bytes} bytes on device {ordinal}"));
        self.on(ordinal, "cudaMemsetAsync", subject, |table| {
            // SAFETY: guaranteed by the caller.
            unsafe { (table.cudaMemsetAsync)(pointer.cast(), i32::from(value), bytes, stream) }
        })
    }

    /// Writes a 2-byte value `count` times.
    ///
    /// # Safety
    ///
    /// As for `memset_async`; the address is aligned to the value.
    pub(crate) unsafe fn memset_u16_async(
        &self,
        ordinal: u32,
        pointer: *mut u8,
        value: u16,
        count: usize,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        self.on_driver(
            ordinal,
            "cuMemsetD16Async",
            || {
                Subject::new(format_args!(
                    "memset of {count} 2-byte values on device {ordinal}"
                ))
            },
            // SAFETY: guaranteed by the caller; the runtime's and the driver's streams are the same handles.
            |driver| unsafe {
                (driver.cuMemsetD16Async)(pointer as usize as _, value, count, stream.cast())
            },
        )
    }

    /// Writes a 4-byte value `count` times.
    ///
    /// # Safety
    ///
    /// As for `memset_async`; the address is aligned to the value.
    pub(crate) unsafe fn memset_u32_async(
        &self,
        ordinal: u32,
        pointer: *mut u8,
        value: u32,
        count: usize,
        stream: sys::cudaStream_t,
    ) -> Result<()> {
        self.on_driver(
            ordinal,
            "cuMemsetD32Async",
            || {
                Subject::new(format_args!(
                    "memset of {count} 4-byte values on device {ordinal}"
                ))
            },
            // SAFETY: guaranteed by the caller; the runtime's and the driver's streams are the same handles.
            |driver| unsafe {
                (driver.cuMemsetD32Async)(pointer as usize as _, value, count, stream.cast())
            },
        )
    }
}
