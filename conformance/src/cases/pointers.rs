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
            let found = ok(c.pointer(address));
            c.is("kind", found.type_.0, MANAGED);
            c.is("device", found.device, 0);
            c.is("the device's pointer", found.devicePointer.at() == address, true);
            c.is("the host's pointer", found.hostPointer.at() == address, true);
        }
    }
    /// Device memory is reported as device memory, without a host pointer.
    "pointers.device" UNIFIED [cudaPointerGetAttributes] |c| {
        let memory = c.device(64 * KIB);
        let found = ok(c.pointer(memory.at() + 128));
        c.is("kind", found.type_.0, DEVICE_MEMORY);
        c.is("device", found.device, 0);
        c.is("the device's pointer", found.devicePointer.at() == memory.at() + 128, true);
        c.is("the host's pointer", found.hostPointer.at(), 0);
    }
    /// Pinned memory is reported as host memory, with a device pointer.
    "pointers.pinned" UNIFIED [cudaPointerGetAttributes] |c| {
        let memory = c.pinned(64 * KIB, sys::cudaHostAllocMapped);
        let found = ok(c.pointer(memory.at() + 128));
        c.is("kind", found.type_.0, PINNED);
        c.is("the host's pointer", found.hostPointer.at() == memory.at() + 128, true);
        c.holds("the device's pointer", found.devicePointer.at() != 0);
    }
    /// Registered memory is reported as host memory, until it is unregistered.
    "pointers.registered" UNIFIED [cudaPointerGetAttributes, cudaHostRegister, cudaHostUnregister] (HostRegister) |c| {
        let own = super::pinned::pages(64 * KIB);
        let address = own.as_ptr() as usize;
        c.is("before", ok(c.pointer(address)).type_.0, UNREGISTERED);
        ok(c.host_register(address, 64 * KIB, sys::cudaHostRegisterPortable));
        let found = ok(c.pointer(address));
        ok(c.host_unregister(address));
        c.is("registered", found.type_.0, PINNED);
        c.is("after", ok(c.pointer(address)).type_.0, UNREGISTERED);
    }
    /// An address that CUDA does not know is reported as unregistered, without an error.
    "pointers.pageable" UNIFIED [cudaPointerGetAttributes] |c| {
        let own = vec![0u32; 1024];
        c.is("kind", ok(c.pointer(own.as_ptr() as usize)).type_.0, UNREGISTERED);
        c.is("the last error", c.peek_error(), SUCCESS);
    }
    /// Freed device memory is no longer known.
    "pointers.freed" UNIFIED [cudaPointerGetAttributes, cudaFree] |c| {
        let memory = c.device(8 * MIB);
        let address = memory.at();
        ok(memory.free());
        c.is("kind", ok(c.pointer(address)).type_.0, UNREGISTERED);
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
        c.is("device", ok(c.pointer(memory.at())).device, 1);
    }
    /// Registered memory belongs to the device that was current.
    "pointers.registered-on-second-device" UNIFIED [cudaPointerGetAttributes, cudaHostRegister] (Devices(2), HostRegister) |c| {
        let own = super::pinned::pages(64 * KIB);
        let address = own.as_ptr() as usize;
        c.on(1, || ok(c.host_register(address, 64 * KIB, sys::cudaHostRegisterPortable)));
        let found = c.pointer(address);
        ok(c.host_unregister(address));
        c.is("device", ok(found).device, 1);
    }
}
