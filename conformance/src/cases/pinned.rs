//! Pinned host memory, and the program's own memory, registered.

use super::*;

cases! {
    /// A kernel reads and writes mapped pinned memory in place, at the device address that CUDA returns.
    "pinned.mapped" MEMORY [cudaHostAlloc, cudaHostGetDevicePointer, cudaFreeHost] (MappedHost) |c| {
        let memory = c.pinned(64 * KIB, sys::cudaHostAllocMapped | sys::cudaHostAllocPortable);
        let address = c.succeeds("cudaHostGetDevicePointer", c.host_device_pointer(memory.at(), 0));
        c.is("the same address", address == memory.at(), true);
        memory.fill_all(5);
        let stream = c.stream();
        stream.add(&memory, 2).ends("contents", &memory, 7);
    }
    /// Allocating 0 bytes of pinned memory is not an error.
    "pinned.zero-bytes" MEASURED [cudaHostAlloc] |c| {
        let address = c.succeeds("cudaHostAlloc(0)", c.host_alloc(0, 0));
        c.succeeds("cudaFreeHost of it", c.free_host(address));
    }
    /// An allocation of pinned memory larger than the address space is refused.
    "pinned.huge" MEMORY [cudaHostAlloc] |c| {
        c.refuses("cudaHostAlloc", c.host_alloc(usize::MAX / 2, 0));
    }
    /// Portable, mapped and write-combined may be combined; other flags are an invalid value.
    "pinned.flags" MEMORY [cudaHostAlloc] |c| {
        for flags in 0..=7 {
            ok(c.pinned(4 * KIB, flags).free());
        }
        for flags in [64, 1 << 20] {
            c.gives(format!("flags {flags}"), c.host_alloc(4 * KIB, flags), INVALID_VALUE);
        }
    }
    /// Pinned memory is aligned to 512 bytes for every size, also with other small allocations.
    "pinned.alignment" MEASURED [cudaHostAlloc] |c| {
        // All allocated at the same time: a driver may put small ones into one page.
        let all = [64, 64, 1000, 5000, 100_000].map(|bytes| c.pinned(bytes, 0));
        for (index, memory) in all.iter().enumerate() {
            c.is(format!("allocation {index}, {} bytes", memory.bytes()), memory.at() % 512, 0);
        }
    }
    /// Memory that is not pinned has no device address, and flags must be 0.
    "pinned.device-pointer-refused" MEMORY [cudaHostGetDevicePointer] |c| {
        let own = vec![0u32; 1024];
        c.gives("pageable memory", c.host_device_pointer(own.as_ptr() as usize, 0), INVALID_VALUE);
        let memory = c.pinned(4 * KIB, sys::cudaHostAllocMapped);
        c.gives("flags 1", c.host_device_pointer(memory.at(), 1), INVALID_VALUE);
    }
    /// Freeing pinned memory as device memory, or device memory as pinned memory, is refused.
    "pinned.freed-by-its-own" MEMORY [cudaFreeHost, cudaFree] |c| {
        let (pinned, device) = (c.pinned(4 * MIB, 0), c.device(4 * MIB));
        c.refuses("cudaFree of pinned memory", c.free(pinned.at()));
        c.refuses("cudaFreeHost of device memory", c.free_host(device.at()));
        pinned.fill_all(1);
        c.succeeds("both are there", c.copy(&device, &pinned, DEFAULT));
    }
    /// Freeing pinned memory twice is refused.
    "pinned.free-twice" MEMORY [cudaFreeHost] misuse |c| {
        let memory = c.pinned(4 * MIB, 0);
        let address = memory.at();
        c.succeeds("cudaFreeHost", memory.free());
        c.refuses("cudaFreeHost again", c.free_host(address));
    }
    /// Advice and prefetch are for managed memory: pinned memory is refused.
    "pinned.not-advised" MEMORY [cudaMemPrefetchAsync, cudaMemAdvise] (Concurrent, NoPageableAccess) |c, stream| {
        let memory = c.pinned(64 * KIB, 0);
        c.refuses("cudaMemPrefetchAsync", c.prefetch(&memory, DEVICE, &stream));
        c.refuses("cudaMemAdvise", c.advise(&memory, SET_READ_MOSTLY, DEVICE));
    }
    /// A kernel reads and writes registered memory in place.
    "registered.in-place" MEMORY [cudaHostRegister, cudaHostGetDevicePointer, cudaHostUnregister] (HostRegister, MappedHost) |c| {
        let mut own = pages(64 * KIB);
        own.fill(5);
        let address = own.as_ptr() as usize;
        let flags = sys::cudaHostRegisterPortable | sys::cudaHostRegisterMapped;
        c.succeeds("cudaHostRegister", c.host_register(own.as_ptr(), 64 * KIB, flags));
        let there = c.succeeds("cudaHostGetDevicePointer", c.host_device_pointer(address, 0));
        let stream = c.stream();
        ok(c.add_at(there, 16 * KIB as u32, 2, Shape::linear(16 * KIB), &stream));
        stream.done("cudaStreamSynchronize");
        c.succeeds("cudaHostUnregister", c.host_unregister(address));
        c.holds("contents", own.iter().all(|value| *value == 7));
    }
    /// Registering registered memory again is refused, and it stays registered.
    "registered.twice" MEMORY [cudaHostRegister] (HostRegister) |c| {
        let own = pages(64 * KIB);
        ok(c.host_register(own.as_ptr(), 64 * KIB, 0));
        let again = c.host_register(own.as_ptr(), 64 * KIB, 0);
        c.gives("cudaHostRegister again", again, ALREADY_REGISTERED);
        c.succeeds("cudaHostUnregister", c.host_unregister(own.as_ptr()));
    }
    /// Registering a part of registered memory is refused.
    "registered.part" MEMORY [cudaHostRegister] (HostRegister) |c| {
        let own = pages(64 * KIB);
        ok(c.host_register(own.as_ptr(), 64 * KIB, 0));
        let again = c.host_register(own[2048..].as_ptr(), 8192, 0);
        let undone = c.host_unregister(own.as_ptr());
        c.gives("cudaHostRegister of a part", again, ALREADY_REGISTERED);
        c.succeeds("cudaHostUnregister", undone);
    }
    /// Unregistering memory that is not registered, or no longer registered, is refused as not registered.
    "registered.not" MEMORY [cudaHostUnregister] (HostRegister) |c| {
        let own = pages(64 * KIB);
        let address = own.as_ptr() as usize;
        c.gives("never registered", c.host_unregister(address), NOT_REGISTERED);
        ok(c.host_register(own.as_ptr(), 64 * KIB, 0));
        c.succeeds("cudaHostUnregister", c.host_unregister(address));
        c.gives("again", c.host_unregister(address), NOT_REGISTERED);
    }
    /// Flags that do not exist are refused.
    "registered.flags" MEMORY [cudaHostRegister] (HostRegister) |c| {
        c.refuses("flags 1024", c.host_register(pages(64 * KIB).as_ptr(), 64 * KIB, 1 << 10));
    }
    /// Registering 0 bytes is an invalid value.
    "registered.empty" MEMORY [cudaHostRegister] (HostRegister) |c| {
        c.gives("0 bytes", c.host_register(pages(64 * KIB).as_ptr(), 0, 0), INVALID_VALUE);
    }
    /// Memory that CUDA allocated as pinned cannot be registered.
    "registered.pinned" MEMORY [cudaHostRegister, cudaHostAlloc] (HostRegister) |c| {
        let memory = c.pinned(64 * KIB, 0);
        c.refuses("cudaHostRegister", c.host_register(&memory, memory.bytes(), 0));
    }
}

/// Host memory that shares no page with other memory.
pub(super) struct Pages {
    memory: Vec<u32>,
    skipped: usize,
    len: usize,
}

impl std::ops::Deref for Pages {
    type Target = [u32];

    fn deref(&self) -> &[u32] {
        &self.memory[self.skipped..self.skipped + self.len]
    }
}

impl std::ops::DerefMut for Pages {
    fn deref_mut(&mut self) -> &mut [u32] {
        &mut self.memory[self.skipped..self.skipped + self.len]
    }
}

pub(super) fn pages(bytes: usize) -> Pages {
    let memory = vec![0u32; bytes / 4 + 2 * 1024];
    let skipped = memory.as_ptr().align_offset(4096);
    Pages {
        memory,
        skipped,
        len: bytes / 4,
    }
}
