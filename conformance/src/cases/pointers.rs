//! CUDA's attributes of an address.

use super::*;

const UNREGISTERED: u32 = 0;
const PINNED: u32 = 1;
const DEVICE_MEMORY: u32 = 2;
const MANAGED: u32 = 3;

cases! {
    /// Every address in managed memory is reported as managed, with one pointer for host and device.
    "pointers.managed" UNIFIED [cudaPointerGetAttributes] (Managed) |c| {
        let memory = c.managed(64 * KIB);
        for offset in [0, 4, 40_000] {
            let address = memory.at() + offset;
            let found = c.pointer_of(address);
            c.is("kind", found.kind, MANAGED);
            c.is("device", found.device, 0);
            c.is("the device's pointer", found.on_device == address, true);
            c.is("the host's pointer", found.on_host == address, true);
        }
    }
    /// Device memory is reported as device memory, without a host pointer.
    "pointers.device" UNIFIED [cudaPointerGetAttributes] |c| {
        let memory = c.device(64 * KIB);
        let found = c.pointer_of(memory.at() + 128);
        c.is("kind", found.kind, DEVICE_MEMORY);
        c.is("device", found.device, 0);
        c.is("the device's pointer", found.on_device == memory.at() + 128, true);
        c.is("the host's pointer", found.on_host, 0);
    }
    /// Pinned memory is reported as host memory, with a device pointer.
    "pointers.pinned" UNIFIED [cudaPointerGetAttributes] |c| {
        let memory = c.pinned(64 * KIB, sys::cudaHostAllocMapped);
        let found = c.pointer_of(memory.at() + 128);
        c.is("kind", found.kind, PINNED);
        c.is("the host's pointer", found.on_host == memory.at() + 128, true);
        c.holds("the device's pointer", found.on_device != 0);
    }
    /// Registered memory is reported as host memory, until it is unregistered.
    "pointers.registered" UNIFIED [cudaPointerGetAttributes, cudaHostRegister, cudaHostUnregister] (HostRegister) |c| {
        let own = super::registered::pages(64 * KIB);
        let address = own.as_ptr() as usize;
        c.is("before", c.pointer_of(address).kind, UNREGISTERED);
        ok(c.host_register(address, 64 * KIB, sys::cudaHostRegisterPortable));
        let found = c.pointer_of(address);
        ok(c.host_unregister(address));
        c.is("registered", found.kind, PINNED);
        c.is("after", c.pointer_of(address).kind, UNREGISTERED);
    }
    /// An address that CUDA does not know is reported as unregistered, without an error.
    "pointers.pageable" UNIFIED [cudaPointerGetAttributes] |c| {
        let own = vec![0u32; 1024];
        let found = c.pointer_of(own.as_ptr() as usize);
        c.is("kind", found.kind, UNREGISTERED);
        c.is("the last error", c.peek_error(), SUCCESS);
    }
    /// Freed device memory is no longer known.
    "pointers.freed" UNIFIED [cudaPointerGetAttributes, cudaFree] |c| {
        let memory = c.device(8 * MIB);
        let address = memory.at();
        ok(memory.free());
        c.is("kind", c.pointer_of(address).kind, UNREGISTERED);
    }
    /// The start and the size of the allocation that contains an address can be queried.
    "pointers.range" UNIFIED [cuPointerGetAttribute] (Managed) |c| {
        for memory in [c.device(4 * MIB), c.managed(4 * MIB)] {
            for offset in [0, 4, 3 * MIB] {
                let found = ok(c.pointer_range(memory.at() + offset));
                let whole = memory.at()..memory.at() + memory.bytes();
                c.is("the range is the allocation", found == whole, true);
            }
        }
    }
    /// A query for the allocation of an address that CUDA does not know is an invalid value.
    "pointers.range-pageable" UNIFIED [cuPointerGetAttribute] |c| {
        let own = vec![0u32; 1024];
        c.gives("cuPointerGetAttribute", c.pointer_range(own.as_ptr() as usize), INVALID_VALUE);
    }
    /// The device of device memory can be queried.
    "pointers.second-device" UNIFIED [cudaPointerGetAttributes] (Devices(2)) |c| {
        ok(c.set_device(1));
        let memory = c.device(64 * KIB);
        ok(c.set_device(0));
        c.is("device", c.pointer_of(memory.at()).device, 1);
    }
}
