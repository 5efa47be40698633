//! Devices, their attributes, memory.

use super::*;

cases! {
    /// The number of devices can be queried, and each device has an ordinal below it.
    "devices.count" DEVICE [cudaGetDeviceCount, cudaSetDevice, cudaGetDevice] |c| {
        let count = c.succeeds("cudaGetDeviceCount", c.device_count());
        c.holds("at least one", count > 0);
        for device in (0..count).rev() {
            ok(c.set_device(device));
            assert!(c.current_device() == Ok(device), "device {device} did not become current");
        }
    }
    /// An ordinal without a device is refused as invalid, and the current device does not change.
    "devices.unknown" DEVICE [cudaSetDevice, cudaGetDevice] |c| {
        for device in [-1, 64] {
            c.gives(format!("cudaSetDevice({device})"), c.set_device(device), INVALID_DEVICE);
        }
        c.is("still current", ok(c.current_device()), 0);
    }
    /// Each thread has its own current device; a new thread begins with device 0.
    "devices.current-is-the-threads" GUIDE_DEVICES [cudaGetDevice, cudaSetDevice] (Devices(2)) |c| {
        ok(c.set_device(1));
        c.is("in a new thread", ok(c.elsewhere(|c| c.current_device())), 0);
        c.is("in this thread", ok(c.current_device()), 1);
    }
    /// An attribute that is newer than the runtime is refused as an invalid value.
    "devices.late-attribute" DEVICE [cudaDeviceGetAttribute] (Before(12, 2)) |c| {
        c.gives(
            "cudaDevAttrHostNumaId",
            c.device_attribute(Attr::cudaDevAttrHostNumaId.0, 0),
            INVALID_VALUE,
        );
    }
    /// From 12.2 on, the host NUMA node that is nearest to the device can be queried.
    "devices.host-numa" TYPES [cudaDeviceGetAttribute] (Since(12, 2)) |c| {
        let node = c.attribute(Attr::cudaDevAttrHostNumaId);
        c.holds("a node, or -1 for none", node >= -1);
    }
    /// An attribute that does not exist is an invalid value, and a device that does not exist an invalid device.
    "devices.unknown-attribute" DEVICE [cudaDeviceGetAttribute] |c| {
        c.gives("attribute 99999", c.device_attribute(99_999, 0), INVALID_VALUE);
        for device in [-1, 64] {
            c.gives(
                format!("device {device}"),
                c.device_attribute(Attr::cudaDevAttrManagedMemory.0, device),
                INVALID_DEVICE,
            );
        }
    }
    /// The driver returns the name of a device, and refuses a device that does not exist.
    "devices.name" DRIVER_DEVICE [cuDeviceGet, cuDeviceGetName] |c| {
        c.succeeds("cuDeviceGet(0)", c.driver_device(0));
        c.holds("a name", !ok(c.device_name(0)).is_empty());
        c.gives("cuDeviceGet(64)", c.driver_device(64), INVALID_DEVICE);
    }
    /// Free memory is at most the total; an allocation reduces it by its size, and a free restores it.
    "devices.memory-info" MEMORY [cudaMemGetInfo, cudaMalloc, cudaFree] |c| {
        let (free, total) = ok(c.memory_info());
        c.holds("free <= total", free <= total && total > 0);
        let memory = c.device(32 * MIB);
        let (while_there, same_total) = ok(c.memory_info());
        c.is("the total stays", same_total == total, true);
        c.holds("32 MiB are taken", while_there + 32 * MIB <= free);
        ok(memory.free());
        c.holds("32 MiB are given back", ok(c.memory_info()).0 >= while_there + 32 * MIB);
    }
    /// Synchronizing the device waits for all of its streams.
    "devices.synchronize" DEVICE [cudaDeviceSynchronize] |c| {
        let seen = c.pinned(4 * KIB, 0);
        // Each kind of stream in turn has the work, so that none is ignored.
        for (what, stream) in [
            ("blocking", c.stream_with(0)), ("non-blocking", c.stream()),
            ("the legacy default stream", c.stream_at(0)),
            ("the thread's default stream", c.stream_at(PER_THREAD)),
        ] {
            seen.fill_all(0);
            let gate = c.gate(&stream);
            stream.add(&seen, 1);
            let (waited, code) = gate.across(|| c.synchronize());
            let (done, value) = (stream.query(), seen.value_all());
            c.succeeds(format!("cudaDeviceSynchronize, {what}"), code);
            c.holds(format!("{what}: it waited"), waited);
            c.succeeds(format!("{what}: cudaStreamQuery behind it"), done);
            c.is(format!("{what}: the work"), value, 1);
        }
    }
}
