//! The program's own memory, registered.

use super::prelude::*;
use cuda_um_sys as sys;

pub(super) const CASES: &[Case] = cases! {
    "registered.in-place" (in_place):
        "A kernel reads and writes registered memory in place.",
        sources::MEMORY, &["cudaHostRegister", "cudaHostGetDevicePointer", "cudaHostUnregister"],
            needs(&[Need::HostRegister, Need::MappedHost]);
    "registered.twice" (twice):
        "Registering registered memory again is refused, and it stays registered.",
        sources::MEMORY, &["cudaHostRegister"], needs(&[Need::HostRegister]);
    "registered.part" (part):
        "Registering a part of registered memory is refused.",
        sources::MEMORY, &["cudaHostRegister"], needs(&[Need::HostRegister]);
    "registered.not" (not_registered):
        "Unregistering memory that is not registered, or no longer registered, is refused as not registered.",
        sources::MEMORY, &["cudaHostUnregister"], needs(&[Need::HostRegister]);
    "registered.flags" (flags):
        "Flags that do not exist are refused.",
        sources::MEMORY, &["cudaHostRegister"], needs(&[Need::HostRegister]);
    "registered.empty" (empty):
        "Registering 0 bytes is an invalid value.",
        sources::MEMORY, &["cudaHostRegister"], needs(&[Need::HostRegister]);
    "registered.pinned" (pinned):
        "Memory that CUDA allocated as pinned cannot be registered.",
        sources::MEMORY, &["cudaHostRegister", "cudaHostAlloc"], needs(&[Need::HostRegister]);
};

/// Host memory that shares no page with other memory.
pub(super) struct Pages {
    memory: Vec<u32>,
    skipped: usize,
    len: usize,
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

fn in_place(c: &Cuda<'_>) -> Verdict {
    let mut own = pages(64 * KIB);
    own.fill(5);
    let address = own.as_ptr() as usize;
    let flags = sys::cudaHostRegisterPortable | sys::cudaHostRegisterMapped;
    c.succeeds("cudaHostRegister", c.register(&mut own, flags))?;
    let work = || {
        let (code, on_device) = c.host_device_pointer(address, 0);
        c.succeeds("cudaHostGetDevicePointer", code)?;
        let stream = c.stream()?;
        let shape = crate::call::driver::linear(16 * KIB);
        c.ok(
            "launch",
            c.add_at(on_device, 16 * KIB as u32, 2, shape, &stream)?,
        )?;
        c.succeeds("cudaStreamSynchronize", stream.synchronize())
    };
    let done = work();
    c.succeeds("cudaHostUnregister", c.unregister(address))?;
    done?;
    c.holds("contents", own.iter().all(|value| *value == 7))
}

fn twice(c: &Cuda<'_>) -> Verdict {
    let mut own = pages(64 * KIB);
    c.ok("cudaHostRegister", c.register(&mut own, 0))?;
    let again = c.register(&mut own, 0);
    c.gives("cudaHostRegister again", again, Code::ALREADY_REGISTERED)?;
    c.succeeds("cudaHostUnregister", c.unregister(own.as_ptr() as usize))
}

fn part(c: &Cuda<'_>) -> Verdict {
    let mut own = pages(64 * KIB);
    c.ok("cudaHostRegister", c.register(&mut own, 0))?;
    let again = c.register(&mut own[2048..4096], 0);
    let undone = c.unregister(own.as_ptr() as usize);
    c.gives(
        "cudaHostRegister of a part",
        again,
        Code::ALREADY_REGISTERED,
    )?;
    c.succeeds("cudaHostUnregister", undone)
}

fn not_registered(c: &Cuda<'_>) -> Verdict {
    let mut own = pages(64 * KIB);
    let address = own.as_ptr() as usize;
    c.gives(
        "never registered",
        c.unregister(address),
        Code::NOT_REGISTERED,
    )?;
    c.ok("cudaHostRegister", c.register(&mut own, 0))?;
    c.succeeds("cudaHostUnregister", c.unregister(address))?;
    c.gives("again", c.unregister(address), Code::NOT_REGISTERED)
}

fn flags(c: &Cuda<'_>) -> Verdict {
    let mut own = pages(64 * KIB);
    let code = c.register(&mut own, 1 << 10);
    if code == Code::SUCCESS {
        c.ok("cudaHostUnregister", c.unregister(own.as_ptr() as usize))?;
    }
    c.refuses("flags 1024", code)
}

fn empty(c: &Cuda<'_>) -> Verdict {
    let mut own = pages(64 * KIB);
    c.gives("0 bytes", c.register(&mut own[..0], 0), Code::INVALID_VALUE)
}

fn pinned(c: &Cuda<'_>) -> Verdict {
    let memory = c.pinned(64 * KIB, 0)?;
    let code = c.register_again(&memory);
    c.refuses("cudaHostRegister", code)
}
