//! Copies and memset.

use super::{Code, Cuda, Memory, Stream};
use crate::Failure;
use cuda_um_sys as sys;

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
        // Both ends are alive, large enough and different memory; the call returns when host memory is no longer used.
        self.memcpy(to.address(), from.address(), bytes, kind)
    }

    fn memcpy(&self, to: usize, from: usize, bytes: usize, kind: u32) -> Code {
        let kind = sys::cudaMemcpyKind(kind);
        call!(self.table(), cudaMemcpy(to as _, from as _, bytes, kind))
    }

    fn memcpy_async(
        &self,
        to: usize,
        from: usize,
        bytes: usize,
        kind: u32,
        stream: &Stream<'_>,
    ) -> Code {
        let (kind, stream) = (sys::cudaMemcpyKind(kind), stream.raw() as _);
        let table = self.table();
        call!(
            table,
            cudaMemcpyAsync(to as _, from as _, bytes, kind, stream)
        )
    }

    /// `cudaMemcpy` of 0 bytes, between any addresses.
    pub(crate) fn copy_nothing(&self, to: usize, from: usize, kind: u32) -> Code {
        self.memcpy(to, from, 0, kind)
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
        // As in `copy_bytes`; freeing waits for work, and the cases synchronize before they read.
        self.memcpy_async(to.address(), from.address(), from.bytes(), kind, stream)
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
        // As above; pageable memory is staged before the call returns, or the cases keep it until they have waited.
        self.memcpy_async(
            to.address(),
            from.as_ptr() as usize,
            size_of_val(from),
            kind,
            stream,
        )
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
        // Both ends are alive and large enough; the slice is borrowed exclusively, and the cases keep it until they
        // have waited.
        self.memcpy_async(
            to.as_mut_ptr() as usize,
            from.address(),
            size_of_val(to),
            kind,
            stream,
        )
    }

    /// `cudaMemcpy` of the first half of an allocation to its second half.
    pub(crate) fn copy_first_half(&self, memory: &Memory<'_>, kind: u32) -> Code {
        let half = memory.bytes() / 2;
        self.memcpy(memory.address() + half, memory.address(), half, kind)
    }

    /// `cudaMemcpy` of a kind that pageable memory cannot have: refused.
    pub(crate) fn copy_pageable(&self, to: &mut [u32], from: &[u32], kind: u32) -> Code {
        let bytes = size_of_val(to).min(size_of_val(from));
        // Live memory that is large enough, for any interpretation of the kind.
        self.memcpy(
            to.as_mut_ptr() as usize,
            from.as_ptr() as usize,
            bytes,
            kind,
        )
    }

    /// `cudaMemcpyPeer` from a device's memory to another's.
    pub(crate) fn copy_peer(
        &self,
        (to, to_device): (&Memory<'_>, i32),
        (from, from_device): (&Memory<'_>, i32),
    ) -> Code {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        // Both are alive and large enough; a device that does not exist is refused.
        call!(
            self.table(),
            cudaMemcpyPeer(
                to.address() as _,
                to_device,
                from.address() as _,
                from_device,
                from.bytes()
            )
        )
    }

    /// `cudaMemcpyPeerAsync` from a device's memory to another's.
    pub(crate) fn copy_peer_async(
        &self,
        (to, to_device): (&Memory<'_>, i32),
        (from, from_device): (&Memory<'_>, i32),
        stream: &Stream<'_>,
    ) -> Code {
        assert!(from.bytes() <= to.bytes(), "out of bounds");
        // Both are alive and large enough; a device that does not exist is refused.
        call!(
            self.table(),
            cudaMemcpyPeerAsync(
                to.address() as _,
                to_device,
                from.address() as _,
                from_device,
                from.bytes(),
                stream.raw() as _
            )
        )
    }

    /// `cudaMemset` of the first bytes.
    pub(crate) fn set(&self, memory: &Memory<'_>, value: i32, bytes: usize) -> Code {
        assert!(bytes <= memory.bytes(), "out of bounds");
        // Live memory that is large enough.
        call!(
            self.table(),
            cudaMemset(memory.address() as _, value, bytes)
        )
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
        // Live memory that is large enough, from the callers above, which wait before they read.
        call!(
            self.table(),
            cudaMemsetAsync(address as _, value, bytes, stream.raw() as _)
        )
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
