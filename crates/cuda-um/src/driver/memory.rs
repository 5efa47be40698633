//! Allocation, registration, copies and memset.

use crate::driver::api::Api;
use crate::driver::call::{OnStream, calls};
use crate::error::{Error, Result};
use cuda_um_sys::{self as sys, cudaMemcpyKind};
use std::ffi::c_void;
use std::ptr::NonNull;

/// The source and the destination of a copy, with CUDA's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyKind {
    HostToDevice = cudaMemcpyKind::cudaMemcpyHostToDevice.0 as isize,
    DeviceToHost = cudaMemcpyKind::cudaMemcpyDeviceToHost.0 as isize,
    /// CUDA determines the kinds of both from their addresses.
    ByAddress = cudaMemcpyKind::cudaMemcpyDefault.0 as isize,
}

/// The result of unregistering memory that is not registered.
const NOT_REGISTERED: u32 = sys::cudaError::cudaErrorHostMemoryNotRegistered.0;
/// The results of registering memory that CUDA has already.
const TAKEN: u32 = sys::cudaError::cudaErrorHostMemoryAlreadyRegistered.0;
const INVALID: u32 = sys::cudaError::cudaErrorInvalidValue.0;

calls! {
    safe fn malloc_managed(ordinal, bytes: usize)
        -> pointer: *mut c_void as NonNull<u8> = filled("cudaMallocManaged", pointer, bytes)
        => runtime.cudaMallocManaged(&mut pointer, bytes, sys::cudaMemAttachGlobal),
        of ("managed memory on device {ordinal}").bytes(bytes);

    safe fn malloc(ordinal, bytes: usize)
        -> pointer: *mut c_void as NonNull<u8> = filled("cudaMalloc", pointer, bytes)
        => runtime.cudaMalloc(&mut pointer, bytes),
        of ("device memory on device {ordinal}").bytes(bytes);

    /// Allocates memory that all devices may use.
    safe fn host_alloc(ordinal, bytes: usize, mapped: bool)
        -> pointer: *mut c_void as NonNull<u8> = filled("cudaHostAlloc", pointer, bytes)
        => runtime.cudaHostAlloc(
            &mut pointer,
            bytes,
            sys::cudaHostAllocPortable | (sys::cudaHostAllocMapped * u32::from(mapped)),
        ),
        of ("pinned host memory").bytes(bytes);

    /// # Safety: the memory is valid until it is unregistered.
    unsafe fn register_host(ordinal, pointer: NonNull<u8>, bytes: usize, flags: u32)
        => runtime.cudaHostRegister(pointer.as_ptr().cast(), bytes, flags),
        of ("{bytes} bytes of host memory to be registered").bytes(bytes);

    /// The address at which kernels on the device access mapped host memory.
    /// # Safety: the memory is from `host_alloc` or registered, and mapped.
    unsafe fn host_device_pointer(ordinal, pointer: NonNull<u8>)
        -> on_device: *mut c_void as NonNull<u8> = filled("cudaHostGetDevicePointer", on_device, 0)
        => runtime.cudaHostGetDevicePointer(&mut on_device, pointer.as_ptr().cast(), 0),
        of ("mapped host memory on device {ordinal}");

    /// # Safety: the memory is from `malloc`, `malloc_managed` or `malloc_from_pool`, is freed once, and is no longer in use.
    unsafe fn free(ordinal, pointer: NonNull<u8>)
        => [Releases] runtime.cudaFree(pointer.as_ptr().cast());

    /// # Safety: the memory is from `host_alloc`, is freed once, and is no longer in use.
    unsafe fn free_host(ordinal, pointer: NonNull<u8>)
        => [Releases] runtime.cudaFreeHost(pointer.as_ptr().cast()),
        of ("pinned host memory");

    /// # Safety: the memory was registered, and is no longer in use by a device.
    unsafe fn unregister_host(ordinal, pointer: NonNull<u8>)
        => [Releases] runtime.cudaHostUnregister(pointer.as_ptr().cast()),
        of ("registered host memory");

    /// Copies between the memory of two devices without peer access. Each address has the ordinal of its device.
    /// # Safety: as for `memcpy_async`; each address is memory of its device.
    unsafe fn memcpy_peer_async(
        ordinal,
        destination: (*mut u8, u32),
        source: (*const u8, u32),
        bytes: usize,
        stream: OnStream<'_>,
    )
        => [Within stream] runtime.cudaMemcpyPeerAsync(
            destination.0.cast(),
            destination.1 as i32,
            source.0.cast(),
            source.1 as i32,
            bytes,
            stream.raw,
        ),
        of ("{bytes} bytes, device {} to device {}", source.1, destination.1);

    /// # Safety: both pointers are valid for `bytes` until the copy is done on the live stream. Until then, no other code writes either or
    /// reads the destination. They do not overlap, and the kind is correct.
    unsafe fn memcpy_async(
        ordinal,
        destination: *mut u8,
        source: *const u8,
        bytes: usize,
        kind: CopyKind,
        stream: OnStream<'_>,
    )
        => [Within stream] runtime.cudaMemcpyAsync(
            destination.cast(),
            source.cast(),
            bytes,
            cudaMemcpyKind(kind as _),
            stream.raw,
        ),
        of ("copy of {bytes} bytes on device {ordinal}").bytes(bytes);

    /// # Safety: the memory is valid for `bytes`, and no other code uses it until the memset is done on the live stream.
    unsafe fn memset_async(ordinal, pointer: *mut u8, value: u8, bytes: usize, stream: OnStream<'_>)
        => [Within stream] runtime.cudaMemsetAsync(pointer.cast(), i32::from(value), bytes, stream.raw),
        of ("memset of {bytes} bytes on device {ordinal}");

    /// Writes a 2-byte value `count` times.
    /// # Safety: as for `memset_async`; the address is aligned to the value.
    unsafe fn memset_u16_async(ordinal, pointer: *mut u8, value: u16, count: usize, stream: OnStream<'_>)
        => [Within stream] driver.cuMemsetD16Async(pointer.expose_provenance() as _, value, count, stream.raw.cast()),
        of ("memset of {count} 2-byte values on device {ordinal}");

    /// Writes a 4-byte value `count` times.
    /// # Safety: as for `memset_async`; the address is aligned to the value.
    unsafe fn memset_u32_async(ordinal, pointer: *mut u8, value: u32, count: usize, stream: OnStream<'_>)
        => [Within stream] driver.cuMemsetD32Async(pointer.expose_provenance() as _, value, count, stream.raw.cast()),
        of ("memset of {count} 4-byte values on device {ordinal}");
}

impl Api {
    /// # Safety: the memory is valid until it is unregistered.
    pub(crate) unsafe fn host_register(
        &self,
        ordinal: u32,
        pointer: NonNull<u8>,
        bytes: usize,
        mapped: bool,
    ) -> Result<()> {
        let mapped = sys::cudaHostRegisterMapped * u32::from(mapped);
        let flags = sys::cudaHostRegisterPortable | mapped;
        // SAFETY: guaranteed by the caller.
        unsafe { self.register_host(ordinal, pointer, bytes, flags) }.map_err(|error| match error {
            Error::Call {
                code: TAKEN | INVALID,
                ..
            } => error.with_details([
                "memory that is pinned or registered already cannot be registered".to_owned(),
            ]),
            error => error,
        })
    }

    /// Returns true if the memory at this address is pinned, registered, managed or device memory.
    pub(crate) fn is_registered(&self, ordinal: u32, address: *const u8) -> Result<bool> {
        let found = self.pointer_attributes(ordinal, address)?;
        Ok(found.type_ != sys::cudaMemoryType::cudaMemoryTypeUnregistered)
    }

    /// # Safety: the memory was registered by `host_register`, is unregistered once, and is no longer in use by a device.
    pub(crate) unsafe fn host_unregister(&self, ordinal: u32, pointer: NonNull<u8>) -> Result<()> {
        // SAFETY: guaranteed by the caller, who still owns the address, so a second try cannot unregister other memory.
        let unregister = || unsafe { self.unregister_host(ordinal, pointer) };
        unregister().or_else(|first| match unregister() {
            Err(Error::Call { code, .. }) if code == NOT_REGISTERED => Ok(()),
            Err(_) => Err(first),
            Ok(()) => Ok(()),
        })
    }
}

/// Refuses a null pointer that CUDA reports as a success.
pub(super) fn filled(
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
