//! The program's own memory, registered.

use super::*;

cases! {
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
        let own = pages(64 * KIB);
        c.refuses("flags 1024", c.host_register(own.as_ptr(), 64 * KIB, 1 << 10));
    }
    /// Registering 0 bytes is an invalid value.
    "registered.empty" MEMORY [cudaHostRegister] (HostRegister) |c| {
        let own = pages(64 * KIB);
        c.gives("0 bytes", c.host_register(own.as_ptr(), 0, 0), INVALID_VALUE);
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
