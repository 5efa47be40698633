//! CUDA's attributes of an address.

use super::prelude::*;
use cuda_um_sys as sys;

const UNREGISTERED: u32 = 0;
const PINNED: u32 = 1;
const DEVICE_MEMORY: u32 = 2;
const MANAGED: u32 = 3;

pub(super) const CASES: &[Case] = cases! {
    "pointers.managed" (managed):
        "Every address in managed memory is reported as managed, with one pointer for host and device.",
        sources::UNIFIED, &["cudaPointerGetAttributes"], needs(&[Need::Managed]);
    "pointers.device" (device):
        "Device memory is reported as device memory, without a host pointer.",
        sources::UNIFIED, &["cudaPointerGetAttributes"];
    "pointers.pinned" (pinned):
        "Pinned memory is reported as host memory, with a device pointer.",
        sources::UNIFIED, &["cudaPointerGetAttributes"];
    "pointers.registered" (registered):
        "Registered memory is reported as host memory, until it is unregistered.",
        sources::UNIFIED, &["cudaPointerGetAttributes", "cudaHostRegister", "cudaHostUnregister"],
            needs(&[Need::HostRegister]);
    "pointers.pageable" (pageable):
        "An address that CUDA does not know is reported as unregistered, without an error.",
        sources::UNIFIED, &["cudaPointerGetAttributes"];
    "pointers.freed" (freed):
        "Freed device memory is no longer known.",
        sources::UNIFIED, &["cudaPointerGetAttributes", "cudaFree"];
    "pointers.range" (range):
        "The start and the size of the allocation that contains an address can be queried.",
        sources::UNIFIED, &["cuPointerGetAttribute"], needs(&[Need::Managed]);
    "pointers.range-pageable" (range_pageable):
        "A query for the allocation of an address that CUDA does not know is an invalid value.",
        sources::UNIFIED, &["cuPointerGetAttribute"];
    "pointers.second-device" (second_device):
        "The device of device memory can be queried.",
        sources::UNIFIED, &["cudaPointerGetAttributes"], needs(&[Need::Devices(2)]);
};

fn managed(c: &Cuda<'_>) -> Verdict {
    let memory = c.managed(64 * KIB)?;
    for offset in [0, 4, 40_000] {
        let address = memory.address() + offset;
        let found = c.pointer(address)?;
        c.is("kind", found.kind, MANAGED)?;
        c.is("device", found.device, 0)?;
        c.is(
            "the device's pointer",
            found.device_pointer == address,
            true,
        )?;
        c.is("the host's pointer", found.host_pointer == address, true)?;
    }
    Ok(())
}

fn device(c: &Cuda<'_>) -> Verdict {
    let memory = c.device_memory(64 * KIB)?;
    let found = c.pointer(memory.address() + 128)?;
    c.is("kind", found.kind, DEVICE_MEMORY)?;
    c.is("device", found.device, 0)?;
    c.is(
        "the device's pointer",
        found.device_pointer == memory.address() + 128,
        true,
    )?;
    c.is("the host's pointer", found.host_pointer, 0)
}

fn pinned(c: &Cuda<'_>) -> Verdict {
    let memory = c.pinned(64 * KIB, sys::cudaHostAllocMapped)?;
    let found = c.pointer(memory.address() + 128)?;
    c.is("kind", found.kind, PINNED)?;
    c.is(
        "the host's pointer",
        found.host_pointer == memory.address() + 128,
        true,
    )?;
    c.holds("the device's pointer", found.device_pointer != 0)
}

fn registered(c: &Cuda<'_>) -> Verdict {
    let mut own = super::registered::pages(64 * KIB);
    let own = &mut own[..];
    let address = own.as_ptr() as usize;
    c.is("before", c.pointer(address)?.kind, UNREGISTERED)?;
    c.ok(
        "cudaHostRegister",
        c.register(own, sys::cudaHostRegisterPortable),
    )?;
    let found = c.pointer(address);
    c.ok("cudaHostUnregister", c.unregister(address))?;
    c.is("registered", found?.kind, PINNED)?;
    c.is("after", c.pointer(address)?.kind, UNREGISTERED)
}

fn pageable(c: &Cuda<'_>) -> Verdict {
    let own = vec![0u32; 1024];
    let found = c.pointer(own.as_ptr() as usize)?;
    c.is("kind", found.kind, UNREGISTERED)?;
    c.is("the last error", c.peek_error(), Code::SUCCESS)
}

fn freed(c: &Cuda<'_>) -> Verdict {
    let memory = c.device_memory(8 * MIB)?;
    let address = memory.address();
    c.ok("cudaFree", memory.free())?;
    c.is("kind", c.pointer(address)?.kind, UNREGISTERED)
}

fn range(c: &Cuda<'_>) -> Verdict {
    for memory in [c.device_memory(4 * MIB)?, c.managed(4 * MIB)?] {
        for offset in [0, 4, 3 * MIB] {
            let (code, found) = c.pointer_range(memory.address() + offset)?;
            c.ok("cuPointerGetAttribute", code)?;
            let whole = memory.address()..memory.address() + memory.bytes();
            c.is("the range is the allocation", found == whole, true)?;
        }
    }
    Ok(())
}

fn range_pageable(c: &Cuda<'_>) -> Verdict {
    let own = vec![0u32; 1024];
    let (code, _) = c.pointer_range(own.as_ptr() as usize)?;
    c.gives("cuPointerGetAttribute", code, Code::INVALID_VALUE)
}

fn second_device(c: &Cuda<'_>) -> Verdict {
    c.ok("cudaSetDevice", c.set_device(1))?;
    let memory = c.device_memory(64 * KIB)?;
    c.ok("cudaSetDevice", c.set_device(0))?;
    c.is("device", c.pointer(memory.address())?.device, 1)
}
