//! Copies and memset.

use super::{Code, Cuda, Memory, Stream};
use crate::Failure;
use cuda_um_sys as sys;
use std::ffi::c_void;

/// `cudaMemcpyKind`
pub(crate) mod kind {
    pub(crate) const HOST_TO_HOST: u32 = 0;
    pub(crate) const HOST_TO_DEVICE: u32 = 1;
    pub(crate) const DEVICE_TO_HOST: u32 = 2;
    pub(crate) const DEVICE_TO_DEVICE: u32 = 3;
    pub(crate) const DEFAULT: u32 = 4;
}

/// One end of a copy, with its length.
pub(crate) trait End {
    fn address(&self) -> usize;
    fn bytes(&self) -> usize;
}

impl End for Memory<'_> {
    fn address(&self) -> usize {
        Memory::address(self)
    }

    fn bytes(&self) -> usize {
        Memory::bytes(self)
    }
}

impl End for [u32] {
    fn address(&self) -> usize {
        self.as_ptr() as usize
    }

    fn bytes(&self) -> usize {
        size_of_val(self)
    }
}

impl Cuda<'_> {
    /// `cudaMemcpy` from a host slice.
    pub(crate) fn copy_in(&self, to: &Memory<'_>, from: &[u32], kind: u32) -> Code {
        self.copy_bytes(to, from, size_of_val(from), kind)
    }

    /// `cudaMemcpy` to a host slice.
    pub(crate) fn copy_out(&self, to: &mut [u32], from: &Memory<'_>, kind: u32) -> Code {
        let bytes = size_of_val(to);
        self.copy_bytes(to, from, bytes, kind)
    }

    /// `cudaMemcpy` between two allocations.
    pub(crate) fn copy(&self, to: &Memory<'_>, from: &Memory<'_>, kind: u32) -> Code {
        self.copy_bytes(to, from, from.bytes(), kind)
    }

    /// `cudaMemcpy`. The callers above borrow the written slice exclusively.
    fn copy_bytes<T: End + ?Sized, F: End + ?Sized>(
        &self,
        to: &T,
        from: &F,
        bytes: usize,
        kind: u32,
    ) -> Code {
        assert!(
            bytes <= to.bytes() && bytes <= from.bytes(),
            "out of bounds"
        );
        // SAFETY: both ends are alive, large enough and different memory; the call returns when host memory is no longer used.
        let code = unsafe {
            (self.table().cudaMemcpy)(
                to.address() as *mut c_void,
                from.address() as *const c_void,
                bytes,
                sys::cudaMemcpyKind(kind),
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpy` of 0 bytes, between any addresses.
    pub(crate) fn copy_nothing(&self, to: usize, from: usize, kind: u32) -> Code {
        // SAFETY: nothing is copied.
        let code = unsafe {
            (self.table().cudaMemcpy)(
                to as *mut c_void,
                from as *const c_void,
                0,
                sys::cudaMemcpyKind(kind),
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpyAsync` between two allocations, which must live until the stream is done.
    pub(crate) fn copy_async(
        &self,
        to: &Memory<'_>,
        from: &Memory<'_>,
        kind: u32,
        stream: &Stream<'_>,
    ) -> Code {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        // SAFETY: as in `copy_bytes`; freeing waits for work, and the cases synchronize before they read.
        let code = unsafe {
            (self.table().cudaMemcpyAsync)(
                to.address() as *mut c_void,
                from.address() as *const c_void,
                from.bytes(),
                sys::cudaMemcpyKind(kind),
                stream.raw() as _,
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpyAsync` from pageable memory; the caller waits for it.
    pub(crate) fn copy_in_async(
        &self,
        to: &Memory<'_>,
        from: &[u32],
        kind: u32,
        stream: &Stream<'_>,
    ) -> Code {
        assert!(size_of_val(from) <= to.bytes(), "out of bounds");
        // SAFETY: as above; pageable memory is staged before the call returns, or the cases keep it until they have waited.
        let code = unsafe {
            (self.table().cudaMemcpyAsync)(
                to.address() as *mut c_void,
                from.as_ptr().cast(),
                size_of_val(from),
                sys::cudaMemcpyKind(kind),
                stream.raw() as _,
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpyAsync` to pageable memory, which CUDA has written when the call returns.
    pub(crate) fn copy_out_async(
        &self,
        to: &mut [u32],
        from: &Memory<'_>,
        kind: u32,
        stream: &Stream<'_>,
    ) -> Code {
        assert!(size_of_val(to) <= from.bytes(), "out of bounds");
        // SAFETY: both ends are alive and large enough; the slice is borrowed exclusively, and the cases keep it until they
        // have waited.
        let code = unsafe {
            (self.table().cudaMemcpyAsync)(
                to.as_mut_ptr().cast(),
                from.address() as *const c_void,
                size_of_val(to),
                sys::cudaMemcpyKind(kind),
                stream.raw() as _,
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpy` of the first half of an allocation to its second half.
    pub(crate) fn copy_first_half(&self, memory: &Memory<'_>, kind: u32) -> Code {
        let half = memory.bytes() / 2;
        // SAFETY: two halves of live memory, which do not overlap.
        let code = unsafe {
            (self.table().cudaMemcpy)(
                (memory.address() + half) as *mut c_void,
                memory.address() as *const c_void,
                half,
                sys::cudaMemcpyKind(kind),
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpy` of a kind that pageable memory cannot have: refused.
    pub(crate) fn copy_pageable(&self, to: &mut [u32], from: &[u32], kind: u32) -> Code {
        let bytes = size_of_val(to).min(size_of_val(from));
        // SAFETY: live memory that is large enough, for any interpretation of the kind.
        let code = unsafe {
            (self.table().cudaMemcpy)(
                to.as_mut_ptr().cast(),
                from.as_ptr().cast(),
                bytes,
                sys::cudaMemcpyKind(kind),
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpyPeer` from a device's memory to another's.
    pub(crate) fn copy_peer(
        &self,
        (to, to_device): (&Memory<'_>, i32),
        (from, from_device): (&Memory<'_>, i32),
    ) -> Code {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        // SAFETY: both are alive and large enough; a device that does not exist is refused.
        let code = unsafe {
            (self.table().cudaMemcpyPeer)(
                to.address() as *mut c_void,
                to_device,
                from.address() as *const c_void,
                from_device,
                from.bytes(),
            )
        };
        Code(code.0)
    }

    /// `cudaMemcpyPeerAsync` from a device's memory to another's.
    pub(crate) fn copy_peer_async(
        &self,
        (to, to_device): (&Memory<'_>, i32),
        (from, from_device): (&Memory<'_>, i32),
        stream: &Stream<'_>,
    ) -> Code {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        // SAFETY: both are alive and large enough; a device that does not exist is refused.
        let code = unsafe {
            (self.table().cudaMemcpyPeerAsync)(
                to.address() as *mut c_void,
                to_device,
                from.address() as *const c_void,
                from_device,
                from.bytes(),
                stream.raw() as _,
            )
        };
        Code(code.0)
    }

    /// `cudaMemset` of the first bytes.
    pub(crate) fn set(&self, memory: &Memory<'_>, value: i32, bytes: usize) -> Code {
        assert!(bytes <= memory.bytes(), "out of bounds");
        // SAFETY: live memory that is large enough.
        let code =
            unsafe { (self.table().cudaMemset)(memory.address() as *mut c_void, value, bytes) };
        Code(code.0)
    }

    /// `cudaMemsetAsync` of the first bytes.
    pub(crate) fn set_async(
        &self,
        memory: &Memory<'_>,
        value: i32,
        bytes: usize,
        stream: &Stream<'_>,
    ) -> Code {
        assert!(bytes <= memory.bytes(), "out of bounds");
        self.set_address_async(memory.address(), value, bytes, stream)
    }

    /// `cudaMemsetAsync` of memory that CUDA refuses: the host's own memory.
    pub(crate) fn set_host_async(&self, host: &mut [u32], stream: &Stream<'_>) -> Code {
        let bytes = size_of_val(host);
        self.set_address_async(host.as_mut_ptr() as usize, 0, bytes, stream)
    }

    fn set_address_async(
        &self,
        address: usize,
        value: i32,
        bytes: usize,
        stream: &Stream<'_>,
    ) -> Code {
        // SAFETY: live memory that is large enough, from the callers above, which wait before they read.
        let code = unsafe {
            (self.table().cudaMemsetAsync)(address as *mut c_void, value, bytes, stream.raw() as _)
        };
        Code(code.0)
    }

    /// The contents of device memory (or any other), copied to the host.
    pub(crate) fn contents(&self, memory: &Memory<'_>) -> Result<Vec<u32>, Failure> {
        let mut out = vec![0; memory.len()];
        let code = self.copy_out(&mut out, memory, kind::DEFAULT);
        self.ok("cudaMemcpy out", code)?;
        Ok(out)
    }

    /// The value of all elements of device memory.
    pub(crate) fn device_value(&self, memory: &Memory<'_>) -> Result<u32, Failure> {
        let contents = self.contents(memory)?;
        match contents.iter().find(|value| **value != contents[0]) {
            None => Ok(contents[0]),
            Some(other) => super::fail(format!("elements are {} and {other}", contents[0])),
        }
    }
}
